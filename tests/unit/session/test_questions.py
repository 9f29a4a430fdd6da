"""A session waits for people as long as it may, and takes nothing but a yes with its approval."""

from typing import Any

import pytest

from tipstaff.egress.attempt import Attempt
from tipstaff.egress.refusal import RefusalError
from tipstaff.errors import PlaneError
from tipstaff.model.network import EgressRule
from tipstaff.session.held import Held
from tipstaff.session.questions import Patience, Questions
from tipstaff.session.reach import Reach

pytestmark = pytest.mark.anyio
RULE = EgressRule(host="*.example.com", ask=True, rule="ask-first")
QUESTION = {"host": "api.example.com", "port": 443, "rule": "ask-first"}
APPROVAL = {"sig": "signed"}
WAITING = {"answer": "waiting"}
CONTRACT = {
    "tier": "bwrap",
    "network": {"defaultDeny": True, "allowHosts": ["*.example.com"]},
    "egress": {"rules": [{"host": "*.example.com", "ask": True, "rule": "ask-first"}]},
}


class People:
    """A plane that gives one answer after the other, the last one for ever."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    async def __call__(self, question, /, *, give_up=False):
        """Answer."""
        self.asked.append((question, give_up))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class Secret:
    """Secrets of a run, of which one is `hunter2`."""

    def redacted(self, _where, value):
        """Take it out."""
        return value.replace("hunter2", "***")


def questions(people, seconds=5.0, told=None, held=None):
    """Make the questions of a session without secrets, which looks often."""
    return Questions(people, held or Held({}, {}, bytes), Patience(seconds, 0.001), told)


async def test_a_yes_is_waited_for_and_kept():
    """The plane is asked until it says yes, people are told once, and the approval is at hand for this place alone."""
    people = People(WAITING, WAITING, {"answer": "yes", "approval": APPROVAL})
    told: list[str] = []
    asking = questions(people, told=told.append)

    assert await asking.ask("api.example.com", 443, RULE) is True
    assert people.asked == [(QUESTION, False)] * 3
    assert told == ["api.example.com:443 (rule ask-first)"]
    assert asking.approval("api.example.com", 443, "ask-first") == APPROVAL
    assert asking.approval("api.example.com", 80, "ask-first") is None
    assert asking.approval("api.example.com", 443, "other") is None


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"answer": "no", "reason": "'boris' denied it"}, "not approved: 'boris' denied it"),
        ({"answer": "no"}, "not approved: nobody answered"),
        ({"answer": "yes"}, "not approved"),
        ({"answer": "yes", "approval": "sure"}, "not approved"),
        ({}, "not approved"),
        (
            PlaneError("run x is completed", status=409, code="not_claimed"),
            "the plane refuses that: run x is completed",
        ),
    ],
)
async def test_anything_but_a_yes_with_its_approval_is_no(answer, reason):
    """A no, a yes without proof, silence and a refusal by the plane all refuse the connection, and say why."""
    asking = questions(People(answer))

    with pytest.raises(RefusalError, match=reason):
        await asking.ask("api.example.com", 443, RULE)
    assert asking.approval("api.example.com", 443, "ask-first") is None


async def test_when_the_time_is_over_the_question_is_given_up():
    """The last word to the plane says that nobody waits any longer; what it answers then counts."""
    people = People(WAITING, {"answer": "no", "reason": "nobody answered in time"})

    with pytest.raises(RefusalError, match="nobody answered in time"):
        await questions(people, seconds=0.0).ask("api.example.com", 443, RULE)
    assert people.asked == [(QUESTION, False), (QUESTION, True)]


async def test_a_yes_in_the_last_moment_counts():
    """A yes that came just before the question was given up lets the connection through."""
    people = People(WAITING, {"answer": "yes", "approval": APPROVAL})

    assert await questions(people, seconds=0.0).ask("api.example.com", 443, RULE) is True


async def test_a_plane_that_cannot_answer_now_is_asked_again():
    """A disk that is full for a moment is no answer."""
    people = People(PlaneError("busy", status=503), {"answer": "yes", "approval": APPROVAL})

    assert await questions(people).ask("api.example.com", 443, RULE) is True


async def test_a_host_that_holds_a_secret_is_not_asked_for():
    """A name that would carry a secret into the question is refused before anybody hears of it; another is asked."""
    people = People({"answer": "yes", "approval": APPROVAL})
    told: list[str] = []
    asking = questions(people, told=told.append, held=Secret())

    with pytest.raises(RefusalError, match="holds a secret"):
        await asking.ask("hunter2.example.com", 443, RULE)
    assert (people.asked, told) == ([], [])
    assert await asking.ask("api.example.com", 443, RULE) is True


@pytest.mark.parametrize(("decision", "carried"), [("allowed", True), ("blocked", False)])
async def test_the_approval_goes_into_what_is_written_down(decision, carried):
    """A connection that was let through by an approval carries it; one that was refused all the same does not."""
    asking = questions(People({"answer": "yes", "approval": APPROVAL}))
    await asking.ask("api.example.com", 443, RULE)
    said: list[dict[str, Any]] = []
    reach = Reach(CONTRACT, Held({}, {}, bytes), {}, said.append, asking)

    reach._ended(Attempt(host="api.example.com", port=443, decision=decision, rule="ask-first"))
    reach._ended(Attempt(host="free.test", port=443, decision="allowed", rule="free"))
    assert [one.get("approval") for one in said] == [APPROVAL if carried else None, None]
