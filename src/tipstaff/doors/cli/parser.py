"""The argparse parser of one command, as the frame wants it.

Adds `--json` to what the command configures, and `--plane` where the module is `REMOTE`; shows the `Example:` section
of the module's docstring below the help, and raises `UsageError` where argparse would print a usage block and exit.
Options cannot be abbreviated: a script that uses a prefix would break when a new option shares it.
"""

import argparse
import os
from types import ModuleType
from typing import NoReturn

from tipstaff.doors.cli.failure import mistake
from tipstaff.doors.cli.output import say
from tipstaff.doors.cli.planes import add_plane

DEFAULT_COLUMNS = 80
MARGIN = 2


class CommandParser(argparse.ArgumentParser):
    """An argparse parser that raises our error and prints through our output."""

    color = False  # since Python 3.14 argparse colours its help; ours is plain everywhere

    def error(self, message: str) -> NoReturn:
        """Raise instead of exiting, so that one place decides how a mistake is told."""
        raise mistake(self.prog, message)

    def print_help(self, file: object = None) -> None:
        """Print the help, or fail: argparse itself would swallow the error of a full disk."""
        del file  # only ever None: argparse passes no other
        say(self.format_help().rstrip(), newlines=True)


class HelpText(argparse.RawDescriptionHelpFormatter):
    """The help as it is laid out; argparse makes one for each argument, and would import `shutil` to find the width."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - MARGIN)


def _columns() -> int:
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(1).columns or DEFAULT_COLUMNS
    except OSError:
        return DEFAULT_COLUMNS


def parser_of(module: ModuleType, path: str, line: str) -> CommandParser:
    """Make the parser of the command in `module`, which is called as `path` and described by `line`."""
    parser = CommandParser(
        prog=path,
        description=line,
        epilog=example(module.__doc__ or ""),
        formatter_class=HelpText,
        allow_abbrev=False,
    )
    module.configure(parser)
    add_plane(parser, remote=getattr(module, "REMOTE", False))
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    return parser


def example(docstring: str) -> str | None:
    """Cut the `Example:` section out of a docstring: its heading and the indented lines below it."""
    lines = iter(docstring.splitlines())
    for line in lines:
        if line.strip().lower() in {"example:", "examples:"}:
            section = [line.strip().lower()]
            break
    else:
        return None
    for line in lines:
        if line and not line.startswith(" "):
            break
        section.append(line)
    return "\n".join(section).rstrip()
