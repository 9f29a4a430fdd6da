"""`tipstaff run`: run a command by policy, in a sandbox, with a signed receipt.

What the command prints and its exit code pass through; our own words go to stderr. A refusal by policy exits 126. With
--json one object on stdout says everything instead.

Example:
  tipstaff run -- echo hello
  tipstaff run --workspace . --timeout 2m -- make test
  tipstaff run --agent mock "add a note"
  tipstaff run --shell 'grep -r TODO . | wc -l' --workspace . --bundle receipt.json
"""

import gc
import os

from tipstaff.isolation import early, places

TYPE_CHECKING = False  # as in tipstaff/__init__.py: type checkers take it as true
if TYPE_CHECKING:
    import argparse
    from _socket import socket

REMOTE = True  # it works with a plane elsewhere too
_STANDARD_STREAMS = 3
_COLLECTED_AFTER = 50_000  # objects
_spawners: "list[tuple[socket, int]]" = []  # the one that `begin` forked, until `run` takes it


def begin(argv: list[str]) -> None:
    """Do what must come first: keep the places of closed streams, and have the sandbox built while Python still loads.

    Whatever is opened later, a database say, would take the number of a stream that was closed, and be written to.
    """
    for descriptor in range(_STANDARD_STREAMS):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest that is free: this one
    gc.disable()  # until everything is imported, which makes a lot and throws little away
    if _is_elsewhere(argv):  # that needs no sandbox here, but some of what `lean` leaves out
        return
    if argv[:1] not in (["--help"], ["-h"]):
        _spawners.append(early.fork(places.state_folder(os.environ), places.scratch_folder()))
    from tipstaff.doors.cli.run.lean import import_lean  # noqa: PLC0415 - after the fork: the spawner needs none of it

    import_lean()


def _is_elsewhere(argv: list[str]) -> bool:
    """Say whether a plane elsewhere may be meant, before anything is parsed."""
    own = argv[: argv.index("--")] if "--" in argv else argv
    named = any(word == "--plane" or word.startswith("--plane=") for word in own)
    return named or bool(os.environ.get("TIPSTAFF_PLANE"))


def configure(parser: "argparse.ArgumentParser") -> None:
    """Declare the arguments."""
    from tipstaff.doors.cli.run import options  # noqa: PLC0415 - `begin` comes before whatever takes time

    options.configure(parser)


def run(args: "argparse.Namespace") -> int:
    """Run it and tell."""
    gc.freeze()  # what was imported stays to the end: no collection need look at it
    gc.set_threshold(_COLLECTED_AFTER)  # a short run makes less than that, and a long one does not grow
    gc.enable()
    from tipstaff.doors.cli.planes import chosen  # noqa: PLC0415 - as above

    if chosen(args):
        from tipstaff.doors.cli.run.elsewhere import carry_out_elsewhere  # noqa: PLC0415 - as above

        return carry_out_elsewhere(args)
    from tipstaff.doors.cli.run.carrying import carry_out  # noqa: PLC0415 - as above

    return carry_out(args, _spawners.pop() if _spawners else None)
