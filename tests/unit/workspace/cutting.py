"""Applies and reverts that die at every point: a program, which forks a child for each, so that the tests need not.

`python -m tests.unit.workspace.cutting apply|revert ROOM` makes the rooms `ROOM/1`, `ROOM/2` … in each of which a child
was killed when it looked up a name for the first, second … time, until one lives to the end; it prints their number.
"""

import os
import signal
import sys
from pathlib import Path

from tests.unit.workspace.bringing import BECOMES, RUN, WAS, bring, fill, ran
from tipstaff.workspace.apply.choosing import plan_apply
from tipstaff.workspace.apply.undo import held
from tipstaff.workspace.beneath import Beneath

MOST = 500


class Mortal(Beneath):
    """A folder whose user dies, as if the machine lost power, at its n-th name."""

    left = 0

    def place(self, name: bytes, *, make: bool = False) -> tuple[int, bytes]:
        """Look up a name, or die."""
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().place(name, make=make)


def act(room: Path, which: str, number: int) -> None:
    """Bring, or revert, and die at the n-th name."""
    run, folder = ran(WAS, BECOMES), room / "target"
    with Mortal(folder) as target, held(room / "applied", RUN, str(folder)) as record:
        if which == "revert":
            target.left = number
            record.revert(target)
        else:
            plan = plan_apply(run.changes, target)
            target.left = number
            record.bring(target, plan.steps, run.contents)


def lives(room: Path, which: str, number: int) -> bool:
    """Say whether a child lives to the end."""
    room.mkdir()
    fill(room / "target", WAS)
    if which == "revert":
        bring(ran(WAS, BECOMES), room / "target", room)
    child = os.fork()
    if child == 0:
        act(room, which, number)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code not in {0, -signal.SIGKILL}:
        raise SystemExit(f"the child failed: {code}")
    return code == 0


def main(which: str, place: str) -> None:
    """Die at every point, one after another."""
    for number in range(1, MOST):
        if lives(Path(place) / str(number), which, number):
            break
    sys.stdout.write(f"{number}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
