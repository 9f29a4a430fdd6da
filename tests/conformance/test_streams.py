"""What goes in and out: arguments, standard streams, variables, descriptors."""

import asyncio
import json
import os
import resource
import sys

import pytest

from tests.conformance.conftest import plan
from tipstaff.isolation.tier import Passage

EVERY_BYTE = bytes(range(1, 256))
SHOW = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))"


async def test_streams_are_separate(run):
    """Standard output and standard error arrive apart, each in its order."""
    outcome = await run("sh", "-c", "echo a; echo b >&2; echo c; echo d >&2")

    assert (outcome.stdout, outcome.stderr) == (b"a\nc\n", b"b\nd\n")


async def test_streams_can_be_opened_by_name(run):
    """Scripts can open /dev/stdout and /dev/stderr, as they expect."""
    outcome = await run("sh", "-c", "echo a > /dev/stdout; echo b > /dev/stderr")

    assert (outcome.stdout, outcome.stderr) == (b"a\n", b"b\n")


async def test_standard_input_is_passed_on(run):
    """What is fed arrives whole, with any bytes, and ends."""
    data = os.urandom(1_000_000)

    outcome = await run("cat", stdin=data)

    assert outcome.told == ("exited", 0)
    assert outcome.stdout == data


async def test_without_standard_input_there_is_none(run):
    """A run that is given no input reads its end at once."""
    assert (await run("wc", "-c")).text == "0"


async def test_input_that_nobody_reads_holds_up_nothing(run):
    """A command that does not read ends all the same, and the rest of its input is dropped."""
    outcome = await run("sh", "-c", "read -r line; echo $line", stdin=b"first\n" + b"x" * 10_000_000)

    assert (outcome.told, outcome.text) == (("exited", 0), "first")


async def test_input_comes_while_the_command_runs(run):
    """Input is passed on as it comes: a command can answer before the next line is there."""
    reader = asyncio.StreamReader()
    reader.feed_data(b"one\n")

    async def answer() -> None:
        await asyncio.sleep(0.3)
        reader.feed_data(b"two\n")
        reader.feed_eof()

    answering = asyncio.create_task(answer())
    outcome = await run("sh", "-c", "read -r a; read -r b; echo $b $a", stdin=reader)
    await answering

    assert outcome.text == "two one"


async def test_output_comes_while_the_command_runs(tier):
    """Output is handed on as it comes, not at the end."""
    first: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    stopped = asyncio.Event()

    def taken(chunk: bytes) -> None:
        first.set_result(chunk)
        stopped.set()

    ended = await tier.run(plan("sh", "-c", "echo now; sleep 20"), Passage(stdout=taken, stderr=taken, cancel=stopped))

    assert (first.result(), ended.ending) == (b"now\n", "cancelled")


async def test_large_output_stays_out_of_memory(tier):
    """Output of 256 MiB passes through, none is lost, and our memory grows by less than 16 MiB."""
    passed = 0

    async def taken(chunk: bytes) -> None:
        nonlocal passed
        passed += len(chunk)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ended = await tier.run(plan("head", "-c", "256M", "/dev/zero"), Passage(stdout=taken, stderr=taken))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    assert (ended.ending, passed) == ("exited", 256 << 20)
    assert after - before < 16 * 1024


async def test_a_slow_taker_slows_the_command(tier):
    """Output waits for whoever takes it: nothing is dropped, and the command waits too."""
    passed = 0

    async def slowly(chunk: bytes) -> None:
        nonlocal passed
        passed += len(chunk)
        await asyncio.sleep(0.05)

    ended = await tier.run(plan("head", "-c", "1M", "/dev/zero"), Passage(stdout=slowly, stderr=slowly))

    assert (ended.ending, passed) == ("exited", 1 << 20)


async def test_a_taker_that_fails_ends_the_run(tier):
    """An error of whoever takes the output is passed on, after the command is gone."""

    def broken(_: bytes) -> None:
        raise ConnectionError("nobody listens")

    with pytest.raises(ConnectionError, match="nobody listens"):
        await tier.run(plan("sh", "-c", "echo x; sleep 20"), Passage(stdout=broken, stderr=broken))


async def test_output_is_bounded_only_when_asked(run):
    """Beyond `kill_output_bytes` a run ends as `output-limit` with 141; below it, nothing happens."""
    flooded = await run("sh", "-c", "yes & yes >&2", kill_output_bytes=100_000)
    quiet = await run("head", "-c", "100000", "/dev/zero", kill_output_bytes=100_000)

    assert flooded.told == ("output-limit", 141)
    assert len(flooded.stdout) + len(flooded.stderr) == 100_000
    assert (quiet.told, len(quiet.stdout)) == (("exited", 0), 100_000)


async def test_arguments_are_passed_byte_by_byte(run):
    """Every byte but NUL goes through arguments and variables unchanged."""
    text = EVERY_BYTE.decode(errors="surrogateescape")
    check = "import os, sys; print([os.fsencode(sys.argv[1]), os.environb[b'X']] == [bytes(range(1, 256))] * 2)"

    outcome = await run("python3", "-c", check, text, environ={"PATH": "/usr/bin", "X": text})

    assert outcome.text == "True"


async def test_many_arguments_are_passed(run):
    """A hundred thousand arguments arrive."""
    outcome = await run("python3", "-c", "import sys; print(len(sys.argv))", *["word"] * 100_000)

    assert outcome.text == "100001"


async def test_an_argument_that_is_too_long_is_126(run):
    """One argument of 200 KiB is more than Linux passes: the command ends as in a shell."""
    assert (await run("echo", "x" * 200_000)).told == ("exited", 126)
    assert len((await run("echo", "x" * 100_000)).stdout) == 100_001


@pytest.mark.parametrize("argv0", ["-x", "a b", "$(id)", "a\nb", "--"])
async def test_a_name_is_only_a_name(run, argv0):
    """A program's name is never an option, a pattern or a script."""
    assert (await run(argv0)).told == ("exited", 127)


async def test_words_are_not_looked_into(run):
    """What a shell would expand arrives as it is."""
    words = ["*", "$HOME", "`id`", "a'b", 'c"d', "\\", "", " ", "\n"]

    outcome = await run("python3", "-c", SHOW, *words)

    assert json.loads(outcome.stdout)[0] == words


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"ONLY": "this"},
        {"PWD": "/nowhere", "OLDPWD": "x", "SHLVL": "7"},
        {"IFS": "a", "PS1": "b", "OPTIND": "nonsense", "_": "c", "ENV": "/x", "PPID": "1"},
        {"with.dots": "1", "BASH_FUNC_f%%": "() { :; }", "has space": "2", "é": "3"},
        {"LINES": "one\ntwo", "EMPTY": "", "QUOTES": "'\"'"},
    ],
    ids=["none", "one", "shell's", "special", "odd", "values"],
)
async def test_variables_are_exactly_those_given(run, environ):
    """A command's environment is the plan's: nothing is added, nothing left out."""
    outcome = await run("/usr/bin/python3", "-c", SHOW, environ=environ)

    found = json.loads(outcome.stdout)[1]
    found.pop("LC_CTYPE", None)  # Python sets it for itself
    assert found == environ


@pytest.mark.promise("secrets")
async def test_the_hosts_variables_are_nowhere(run, monkeypatch):
    """A variable of ours is in no process of the sandbox, pid 1 included; one that is given is in the command's."""
    monkeypatch.setenv("CANARY", "yellow-bird")
    search = "cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep -a bird"

    hidden = await run("sh", "-c", search)
    given = await run("sh", "-c", search, environ={"PATH": "/usr/bin", "CANARY": "yellow-bird"})

    assert (hidden.ended.exit_code, hidden.stdout) == (1, b"")
    assert b"CANARY=yellow-bird" in given.stdout


async def test_only_three_descriptors_are_open(run):
    """A command has its three streams and nothing else, whatever its host had open."""
    opened = os.open(sys.executable, os.O_RDONLY)
    os.set_inheritable(opened, True)  # noqa: FBT003 - the name of the function says it
    try:
        outcome = await run("python3", "-c", "import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])")
    finally:
        os.close(opened)

    assert outcome.text == "[0, 1, 2]"


async def test_the_working_folder_is_the_workspace(run, workspace):
    """A command starts in its workspace, or in the folder below it that the plan names."""
    assert (await run("pwd", workspace=workspace)).text.endswith("/workspace")
    assert (await run("pwd")).text.endswith("/workspace")


async def test_signals_have_their_usual_meaning(run):
    """A command that writes into a closed pipe dies of SIGPIPE, as it would anywhere."""
    outcome = await run("bash", "-c", "yes | head -n 1 > /dev/null; echo ${PIPESTATUS[0]}")

    assert outcome.text == "141"
