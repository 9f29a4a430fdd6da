"""`tipstaff verify`: says whether evidence is whole, signed and consistent, and by a key that you trust.

Exit code 0: every file is valid. 1: one is invalid. 2: one could not be checked, for example because nobody told which
keys to trust. Needs no network and no server: the keys that count are those that this home knows, and those that it has
pinned of planes elsewhere; or, in place of all these, what `--key` names.

Example:
  tipstaff verify run.bundle.json --key plane.pem
  tipstaff verify --json *.bundle.json
"""

import argparse
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tipstaff.doors.cli.output import complain, emit_json, say
from tipstaff.errors import NotFoundError
from tipstaff.evidence import CHECKS, Report, verify
from tipstaff.evidence.verify import read_all
from tipstaff.home import Home, locate
from tipstaff.keys import KnownKeys, PublicKey
from tipstaff.keys.files import load_public
from tipstaff.keys.known import read_known_keys

EXIT_CODES = {"valid": 0, "invalid": 1, "unproven": 2}
LONG_BYTES = 32 * 1024 * 1024  # from here on a person wonders whether anything happens
Answer = tuple[str, Report | NotFoundError]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="a bundle, a refusal or a journal; - for stdin")
    parser.add_argument(
        "--key",
        action="append",
        default=[],
        metavar="PEM",
        help="a plane's public key that you trust; with it, no other counts (may be repeated)",
    )
    parser.add_argument("--artifacts", metavar="DIR", help="also check the artifacts in DIR, each named by its sha-256")


def run(args: argparse.Namespace) -> int:
    """Verify each file and tell."""
    pinned = [load_public(Path(path)) for path in args.key]
    known, planes = (KnownKeys(), {}) if pinned else _known(locate(os.environ))
    artifacts = _Artifacts(Path(args.artifacts)) if args.artifacts else None
    answers = [(name, _told_by(_answer(name, pinned, known, artifacts), planes)) for name in args.files]
    codes = {_exit_code(answer) for _, answer in answers}
    if args.json:
        emit_json({"ok": codes == {0}, "files": [_as_json(name, answer) for name, answer in answers]})
    else:
        for name, answer in answers:
            _tell(name, answer)
    return 1 if 1 in codes else max(codes)


def _known(home: Home) -> tuple[KnownKeys, Mapping[str, str]]:
    """Give the keys that this home trusts; also, by key id, the addresses of planes that it merely pinned."""
    from tipstaff.remote.pins import Pins  # noqa: PLC0415 - with --key nobody asks

    return Pins(home).known(read_known_keys(home.known_keys))


def _told_by(answer: Report | NotFoundError, planes: Mapping[str, str]) -> Report | NotFoundError:
    """Add on whose word the plane's key is trusted, where that is the plane's own at its first use."""
    if isinstance(answer, NotFoundError) or answer.plane_key not in planes:
        return answer
    note = f"the plane's key is the one that was pinned for {planes[answer.plane_key]}"
    return msgspec.structs.replace(answer, notes=(*answer.notes, note))


def _answer(
    name: str, pinned: list[PublicKey], known: KnownKeys, artifacts: Mapping[str, bytes] | None
) -> Report | NotFoundError:
    """Verify one file; one that cannot be opened is an answer too, since others may follow."""
    if name == "-":
        if sys.stdin is None:  # Python's spelling of a descriptor that was closed before the start
            return NotFoundError("stdin is closed")
        return verify(read_all(sys.stdin.buffer), pinned, known=known, artifacts=artifacts)
    path = Path(name)
    if sys.stderr is not None and sys.stderr.isatty() and path.is_file() and path.stat().st_size > LONG_BYTES:
        complain(f"tipstaff: checking {name}, {path.stat().st_size >> 20} MiB …")
    try:
        return verify(path, pinned, known=known, artifacts=artifacts)
    except NotFoundError as error:
        return error


class _Artifacts(Mapping[str, bytes]):
    """The files of a folder by name, each read when it is asked for: a folder may hold more than memory does."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise NotFoundError(f"there is no folder {folder}")
        self._paths = {path.name: path for path in folder.iterdir() if path.is_file()}

    def __getitem__(self, name: str) -> bytes:
        return self._paths[name].read_bytes()

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


def _exit_code(answer: Report | NotFoundError) -> int:
    return 2 if isinstance(answer, NotFoundError) else EXIT_CODES[answer.verdict]


def _as_json(name: str, answer: Report | NotFoundError) -> dict[str, Any]:
    if isinstance(answer, NotFoundError):
        return {"file": name, "verdict": "unproven", "kind": "unknown", "problems": [], "error": answer.message}
    problems = [
        {
            "number": problem.number,
            "check": CHECKS[problem.number],
            "place": problem.place,
            "message": problem.message,
            "certain": problem.certain,
        }
        for problem in answer.problems
    ]
    return {
        "file": name,
        "verdict": answer.verdict,
        "kind": answer.kind,
        "problems": problems,
        "runId": answer.run_id,
        "status": answer.status,
        "events": answer.events,
        "planeKey": answer.plane_key,
        "runnerKey": answer.runner_key,
        "notes": list(answer.notes),
    }


def _tell(name: str, answer: Report | NotFoundError) -> None:
    if isinstance(answer, NotFoundError):
        complain(f"tipstaff: {answer}")
        return
    say(f"{answer.verdict}: {name}: {_summary(answer)}")
    for problem in answer.problems:
        say(f"  {problem}")
    for note in answer.notes:
        say(f"  note: {note}")
    if answer.verdict == "unproven":
        say("  Nothing wrong was found, but not everything could be checked. If you trust the key, name it with --key,")
        say("  or once and for all: tipstaff keys trust FILE --role plane")


def _summary(answer: Report) -> str:
    if answer.kind != "bundle":
        return {"journal": "a journal", "refusal": "a refusal", "unknown": "not evidence that can be read"}[answer.kind]
    runner = f", runner {answer.runner_key}" if answer.runner_key else ""
    who = f"plane {answer.plane_key}{runner}" if answer.plane_key else "no usable key"
    return f"{answer.run_id or 'a run'} {answer.status or 'without a status'}, {answer.events} events; {who}"
