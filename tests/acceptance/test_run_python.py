"""`tipstaff.run`, `arun` and `open`: the same door from Python."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

import tipstaff
from tipstaff.errors import RefusedError, UsageError

DENYING = """\
version: tipstaff.policy.v1
name: denying
principals: [{id: "*"}]
rules:
  - {id: never, effect: deny, reason: nothing runs here, when: any}
tiers: {default: bwrap, minimum: bwrap, tolerate: {disk: weaker, memory: weaker, cpu: unenforceable}}
"""


@pytest.fixture
def home(tmp_path) -> Path:
    """A home of our own."""
    return Path(tmp_path / "home")


def test_a_run_is_an_outcome(home, workspace):
    """A command runs in a workspace, with input and variables, and all that it said comes back."""
    outcome = tipstaff.run(
        ["sh", "-c", "cat file -; echo $A >&2"],
        workspace=workspace,
        stdin=b"input",
        env={"A": "b"},
        home=home,
        timeout=30,
    )

    assert (outcome.ok, outcome.exit_code, outcome.ending) == (True, 0, "exited")
    assert (outcome.stdout, outcome.stderr) == (b"content\ninput", b"b\n")
    assert outcome.receipt is not None
    assert outcome.receipt["runId"] == outcome.run_id


def test_a_failure_is_an_outcome_too(home):
    """A command that fails, or is ended, says so by its ending."""
    assert tipstaff.run(["sh", "-c", "exit 3"], home=home).exit_code == 3
    assert tipstaff.run(["sleep", "9"], timeout=0.2, home=home).ending == "timed-out"
    assert tipstaff.run(["1"], python="import sys; print(sys.argv)", home=home).stdout == b"['-c', '1']\n"


def test_a_refusal_is_an_outcome(home, tmp_path):
    """What policy denies is no exception: the ending is `refused`, with the reasons and the signed refusal."""
    (tmp_path / "denying.yaml").write_text(DENYING)

    outcome = tipstaff.run(["true"], policy=tmp_path / "denying.yaml", home=home)

    assert (outcome.ok, outcome.ending, outcome.exit_code, outcome.run_id) == (False, "refused", 126, None)
    assert outcome.reasons == ("never: nothing runs here",)
    assert outcome.refusal is not None
    assert tipstaff.run(["true"], policy=tipstaff.load_policy(DENYING), home=home).decision == "deny"


def test_what_cannot_be_meant_is_an_error(home):
    """A command as one text, an unknown option and a folder that no run may have are errors that say what to do."""
    with pytest.raises(UsageError, match=r"write \['echo', 'hi'\], or shell='echo hi'"):
        tipstaff.run("echo hi", home=home)
    with pytest.raises(UsageError, match="there is no option 'timeot'; there are shell, python"):
        tipstaff.run(["true"], timeot=1, home=home)  # type: ignore[call-arg]  # that is the mistake
    with pytest.raises(RefusedError, match="the whole machine"):
        tipstaff.run(["true"], workspace="/", home=home)
    with pytest.raises(UsageError, match="the home 'here' is relative"):
        tipstaff.run(["true"], home="here")


async def test_it_works_inside_a_running_loop(home):
    """The plain call works where a loop is running already, and the asynchronous one waits without blocking."""
    assert tipstaff.run(["echo", "1"], home=home).stdout == b"1\n"
    assert (await tipstaff.arun(["echo", "2"], home=home)).stdout == b"2\n"


async def test_many_runs_share_one_box(home):
    """An open home serves many runs at once, each with its own outcome."""
    async with tipstaff.open(home=home) as box:
        outcomes = await asyncio.gather(*(box.run(["echo", str(number)]) for number in range(20)))

    assert [outcome.stdout for outcome in outcomes] == [f"{number}\n".encode() for number in range(20)]
    assert len({outcome.run_id for outcome in outcomes}) == 20


async def test_whoever_stops_waiting_stops_the_run(home, marker, processes):
    """A cancelled call leaves no process behind, and the home can be opened again."""
    running = asyncio.create_task(tipstaff.arun(["sleep", marker], home=home))
    while not processes(marker):  # noqa: ASYNC110 - the process is the sandbox's, and tells nobody that it runs
        await asyncio.sleep(0.05)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert processes(marker) == []
    assert (await tipstaff.arun(["true"], home=home)).ok


def test_a_large_script_runs(home):
    """A shell script of a MiB, which no argument could hold, is carried out."""
    script = "# " + "x" * (1 << 20) + "\necho done\n"

    assert tipstaff.run(shell=script, home=home).stdout == b"done\n"


def test_importing_is_cheap():
    """Importing the package imports none of what a run needs."""
    script = "import tipstaff, sys; print(*sys.modules)"

    ended = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, check=True, timeout=60)

    assert {"asyncio", "cryptography", "msgspec", "sqlite3"}.isdisjoint(ended.stdout.decode().split())
