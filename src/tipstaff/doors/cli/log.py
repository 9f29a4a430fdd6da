"""`tipstaff log`: print the kept copy of what a run wrote to stdout and stderr.

A copy that was capped ends with a line that says so. Without --stdout or --stderr each goes to our own stream of that
name. Control sequences other than colours and movement are shown, not obeyed, when the output is a terminal. With -f a
run at a plane elsewhere is shown as it prints, to its end; of a run of this home the kept copy, once it has ended. What
a plane elsewhere has of a log counts only as far as the run's proof names it; what is not proved yet is said to be so.

Example:
  tipstaff log last
  tipstaff --plane https://plane.example.com log -f last
  tipstaff log run_1a2b3c4d --stdout --raw > output.bin
"""

import argparse
import base64
import sys
import time
from typing import Any, Final

from tipstaff.doors.cli.desk import Desk, add_run, find, is_refused_request, opened
from tipstaff.doors.cli.output import complain, emit_json
from tipstaff.doors.cli.planes import chosen
from tipstaff.doors.cli.run.harmless import Harmless
from tipstaff.errors import NotFoundError, UsageError

Json = dict[str, Any]
ENDED: Final = ("completed", "failed", "cancelled")
LOOK_SECONDS: Final = 0.2
STREAMS: Final = ("stdout", "stderr")

REMOTE: Final = True  # it works with a plane elsewhere too


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_run(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--stdout", action="store_const", const="stdout", dest="stream", help="only what went to stdout")
    which.add_argument("--stderr", action="store_const", const="stderr", dest="stream", help="only what went to stderr")
    parser.add_argument("--raw", action="store_true", help="the bytes as they are, also on a terminal")
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the run has ended")


def run(args: argparse.Namespace) -> int:
    """Print it."""
    with opened(args) as plane:
        name = find(plane, args.run)
        if is_refused_request(name):
            raise NotFoundError(f"{name} was refused: there is no output", hint=f"see: tipstaff why {name}")
        if args.follow and follow(args, plane, name):
            return 0
        kept = {stream: plane.output(name, stream) for stream in ([args.stream] if args.stream else STREAMS)}
        streams = (plane.run(name).get("receipt") or {}).get("streams", {}) if args.json else {}
    if args.json:
        emit_json({"runId": name, **{stream: _as_json(data, streams.get(stream, {})) for stream, data in kept.items()}})
        return 0
    for stream, data in kept.items():
        if data:
            write(data, "stdout" if args.stream else stream, raw=args.raw)
    return 0


def follow(args: argparse.Namespace, plane: Desk, name: str) -> bool:
    """Wait until a run has ended; says whether all of its output was shown meanwhile."""
    if args.json:
        raise UsageError("--json tells everything at once, --follow as it comes", hint="give one of them")
    if chosen(args):
        from tipstaff.doors.cli.following import show_live  # noqa: PLC0415 - only for a plane elsewhere

        show_live(args, plane, name)
        return True
    if plane.status(name) not in ENDED:
        complain(f"tipstaff: {name} prints where it was started; the kept copy follows when it has ended")
    while plane.status(name) not in ENDED:
        time.sleep(LOOK_SECONDS)
    return False


def write(data: bytes, name: str, *, raw: bool) -> None:
    """Write bytes to one of our streams, harmless on a terminal."""
    stream = getattr(sys, name)
    if stream is None:  # Python's spelling of a descriptor that was closed before the start
        raise OSError(f"{name} is closed")
    stream.flush()
    left = memoryview(Harmless().pass_on(data, last=True) if stream.isatty() and not raw else data)
    while left:  # with PYTHONUNBUFFERED a write may take less than it was given
        left = left[stream.buffer.write(left) :]
    stream.buffer.flush()


def _as_json(data: bytes, record: Json) -> Json:
    """Give text, and beside it base64 where the bytes are not UTF-8."""
    told = {
        "text": data.decode(errors="replace"),
        "truncated": record.get("truncated", False),
        "bytes": record.get("bytes"),
    }
    try:
        data.decode()
    except UnicodeDecodeError:
        return {**told, "base64": base64.b64encode(data).decode()}
    return told
