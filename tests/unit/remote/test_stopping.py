"""A wish to stop is passed on until it is heard, and whoever wished it learns whether it was."""

import pytest

from tipstaff.errors import NotFoundError, PlaneError
from tipstaff.remote.answers import BusyPlaneError, UnreachableError
from tipstaff.remote.stopping import Stopping

URL = "http://127.0.0.1:1"


def told(*answers, seconds=60.0):
    """Tell a plane that answers so, one after another, and for ever as at last."""
    asked: list[object] = []
    slept: list[float] = []

    def ask():
        answer = answers[min(len(asked), len(answers) - 1)]
        asked.append(answer)
        if isinstance(answer, Exception):
            raise answer
        return answer

    stopping = Stopping(ask, seconds, slept.append)
    stopping.tell()
    return stopping, len(asked), slept


@pytest.mark.parametrize(
    "fault",
    [
        UnreachableError(URL, "the connection broke off", heard=True),
        BusyPlaneError(URL, "", "1", 429),
        PlaneError("failed", status=502),
        PlaneError("failed", status=500),
    ],
)
def test_what_passes_is_tried_again(fault):
    """A plane that is away, busy or failing for a moment is told again, with a pause between."""
    stopping, count, slept = told(fault, fault, {"status": "running"})

    assert (stopping.is_heard, count) == (True, 3)
    assert all(pause > 0 for pause in slept)


def test_a_run_that_has_ended_needs_no_stop():
    """That there is nothing left to stop is as good as a yes: an earlier try may have been heard."""
    stopping, count, _ = told(UnreachableError(URL, "away"), PlaneError("it has ended", status=409))

    assert (stopping.is_heard, count) == (True, 2)


@pytest.mark.parametrize("fault", [PlaneError("no", status=403), NotFoundError("there is no such run")])
def test_a_no_is_final(fault):
    """What asking again cannot mend is not asked again, and says why."""
    stopping, count, _ = told(fault)

    assert (stopping.is_heard, count, stopping.why) == (False, 1, fault.message)


def test_it_ends_with_its_time():
    """A plane that stays away is given up when the time is over."""
    stopping, count, _ = told(UnreachableError(URL, "the connection broke off"), seconds=-1.0)

    assert (stopping.is_heard, count) == (False, 1)
    assert "the connection broke off" in stopping.why
