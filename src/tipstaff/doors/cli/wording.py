"""How commands, times, sizes and durations are put before a person, in one line and at a glance. Pure.

What somebody has to say yes to is not shown so: see `quoting`, which leaves nothing out.
"""

from typing import Any, Final

from tipstaff.doors.cli.quoting import command_line

Json = dict[str, Any]
SHORT_ID: Final = 12  # `run_` and eight digits
_SIZES: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_STEP: Final = 1024
_TENTHS_BELOW: Final = 10


def command_of(execution: Json | None) -> str:
    """Say what an execution starts, as one command line."""
    execution = execution or {}
    match execution.get("kind"):
        case "argv":
            return command_line([execution["command"], *execution.get("args", ())])
        case "shell":
            return command_line([execution.get("shell", "sh"), "-c", execution["script"]])
        case "python":
            return command_line(["python3", "-c", execution["source"], *execution.get("args", ())])
        case "agent":
            return command_line(["agent", execution["agent"]["kind"], execution["prompt"]])
    return "(unknown)"


def shortened(text: str, width: int) -> str:
    """Cut a text that is too wide, and show that it was."""
    return text if len(text) <= width else text[: width - 1] + "…"


def short_id(name: str) -> str:
    """Cut an id to what tells it from others; commands take it so."""
    return name[:SHORT_ID]


def moment(timestamp: str) -> str:
    """Spell a time of the protocol for people: to the second, in UTC as it is."""
    return timestamp[:19].replace("T", " ")


def size(amount: int) -> str:
    """Spell bytes with the unit that leaves a small number."""
    value, units = float(amount), iter(_SIZES)
    unit = next(units)
    while value >= _STEP and unit != _SIZES[-1]:
        value, unit = value / _STEP, next(units)
    return f"{value:.1f} {unit}" if value < _TENTHS_BELOW and unit != "B" else f"{value:.0f} {unit}"


def duration(milliseconds: int) -> str:
    """Spell a duration: `340 ms`, `2.5 s`, `12 min`, `26 h`."""
    for unit, factor in (("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if milliseconds >= factor:
            value = milliseconds / factor
            return f"{value:.1f} {unit}".replace(".0 ", " ")
    return f"{milliseconds} ms"
