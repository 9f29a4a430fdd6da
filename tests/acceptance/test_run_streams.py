"""`tipstaff run` and the streams, signals and terminals around it."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

TIPSTAFF = str(Path(sys.executable).with_name("tipstaff"))
SECONDS = 60
ASKING = """\
version: tipstaff.policy.v1
name: asking
principals: [{id: "*"}]
rules:
  - id: people-decide
    effect: ask
    reason: somebody should look at this
    when: any
    approvals: {approvers: ["*"], quorum: 1, separate: false}
tiers: {default: bwrap, minimum: bwrap, tolerate: {disk: weaker, memory: weaker, cpu: unenforceable}}
"""


@pytest.fixture
def started(environ, tmp_path) -> Callable[..., subprocess.Popen[bytes]]:
    """Start the program, in a process group of its own."""

    def start(*arguments: str, **streams: object) -> subprocess.Popen[bytes]:
        given = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
        return subprocess.Popen([TIPSTAFF, *arguments], env=environ, cwd=tmp_path, process_group=0, **given)  # type: ignore[call-overload,no-any-return]  # streams of any sort

    return start


@pytest.fixture
def bundle(tmp_path) -> Path:
    """A place for a bundle."""
    return Path(tmp_path / "b.json")


@pytest.fixture
def left(marker, processes) -> tuple[str, Callable[[str], list[int]]]:
    """A number to sleep for, and a way to see who still does."""
    return marker, processes


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("whole_group", [True, False])
def test_a_stopped_run_leaves_a_receipt(started, bundle, left, number, whole_group):
    """Ctrl-C, a polite kill and a hang-up stop the whole tree, exit 130, and leave a receipt that is valid."""
    marker, processes = left
    with started("run", "--bundle", bundle.name, "--", "sh", "-c", f"setsid sleep {marker} & echo up; wait") as run:
        assert run.stdout.readline() == b"up\n"
        for _ in range(3):  # a second and a third one change nothing
            (os.killpg if whole_group else os.kill)(run.pid, number)
            time.sleep(0.01)
        _, said = run.communicate(timeout=SECONDS)

    assert run.returncode == 130, said
    assert b"was stopped" in said
    assert processes(marker) == []
    assert json.loads(bundle.read_text())["receipt"]["ending"] == "cancelled"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_until_the_very_end_change_nothing(started, bundle, number):
    """Whoever keeps on stopping a run, also while it is closing and telling how it ended, gets the same ending."""
    with started("run", "--bundle", bundle.name, "--", "sh", "-c", "echo up; exec sleep 60") as run:
        assert run.stdout.readline() == b"up\n"
        while run.poll() is None:
            run.send_signal(number)
            time.sleep(0.0005)
        said = run.stderr.read()

    assert run.returncode == 130, said
    assert b"was stopped" in said
    assert json.loads(bundle.read_text())["receipt"]["ending"] == "cancelled"


def test_an_ignored_signal_stays_ignored(environ):
    """A run that was started to ignore hang-ups, as by nohup, goes on."""
    script = f'trap "" HUP; exec "{TIPSTAFF}" run --quiet -- sh -c "echo up; sleep 0.5; echo done"'
    with subprocess.Popen(["/bin/sh", "-c", script], stdout=subprocess.PIPE, env=environ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"up\n"
        run.send_signal(signal.SIGHUP)
        out, _ = run.communicate(timeout=SECONDS)

    assert (run.returncode, out) == (0, b"done\n")


def test_a_reader_that_left_stops_the_run(started, marker, processes):
    """When nobody reads our output any more, the command is stopped, and the exit code is that of a broken pipe."""
    with started("run", "--", "sh", "-c", f"yes {marker}") as run:
        assert run.stdout.read(10)
        run.stdout.close()
        said = run.stderr.read()
        assert run.wait(timeout=SECONDS) == 141

    assert b"was stopped" in said
    assert processes(marker) == []


def test_a_full_disk_stops_the_run(started):
    """Output that cannot be written is told, and never taken for success."""
    with Path("/dev/full").open("wb") as full, started("run", "--", "yes", stdout=full) as run:
        _, said = run.communicate(timeout=SECONDS)

    assert run.returncode == 74
    assert b"the command's output cannot be written: No space left on device" in said


def test_a_reader_that_waits_holds_up_nothing_else(started):
    """A run whose output nobody takes can still be stopped, in a moment, with its receipt."""
    with started("run", "--bundle", "b.json", "--", "yes") as run:
        assert run.stdout.read(10)
        time.sleep(0.3)
        began = time.monotonic()
        run.send_signal(signal.SIGINT)
        assert run.wait(timeout=SECONDS) == 130
        assert time.monotonic() - began < 10


def test_output_comes_as_it_is_printed(started):
    """Output is handed on at once, not at the end."""
    with started("run", "--quiet", "--", "sh", "-c", "echo first; read line; echo $line", stdin=subprocess.PIPE) as run:
        assert run.stdout.readline() == b"first\n"
        run.stdin.write(b"second\n")
        run.stdin.flush()
        assert run.stdout.readline() == b"second\n"
        assert run.wait(timeout=SECONDS) == 0


def test_input_is_not_taken_beyond_what_the_command_reads(started):
    """A command that ends without reading leaves most of a long input to whoever reads next."""
    reading, writing = os.pipe()
    with started("run", "--quiet", "--", "sleep", "0.3", stdin=reading) as run:
        os.set_blocking(writing, False)
        sent = 0
        while run.poll() is None and sent < 10_000_000:
            if select.select([], [writing], [], 0.05)[1]:
                sent += os.write(writing, b"x" * 4096)
        run.communicate(timeout=SECONDS)
    os.close(reading)
    os.close(writing)

    assert (run.returncode, sent < 1_000_000) == (0, True)


@contextmanager
def on_terminal(environ, tmp_path, *arguments: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Start the program on a terminal of its own; gives our end of it."""
    ours, theirs = os.openpty()
    command = ["/usr/bin/setsid", "--ctty", TIPSTAFF, *arguments]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environ, cwd=tmp_path) as run:
        os.close(theirs)
        try:
            yield ours, run
        finally:
            run.kill() if run.poll() is None else None
            os.close(ours)


def read_until(terminal: int, text: bytes = b"\0never") -> bytes:
    """Read from a terminal until `text` is there, or nothing more comes."""
    seen, until = b"", time.monotonic() + SECONDS
    while text not in seen and time.monotonic() < until:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                seen += os.read(terminal, 65536)
            except OSError:  # how Linux says that nobody holds the other end any more
                break
    return seen


@pytest.mark.parametrize("raw", [False, True])
def test_a_terminal_is_not_given_commands(environ, tmp_path, raw):
    """On a terminal colours pass and a title is shown as text; with --raw everything passes."""
    printing = ["printf", "\\033[31mred\\033[m \\033]0;title\\007 \\033[6n end"]
    with on_terminal(environ, tmp_path, "run", *(["--raw"] if raw else []), "--quiet", "--", *printing) as (ours, run):
        seen = read_until(ours)
        run.wait(timeout=SECONDS)

    assert b"\x1b[31mred\x1b[m" in seen
    assert (b"\x1b]0;title" in seen, b"\\x1b]0;title" in seen) == (raw, not raw)
    assert (b"\x1b[6n" in seen) is raw


def test_the_command_never_has_the_terminal(environ, tmp_path):
    """Inside, none of the streams is a terminal, and what is typed still arrives."""
    script = "for n in 0 1 2; do test -t $n && echo terminal; done; read line; echo got $line"
    with on_terminal(environ, tmp_path, "run", "--quiet", "--", "sh", "-c", script) as (ours, run):
        os.write(ours, b"hello\n")
        seen = read_until(ours, b"got hello")
        run.wait(timeout=SECONDS)

    assert b"got hello" in seen
    assert b"terminal" not in seen


def test_ctrl_c_on_a_terminal_stops_the_run(environ, tmp_path):
    """Typing Ctrl-C stops the command and exits 130."""
    with on_terminal(environ, tmp_path, "run", "--", "sh", "-c", "echo up; sleep 65") as (ours, run):
        assert b"up" in read_until(ours, b"up")
        os.write(ours, b"\x03")
        seen = read_until(ours)
        assert run.wait(timeout=SECONDS) == 130

    assert b"was stopped" in seen


@pytest.mark.parametrize(("answer", "code"), [(b"y\n", 0), (b"n\n", 126), (b"\n", 126), (b"yonder\n", 126)])
def test_a_question_on_a_terminal(environ, tmp_path, answer, code):
    """The question shows the exact command, escaped; only a yes that is typed after it lets the command run."""
    (tmp_path / "asking.yaml").write_text(ASKING)
    command = ["echo", "it ran", "a\x1b[2Kb\u202e"]
    with on_terminal(environ, tmp_path, "run", "--policy", "asking.yaml", "--", *command) as (ours, run):
        os.write(ours, b"y\n")  # typed too early: it does not count
        asked = read_until(ours, b"(n)")
        time.sleep(0.3)
        os.write(ours, answer)
        seen = read_until(ours)
        assert run.wait(timeout=SECONDS) == code, seen

    assert b"$'a\\x1b[2Kb\\u202e'" in asked
    assert b"rule people-decide asks: somebody should look at this" in asked
    assert (b"it ran a" in seen) is (code == 0)


def waiting(run: subprocess.Popen[bytes]) -> bytes:
    """Give the line that says how to approve a run."""
    assert run.stderr is not None
    return next(line for line in run.stderr if b"tipstaff approve " in line)


def test_a_question_without_a_terminal_waits_and_ends_refused(tmp_path, started):
    """Where nobody can be asked, the run says how to approve it, waits, and is refused."""
    (tmp_path / "asking.yaml").write_text(ASKING)

    with started("run", "--policy", "asking.yaml", "--approval-timeout", "0.5", "--", "echo", "hi") as run:
        out, said = run.communicate(timeout=SECONDS)

    assert (run.returncode, out) == (126, b"")
    assert b"waits 0.5 s for that: tipstaff approve run_" in said
    assert b"was not approved; nothing was run" in said


def test_a_waiting_run_can_be_approved_from_elsewhere(environ, tmp_path, started):
    """Another process of the same user approves by the command that was told, and the run goes on."""
    (tmp_path / "asking.yaml").write_text(ASKING)

    with started("run", "--policy", "asking.yaml", "--", "echo", "hi") as run:
        run_id = waiting(run).split()[-1].decode()
        approving = [TIPSTAFF, "approve", run_id, "--yes"]
        subprocess.run(approving, env=environ, capture_output=True, check=True, timeout=SECONDS)
        out, _ = run.communicate(timeout=SECONDS)

    assert (run.returncode, out) == (0, b"hi\n")


def test_a_waiting_run_can_be_stopped(tmp_path, started):
    """Ctrl-C while people are waited for ends the run, and nothing was run."""
    (tmp_path / "asking.yaml").write_text(ASKING)

    with started("run", "--policy", "asking.yaml", "--", "echo", "hi") as run:
        waiting(run)
        run.send_signal(signal.SIGINT)
        out, _ = run.communicate(timeout=SECONDS)

    assert (run.returncode, out) == (130, b"")
