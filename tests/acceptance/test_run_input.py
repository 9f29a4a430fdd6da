"""`tipstaff run` with what nobody should give it: each a clear sentence and the right exit code."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

TIPSTAFF = str(Path(sys.executable).with_name("tipstaff"))


@pytest.fixture
def surroundings(tmp_path) -> None:
    """Beside the workspace, a link to it and a home."""
    (tmp_path / "link").symlink_to("work")
    (tmp_path / "home").mkdir(mode=0o700)


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ([], 64, "there is no command to run; for example: tipstaff run -- echo hello"),
        (["--"], 64, "there is no command to run"),
        (["--bogus", "--", "true"], 64, "run: unrecognized arguments: --bogus"),
        (["--memory", "lots", "--", "true"], 64, "--memory: 'lots' is not a size such as 64M, 1.5GiB or 1048576"),
        (["--timeout", "-1", "--", "true"], 64, "--timeout"),
        (["--shell", "true", "--", "true"], 64, "more than one thing to run was given"),
        (["--in-place", "--", "true"], 64, "--in-place needs a workspace; add --workspace DIR"),
        (["--workspace", "absent", "--", "true"], 64, "absent does not exist"),
        (["--workspace", "work/file", "--", "true"], 64, "work/file is not a folder"),
        (["--workspace", "link", "--", "true"], 126, "link is a symbolic link; name what it points to: "),
        (["--workspace", "/", "--", "true"], 126, "/ is the whole machine"),
        (["--workspace", "person", "--", "true"], 126, "person is your whole home folder"),
        (["--workspace", ".", "--", "true"], 126, "home, where Tipstaff keeps its keys and receipts"),
        (["--read", "home", "--", "true"], 126, "home, where Tipstaff keeps its keys and receipts"),
        (["--", "echo", b"\xff"], 64, r"argument 1 is not UTF-8: b'\xff'; pass such bytes by file or stdin"),
        (["--", "echo", "x" * (128 * 1024 - 1)], 0, ""),
        (["--policy", "absent.yaml", "--", "true"], 66, "there is no policy file absent.yaml"),
        (["--bundle", "absent/b.json", "--", "true"], 64, "--bundle: absent/b.json cannot be written: No such file"),
        (["--bundle", "work", "--", "true"], 64, "--bundle: work cannot be written: it is a folder"),
        (["--python", "absent.py"], 66, "--python: absent.py cannot be read: No such file or directory"),
        (["--tier", "nonsense", "--", "true"], 126, "nonsense"),
        (["--read", "/proc", "--", "true"], 126, "which is protected"),
        (["--", "nonexistent-program"], 127, "nonexistent-program: not found"),
        (["--", "/usr"], 126, "/usr"),
    ],
)
@pytest.mark.usefixtures("surroundings")
def test_a_mistake_is_told_in_one_sentence(tipstaff, workspace, arguments, code, sentence):
    """Whatever is wrong with a command line, the exit code says whose fault it is and the sentence what to do."""
    ended = tipstaff("run", *arguments)

    assert (ended.returncode, sentence in ended.stderr.decode()) == (code, True), ended.stderr.decode()[:2000]
    assert b"Traceback" not in ended.stderr
    assert (workspace / "file").read_text() == "content\n"


def test_odd_arguments_arrive_exactly(tipstaff):
    """Newlines, quotes, empty arguments and other scripts reach the command as they were given."""
    words = ["a\nb", "", "it's", '"$HOME"', "\\", "*", "日本", "-n", "--", "\x1b[2J"]

    ended = tipstaff("run", "--quiet", "--", "printf", "%s\\0", *words)

    assert ended.stdout.decode().split("\0")[:-1] == words


def test_a_hundred_thousand_arguments_arrive(tipstaff):
    """A command may have as many arguments as the kernel takes."""
    ended = tipstaff("run", "--quiet", "--", "sh", "-c", "echo $#", "sh", *["x"] * 100_000)

    assert (ended.returncode, ended.stdout) == (0, b"100000\n")


def test_a_large_script_runs(tipstaff, tmp_path):
    """A script that no argument could hold runs: from a file for Python, and by the program's own interface for sh."""
    (tmp_path / "large.py").write_text("#" * (1 << 20) + "\nprint('done')\n")

    assert tipstaff("run", "--quiet", "--python", "large.py").stdout == b"done\n"


def test_output_need_not_be_text(tipstaff):
    """Bytes of any kind pass through untouched where no terminal is looking."""
    ended = tipstaff("run", "--quiet", "--", "printf", "\\377\\000\\033]0;title\\007")

    assert ended.stdout == b"\xff\x00\x1b]0;title\x07"


@pytest.mark.parametrize("size", [0, 1, 100_000, 3_000_000])
def test_input_arrives_whole(tipstaff, size):
    """Whatever stands on stdin reaches the command, and its end does too."""
    ended = tipstaff("run", "--quiet", "--", "wc", "-c", stdin=b"x" * size)

    assert int(ended.stdout) == size


def test_input_from_a_file_and_from_nowhere(environ, tmp_path):
    """A file is a good stdin; the null device and a closed stdin are an empty one."""
    (tmp_path / "data").write_bytes(b"x" * 200_000)
    shell = '"$0" run --quiet -- wc -c'

    def counted(redirection: str) -> int:
        line = ["/bin/sh", "-c", f"{shell} {redirection}", TIPSTAFF]
        return int(subprocess.run(line, env=environ, cwd=tmp_path, capture_output=True, check=True, timeout=60).stdout)

    assert (counted("< data"), counted("< /dev/null"), counted("<&-")) == (200_000, 0, 0)


def test_a_home_that_others_could_write_is_refused(tipstaff, tmp_path):
    """A home with keys that others may change is refused with the command that mends it."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home").chmod(0o777)

    ended = tipstaff("run", "--", "true")

    assert ended.returncode == 64
    assert b"can be written by other users; run: chmod 700" in ended.stderr


def test_a_key_that_others_can_read_is_refused(tipstaff, tmp_path):
    """A signing key that others may read signs nothing more, and the sentence says how to mend it."""
    assert tipstaff("run", "--", "true").returncode == 0
    key = tmp_path / "home" / "keys" / "plane.key.pem"
    key.chmod(0o644)

    ended = tipstaff("run", "--", "true")
    assert (ended.returncode, b"chmod 600" in ended.stderr) == (77, True)

    key.chmod(0o600)
    assert tipstaff("run", "--", "true").returncode == 0


def test_a_damaged_key_is_told(tipstaff, tmp_path):
    """A key file that is damaged is named, and no traceback is shown."""
    assert tipstaff("run", "--", "true").returncode == 0
    (tmp_path / "home" / "keys" / "runner.key.pem").write_text("nonsense")

    ended = tipstaff("run", "--", "true")

    assert (ended.returncode, b"runner.key.pem" in ended.stderr, b"Traceback" in ended.stderr) == (77, True, False)


def test_a_damaged_database_is_told(tipstaff, tmp_path):
    """A database that is damaged is named, and nothing is run."""
    assert tipstaff("run", "--", "true").returncode == 0
    for file in (tmp_path / "home").glob("*.sqlite*"):
        file.write_bytes(b"nonsense " * 1000)

    ended = tipstaff("run", "--", "echo", "hi")

    assert (ended.returncode, ended.stdout, b"Traceback" in ended.stderr) == (74, b"", False)


@pytest.mark.only_if(os.geteuid() != 0, "root may write where nobody may")
def test_a_home_that_cannot_be_written_is_told(tipstaff, tmp_path):
    """A home that is read-only is a clear sentence, and nothing is run."""
    assert tipstaff("run", "--", "true").returncode == 0
    (tmp_path / "home").chmod(0o500)
    try:
        ended = tipstaff("run", "--", "echo", "hi")
    finally:
        (tmp_path / "home").chmod(stat.S_IRWXU)

    assert ended.returncode in {64, 74}
    assert (ended.stdout, b"Traceback" in ended.stderr) == (b"", False)
