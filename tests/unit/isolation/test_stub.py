"""The shell that waits in a sandbox, tried with real shells outside of one."""

import fcntl
import os
import shlex
import socket
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipstaff.isolation import stub

SHELLS = [shell for shell in ("/usr/bin/dash", "/usr/bin/bash") if Path(shell).exists()]


class Waiting:
    """A stub that waits for its byte, with a job beside it."""

    def __init__(self, shell: str, job: bytes) -> None:
        self.gate, theirs = socket.socketpair()
        self.gate.settimeout(10)
        memory = os.memfd_create("job")
        os.write(memory, job)
        self._output, writing = os.pipe()
        self._null = os.open("/dev/null", os.O_RDONLY)
        wanted = {stub.JOB: memory, stub.GATE: theirs.fileno(), 5: self._null, 6: writing, 7: writing}
        # By way of high numbers, as the spawner does, because the numbers wanted may be in use here.
        high = {number: fcntl.fcntl(source, fcntl.F_DUPFD, 100) for number, source in wanted.items()}
        moves = " ".join(f"{number}<&{source}" for number, source in high.items())
        script = f"exec {moves}; exec {shell} -c {shlex.quote(stub.stub(4000))}"
        self.process = subprocess.Popen(["/usr/bin/bash", "-c", script], pass_fds=high.values(), env={})
        theirs.close()
        for descriptor in (memory, writing, *high.values()):
            os.close(descriptor)

    def finish(self) -> tuple[int, bytes]:
        """Wait for the end and give the code and the output."""
        code = self.process.wait(10)
        with open(self._output, "rb") as output:  # noqa: PTH123 - a descriptor
            said = output.read()
        os.close(self._null)
        self.gate.close()
        return code, said


@pytest.mark.parametrize("shell", SHELLS)
def test_nothing_runs_before_the_byte(shell, tmp_path):
    """The stub says that it is ready and waits; with its byte it says that it goes, and becomes the command."""
    waiting = Waiting(shell, stub.job(["touch", str(tmp_path / "ran")], {"PATH": "/usr/bin:/bin"}, ".", shell=shell))

    assert waiting.gate.recv(1) == stub.READY
    assert not (tmp_path / "ran").exists()
    waiting.gate.send(stub.RELEASE)
    assert waiting.gate.recv(1) == stub.GOING
    assert waiting.finish() == (0, b"")
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("shell", SHELLS)
def test_without_the_byte_nothing_runs(shell, tmp_path):
    """When whoever holds the gate is gone, the stub exits 125, and the command has not run."""
    waiting = Waiting(shell, stub.job(["touch", str(tmp_path / "ran")], {"PATH": "/usr/bin:/bin"}, ".", shell=shell))

    assert waiting.gate.recv(1) == stub.READY
    waiting.gate.shutdown(socket.SHUT_RDWR)

    assert waiting.finish() == (125, b"")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("environ", [{"A": "1"}, {"odd.name": "1"}])
def test_any_byte_arrives(shell, environ):
    """Every byte but NUL goes through, also where a variable's name makes `env` necessary."""
    every = bytes(range(1, 256)).decode(errors="surrogateescape")
    waiting = Waiting(shell, stub.job(["/usr/bin/printf", "%s", every], environ, ".", shell=shell))
    waiting.gate.send(stub.RELEASE)

    assert waiting.finish() == (0, bytes(range(1, 256)))


@pytest.mark.parametrize("shell", SHELLS)
def test_the_environment_is_exact(shell):
    """A shell's own variables do not reach the command."""
    waiting = Waiting(shell, stub.job(["/usr/bin/env"], {"ONE": "1", "TWO": "a\nb"}, ".", shell=shell))
    waiting.gate.send(stub.RELEASE)

    assert sorted(waiting.finish()[1].splitlines()) == [b"ONE=1", b"TWO=a", b"b"]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("content", ["", "one\ntwo", "end", "end\nend-\n$(id) `id` \\ '", "x" * 300_000])
def test_files_are_there_before_the_command(shell, content, tmp_path):
    """A file that comes with the job is written as it is, with a newline at its end, whatever a shell makes of it."""
    files = [(str(tmp_path / "a file"), content)]
    waiting = Waiting(shell, stub.documents(files) + stub.job(["/usr/bin/true"], {}, ".", shell))
    waiting.gate.send(stub.RELEASE)

    assert waiting.finish() == (0, b"")
    assert (tmp_path / "a file").read_text() == f"{content}\n"


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_quoting_is_undone_by_a_shell(text):
    """What is quoted is one word, and that word is the text."""
    assert shlex.split(stub.quoted(text)) == [text]


@pytest.mark.parametrize(
    ("argv", "environ", "cwd"),
    [
        ([], {}, "."),
        ([""], {}, "."),
        (["a\0"], {}, "."),
        (["a"], {"B": "\0"}, "."),
        (["a"], {"": "b"}, "."),
        (["a"], {"B=": "c"}, "."),
        (["a"], {}, "/etc"),
        (["a"], {}, "b/../../c"),
        (["-a=b"], {}, "."),
        (["a=b"], {"odd.name": "c"}, "."),
    ],
)
def test_what_no_command_can_have_raises(argv, environ, cwd):
    """No name, NUL bytes, impossible variables and folders outside are refused; their harmless twins are not."""
    with pytest.raises(ValueError, match=r"."):
        stub.job(argv, environ, cwd)
    assert stub.job(["a=b"], {"B": "c"}, "b/c")
