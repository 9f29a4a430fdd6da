"""The program as it is started: what it imports, and what it does when its streams or arguments are broken."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

TIPSTAFF = str(Path(sys.executable).with_name("tipstaff"))
# Each of these costs milliseconds at every start of the program; help, version and usage errors need none of them.
HEAVY = {"argparse", "asyncio", "cryptography", "dataclasses", "enum", "json", "msgspec", "re", "typing", "yaml"}
# A shell starts what runs in the background with Ctrl-C ignored: the tests may run there, this program must not.
WAITING = """
import signal, sys, time, types
signal.signal(signal.SIGINT, signal.default_int_handler)
from tipstaff.doors.cli import main
module = types.ModuleType("toy_wait")
module.configure = lambda parser: None
module.run = lambda args: print("ready", flush=True) or time.sleep(60)
sys.modules["toy_wait"] = module
sys.exit(main(["wait"], {"wait": ("toy_wait", "wait")}))
"""


def run(argv, **options):
    """Run the real program to its end."""
    return subprocess.run([TIPSTAFF, *argv], capture_output="stdout" not in options, timeout=30, check=False, **options)


@pytest.mark.parametrize("argv", [["--help"], ["--version"], ["keys", "--help"], ["policy", "--help"]])
def test_help_imports_nothing_heavy(argv):
    """The help of the program and of its groups starts as fast as Python itself."""
    script = f"import sys; from tipstaff.doors.cli import main; main({argv!r}); print(*sys.modules, file=sys.stderr)"

    ended = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, timeout=30, check=True)

    assert HEAVY & set(ended.stderr.decode().split()) == set()


def test_python_dash_m_is_the_same_program():
    """The module can be started by name, for when the script is not on the PATH."""
    ended = subprocess.run([sys.executable, "-m", "tipstaff", "--version"], capture_output=True, timeout=30, check=True)

    assert ended.stdout == run(["--version"]).stdout


def test_arguments_need_not_be_text():
    """Bytes that are no UTF-8 are shown as escapes, not as a traceback."""
    ended = run([b"\xff\x1b[2J"])

    assert (ended.returncode, ended.stdout) == (64, b"")
    assert ended.stderr == b"tipstaff: there is no command '\\udcff\\x1b[2J'; try: tipstaff --help\n"


def test_a_full_disk_is_told():
    """Output that cannot be written exits 74 with a sentence, never 0."""
    with Path("/dev/full").open("wb") as full:
        ended = run(["--help"], stdout=full, stderr=subprocess.PIPE)

    assert (ended.returncode, ended.stderr) == (74, b"tipstaff: stdout cannot be written: No space left on device\n")


@pytest.mark.parametrize(("closing", "sentence"), [(">&-", b"tipstaff: stdout is closed\n"), (">&- 2>&-", b"")])
def test_closed_streams_are_not_success(closing, sentence):
    """Without a stdout the program exits 74, and says so where it still can."""
    ended = subprocess.run(
        ["/bin/bash", "-c", f'"$0" --version {closing}', TIPSTAFF], capture_output=True, timeout=30, check=False
    )

    assert (ended.returncode, ended.stderr) == (74, sentence)


def test_a_reader_that_left_is_no_failure_to_shout_about():
    """A broken pipe exits 141, as a shell would say it, without a word."""
    reading, writing = os.pipe()
    os.close(reading)

    ended = run(["--help"], stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)

    assert (ended.returncode, ended.stderr) == (141, b"")


def test_an_interrupt_is_quiet():
    """Ctrl-C exits 130 with one word, without a traceback."""
    with subprocess.Popen([sys.executable, "-c", WAITING], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == b"ready\n"
        waiting.send_signal(signal.SIGINT)
        _, stderr = waiting.communicate(timeout=30)

    assert (waiting.returncode, stderr) == (130, b"tipstaff: interrupted\n")
