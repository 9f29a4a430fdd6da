"""How a command that did not finish ends: one sentence, one exit code.

| what happened                    | exit code                       |
| -------------------------------- | ------------------------------- |
| a `TipstaffError`                | the error's own                 |
| Ctrl-C                           | 130                             |
| nobody reads stdout any more     | 141, and no sentence            |
| the operating system refused     | 74 (71 when memory ran out)     |
| anything else: a fault of ours   | 70                              |

The sentence goes to stderr; with `--json` one object goes to stdout instead. Tracebacks are shown only when
TIPSTAFF_DEBUG=1. Must not raise, whatever state the streams are in.
"""

import os
import sys

from tipstaff.doors.cli.output import complain, emit_json, flush
from tipstaff.errors import TipstaffError, UsageError

TYPE_CHECKING = False  # as in tipstaff/__init__.py: type checkers take it as true
if TYPE_CHECKING:
    from typing import NoReturn

Ending = tuple[int, str, str, str]  # exit code, kind, message, hint

_REPORT_IT = "set TIPSTAFF_DEBUG=1 to see the traceback, and please report it"


def report(error: BaseException, argv: list[str]) -> int:
    """Tell the user about `error`, in the form that `argv` asks for, and return the exit code."""
    if isinstance(error, SystemExit):
        return _stopped(error)
    if isinstance(error, BrokenPipeError):
        _abandon_stdout()
        return 141
    if os.environ.get("TIPSTAFF_DEBUG") == "1":
        _show_traceback(error)
    ending = describe(error)
    _tell(ending, as_json=wants_json(argv))
    return ending[0]


def leave(code: int) -> "NoReturn":
    """End the process at once: taking every module apart first would cost a short command a tenth of its time."""
    try:
        flush()
        if sys.stderr is not None:
            sys.stderr.flush()
    except (OSError, ValueError):  # told already, or there is nobody to tell
        code = code or 74
    os._exit(code)


def describe(error: BaseException) -> Ending:
    """Put `error` in words: exit code, kind, message, hint."""
    match error:
        case TipstaffError():
            hint = error.hint
            return error.exit_code, type(error).__name__, str(error).removesuffix(f"; {hint}"), hint
        case KeyboardInterrupt():
            return 130, "Interrupted", "interrupted", ""
        case MemoryError():
            return 71, "MemoryError", "there is not enough memory to finish", ""
        case OSError():
            return 74, "InputOutputError", _system_message(error), ""
    return 70, "InternalError", f"internal error: {type(error).__name__}: {error}", _REPORT_IT


def mistake(path: str, message: str) -> UsageError:
    """Make the error for a wrong command line below `path` (such as "tipstaff keys"): what is wrong, what to try."""
    _, _, command = path.partition(" ")
    return UsageError(f"{command}: {message}" if command else message, hint=f"try: {path} --help")


def wants_json(argv: list[str]) -> bool:
    """Say whether the caller reads JSON: decided before parsing, because parsing may be what failed."""
    own = argv[: argv.index("--")] if "--" in argv else argv
    return "--json" in own


def _system_message(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    return f"{os.fsdecode(error.filename)}: {reason}" if isinstance(error.filename, str | bytes) else reason


def _stopped(error: SystemExit) -> int:
    """Return the code of a `sys.exit` inside a command (argparse ends `--help` so)."""
    try:
        flush()
    except OSError as fault:
        return report(fault, [])
    return error.code if isinstance(error.code, int) else int(error.code is not None)


def _tell(ending: Ending, *, as_json: bool) -> None:
    _, kind, message, hint = ending
    try:
        if as_json:
            emit_json({"error": {"kind": kind, "message": message, "hint": hint}})
        else:
            complain(f"tipstaff: {message}; {hint}" if hint else f"tipstaff: {message}")
        flush()
    except (OSError, ValueError):  # ValueError: the stream was closed by the program itself
        _abandon_stdout()
        if as_json:  # the object has nowhere to go, but the sentence may
            _tell(ending, as_json=False)


def _show_traceback(error: BaseException) -> None:
    import traceback  # noqa: PLC0415 - only for debugging

    try:
        for line in "".join(traceback.format_exception(error)).splitlines():
            complain(line)
    except (OSError, ValueError):
        return  # debugging with no stderr: there is nowhere to show it


def _abandon_stdout() -> None:
    """Point stdout at nothing, so that the interpreter's own last flush cannot fail again."""
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)
    except (OSError, ValueError, AttributeError):
        return  # there is no descriptor behind stdout: nothing to flush either
