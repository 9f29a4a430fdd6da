"""`tipstaff run` at a plane elsewhere: what is asked for goes there, and what it prints comes back as it is printed.

Ctrl-C, a hang-up and a polite kill stop it there, and its receipt is waited for a little; a second Ctrl-C leaves at
once. So does a reader of our output that left (141) stop it. Our input does not go along: if there is some, that is
refused, because a command that silently got none would do something else than was meant.
"""

import argparse
import array
import asyncio
import errno
import fcntl
import os
import select
import signal
import stat
import sys
import termios
import time
from typing import TYPE_CHECKING, Final

from tipstaff.doors.asking import Asked
from tipstaff.doors.cli.planes import program, reached
from tipstaff.doors.cli.run import options, report
from tipstaff.doors.cli.run.proof import ProofFile
from tipstaff.doors.cli.run.streams import Outlet
from tipstaff.doors.cli.wording import size
from tipstaff.doors.elsewhere import Errand, errand_of
from tipstaff.doors.folders import Surroundings
from tipstaff.errors import UsageError
from tipstaff.home import Home, locate

if TYPE_CHECKING:
    from types import FrameType

    from tipstaff.model.outcome import Outcome
    from tipstaff.remote.plane import RemotePlane

BROKEN_PIPE: Final = 141
GRACE_SECONDS: Final = 1.0  # after a stop, for a reader to take what was printed
LOOK_SECONDS: Final = 0.5  # between two looks whether somebody reads our output
DRAWN_SECONDS: Final = 0.2  # between two pictures of how far it is


def carry_out_elsewhere(args: argparse.Namespace) -> int:
    """Run what `args` ask for at the plane that they name, and tell how it ended."""
    if sys.stdout is None:
        raise OSError("stdout is closed")
    if args.policy:
        raise UsageError("--policy: the plane has its own", hint="leave --policy out")
    home, asked = locate(os.environ), options.asked_for(args)
    errand = errand_of(asked, Surroundings.of(home.root, os.environ), os.environ)
    if not args.no_stdin:
        _refuse_input(args, asked)
    with reached(args) as plane, ProofFile(args.bundle) as proof:
        if args.dry_run:
            from tipstaff.doors.cli.run.trying import try_elsewhere  # noqa: PLC0415 - most runs are meant

            return try_elsewhere(args, plane, errand, home)
        return _Going(args, plane, proof).carry_out(errand, home)


def _refuse_input(args: argparse.Namespace, asked: Asked) -> None:
    """Refuse input that is there: a terminal, a closed or empty stdin, or one that says nothing yet is none."""
    if args.python == "-" or asked.agent is not None:
        return
    try:
        found = os.fstat(0)
        if stat.S_ISREG(found.st_mode):
            waiting = found.st_size - os.lseek(0, 0, os.SEEK_CUR)
        elif stat.S_ISFIFO(found.st_mode) or stat.S_ISSOCK(found.st_mode):
            counted = array.array("i", [0])
            fcntl.ioctl(0, termios.FIONREAD, counted)
            waiting = counted[0]
        else:
            return
    except OSError:
        return
    if waiting > 0:
        raise UsageError(
            "input is not carried to a plane elsewhere, and there is some",
            hint="put it into a file of the workspace, or say --no-stdin",
        )


class _Going:
    """One run elsewhere, and what goes wrong with our own streams meanwhile."""

    def __init__(self, args: argparse.Namespace, plane: "RemotePlane", proof: ProofFile) -> None:
        self._args = args
        self._plane = plane
        self._proof = proof
        self._fault: OSError | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._cancel: asyncio.Event | None = None
        self._is_stuck = False

    def carry_out(self, errand: Errand, home: Home) -> int:
        """Send the workspace, run, and tell."""
        self._plane.trusted()  # before anything of ours goes there
        if errand.folder is not None:
            self._send(errand, home)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._signalled)
        outcome = asyncio.run(self._run(errand))
        if errand.folder is not None and outcome.run_id is not None:
            from tipstaff.remote.noted import note_folder  # noqa: PLC0415 - only where there is one

            note_folder(home, outcome.run_id, str(errand.folder))
        self._proof.write(outcome, self._plane)
        if self._args.json:
            report.emit(outcome)
        else:
            report.tell(outcome, quiet=self._args.quiet or self._is_stuck, program=program(self._args))
        return self._exit_code(outcome)

    def _signalled(self, number: int, frame: "FrameType | None") -> None:
        """Take the first as a wish to stop; the second ends us, whatever becomes of the run."""
        if self._loop is None or self._cancel is None or self._cancel.is_set():
            signal.default_int_handler(number, frame)
        self._loop.call_soon_threadsafe(self._cancel.set)

    async def _run(self, errand: Errand) -> "Outcome":
        from tipstaff.remote.carrying import Ends, carry_out  # noqa: PLC0415 - only for runs that are meant

        cancel = self._cancel = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        outlets = () if self._args.json else tuple(self._outlet(number) for number in (1, 2))
        stdout, stderr = outlets or (None, None)
        ends = Ends(
            stdout=stdout,
            stderr=stderr,
            cancel=cancel,
            told=self._mention,
            approval_seconds=options.approval_seconds(self._args),
        )
        watch = asyncio.ensure_future(_give_up(cancel, outlets))
        leaving = asyncio.ensure_future(self._until_reader_left())
        try:
            outcome = await carry_out(self._plane, errand.request, ends, keep_output=self._args.json)
        finally:
            watch.cancel()
            leaving.cancel()
        for outlet in outlets:
            await outlet.finish()
        self._is_stuck = any(outlet.is_stuck for outlet in outlets[1:])
        return outcome

    async def _until_reader_left(self) -> None:
        """Look now and then whether somebody still reads our output: while nothing is written, nothing else tells."""
        if self._args.json or not stat.S_ISFIFO(os.fstat(1).st_mode):
            return
        looking = select.poll()
        looking.register(1, 0)
        while not any(found & select.POLLERR for _, found in looking.poll(0)):  # noqa: ASYNC110 - the kernel sets no event
            await asyncio.sleep(LOOK_SECONDS)
        self._fault = self._fault or BrokenPipeError(errno.EPIPE, "nobody reads it any more")
        if self._cancel is not None:
            self._cancel.set()

    def _outlet(self, descriptor: int) -> Outlet:
        def failed(error: OSError) -> None:
            self._fault = self._fault or error
            if self._cancel is not None:
                self._cancel.set()

        return Outlet(descriptor, failed, raw=self._args.raw)

    def _mention(self, sentence: str) -> None:
        if not self._args.quiet:
            report.mention(f"tipstaff: {sentence}")

    def _send(self, errand: Errand, home: Home) -> None:
        """Capture the workspace, and send what the plane does not have of it."""
        from tipstaff.remote import sending  # noqa: PLC0415 - most runs have no workspace

        with sending.opened(home) as sender:
            assert errand.folder is not None  # noqa: S101 - nobody sends without one
            parcel = sender.packed(errand.folder, errand.wish)
            for notice in parcel.notices:
                self._mention(notice)
            missing = sender.missing(self._plane.wire, parcel.items)
            drawing = Drawing() if os.isatty(2) and not (self._args.quiet or self._args.json) else None
            sender.send(self._plane.wire, missing, drawing)
            if drawing is not None:
                drawing.clear()
        errand.request["workspace"] = parcel.manifest

    def _exit_code(self, outcome: "Outcome") -> int:
        """Give the command's exit code, unless what it printed had nowhere to go."""
        if self._fault is None:
            return outcome.exit_code
        if self._fault.errno == errno.EPIPE:
            return BROKEN_PIPE
        raise OSError(f"the command's output cannot be written: {self._fault.strerror}")


class Drawing:
    """How far the sending is, on one line of a terminal that is written over."""

    def __init__(self) -> None:
        self._drawn_at = 0.0
        self._width = 0

    def __call__(self, sent: int, whole: int) -> None:
        """Draw it, not too often."""
        now = time.monotonic()
        if now - self._drawn_at >= DRAWN_SECONDS:
            self._drawn_at = now
            self._draw(f"tipstaff: sending the workspace: {size(sent)} of {size(whole)}")

    def clear(self) -> None:
        """Leave nothing of it."""
        if self._width:
            self._draw("")

    def _draw(self, text: str) -> None:
        blank, self._width = max(0, self._width - len(text)), len(text)
        sys.stderr.write(f"\r{text}{' ' * blank}" + ("" if text else "\r"))
        sys.stderr.flush()


async def _give_up(cancel: asyncio.Event, outlets: tuple[Outlet, ...]) -> None:
    """Stop waiting for a reader who takes nothing, once the run is being stopped."""
    await cancel.wait()
    await asyncio.sleep(GRACE_SECONDS)
    for outlet in outlets:
        outlet.abandon()
