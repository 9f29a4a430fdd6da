"""What the documents show is what happens: their examples are run, and their output compared.

In the documents below, a fenced block is
- a file, when an HTML comment `<!-- file: NAME -->` stands before it: it is written to NAME;
- a session, when its language is `console`: each `$ ` line is run by bash (a line that ends with a backslash goes on
  in the next, behind `> `), and the lines below it must be what it prints. A line `…` stands for any lines, `…` inside
  a line for any text, and a last line `[exit N]` for the exit code, which otherwise must be 0. What a line exports that
  begins with `export ` holds for the rest of the document;
- a terminal, when it is a session and `<!-- terminal -->` stands before it: its one command is started and goes on. The
  lines below are what it must have printed soon after; at the end of the document it is stopped, if it still runs;
- a program, when its language is `python` and `<!-- run -->` stands before it: it must end well.
Anything else (such as `sh`) is for reading. A document's blocks share one folder, in which `tests` and `examples`
are the project's. The port 7172 of a document is another one, which is free, whenever it is read.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
DOCUMENTS = (
    "README.md",
    "docs/quickstart.md",
    "docs/policy.md",
    "docs/workspaces.md",
    "docs/network.md",
    "docs/secrets.md",
    "docs/evidence-format.md",
    "docs/plane.md",
    "docs/operate.md",
)
PROJECT = ("tests", "examples")
ANY = "…"
PORT = re.compile(r"\b7172\b")
SOON_SECONDS = 30.0
END_SECONDS = 20.0


class Block(NamedTuple):
    """One fenced block: the comment before it, its language, its text, and the line that it starts in."""

    comment: str
    language: str
    text: str
    line: int


class Step(NamedTuple):
    """One command of a session, and what it must print and exit with."""

    command: str
    expected: list[str]
    code: int


def blocks(text: str) -> list[Block]:
    """Find the fenced blocks of a document, in order."""
    pattern = r"^(?:<!-- *(.*?) *-->\n\s*)?(```+)(\w*)[^\n]*\n(.*?)^\2$"
    found = re.finditer(pattern, text, re.MULTILINE | re.DOTALL)
    return [Block(match[1] or "", match[3], match[4], text[: match.start(4)].count("\n") + 1) for match in found]


def steps(session: str) -> list[Step]:
    """Cut a session into commands, each with the lines that follow it."""
    lines = session.splitlines()
    starts = [at for at, line in enumerate(lines) if line.startswith("$ ")]
    return [step(lines[start:end]) for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)]


def step(lines: list[str]) -> Step:
    """Read one command with its output."""
    command, *expected = lines
    while command.endswith("\\") and expected and expected[0].startswith("> "):
        command += "\n" + expected.pop(0)[2:]
    while expected and not expected[-1].strip():
        expected.pop()
    code = re.fullmatch(r"\[exit (\d+)\]", expected[-1]) if expected else None
    return Step(command[2:], expected[:-1] if code else expected, int(code[1]) if code else 0)


def matches(expected: list[str], output: str) -> bool:
    """Say whether `output` is what a document shows, with `…` for what it leaves out."""
    pattern = "".join(r"(?:.*\n)*" if line.strip() == ANY else line_pattern(line) + r"\n" for line in expected)
    return re.fullmatch(pattern, output if output.endswith("\n") or not output else output + "\n") is not None


def line_pattern(line: str) -> str:
    """Spell one expected line as a regular expression."""
    return ".*".join(re.escape(part) for part in line.rstrip().split(ANY))


def free_port() -> int:
    """Find a port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
    return port


class Terminal:
    """A command that goes on while the document is read further; it and its children are a process group."""

    def __init__(self, command: str, log: Path, cwd: Path, environ: dict[str, str]) -> None:
        self._log = log
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                ["/bin/bash", "-c", command],
                cwd=cwd,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def output(self, expected: list[str]) -> str:
        """Give what it has printed, once that is what is expected, or when it was waited for long enough."""
        end = time.monotonic() + SOON_SECONDS
        while not matches(expected, output := self._read()) and time.monotonic() < end and self._process.poll() is None:
            time.sleep(0.05)
        return output if matches(expected, output) else self._read()

    def _read(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def close(self) -> None:
        """End it as Ctrl-C in its window would, or else at once."""
        for ending in (signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is None:
                os.killpg(self._process.pid, ending)
            try:
                self._process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                continue
            return


class Reader:
    """Somebody who follows a document from the top, in a fresh folder with a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "document"
        home = folder / "home"
        self.folder.mkdir()
        home.mkdir()
        for name in PROJECT:
            (self.folder / name).symlink_to(ROOT / name)
        path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        places = {"PATH": path, "HOME": str(home), "TIPSTAFF_HOME": str(home / "tipstaff")}
        self.environ = {**places, "LC_ALL": "C.UTF-8", "TZ": "UTC", "COLUMNS": "80", "NO_COLOR": "1"}
        self.terminals: list[Terminal] = []
        self.logs = folder

    def read(self, text: str) -> None:
        """Follow a whole document."""
        for block in blocks(PORT.sub(str(free_port()), text)):
            self.follow(block)

    def close(self) -> None:
        """Close the terminals, the last one first."""
        while self.terminals:
            self.terminals.pop().close()

    def follow(self, block: Block) -> None:
        """Do what one block says."""
        kind, _, name = block.comment.partition(": ")
        if kind == "file":
            self.write(name, block.text)
        elif kind == "terminal":
            self.open(block)
        elif block.language == "console":
            self.type(block)
        elif block.language == "python" and block.comment == "run":
            code, output = self.run([sys.executable, "-c", block.text])
            assert code == 0, f"line {block.line}: the program failed:\n{output}"

    def write(self, name: str, text: str) -> None:
        """Write a file that the document shows; it cannot lie outside the folder."""
        path = self.folder / name
        assert not any(self.folder / own in path.parents for own in PROJECT), f"{name} would change the project"
        assert self.folder in Path(os.path.normpath(path)).parents, f"{name} is outside the document's folder"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def type(self, block: Block) -> None:
        """Type the commands of a session and compare what comes back."""
        assert block.text.startswith("$ "), f"line {block.line}: a session starts with a command"
        for typed in steps(block.text):
            code, output = self.run(["/bin/bash", "-c", typed.command])
            if typed.command.startswith("export "):
                self.remember(typed.command)
            shown = "\n".join(typed.expected)
            told = f"line {block.line}, $ {typed.command}\n--- the document:\n{shown}\n--- the program:\n{output}"
            assert code == typed.code, f"exit code {code} instead of {typed.code} at {told}"
            assert matches(typed.expected, output), f"other output at {told}"

    def remember(self, command: str) -> None:
        """Keep the variables that a command exports, as the shell in a window would."""
        _, variables = self.run(["/bin/bash", "-c", f"{command} > /dev/null && env -0"])
        self.environ |= dict(one.split("=", 1) for one in variables.split("\0") if "=" in one)

    def open(self, block: Block) -> None:
        """Start a command that goes on, and wait until it has printed what the document shows."""
        [typed] = steps(block.text)
        log = self.logs / f"terminal-{len(self.terminals)}.log"
        terminal = Terminal(typed.command, log, self.folder, self.environ)
        self.terminals.append(terminal)
        output, shown = terminal.output(typed.expected), "\n".join(typed.expected)
        told = f"line {block.line}, $ {typed.command}\n--- the document:\n{shown}\n--- the program:\n{output}"
        assert matches(typed.expected, output), f"other output in the terminal at {told}"

    def run(self, argv: list[str]) -> tuple[int, str]:
        """Run a program; return its exit code and its output, stdout and stderr together as on a terminal."""
        ended = subprocess.run(
            argv,
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
            check=False,
        )
        return ended.returncode, ended.stdout.decode(errors="replace")


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """Somebody about to follow a document, who closes every window when it is read."""
    found = Reader(tmp_path)
    yield found
    found.close()


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if (ROOT / name).exists()])
def test_a_document_tells_the_truth(reader, name):
    """Every command that a document shows gives the output and the exit code that the document shows."""
    reader.read((ROOT / name).read_text(encoding="utf-8"))


GOOD = """
<!-- file: notes/a.txt -->
```text
one
two
```

```console
$ cat notes/a.txt
one
two
$ cat notes/a.txt \\
>   notes/a.txt
one
…
two
$ echo "took 12 ms" >&2; exit 3
took … ms
[exit 3]
$ export NOTE="$PWD/notes/a.txt"
$ head -1 "$NOTE"
one
$ ls tests/conftest.py; pwd; echo "$TIPSTAFF_HOME"
tests/conftest.py
/…/document
/…/home/tipstaff
```

```sh
exit 1
```

<!-- terminal -->
```console
$ echo begins; echo $$ > terminal.pid; sleep 600 && echo over
begins
```

```console
$ kill -0 "$(cat terminal.pid)" && echo "goes on at http://127.0.0.1:7172"
goes on at http://127.0.0.1:7172
```

<!-- run -->
```python
assert open("notes/a.txt").read() == "one\\ntwo\\n"
```

```python
raise SystemExit("only for reading")
```
"""


def test_a_true_document_passes(reader):
    """Files, sessions with gaps and exit codes, and programs are followed; what is only for reading is not."""
    reader.read(GOOD)

    languages = ["text", "console", "sh", "console", "console", "python", "python"]
    assert [block.language for block in blocks(GOOD)] == languages


def test_a_terminal_is_closed_behind_its_reader(reader):
    """What a document started goes on while it is read, and nothing of it is left when the reader has gone."""
    reader.read(GOOD)
    started = int((reader.folder / "terminal.pid").read_text())
    assert Path(f"/proc/{started}").exists()

    reader.close()

    assert not Path(f"/proc/{started}").exists()


@pytest.mark.parametrize(
    "false",
    [
        "```console\n$ echo one\ntwo\n```",
        "```console\n$ echo one\n```",
        "```console\n$ true\none\n```",
        "```console\n$ true && export NOTE=one\n$ echo $NOTE\none\n```",
        "```console\n$ printf 'one\\ntwo\\n'\none\n```",
        "```console\n$ exit 1\n```",
        "```console\n$ true\n[exit 1]\n```",
        "```console\n$ true\n$ echo one\ntwo … three\n```",
        "```console\nno command\n```",
        "<!-- terminal -->\n```console\n$ echo one\ntwo\n```",
        "<!-- terminal -->\n```console\n$ true\none\n```",
        "<!-- run -->\n```python\nassert False\n```",
        "<!-- file: ../outside.txt -->\n```text\none\n```",
        "<!-- file: tests/inside.txt -->\n```text\none\n```",
    ],
)
def test_a_false_document_fails(reader, false):
    """Other output, another exit code, a failing program or a file in the wrong place is noticed."""
    with pytest.raises(AssertionError):
        reader.read(false)
