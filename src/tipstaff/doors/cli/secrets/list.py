"""`tipstaff secrets list`: the secrets of this home, where each comes from, and when it changed. Never a value.

Reads no value unless asked: with --check each is read as for a run, programs are run, and what is wrong is said; the
exit code is then 1 when something is.

Example:
  tipstaff secrets list --check
"""

import argparse
import os
from typing import Any

from tipstaff.doors.cli.output import emit_json, say
from tipstaff.doors.cli.wording import moment
from tipstaff.home import locate
from tipstaff.secrets.guard import no_dumps
from tipstaff.secrets.sources import Known, Sources

Json = dict[str, Any]
TITLES = ("name", "source", "changed", "rotated")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--check", action="store_true", help="read each as for a run, and say whether it can be had")


def run(args: argparse.Namespace) -> int:
    """List them."""
    sources = Sources(locate(os.environ).root, os.environ)
    known = [_row(one) for one in sources.names()]
    if args.check:
        no_dumps()
        known = [row | {"fault": sources.fault(row["name"])} for row in known]
    if args.json:
        emit_json({"secrets": known})
    elif known:
        _show(known)
    else:
        say("no secrets yet; keep one with: tipstaff secrets set NAME")
    return int(any(row.get("fault") for row in known))


def _row(known: Known) -> Json:
    return {
        "name": known.name,
        "source": known.source,
        "changedAt": known.changed_at,
        "rotatedAt": known.rotated_at,
    }


def _show(known: list[Json]) -> None:
    """Print one line for each, aligned; what is wrong comes last, whole."""
    rows = [TITLES, *map(_cells, known)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(TITLES))]
    verdicts = ["check" if "fault" in known[0] else "", *(_verdict(row) for row in known)]
    for row, verdict in zip(rows, verdicts, strict=True):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        say("  ".join([*cells, verdict]).rstrip())


def _cells(row: Json) -> tuple[str, ...]:
    return row["name"], row["source"], moment(row["changedAt"] or "-"), moment(row["rotatedAt"] or "-")


def _verdict(row: Json) -> str:
    return (row["fault"] or "ok") if "fault" in row else ""
