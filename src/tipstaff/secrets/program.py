"""A secret from a program: an argument list, no shell, that prints one JSON object `{"value": "…"}`.

It gets nothing of ours but `PATH`, `HOME` and the variables that the configuration lists; no terminal, no input, `/` as
its folder. It has a time, and a bound on what it writes; when either is used up, or when it has ended, its whole
process group is killed. What it says on stderr is shown as far as it cannot be a secret: one line, cut, and not at all
when it holds the value or one of the variables. Whatever is not exactly such an object is an error without its text.
"""

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple, Self

import msgspec

from tipstaff.model.times import milliseconds
from tipstaff.secrets.origins import Program

MAX_OUTPUT_BYTES: Final = 512 * 1024  # a value of 64 KiB in which JSON spells each character with six
MAX_COMPLAINT_BYTES: Final = 4096
MAX_LINE: Final = 200
GIVEN: Final = ("PATH", "HOME")
SHORTEST_HELD_BACK: Final = 4  # a variable that is shorter (such as `1`) is no secret, and would hide every line
FAREWELL_SECONDS: Final = 5.0
DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"


class _Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    value: str
    expires: str | None = None


class _Ended(NamedTuple):
    """How a program ended; `code` is None when it had to be stopped, for the reason in `stopped`."""

    code: int | None
    stopped: str
    output: bytes
    complaint: bytes


def ask(program: Program, environ: Mapping[str, str]) -> tuple[str | None, str]:
    """Run the program: the value that it prints, or None and what is wrong. Does not raise: its frames hold secrets."""
    given = variables(program, environ)
    try:
        ended = _run(program, given)
    except OSError as error:
        return None, f"cannot be run: {error.strerror}"
    answer = _answer(ended.output)
    fault = ended.stopped or (f"ended with {_spelled(ended.code)}" if ended.code else "") or _fault(answer)
    if answer and not fault:
        return answer.value, ""
    if ended.output.strip() and answer is None:
        return None, fault  # what it printed may be the value, and what it says may repeat it: a trace, for example
    hidden = [given[name] for name in program.environ if name in given] + ([answer.value] if answer else [])
    complaint = _shown(ended.complaint, hidden)
    return None, f"{fault}; it says: {complaint}" if complaint else fault


def variables(program: Program, environ: Mapping[str, str]) -> dict[str, str]:
    """Choose what the program sees of our environment. Pure."""
    names = (*GIVEN, *program.environ)
    return {"PATH": DEFAULT_PATH} | {name: environ[name] for name in names if name in environ}


def _answer(output: bytes) -> _Answer | None:
    try:
        return msgspec.json.decode(output, type=_Answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _fault(answer: _Answer | None) -> str:
    if answer is None:
        return 'does not print one JSON object {"value": "…"}'
    if answer.expires is None:
        return ""
    try:
        left = milliseconds(answer.expires) - time.time_ns() // 1_000_000
    except (ValueError, TypeError, OverflowError):  # TypeError: a time without its zone
        return "names a time in `expires` that is not one such as 2026-11-15T12:00:00Z"
    return "" if left > 0 else "gives a value that has expired"


def _shown(complaint: bytes, hidden: list[str]) -> str:
    """Cut what a program says to what can be shown to anybody."""
    text = complaint.decode(errors="replace")
    if any(len(value) >= SHORTEST_HELD_BACK and value in text for value in hidden):
        return "(not shown: it holds a secret)"
    line = text.strip().partition("\n")[0].strip()
    return "".join(character if character.isprintable() else "?" for character in line[:MAX_LINE])


def _spelled(code: int | None) -> str:
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


def _run(program: Program, given: dict[str, str]) -> _Ended:
    """Run the program to its end, or to ours for it; nothing of its process group is left."""
    deadline = time.monotonic() + program.seconds
    process = subprocess.Popen(  # noqa: S603 - the owner of the home named it, and no shell reads it
        program.argv,
        env=given,
        cwd="/",  # not where we are: a folder of an agent's is no place to look for programs
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        bufsize=0,
    )
    try:
        with _Listening(process) as listening:
            stopped = listening.until(deadline)
            stopped = stopped or ("" if listening.ended else f"does not answer within {program.seconds:g} seconds")
            return _Ended(_end(process), stopped, bytes(listening.output), bytes(listening.complaint))
    finally:
        _end(process)


def _end(process: "subprocess.Popen[bytes]") -> int | None:
    """Kill what is left of the group, then let go of its number: a number in use cannot be somebody else's."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):  # one that became another user cannot be killed, nor waited for
            process.wait(FAREWELL_SECONDS)
    return process.returncode


class _Listening:
    """What a program writes, taken as it comes, until it ends."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        if process.stdout is None or process.stderr is None:
            raise ValueError("the program was started without pipes")
        self.output, self.complaint, self.ended = bytearray(), bytearray(), False
        self._out, self._err = process.stdout, process.stderr
        self._end = os.pidfd_open(process.pid)
        self._selector = selectors.DefaultSelector()
        for source in (self._out, self._err, self._end):
            self._selector.register(source, selectors.EVENT_READ)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        os.close(self._end)
        self._out.close()
        self._err.close()

    def until(self, deadline: float) -> str:
        """Listen until the program ended and all was read, or the time is up; say why it must be stopped before."""
        while (left := deadline - time.monotonic()) > 0:
            # A grandchild may keep the pipes open for ever: once the program has ended, only what is there counts.
            ready = [key.fileobj for key, _ in self._selector.select(0 if self.ended else left)]
            if self.ended and not ready:
                break
            for source in ready:
                self._take(source)
            if len(self.output) > MAX_OUTPUT_BYTES:
                return f"prints more than {MAX_OUTPUT_BYTES} bytes"
        return ""

    def _take(self, source: object) -> None:
        if source == self._end:
            self.ended = True
            self._selector.unregister(self._end)
        elif source is self._out:
            self._append(self._out.fileno(), self.output, MAX_OUTPUT_BYTES + 1)
        else:
            self._append(self._err.fileno(), self.complaint, MAX_COMPLAINT_BYTES)

    def _append(self, descriptor: int, to: bytearray, most: int) -> None:
        data = os.read(descriptor, 65536)
        to += data[: most - len(to)]
        if not data:
            self._selector.unregister(self._out if descriptor == self._out.fileno() else self._err)
