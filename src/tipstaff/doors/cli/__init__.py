"""The command line: `tipstaff COMMAND …`.

`main` is the console script. It finds the command, runs it, and turns whatever happens into an exit code and at most
one sentence: no traceback reaches a user. Each command is a module of its own, imported only when it is the one asked
for, and this package imports nothing heavy, because every start of the program pays for it.
"""

import sys

from tipstaff.doors.cli.commands import COMMANDS, Commands
from tipstaff.doors.cli.dispatch import dispatch
from tipstaff.doors.cli.failure import leave, report
from tipstaff.doors.cli.output import flush

__all__ = ["main"]


def main(argv: list[str] | None = None, commands: Commands = COMMANDS) -> int:
    """Run one command line (without the program's name) and return the exit code."""
    if argv is None:
        leave(main(sys.argv[1:], commands))
    try:
        code = dispatch(argv, commands)
        flush()
    except BaseException as error:  # noqa: BLE001 - the outermost edge: each ending becomes an exit code
        return report(error, argv)
    return code
