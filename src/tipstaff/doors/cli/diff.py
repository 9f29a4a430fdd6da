"""`tipstaff diff`: print what a run changed in its workspace, before anybody brings it back with `tipstaff apply`.

The proof of the run is checked first. Whatever is not in the diff is named behind it, on stderr: what was withheld or
lost a secret, what is large, rights that git has no word for, what was edited here meanwhile, what the repository
ignores. On a terminal, characters that move, hide or reverse text are shown as escapes; into a pipe the diff goes as it
is, so that git can read it. Exit code 66: what the run changed is not known, or not kept.

Example:
  tipstaff diff last
  tipstaff diff run_1a2b3c4d src --stat
"""

import argparse
import os
import sys
from collections.abc import Container, Iterator, Sequence
from typing import Any, Final

from tipstaff.doors.cli.bringing import (
    UnprovenError,
    called,
    change_of,
    contents_of,
    edited_of,
    hazard_json,
    hazards_of,
    refuse_unknown,
    refused,
    wished,
)
from tipstaff.doors.cli.desk import add_run
from tipstaff.doors.cli.diffstat import PAINTS, PLAIN, names_in, rights, stat_lines
from tipstaff.doors.cli.log import write
from tipstaff.doors.cli.output import complain, emit_json, printable
from tipstaff.doors.cli.wording import size
from tipstaff.errors import NotFoundError
from tipstaff.model.changes import Change, to_event
from tipstaff.plane.changes import Kept
from tipstaff.workspace.apply.choosing import EDITED, why_not, within
from tipstaff.workspace.apply.sections import Section, split

Json = dict[str, Any]
HEADS: Final = ("diff --git ", "--- ", "+++ ", "index ", "new file", "deleted file", "old mode", "new mode", "rename ")
HEAD: Final = "\x1b[1m"
HUNK: Final = "\x1b[36m"

REMOTE: Final = True  # it works with a plane elsewhere too
MIXED: Final = True  # paths may stand behind options


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_run(parser)
    parser.add_argument(
        "paths", nargs="*", default=[], metavar="PATH", help="only these files, or files in these folders"
    )
    parser.add_argument("--stat", action="store_true", help="how many lines came and went, instead of the diff")
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="colours (default: auto)")
    parser.add_argument("--ignored", action="store_true", help="also list what the repository ignores")
    parser.add_argument("--raw", action="store_true", help="the bytes as they are, also on a terminal")


def run(args: argparse.Namespace) -> int:
    """Print it."""
    try:
        name, kept = change_of(args)
    except UnprovenError as error:
        return refused(args, error, error.problems, problems=error.problems)
    wishes = wished(args.paths)
    changes = [change for change in kept.changes if not wishes or within(change.name, wishes)]
    sections = [one for one in split(kept.diff or b"") if not wishes or _is_about(one, wishes)]
    missing = _missing(name, kept, changes, sections)
    if args.json:
        refuse_unknown(kept.changes, wishes)
        emit_json({**_as_json(name, kept, changes, sections), "notKept": missing.message if missing else None})
        return missing.exit_code if missing else 0
    if missing:
        raise missing
    refuse_unknown(kept.changes, wishes)
    _print(args, changes, sections)
    told = list(left_out(kept, changes, names_in(sections), ignored=args.ignored))
    for line in told if changes or told else [f"{name} changed nothing"]:
        complain(f"tipstaff: {line}")
    return 0


def left_out(kept: Kept, changes: Sequence[Change], shown: Container[bytes], *, ignored: bool) -> Iterator[str]:
    """Say what the diff does not, and why."""
    large, edited = set(kept.named("large")), edited_of(kept)
    for change in changes:
        name, why = called(change.name), why_not(change, ignored=True)
        if why:
            yield f"not brought: {name}: {why}"
        elif change.ignored and ignored:
            yield f"ignored: {change.status} {name}"
        if why or change.ignored:
            continue
        if change.name not in shown and change.status != "mode":
            because = f", because it is large ({_amount(change)})" if change.name in large else ""
            yield f"{change.status}, but not shown{because}: {name}"
        if rights(change):
            yield f"rights: {name}: {rights(change)}"
        if change.name in edited:
            yield f"apply will refuse: {name}: {EDITED}, so what the run began with is not known"
    yield from _as_a_whole(kept.summary, ignored=ignored)


def _as_a_whole(summary: Json, *, ignored: bool) -> Iterator[str]:
    if summary.get("diffProblem"):
        yield f"the diff is not whole: {summary['diffProblem']}"
    if summary.get("ignoredProblem"):
        yield f"nothing counts as ignored by the repository: {summary['ignoredProblem']}"
    count = summary.get("ignored") or {}
    if count.get("files") and not count.get("kept", True):
        yield f"{_files(count['files'])} that the repository ignores ({size(count.get('bytes', 0))}) are not kept"
    elif count.get("files") and not ignored:
        yield f"{_files(count['files'])} that the repository ignores ({size(count.get('bytes', 0))}): see --ignored"
    if (summary.get("git") or {}).get("files"):
        yield f"{_files(summary['git']['files'])} of git's own bookkeeping in .git: never brought"


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


def _amount(change: Change) -> str:
    side = change.after or change.base
    return size(side.size) if side else ""


def _is_about(section: Section, wishes: Sequence[bytes]) -> bool:
    return within(section.name, wishes) or within(section.origin, wishes)


def _missing(name: str, kept: Kept, changes: Sequence[Change], sections: Sequence[Section]) -> NotFoundError | None:
    """Say why there is no diff of changes that should have one."""
    if kept.problem:
        return NotFoundError(f"{name}: {kept.problem}", hint=f"see: tipstaff show {name}")
    if kept.diff is None:
        return NotFoundError(f"what {name} changed is not kept any more", hint="its receipt still has the digests")
    large = set(kept.named("large"))
    wanting = [one for one in changes if not (one.ignored or one.withheld or one.name in large)]
    if wanting and not sections and not kept.summary.get("diffProblem") and not any(one.kept for one in wanting):
        return NotFoundError(
            f"{name} changed {_files(len(wanting))}, whose content is not kept:"
            f" its disclosure was {kept.contract.get('disclosure')}",
            hint=f"their names and digests: tipstaff diff {name} --json",
        )
    return None


def _print(args: argparse.Namespace, changes: Sequence[Change], sections: Sequence[Section]) -> None:
    colour = _wants_colour(args.color)
    if args.stat and changes:
        _write("".join(f"{line}\n" for line in stat_lines(changes, sections, colour=colour)).encode())
    elif not args.stat:
        _write(_shown(sections, colour=colour, raw=args.raw))


def _wants_colour(wish: str) -> bool:
    if wish == "auto":
        return _is_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return wish == "always"


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _shown(sections: Sequence[Section], *, colour: bool, raw: bool) -> bytes:
    """Give the diff as bytes: as it is for a pipe, escaped for a terminal or where colours are mixed in."""
    whole = b"".join(section.text for section in sections)
    if (raw or not _is_terminal()) and not colour:
        return whole
    lines = whole.decode("utf-8", "backslashreplace").split("\n")
    return "\n".join(_line(line, colour=colour) for line in lines).encode()


def _line(line: str, *, colour: bool) -> str:
    safe = "\t".join(printable(part) for part in line.split("\t"))
    if not colour or not line:
        return safe
    paint = HEAD if line.startswith(HEADS) else HUNK if line.startswith("@@") else PAINTS.get(line[0], "")
    return f"{paint}{safe}{PLAIN}" if paint else safe


def _write(data: bytes) -> None:
    write(data, "stdout", raw=True)


def _as_json(name: str, kept: Kept, changes: Sequence[Change], sections: Sequence[Section]) -> Json:
    sizes = {one.name: {"added": one.added, "deleted": one.deleted, "binary": one.binary} for one in sections}
    return {
        "runId": name,
        "changes": [
            {**to_event(change), **({"lines": sizes[change.name]} if change.name in sizes else {})}
            for change in changes
        ],
        "summary": kept.summary,
        "linesAdded": sum(one.added for one in sections),
        "linesDeleted": sum(one.deleted for one in sections),
        "hazards": [hazard_json(hazard) for hazard in hazards_of(kept, changes, contents_of(kept))],
    }
