"""`tipstaff history`: list what ran, what is running, what waits and what was refused, newest first.

Times are UTC. The short ids are long enough for the other commands.

Example:
  tipstaff history
  tipstaff history --limit 100 --before run_1a2b3c4d
"""

import argparse
import shutil
from typing import Any, Final

from tipstaff.doors.cli.desk import find, opened
from tipstaff.doors.cli.output import emit_json, printable, say
from tipstaff.doors.cli.planes import legible
from tipstaff.doors.cli.wording import command_of, moment, short_id, shortened
from tipstaff.errors import UsageError

Json = dict[str, Any]
Row = tuple[str, str, str, str, str, str]
TITLES: Final[Row] = ("when (UTC)", "id", "who", "ended", "tier", "what")
MOST: Final = 10_000
WIDEST_WHO: Final = 24
NARROWEST_WHAT: Final = 30
STATES: Final = {
    "awaiting_approval": "waits for approval",
    "created": "waits for a runner",
    "claimed": "is starting",
    "provisioning": "is starting",
    "running": "is running",
}

REMOTE: Final = True  # it works with a plane elsewhere too


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="list at most N (20)")
    parser.add_argument("--before", metavar="RUN", help="go on behind this one, towards older ones")


def run(args: argparse.Namespace) -> int:
    """List them."""
    if not 1 <= args.limit <= MOST:
        raise UsageError(f"--limit is {args.limit}", hint=f"give a number from 1 to {MOST}")
    with opened(args) as plane:
        lines = plane.history(args.limit, find(plane, args.before) if args.before else None)
    if args.json:
        emit_json({"runs": lines})
    elif lines:
        with legible(args):
            rows = table([row_of(line) for line in lines], shutil.get_terminal_size().columns)
        for row in rows:
            say(row)
    else:
        say("nothing older has run" if args.before else "nothing has run yet; try: tipstaff run -- echo hello")
    return 0


def row_of(line: Json) -> Row:
    """Put one entry into cells."""
    return (
        moment(line["createdAt"]),
        short_id(line["id"]),
        shortened(printable(line["principal"]), WIDEST_WHO),
        ended(line),
        line.get("actualTier") or line.get("tier") or "",
        printable(command_of(line.get("execution"))),
    )


def ended(line: Json) -> str:
    """Say how an entry stands: its ending and exit code, or what it waits for."""
    ending: str | None = line.get("ending")
    if ending:
        return f"exited {line.get('exitCode')}" if ending == "exited" else ending
    if line["status"] in {"failed", "refused"}:
        return "refused"
    return STATES.get(line["status"]) or str(line["status"])


def table(rows: list[Row], columns: int) -> list[str]:
    """Align the cells; the last one takes what is left of the line."""
    rows = [TITLES, *rows]
    widths = [max(len(row[at]) for row in rows) for at in range(len(TITLES) - 1)]
    left = max(NARROWEST_WHAT, columns - sum(widths) - 2 * len(widths))
    return [
        "  ".join(
            [*(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=True)), shortened(row[-1], left)]
        )
        for row in rows
    ]
