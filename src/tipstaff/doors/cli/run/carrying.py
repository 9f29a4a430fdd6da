"""One run, carried out for whoever sits at the command line: its streams, its signals, its proof, its exit code.

Ctrl-C, a hang-up and a polite kill stop the whole tree and still leave a receipt; a second one changes nothing. So
does a reader of our output that left (141) or an output that cannot be written (74).
"""

import argparse
import asyncio
import errno
import functools
import os
import signal
import sys
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final

from tipstaff.doors.asking import Asked, request_of
from tipstaff.doors.cli.output import printable
from tipstaff.doors.cli.run import options, report
from tipstaff.doors.cli.run.proof import ProofFile
from tipstaff.doors.cli.run.streams import Inlet, Outlet, inlet
from tipstaff.doors.folders import Surroundings
from tipstaff.doors.person import user_name
from tipstaff.errors import UsageError
from tipstaff.home import locate
from tipstaff.local.embedded import Consent, Local, open_local
from tipstaff.local.policies import choose_policy
from tipstaff.model.outcome import Outcome
from tipstaff.session import Outside

if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable
    from types import FrameType

    from tipstaff.plane import Waiting

Spawner = tuple["socket", int]
BROKEN_PIPE: Final = 141
GRACE_SECONDS: Final = 1.0  # after a stop, for a reader to take what was printed


def carry_out(args: argparse.Namespace, spawner: "Spawner | None" = None) -> int:
    """Run what `args` ask for, in a sandbox by `spawner`, and tell how it ended."""
    if sys.stdout is None:
        raise OSError("stdout is closed")
    home = locate(os.environ)
    asked = options.asked_for(args)
    if asked.pool is not None:
        raise UsageError("--pool: there are pools of runners only at a plane elsewhere", hint="name one with --plane")
    request = request_of(asked, Surroundings.of(home.root, os.environ), user_name())
    policy = choose_policy(home, args.policy, os.environ)
    if args.dry_run:
        from tipstaff.doors.cli.run.trying import try_here  # noqa: PLC0415 - most runs are meant

        return try_here(args, asked, request, policy, open_local(home, policy, spawner=spawner))
    with ProofFile(args.bundle) as proof:
        errand = Errand(args, asked, open_local(home, policy, spawner=spawner), proof)
        errand.heed(signal.SIGINT)  # before asyncio does, whose own way costs more than the rest of the run's signals
        outcome = asyncio.run(errand.run(request))
        if args.json:
            report.emit(outcome)
        else:
            report.tell(outcome, quiet=args.quiet or errand.is_stuck)
    return errand.exit_code(outcome)


class Errand:
    """One run and what goes wrong with our own streams meanwhile."""

    def __init__(
        self, args: argparse.Namespace, asked: Asked, opening: AbstractAsyncContextManager[Local], proof: ProofFile
    ) -> None:
        self._args = args
        self._wish = asked
        self._opening = opening
        self._proof = proof
        self._fault: OSError | None = None
        self._stop: Callable[[], object] | None = None
        self._notices: set[asyncio.Future[None]] = set()
        self.is_stuck = False  # nobody takes what goes to stderr: our own lines would wait there too

    def heed(self, *signals: signal.Signals) -> None:
        """Take a signal as a wish to stop, unless we were started to ignore it, as by `nohup`."""
        for number in signals:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._signalled)

    def _signalled(self, number: int, frame: "FrameType | None") -> None:
        if self._stop is None:
            signal.default_int_handler(number, frame)  # there is nothing yet that could be stopped
        else:
            self._stop()

    def _end_heeding(self) -> None:
        """Ignore what comes now: the run has ended, the loop that could be told closes, and its end is yet to be told.

        Ignored, not handled by nothing: handlers fall back to the default, which kills, while the interpreter ends.
        """
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    async def run(self, request: dict[str, Any]) -> Outcome:
        """Carry it out and write the proof."""
        cancel = asyncio.Event()
        outlets = self._outlets(cancel)
        wants_input = self._args.python != "-" and self._wish.agent is None and not self._args.no_stdin
        stdin = inlet() if wants_input else None
        stdout, stderr = outlets or (None, None)
        seconds = options.approval_seconds(self._args)
        outside = Outside(
            stdin=stdin, cancel=cancel, stdout=stdout, stderr=stderr, asked=self._asked, answer_seconds=seconds
        )

        async def asked(local: Local, waiting: "Waiting") -> None:
            from tipstaff.doors.cli.run.people import People  # noqa: PLC0415 - most runs ask nobody

            await People(self._terminal(stdin), cancel, self._args)(local, waiting)

        watch = asyncio.ensure_future(_give_up(cancel, outlets))
        async with self._opening as local:
            self._capture(local, request)
            self._stop = functools.partial(asyncio.get_running_loop().call_soon_threadsafe, cancel.set)
            self.heed(signal.SIGTERM, signal.SIGHUP)
            try:
                outcome = await local.run(
                    request,
                    outside=outside,
                    consent=Consent(asked=asked, timeout_seconds=seconds),
                    keep_output=self._args.json,
                )
            finally:
                watch.cancel()
            for outlet in outlets:
                await outlet.finish()
            self.is_stuck = any(outlet.is_stuck for outlet in outlets[1:])
            self._proof.write(outcome, local.plane)
        self._end_heeding()
        return outcome

    def _capture(self, local: Local, request: dict[str, Any]) -> None:
        """Capture the workspace, if it is to be: before anything can be decided about it, and nothing else goes on."""
        if not request["files"].get("captured"):
            return
        from tipstaff.doors.capturing import captured  # noqa: PLC0415 - most runs capture nothing

        notices = captured(local, self._wish, request)
        if not self._args.quiet:
            for notice in notices:
                report.mention(f"tipstaff: {notice}")

    def _outlets(self, cancel: asyncio.Event) -> tuple[Outlet, Outlet] | tuple[()]:
        """Open our streams for the command's; with --json its output is told at the end instead."""

        def failed(error: OSError) -> None:
            self._fault = self._fault or error
            cancel.set()

        if self._args.json:
            return ()
        return Outlet(1, failed, raw=self._args.raw), Outlet(2, failed, raw=self._args.raw)

    def _asked(self, run_id: str, place: str) -> None:
        """Say what the run waits for, through a stream of our own: the loop does not wait for whoever reads it."""
        if not self._args.quiet:
            line = f"tipstaff: {run_id} wants to reach {place}; tipstaff approve {run_id}, or: tipstaff deny {run_id}"
            notice = asyncio.ensure_future(Outlet(2, lambda _: None)(f"{printable(line)}\n".encode()))
            self._notices.add(notice)
            notice.add_done_callback(self._notices.discard)

    def _terminal(self, stdin: Inlet | None) -> Inlet | None:
        """Give the terminal that questions can be asked on."""
        return stdin if os.isatty(0) and os.isatty(2) else None

    def exit_code(self, outcome: Outcome) -> int:
        """Give the command's exit code, unless what it printed had nowhere to go."""
        if self._fault is None:
            return outcome.exit_code
        if self._fault.errno == errno.EPIPE:
            return BROKEN_PIPE
        raise OSError(f"the command's output cannot be written: {self._fault.strerror}")


async def _give_up(cancel: asyncio.Event, outlets: tuple[Outlet, ...]) -> None:
    """Stop waiting for a reader who takes nothing, once the run is being stopped."""
    await cancel.wait()
    await asyncio.sleep(GRACE_SECONDS)
    for outlet in outlets:
        outlet.abandon()
