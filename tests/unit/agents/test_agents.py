"""What is started for a prompt, by each agent that is built in."""

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from tipstaff.agents import ADAPTERS, find
from tipstaff.model.execution import LONGEST_ARGUMENT

SCRIPT = "/tmp/.tipstaff-script"  # noqa: S108 - inside a sandbox, nothing is written
LONG = "x" * LONGEST_ARGUMENT + "yz\n\n"


def act(prompt: str, folder: Path, **environ: str) -> subprocess.CompletedProcess[bytes]:
    """Run the mock agent's line in a folder, outside a sandbox: it is our own script."""
    line = ADAPTERS["mock"].line(prompt)
    for place, content in line.files:
        Path(place).write_text(content)
    try:
        variables = {"PATH": os.defpath, **environ}
        return subprocess.run(line.started, cwd=folder, env=variables, capture_output=True, check=False)
    finally:
        for place, _ in line.files:
            Path(place).unlink()


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_the_mock_agent_leaves_what_the_other_implementation_recorded(tmp_path):
    """The digests of file and log are those in the vector of a run with a secret."""
    done = act("do work", tmp_path, MOCK_SECRET="hunter2")  # noqa: S106 - a value to look for

    assert done.returncode == 0
    assert digest(done.stdout + done.stderr) == "568f6f94058392a0170d75fe961c73844e91f8c96caeaf0bff2135f0c0750f96"
    written = (tmp_path / "MOCK_AGENT.md").read_bytes()
    assert digest(written) == "5b09bd7b5f0c04b30c36ae1a9a94354401e9f520a6bacf52b871f85b7e63eb2d"


def test_the_mock_agent_fails_as_the_other_implementation_does(tmp_path):
    """The digests of file and log are those in the vector of a run that failed."""
    done = act("please fail", tmp_path)

    assert done.returncode == 1
    assert done.stderr == b"mock agent failing as instructed\n"
    assert digest(done.stdout + done.stderr) == "ea7787a1d2bf04ebe395948ae56b8325c63c2022562193465c590333eb3649c7"
    written = (tmp_path / "MOCK_AGENT.md").read_bytes()
    assert digest(written) == "effdc1eb4b1a5f562f91e478997a4a9f6abc7a8859b32c8976aa94a47fa197f9"


def test_the_mock_agent_adds_to_its_note(tmp_path):
    """A second task stands behind the first, and an empty secret is one."""
    act("one", tmp_path)
    act("two", tmp_path, MOCK_SECRET="")

    expected = "## task\none\n\nsecret:absent\n## task\ntwo\n\nsecret:present\n"
    assert (tmp_path / "MOCK_AGENT.md").read_text() == expected


@pytest.mark.parametrize("prompt", ["$(touch x) `touch x` \\n %s 'q' \"q\"", "-n -e", "two\nlines", "ünïcode"])
def test_a_prompt_is_never_code(tmp_path, prompt):
    """Whatever a prompt holds is said and written as it is."""
    done = act(prompt, tmp_path)

    assert done.stdout == f"mock agent received task: {prompt}\nmock agent done\n".encode()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["MOCK_AGENT.md"]


def test_without_a_proxy_the_probe_says_so(tmp_path):
    """A task that speaks of the network asks the gate; without one it says that it could not."""
    done = act("use the network", tmp_path)

    assert b"network probe failed to reach proxy\n" in done.stdout
    assert done.returncode == 0


def test_a_long_prompt_goes_by_file(tmp_path):
    """A prompt that no argument can hold arrives whole, and the receipt hashes the protocol's line, not ours."""
    line = ADAPTERS["mock"].line(LONG)
    done = act(LONG, tmp_path)

    assert line.argv[-1] == LONG
    assert max(map(len, line.started)) <= LONGEST_ARGUMENT
    assert done.stdout == f"mock agent received task: {LONG}\nmock agent done\n".encode()


@pytest.mark.parametrize(("prompt", "spawned"), [("echo hi", ()), (LONG, ("sh", SCRIPT))])
def test_the_agent_command_is_a_script(prompt, spawned):
    """Its prompt is for sh: as an argument while it fits, by file otherwise."""
    line = ADAPTERS["command"].line(prompt)

    assert line.argv == ("sh", "-c", prompt)
    assert line.spawned == spawned
    assert [content for _, content in line.files] == ([prompt] if spawned else [])


def test_pi_is_hashed_and_never_started():
    """Its line is a placeholder, and only a harness may take it."""
    adapter = find("pi")

    assert adapter is not None
    assert adapter.harness_only
    assert adapter.line("x").argv == ("pi", "--harness-only")


def test_an_unknown_agent_has_no_adapter():
    """What is not built in is not guessed."""
    assert find("nobody") is None
    assert [kind for kind in ADAPTERS if ADAPTERS[kind].harness_only] == ["pi"]
