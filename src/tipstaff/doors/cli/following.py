"""What a run at a plane elsewhere prints, shown as it comes, for `tipstaff log -f`. Leaving does not stop the run."""

import argparse
import asyncio

from tipstaff.doors.cli.desk import Desk
from tipstaff.doors.cli.output import complain
from tipstaff.doors.cli.run.streams import Outlet
from tipstaff.remote.carrying import Ends, watch
from tipstaff.remote.plane import RemotePlane


def show_live(args: argparse.Namespace, plane: Desk, name: str) -> None:
    """Show a run to its end; a reader that left ends it as any other command."""
    assert isinstance(plane, RemotePlane)  # noqa: S101 - whoever names a plane has one
    asyncio.run(_shown(args, plane, name))


async def _shown(args: argparse.Namespace, plane: RemotePlane, name: str) -> None:
    faults: list[OSError] = []
    wanted = {args.stream: 1} if args.stream else {"stdout": 1, "stderr": 2}
    outlets = {stream: Outlet(number, faults.append, raw=args.raw) for stream, number in wanted.items()}
    watching = asyncio.ensure_future(
        watch(
            plane,
            name,
            Ends(
                stdout=outlets.get("stdout"),
                stderr=outlets.get("stderr"),
                told=lambda sentence: complain(f"tipstaff: {sentence}"),
            ),
        )
    )
    while not watching.done():
        await asyncio.wait({watching}, timeout=0.2)
        if faults:
            watching.cancel()
            raise faults[0]
    await watching
    for outlet in outlets.values():
        await outlet.finish()
