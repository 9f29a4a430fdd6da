"""A command as a person must see it before saying yes: exact, unambiguous, and unable to play tricks.

Every argument is quoted as a shell reads it back. One with a character that moves, hides or reverses text is written
as `$'…'`, in which a backslash begins an escape and a real backslash is doubled: no two commands look the same.
"""

from collections.abc import Iterable
from typing import Any

from tipstaff.doors.cli.output import printable

PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_")


def quoted(argument: str) -> str:
    """Quote one argument."""
    if argument and PLAIN.issuperset(argument):
        return argument
    if printable(argument) == argument:
        return "'" + argument.replace("'", "'\"'\"'") + "'"
    doubled = argument.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{printable(doubled)}'"


def shown_name(name: str) -> str:
    """Quote the name of a file only where its end could not be seen, or where it holds what is not shown as it is."""
    return name if name == name.strip() and printable(name) == name else quoted(name)


def command_line(arguments: Iterable[str]) -> str:
    """Quote a whole command."""
    return " ".join(map(quoted, arguments))


def spelled(execution: dict[str, Any]) -> list[str]:
    """Write out what a contract would run, one line each; a script line by line, with nothing left out."""
    if execution["kind"] == "argv":
        return [command_line([execution["command"], *execution.get("args", ())])]
    if execution["kind"] == "agent":
        kind = command_line([execution["agent"]["kind"]])
        return [f"agent {kind}, asked:", *map(_line, execution["prompt"].split("\n"))]
    title = {"shell": f"{execution.get('shell', 'sh')} script", "python": "Python program"}.get(execution["kind"])
    text = execution.get("script") or execution.get("source") or ""
    behind = f" {command_line(execution['args'])}" if execution.get("args") else ""
    return [f"{title or execution['kind']}{behind}:", *map(_line, text.split("\n"))]


def _line(line: str) -> str:
    """Show one line of a script as it is behind `|`, or, where it holds something to escape, escaped behind `!`."""
    shown = printable(line)
    return f"| {line}" if shown == line else "! " + printable(line.replace("\\", "\\\\"))
