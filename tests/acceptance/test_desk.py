"""The commands around a run, as processes on a real home with real runs: looking, proving, answering, tidying."""

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.acceptance.beside import started, until

TIPSTAFF = str(Path(sys.executable).with_name("tipstaff"))
POLICY = """
version: tipstaff.policy.v1
name: desk
principals: [{id: "*"}]
rules:
  - {id: rest, effect: allow, when: any, reason: a test}
  - {id: no-shred, effect: deny, when: {argv: [[shred, "..."]]}, reason: nothing is shredded here}
  - {id: look-first, effect: ask, when: {argv: [[touch, "..."]]}, reason: somebody looks first,
     approvals: {approvers: [boris, "*"]}}
pools: ["*"]
tiers: {tolerate: {memory: weaker, cpu: unenforceable}}
"""
Ended = subprocess.CompletedProcess[str]
TRICK = "a\x1b]0;owned\x07\u202eb"


class Desk(NamedTuple):
    """A home, and the program on it."""

    folder: Path
    environ: dict[str, str]

    def __call__(self, *arguments: object, **environ: str) -> Ended:
        """Run the program to its end."""
        return subprocess.run(
            [TIPSTAFF, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**self.environ, **environ},
            cwd=self.folder,
            check=False,
            timeout=60,
            text=True,
            errors="surrogateescape",
        )

    def json(self, *arguments: object) -> dict[str, object]:
        """Run the program with --json and read its one object."""
        value: dict[str, object] = json.loads(self(*arguments, "--json").stdout)
        return value


def make_desk(folder: Path) -> Desk:
    """Make a home with a policy of its own."""
    (folder / "policy.yaml").write_text(POLICY)
    places = {"TIPSTAFF_HOME": str(folder / "home"), "TIPSTAFF_POLICY": str(folder / "policy.yaml")}
    return Desk(folder, {"PATH": "/usr/bin:/bin", "HOME": str(folder), "COLUMNS": "200", **places})


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A home in which nothing ran yet."""
    return make_desk(tmp_path)


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A home in which a run went well, one failed, one request was denied, and one run was ended by its time."""
    made = make_desk(tmp_path_factory.mktemp("desk"))
    assert made("run", "--", "sh", "-c", "echo out; echo err >&2").returncode == 0
    assert made("run", "--", "sh", "-c", "printf 'bytes \\377'; exit 3", TRICK).returncode == 3
    assert made("run", "--", "shred", "-u", "x").returncode == 126
    assert made("run", "--timeout", "0.2", "--", "sleep", "60").returncode == 124
    return made


@pytest.fixture
def waiting(desk: Desk) -> Iterator[tuple[Desk, str, subprocess.Popen[str]]]:
    """A run that waits for an answer, in a process of its own."""
    words = [TIPSTAFF, "run", "--as", "agent:coder", "--approval-timeout", "50", "--", "touch", TRICK]
    with started(words, desk.environ, desk.folder) as process:
        yield desk, until(lambda: first_waiting(desk)), process


def first_waiting(desk: Desk) -> str:
    """Name the run that waits, or nothing."""
    listed = desk("approvals", "--json")
    found = json.loads(listed.stdout)["waiting"] if listed.returncode == 0 else []
    return str(found[0]["runId"]) if found else ""


def answer_on_terminal(desk: Desk, typed: bytes, *arguments: str) -> tuple[int, bytes]:
    """Run the program on a terminal, and type once it asks; gives its exit code and what the terminal showed."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(TIPSTAFF, [TIPSTAFF, *arguments], desk.environ)  # noqa: S606 - the program under test, on a terminal
    shown = b""
    try:
        while b"Enter: (n)" not in shown:
            shown += os.read(terminal, 4096)
        time.sleep(0.2)  # what is typed before the question is thrown away
        os.write(terminal, typed)
        while chunk := os.read(terminal, 4096):
            shown += chunk
    except OSError:
        pass  # the terminal is gone with its last user
    finally:
        os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown


def test_history_lists_everything_newest_first(busy):
    """Runs and denied requests are listed with how they ended and what they were, and can be paged through."""
    lines = busy("history").stdout.splitlines()

    assert [line.split("  ")[0] for line in lines[:1]] == ["when (UTC)"]
    assert ["timed-out" in lines[1], "refused" in lines[2], "exited 3" in lines[3], "exited 0" in lines[4]] == [
        True
    ] * 4
    assert "shred -u x" in lines[2]
    assert len(lines) == 5
    first = busy.json("history", "--limit", 1)["runs"][0]
    assert len(busy.json("history", "--before", first["id"])["runs"]) == 3


@pytest.mark.parametrize("arguments", [["history"], ["show", "-3"], ["why", "-3"], ["log", "-3"], ["approvals"]])
def test_nothing_that_others_chose_reaches_the_terminal(busy, arguments):
    """Escapes and direction marks in names, arguments and output are shown, never obeyed."""
    shown = subprocess.run(
        ["/usr/bin/script", "-qec", " ".join([TIPSTAFF, *arguments]), "/dev/null"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=busy.environ,
        check=True,
        timeout=60,
    ).stdout.decode()

    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "\x07" not in shown


def test_show_is_the_whole_story(busy):
    """Everything about a run is on one screen: command, decision, tier, clauses, streams, signatures."""
    shown = busy("show", "-4").stdout

    for part in (
        "exited 0",
        "sh -c 'echo out; echo err >&2'",
        "decision:  allowed, by the policy `desk`",
        "ran in:    bwrap",
        "network     enforced",
        "stdout:    4 bytes",
        "signed by runner ed25519:",
    ):
        assert part in shown
    whole = busy.json("show", "-4")
    assert whole["receipt"]["exitCode"] == 0
    assert whole["contract"]["runId"] == whole["runId"]


def test_show_tells_of_a_denied_request(busy):
    """A request that never became a run is shown with who asked and why not."""
    shown = busy("show", "-2").stdout

    assert "denied, by the policy `desk`; nothing was run" in shown
    assert "no-shred: nothing is shredded here" in shown


def test_log_gives_each_stream_its_own(busy):
    """What went to stdout comes on stdout, what went to stderr on stderr; one alone can be asked for."""
    both = busy("log", "-4")

    assert (both.stdout, both.stderr) == ("out\n", "err\n")
    assert busy("log", "-4", "--stderr").stdout == "err\n"
    assert busy("log", "-4", "--stdout").stdout == "out\n"


def test_log_keeps_bytes_that_are_no_text(busy):
    """Bytes that are not UTF-8 pass as they are, and stand in base64 beside the text in JSON."""
    raw = subprocess.run([TIPSTAFF, "log", "-3", "--stdout"], env=busy.environ, capture_output=True, check=True).stdout

    assert raw == b"bytes \xff"
    assert busy.json("log", "-3")["stdout"]["base64"] == "Ynl0ZXMg/w=="
    assert "base64" not in busy.json("log", "-4")["stdout"]


def test_log_is_whole_or_says_that_it_is_not(desk):
    """More than a pipe holds arrives whole; where the reader leaves before that, the exit code says so."""
    assert desk("run", "--quiet", "--", "seq", "1", "200000").returncode == 0
    whole = "".join(f"{number}\n" for number in range(1, 200_001))

    assert desk("log", "last", PYTHONUNBUFFERED="1").stdout == whole
    with subprocess.Popen(
        [TIPSTAFF, "log", "last"], env={**desk.environ, "PYTHONUNBUFFERED": "1"}, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.wait(30) == 141


def test_log_of_a_denied_request_points_on(busy):
    """What never ran has no output; the error says where to look."""
    ended = busy("log", "-2")

    assert ended.returncode == 66
    assert "see: tipstaff why ref_" in ended.stderr


@pytest.mark.parametrize(
    ("run", "sentence", "advice"),
    [
        ("-1", "its time was over", "next: allow more with --timeout"),
        ("-2", "the policy `desk` denied it", "tipstaff policy explain"),
        ("-3", "exit code 3", "next: see what it printed: tipstaff log run_"),
        ("-4", "it ended well", "nothing is to be done"),
    ],
)
def test_why_says_the_cause_and_the_next_step(busy, run, sentence, advice):
    """Each ending has its sentence and something to do about it."""
    told = busy("why", run).stdout

    assert sentence in told
    assert advice in told


def test_the_advice_after_a_denial_works_as_printed(busy):
    """The command that `why` prints for a denied request explains the decision, with the change that would allow it."""
    advice = busy("why", "-2").stdout.splitlines()[-1].strip()

    ended = subprocess.run(
        ["/bin/bash", "-c", advice],
        env={**busy.environ, "PATH": f"{Path(TIPSTAFF).parent}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert ended.returncode == 1, ended.stderr
    assert "denied, by the policy `desk`" in ended.stdout


@pytest.mark.parametrize("run", ["-1", "-2", "-3", "-4"])
def test_every_proof_verifies(busy, run):
    """Whatever became of it, there is a proof; it verifies, and does not when a letter of it was changed."""
    file = busy.folder / f"proof{run}.json"
    assert busy("bundle", run, "-o", file).returncode == 0

    assert busy("verify", file).returncode == 0
    file.write_text(file.read_text().replace('"principal": "', '"principal": "x', 1))
    assert busy("verify", file).returncode == 1


def test_a_proof_is_written_whole_or_not_at_all(busy):
    """Where the file cannot be written the old one stays, nothing half-written is left, and the error names it."""
    folder = busy.folder / "proofs"
    folder.mkdir()
    ended = busy("bundle", "last", "-o", folder)

    assert ended.returncode == 64
    assert "cannot be written" in ended.stderr
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(("word", "code"), [("nothing", 66), ("run_", 64), ("-99", 66), ("", 66), ("ru%", 66)])
@pytest.mark.parametrize("command", ["show", "log", "why", "bundle", "approve", "deny"])
def test_a_run_that_is_not_named_well_is_told(busy, command, word, code):
    """A word that names no run, or more than one, is one sentence and an exit code of its own."""
    ended = busy(command, word)

    assert (ended.returncode, ended.stdout) == (code, "")
    assert ended.stderr.startswith("tipstaff: ")
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize("limit", ["0", "-1", "100000", "x"])
def test_a_limit_that_makes_no_sense_is_told(busy, limit):
    """How many to list is a number in its bounds."""
    assert busy("history", "--limit", limit).returncode == 64


@pytest.mark.parametrize("command", [["history"], ["approvals"], ["show", "last"], ["prune", "--older-than", "1d"]])
def test_looking_at_nothing_makes_nothing(desk, command):
    """Where nothing ever ran, that is said, and no home is made."""
    ended = desk(*command)

    assert ended.returncode == 66
    assert "nothing has run yet" in ended.stderr
    assert not (desk.folder / "home").exists()


def test_what_waits_is_shown_exactly_and_can_be_approved(waiting):
    """The list shows the exact command with nothing hidden; approved by somebody else, it runs and is proven."""
    desk, run_id, process = waiting
    listed = desk("approvals").stdout

    assert "touch $'a\\x1b]0;owned\\x07\\u202eb'" in listed
    assert f"tipstaff approve {run_id}" in listed
    assert "agent" in listed
    approved = desk("approve", run_id[:12], "--as", "boris", "--yes")
    assert (approved.returncode, approved.stdout) == (0, f"{run_id} is approved\n")
    assert process.wait(30) == 0
    assert "approved:  by boris, assurance same-uid" in desk("show", run_id).stdout
    assert desk("approvals").stdout == "nothing waits for approval\n"
    assert desk("approve", run_id, "--yes").returncode == 66


def test_who_asked_cannot_approve(waiting):
    """The requester's own yes does not count; the run goes on waiting."""
    desk, run_id, process = waiting

    ended = desk("approve", run_id, "--as", "agent:coder", "--yes")

    assert ended.returncode != 0
    assert process.poll() is None
    assert first_waiting(desk) == run_id


def test_a_no_ends_the_run_with_the_reason(waiting):
    """A run that somebody denies ends refused at once, and why keeps their words."""
    desk, run_id, process = waiting

    denied = desk("deny", run_id, "--as", "boris", "--reason", "not on a Friday")

    assert (denied.returncode, denied.stdout) == (0, f"{run_id} is denied, and will not run\n")
    assert process.wait(30) == 126
    assert "not on a Friday" in desk("why", run_id).stdout
    assert desk("log", run_id).returncode == 66


def test_without_a_terminal_nobody_is_asked(waiting):
    """Approving needs a typed yes, or --yes: with neither nothing is approved."""
    desk, run_id, process = waiting

    ended = desk("approve", run_id, "--as", "boris")

    assert ended.returncode == 64
    assert "there is no terminal to ask on" in ended.stderr
    assert process.poll() is None


@pytest.mark.parametrize(("typed", "code"), [(b"y\n", 0), (b"n\n", 1), (b"\n", 1), (b"yy\n", 1)])
def test_on_a_terminal_only_a_yes_is_a_yes(waiting, typed, code):
    """The question shows the exact command; only y or yes approves, and anything else leaves the run waiting."""
    desk, run_id, process = waiting

    ended, shown = answer_on_terminal(desk, typed, "approve", run_id, "--as", "boris")

    assert ended == code, shown
    assert b"touch $'a\\x1b]0;owned\\x07\\u202eb'" in shown
    if code == 0:
        assert process.wait(30) == 0
    else:
        assert process.poll() is None


def test_a_key_of_ones_own_signs_the_approval(waiting):
    """An approval by a key that this home knows as the approver's says so in the proof."""
    desk, run_id, process = waiting
    made = json.loads(desk("keys", "new", "boris", "--json").stdout)
    desk("keys", "trust", made["publicKey"], "--role", "approver", "--name", "boris")

    assert desk("approve", run_id, "--as", "boris", "--yes").returncode == 0
    assert process.wait(30) == 0
    assert f"approved:  by boris, assurance key, signed by {made['keyId']}" in desk("show", run_id).stdout


@pytest.mark.parametrize("dry", [True, False])
def test_what_ended_is_pruned_and_known_to_be(desk, dry):
    """Pruning removes what ended, and says so of a run that was; a dry run only counts."""
    assert desk("run", "--", "true").returncode == 0
    run_id = desk.json("history")["runs"][0]["id"]
    time.sleep(0.1)

    pruned = desk("prune", "--older-than", "0.05", *(["--dry-run"] if dry else []))

    assert pruned.returncode == 0, pruned.stderr
    assert f"1 runs and 0 refused requests {'would be' if dry else 'were'} removed" in pruned.stdout
    assert (desk("bundle", run_id).returncode == 0) is dry
    if not dry:
        assert "pruned" in desk("bundle", run_id).stderr


def test_what_still_waits_is_not_pruned(waiting):
    """A run that has not ended is left alone, whatever age or size is given."""
    desk, run_id, _ = waiting

    assert desk("prune", "--down-to", "1").returncode == 0
    assert desk("prune", "--older-than", "0.001").returncode == 0
    assert first_waiting(desk) == run_id


@pytest.mark.parametrize("arguments", [["--older-than", "soon"], ["--older-than", "0"], ["--down-to", "-1"]])
def test_an_amount_that_makes_no_sense_prunes_nothing(busy, arguments):
    """An age or a size that cannot be meant is told, and nothing is removed."""
    assert busy("prune", *arguments).returncode == 64
    assert len(busy.json("history")["runs"]) == 4


def test_the_doctor_tells_of_every_tier_and_clause(desk):
    """On a host whose default tier works the doctor exits 0, and makes no home by looking."""
    ended = desk("doctor")

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.startswith("the default tier, bwrap, works here\n")
    assert not (desk.folder / "home").exists()
    found = desk.json("doctor")
    assert [tier["name"] for tier in found["tiers"]] == ["bwrap", "process", "hermetic", "gvisor", "microvm", "era"]
    assert len(found["tiers"][0]["verdicts"]) == 11
