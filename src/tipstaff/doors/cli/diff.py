"""`tipstaff diff`: print what a run changed in its workspace, before anybody brings it back with `tipstaff apply`.

What is not in the diff is named behind it, on stderr: what was withheld or lost a secret, what is too large, what the
repository ignores. On a terminal, characters that move, hide or reverse text are shown as escapes; into a pipe the diff
goes as it is, so that git can read it.

Example:
  tipstaff diff last
  tipstaff diff run_1a2b3c4d src --stat
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

from tipstaff.doors.cli.bringing import contents_of, hazard_json, hazards_of, refuse_unknown, wished
from tipstaff.doors.cli.desk import add_run, find, is_refused_request, opened
from tipstaff.doors.cli.log import write
from tipstaff.doors.cli.output import complain, emit_json, printable
from tipstaff.doors.cli.wording import size
from tipstaff.errors import NotFoundError
from tipstaff.model import names
from tipstaff.model.changes import Change, to_event
from tipstaff.plane.changes import Kept
from tipstaff.workspace.apply import why_not, within
from tipstaff.workspace.sections import Section, split

Json = dict[str, Any]
COLOURS: Final = {"head": "\x1b[1m", "hunk": "\x1b[36m", "+": "\x1b[32m", "-": "\x1b[31m"}
PLAIN: Final = "\x1b[m"
HEADS: Final = ("diff --git ", "--- ", "+++ ", "index ", "new file", "deleted file", "old mode", "new mode", "rename ")
GRAPH: Final = 40  # the most marks behind a name


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_run(parser)
    parser.add_argument("paths", nargs="*", metavar="PATH", help="only these files, or files in these folders")
    parser.add_argument("--stat", action="store_true", help="how many lines came and went, instead of the diff")
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="colours (default: auto)")
    parser.add_argument("--ignored", action="store_true", help="also list what the repository ignores")
    parser.add_argument("--raw", action="store_true", help="the bytes as they are, also on a terminal")


def run(args: argparse.Namespace) -> int:
    """Print it."""
    with opened() as plane:
        name = find(plane, args.run)
        if is_refused_request(name):
            raise NotFoundError(f"{name} was refused: nothing ran", hint=f"see: tipstaff why {name}")
        kept = plane.changes(name)
    wishes = wished(args.paths)
    changes = [change for change in kept.changes if not wishes or within(change.name, wishes)]
    refuse_unknown(kept.changes, wishes)
    sections = [one for one in split(kept.diff or b"") if not wishes or _is_about(one, wishes)]
    if args.json:
        emit_json(_as_json(name, kept, changes, sections))
        return 0
    if not changes:
        complain(f"tipstaff: {kept.summary.get('problem') or f'{name} changed nothing'}")
        return 0
    _refuse_unkept(name, kept, changes, sections)
    colour = _wants_colour(args.color)
    if args.stat:
        _write("".join(f"{line}\n" for line in stat_lines(sections, colour=colour)).encode())
    else:
        _write(_shown(sections, colour=colour, raw=args.raw))
    for line in left_out(kept, changes, ignored=args.ignored):
        complain(f"tipstaff: {line}")
    return 0


def left_out(kept: Kept, changes: Sequence[Change], *, ignored: bool) -> Iterator[str]:
    """Say what is not in the diff, and why."""
    for change in changes:
        if why := why_not(change, ignored=True):
            yield f"not brought: {names.shown(change.name)}: {why}"
        elif change.ignored and ignored:
            yield f"ignored: {change.status} {names.shown(change.name)}"
    if kept.summary.get("diffProblem"):
        yield f"the diff is not whole: {kept.summary['diffProblem']}"
    for one in kept.summary.get("large", ()):
        yield f"not shown, because it is large: {one['path']}"
    count = kept.summary.get("ignored") or {}
    if count.get("files") and not ignored:
        yield f"{count['files']} files that the repository ignores ({size(count.get('bytes', 0))}): see --ignored"


def stat_lines(sections: Sequence[Section], *, colour: bool = False) -> Iterator[str]:
    """Write out the size of each change, as git does."""
    rows = [(_title(one), one) for one in sections]
    width = max((len(title) for title, _ in rows), default=0)
    most = max((one.added + one.deleted for one in sections), default=0)
    for title, one in rows:
        yield f" {title:<{width}} | {_graph(one, most, colour=colour)}".rstrip()
    added, deleted = sum(one.added for one in sections), sum(one.deleted for one in sections)
    yield f" {len(sections)} changed, +{added} -{deleted} lines"


def _title(section: Section) -> str:
    name, origin = (printable(names.shown(one)) for one in (section.name, section.origin))
    return name if name == origin else f"{origin} => {name}"


def _graph(section: Section, most: int, *, colour: bool) -> str:
    if section.binary:
        return "binary"
    added, deleted = (_scaled(count, most) for count in (section.added, section.deleted))
    marks = "".join(_painted(mark, mark * count, colour=colour) for mark, count in (("+", added), ("-", deleted)))
    return f"{section.added + section.deleted} {marks}{_modes(section)}"


def _painted(paint: str, text: str, *, colour: bool) -> str:
    return f"{COLOURS[paint]}{text}{PLAIN}" if colour and text and paint in COLOURS else text


def _scaled(count: int, most: int) -> int:
    return count if most <= GRAPH else -(-count * GRAPH // most)


def _modes(section: Section) -> str:
    said = dict(line.rsplit(b" ", 1) for line in section.text.split(b"\n", 4)[:4] if b" mode " in line)
    old, new = said.get(b"old mode"), said.get(b"new mode")
    return f" mode {old.decode()} => {new.decode()}" if old and new else ""


def _is_about(section: Section, wishes: Sequence[bytes]) -> bool:
    return within(section.name, wishes) or within(section.origin, wishes)


def _refuse_unkept(name: str, kept: Kept, changes: Sequence[Change], sections: Sequence[Section]) -> None:
    """Say why there is no diff of changes that should have one."""
    if kept.summary.get("problem"):
        raise NotFoundError(f"{name}: {kept.summary['problem']}; its content is not kept")
    if kept.diff is None:
        raise NotFoundError(f"what {name} changed is not kept any more", hint="its receipt still has the digests")
    expected = [change for change in changes if not change.ignored and not change.withheld]
    if expected and not sections and not any(change.kept for change in expected):
        disclosure = kept.contract.get("disclosure")
        raise NotFoundError(
            f"{name} changed {len(changes)} files, whose content is not kept: its disclosure was {disclosure}",
            hint=f"their names and digests: tipstaff diff {name} --json",
        )


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
    head = line.startswith(
        ("diff --git ", "--- ", "+++ ", "index ", "new file", "deleted file", "old mode", "new mode")
    )
    paint = COLOURS["head"] if head else COLOURS["hunk"] if line.startswith("@@") else COLOURS.get(line[0], "")
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
