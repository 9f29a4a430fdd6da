"""A session that is given up, whose contents cannot be brought, or that nobody can tell of, still has its account."""

import pytest

from tests.unit.plane.embedded import Embedded
from tests.unit.session.conftest import Line
from tests.unit.workspace.shelf import Shelf
from tipstaff.isolation.tier import Ended
from tipstaff.session import Host, Outside, Session
from tipstaff.session.failed import Failure, failed

pytestmark = pytest.mark.anyio


@pytest.fixture
def started(tmp_path, tier):
    """A session of a claimed run, and its line."""
    site = Embedded(tmp_path)
    site.submit()
    claim = site.claim()
    host = Host(tiers={"bwrap": tier}, blobs=Shelf(), environ={}, clock=site.clock, facts={})
    yield Session(host, claim["contract"], claim["events"], {}), Line(None), claim, site
    site.close()


async def test_a_run_that_is_given_up_has_failed(started):
    """What is stopped for no wish of anybody's ends as killed, with the reason; a cancellation stays one."""
    session, line, _, _ = started
    outside = Outside()
    outside.cancel.set()
    session.given_up("the lease could not be renewed")
    told = await session.carry_out(outside, line)

    assert told.events[-1]["event"] == {
        "type": "run.failed",
        "failure": "session_failed",
        "message": "the lease could not be renewed",
    }
    assert (told.ended.ending, told.ended.exit_code, told.receipt["status"]) == ("signalled", 137, "failed")


async def test_a_run_that_ended_by_itself_is_not_called_given_up(started):
    """Who gives up too late changes nothing."""
    session, line, _, _ = started
    session.given_up("too late")

    assert (await session.carry_out(Outside(), line)).receipt["status"] == "completed"


@pytest.mark.parametrize("problem", ["", "the plane is full"])
async def test_contents_are_brought_before_they_are_named(started, tier, problem):
    """What cannot be brought is named by no event, and the run has failed; what can is named as ever."""
    session, line, _, _ = started
    tier.prints = [("stdout", b"hello")]
    line.problem = problem
    told = await session.carry_out(Outside(), line)

    kinds = [link["event"]["type"] for link in told.events]
    assert ("artifact.created" in kinds) is not bool(problem)
    assert ("kept" in told.receipt["streams"]["stdout"]) is not bool(problem)
    assert len(line.delivered) == 1
    last = told.events[-1]["event"]
    assert last.get("failure", "") == ("transfer_failed" if problem else "")
    assert last.get("message", "") == ("the plane is full; it had exited 0" if problem else "")


async def test_a_run_that_had_failed_stays_as_it_ended(started, tier):
    """A timeout is told as one, also where its output could not be brought."""
    session, line, _, _ = started
    tier.ended = Ended(ending="timed-out", exit_code=124)
    line.problem = "the plane is full"
    told = await session.carry_out(Outside(), line)

    assert (told.ended.ending, told.events[-1]["event"]["failure"]) == ("timed-out", "budget_exceeded")
    assert told.receipt["workspaceOut"]["artifactHashes"] == []


@pytest.mark.parametrize(("begun", "ending", "code"), [(False, "setup-failed", 125), (True, "signalled", 137)])
async def test_a_run_that_nobody_tells_of_is_told_from_its_record(started, begun, ending, code):
    """The account follows the events that are on record, and says whether the command may have begun."""
    session, line, claim, site = started
    events = list(claim["events"])
    if begun:
        await session.carry_out(Outside(), line)
        events += line.released
    told = failed(claim["contract"], events, Failure("session_failed", "restarted"), site.clock, {"kernel": "x"})

    assert (told.receipt["ending"], told.receipt["exitCode"]) == (ending, code)
    assert told.receipt["eventCount"] == len(events) + 1
    assert [link["seq"] for link in told.events] == [len(events)]
