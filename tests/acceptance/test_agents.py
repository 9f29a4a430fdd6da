"""Agents through the whole way: the real program, the real sandbox, a receipt that verifies."""

import json
import subprocess
from pathlib import Path

import pytest

from tipstaff.home import Home
from tipstaff.isolation.tier import Ended, Passage, Plan, Source
from tipstaff.local.embedded import open_local
from tipstaff.local.policies import choose_policy
from tipstaff.model.tiers import TierReport, at_best


class Harness:
    """A tier that brings a harness of its own for one agent: it takes the plan and spawns nothing."""

    name = "bwrap"
    harnesses = frozenset({"pi"})

    def __init__(self) -> None:
        self.plans: list[Plan] = []

    async def report(self) -> TierReport:
        return at_best("bwrap")

    async def promise(self) -> TierReport:
        return at_best("bwrap")

    def begin(self, plan: Plan, stdin: Source | None) -> None:
        raise AssertionError(f"a harness is not begun ahead: {plan} {stdin}")

    async def run(self, plan: Plan, passage: Passage) -> Ended:
        self.plans.append(plan)
        problem = await passage.gate(at_best("bwrap").verdicts) if passage.gate else ""
        return Ended(ending="exited", exit_code=0, verdicts=at_best("bwrap").verdicts, reason=problem)


@pytest.fixture
def repository(tmp_path) -> Path:
    """A small repository of the person's."""
    folder: Path = tmp_path / "repository"
    folder.mkdir()
    (folder / "README.md").write_text("# Notes\n")
    who = ("-c", "user.name=Anna", "-c", "user.email=anna@example.com")
    for words in (("init", "--quiet"), ("add", "--all"), (*who, "commit", "--quiet", "--message", "begin")):
        subprocess.run(["/usr/bin/git", *words], cwd=folder, check=True)
    return folder


def test_a_mock_agent_works_on_a_copy(tipstaff, repository):
    """The folder is untouched, what it said passes through, and the change is in the receipt."""
    done = tipstaff("run", "--agent", "mock", "--bundle", repository.parent / "b.json", "add a note", cwd=repository)

    assert done.returncode == 0, done.stderr
    assert done.stdout == b"mock agent received task: add a note\nmock agent done\n"
    assert sorted(path.name for path in repository.iterdir()) == [".git", "README.md"]
    bundle = json.loads((repository.parent / "b.json").read_text())
    changed = [link["event"] for link in bundle["events"] if link["event"]["type"] == "file.changed"]
    assert [event["path"] for event in changed] == ["MOCK_AGENT.md"]
    assert bundle["contract"]["agent"] == {"kind": "mock"}
    assert bundle["contract"]["execution"]["kind"] == "agent"
    assert tipstaff("verify", repository.parent / "b.json").returncode == 0


def test_a_mock_agent_asks_the_gate_when_told_to(tipstaff, repository):
    """A task that speaks of the network is refused by the gate, and the attempt is evidence."""
    done = tipstaff("run", "--agent", "mock", "look at the network", cwd=repository)

    assert b"network probe status: 403\n" in done.stdout
    assert b"denied.example.com:80" in done.stderr


def test_a_mock_agent_that_fails_ends_the_run_so(tipstaff, repository):
    """Its exit code is the run's, and the receipt has the protocol's message."""
    done = tipstaff("run", "--json", "--agent", "mock", "please fail", cwd=repository)

    told = json.loads(done.stdout)
    assert done.returncode == 1
    assert (told["ending"], told["exitCode"], told["stderr"]) == ("exited", 1, "mock agent failing as instructed\n")
    shown = json.loads(tipstaff("show", "--json", "last").stdout)
    assert shown["events"][-1]["event"]["message"] == "agent exited with code 1"


def test_the_agent_command_is_a_script(tipstaff, repository):
    """Its prompt runs with sh in the captured copy."""
    done = tipstaff("run", "--quiet", "--agent", "command", "cat README.md; echo more >> README.md", cwd=repository)

    assert (done.returncode, done.stdout) == (0, b"# Notes\n")
    assert (repository / "README.md").read_text() == "# Notes\n"


def test_a_prompt_can_come_from_stdin(tipstaff, repository):
    """A prompt that no command line can hold is read from stdin."""
    prompt = "x" * 300_000
    done = tipstaff("run", "--quiet", "--agent", "mock", "-", stdin=prompt.encode(), cwd=repository)

    assert done.returncode == 0, done.stderr
    assert len(done.stdout) > len(prompt)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--agent", "nobody", "x"), b"there is no agent 'nobody'"),
        (("--agent", "mock"), b"is asked nothing"),
        (("--agent", "mock", "add", "a", "note"), b"put it into quotes"),
        (("--agent", "mock", "--shell", "ls", "x"), b"more than one thing to run"),
        (("--agent", "mock", "--capture", "zip", "x"), b"there is no form 'zip'"),
        (("--agent", "mock", "--capture", "tree", "--in-place", "--workspace", ".", "x"), b"give one of them"),
    ],
)
def test_a_mistake_is_a_sentence(tipstaff, repository, words, says):
    """What cannot be meant is refused before anything is captured."""
    done = tipstaff("run", *words, cwd=repository)

    assert done.returncode == 64
    assert says in done.stderr


def test_pi_is_refused_by_every_tier_of_ours(tipstaff, repository):
    """Nothing is spawned for it, and the receipt says that the capability is missing."""
    done = tipstaff("run", "--agent", "pi", "x", cwd=repository)

    assert done.returncode == 125
    assert b"has no harness for 'pi'" in done.stderr
    events = [link["event"] for link in json.loads(tipstaff("show", "--json", "last").stdout)["events"]]
    assert events[-1]["failure"] == "capability_mismatch"
    assert "command.executed" not in {event["type"] for event in events}


@pytest.mark.anyio
async def test_pi_is_taken_by_a_tier_that_brings_its_harness(tmp_path):
    """A plugged-in tier gets the plan with the harness's name, and the placeholder is what is hashed."""
    home, tier = Home(tmp_path / "home"), Harness()
    request = {"requestedBy": {"kind": "human", "id": "anna"}, "agentKind": "pi", "prompt": "x"}

    async with open_local(home, choose_policy(home, None, {}), tiers={"bwrap": tier}) as local:
        outcome = await local.run(request)

    assert outcome.ok
    assert [(plan.harness, plan.argv) for plan in tier.plans] == [("pi", ("pi", "--harness-only"))]
