"""A run at work reaches a place that must be asked for only by a signed yes to exactly that question."""

import pytest

from tests.unit.plane.embedded import (
    ANNA,
    APPROVER,
    BORIS,
    COMPLETED,
    PLANE,
    START,
    STRANGER,
    executed,
    follow,
    materialized,
    receipt,
)
from tipstaff.errors import InputError, PlaneError
from tipstaff.evidence import verify
from tipstaff.evidence.approval import approve
from tipstaff.keys import KnownKey, KnownKeys
from tipstaff.model import Actor
from tipstaff.model.times import timestamp
from tipstaff.plane.questions import MOST_QUESTIONS

HOUR = 3_600_000
PLACE = {"host": "api.example.com", "port": 443, "rule": "ask-first"}
HOSTS = {
    "network": {
        "hosts": [
            {"id": "ask-first", "host": "*.example.com", "ports": [443], "ask": True},
            {"id": "free", "host": "free.test", "ports": [443]},
        ],
        "deny": ["never.example.com"],
    }
}
REACHING = {"network": {"allowHosts": ["*.example.com", "free.test"]}}
BY_BORIS = {
    "rules": [{"id": "ask-boris", "effect": "ask", "when": "any", "approvals": {"approvers": ["boris@example.com"]}}]
}


@pytest.fixture
def working(make_site):
    """Make a site with a run at work that may ask; gives the site, and its claim."""

    def make(policy=None, *, approve_as=None, **means):
        policy = {**HOSTS, "network": {"hosts": HOSTS["network"]["hosts"]}} if policy is None else policy
        site = make_site(policy, **means)
        run_id = site.submit(**REACHING)
        if approve_as:
            site.plane.approve(run_id, {"actor": approve_as})
        claim = site.claim()
        site.plane.append(claim["claimToken"], follow(claim, [materialized(claim)], site.clock()), release=True)
        return site, claim

    return make


def ask(site, claim, place=PLACE, **more):
    """Ask as the runner that holds the claim."""
    return site.plane.ask(claim["claimToken"], {**place, **more})


def yes(place=PLACE, actor=BORIS):
    """The body of a yes that the door vouches for."""
    return {"answer": "yes", "question": place, "actor": actor}


def no(place=PLACE, actor=BORIS, **more):
    """The body of a no."""
    return {"answer": "no", "question": place, "actor": actor, **more}


def signed(claim, key=APPROVER, actor=BORIS, expires=START + HOUR, assurance="key", **more):
    """The body of a yes that the approver signed."""
    contract_hash = claim["events"][0]["prev"]
    more = {"question": PLACE, **more}
    more = {name: value for name, value in more.items() if value is not None}
    return {"approval": approve(contract_hash, Actor(**actor), key, assurance, timestamp(expires), **more)}


def known():
    """The approver's key, known."""
    return KnownKeys((KnownKey(public_key_pem=APPROVER.public.pem, role="approver", name="boris@example.com"),))


def finish(site, claim, *connections):
    """Complete the run, whose connections these are."""
    events = [{"type": "network.connected", **one} for one in connections]
    links = follow(claim, [*events, executed(), COMPLETED], site.clock())
    return site.plane.complete(claim["claimToken"], receipt(claim, site.clock()), links)


def reached(approval=None, decision="allowed", **fields):
    """What a runner writes down about the place."""
    return {**PLACE, "decision": decision, **({"approval": approval} if approval else {}), **fields}


def test_a_question_waits_is_listed_and_answered(working):
    """Asking again finds the answer, with an approval of exactly this question; then nothing waits."""
    site, claim = working()
    assert ask(site, claim) == {"answer": "waiting"}
    assert ask(site, claim) == {"answer": "waiting"}
    listed = site.plane.questions()
    assert [(one["runId"], one["place"], one["rule"]) for one in listed] == [
        (claim["runId"], "api.example.com:443", "ask-first")
    ]

    assert site.plane.answer(claim["runId"], yes())["answer"] == "yes"
    found = ask(site, claim)
    assert (found["answer"], found["approval"]["question"], found["approval"]["assurance"]) == (
        "yes",
        PLACE,
        "same-uid",
    )
    assert site.plane.questions() == []


def test_a_run_that_was_let_through_completes_and_verifies(working):
    """The approval in the chain makes the bundle valid; a chain without it is not taken."""
    site, claim = working()
    ask(site, claim)
    site.plane.answer(claim["runId"], yes())
    events = list(claim["events"])

    with pytest.raises(PlaneError) as refused:
        finish(site, claim, reached())
    assert any("24" in reason and "without an approval" in reason for reason in refused.value.reasons)
    claim["events"] = events
    finish(site, claim, reached(ask(site, claim)["approval"]))
    assert verify(site.plane.bundle(claim["runId"]), [PLANE.public]).verdict == "valid"


def test_a_denied_place_is_told_why_and_may_be_written_down_as_blocked(working):
    """A no has the name and the reason in it, cannot be turned round, and the run ends well all the same."""
    site, claim = working()
    ask(site, claim)
    site.plane.answer(claim["runId"], no(reason="not on a Friday"))

    assert ask(site, claim) == {"answer": "no", "reason": "'boris@example.com' denied it: not on a Friday"}
    with pytest.raises(PlaneError, match="was answered"):
        site.plane.answer(claim["runId"], yes())
    finish(site, claim, reached(decision="blocked"))
    assert verify(site.plane.bundle(claim["runId"]), [PLANE.public]).verdict == "valid"


def test_an_approval_by_the_approvers_own_key_counts(working):
    """A known key's signature is kept as it is, and says `key`."""
    site, claim = working(known=known())
    ask(site, claim)
    body = signed(claim)

    site.plane.answer(claim["runId"], body)
    assert ask(site, claim)["approval"] == body["approval"]


@pytest.mark.parametrize(
    ("forge", "error"),
    [
        (lambda c: signed(c, key=STRANGER), PlaneError),
        (lambda c: signed(c, question=None), InputError),
        (lambda c: signed(c, question={**PLACE, "port": 80}), PlaneError),
        (lambda c: signed(c, question={**PLACE, "host": "www.example.com"}), PlaneError),
        (lambda c: signed(c, question={**PLACE, "more": 1}), InputError),
        (lambda c: signed(c, question={"host": "API.example.com", "port": 443, "rule": "ask-first"}), InputError),
        (lambda c: signed(c, expires=START - 1), PlaneError),
        (lambda c: signed(c, expires=START + 48 * HOUR), PlaneError),
        (lambda c: {"approval": {**signed(c)["approval"], "question": {**PLACE, "port": 80}}}, PlaneError),
        (lambda c: {"approval": {**signed(c)["approval"], "contractHash": "0" * 64}}, PlaneError),
        (lambda _: {"approval": None}, InputError),
        (lambda _: yes(actor={"kind": "agent", "id": "builder"}), PlaneError),
        (lambda _: yes(place={**PLACE, "port": 80}), PlaneError),
        (lambda _: yes(place=None), InputError),
        (lambda _: no(actor={"kind": "agent", "id": "builder"}), PlaneError),
        (lambda _: {**no(), "answer": "perhaps"}, InputError),
        (lambda _: no(reason="\ud800"), InputError),
        (lambda _: {}, InputError),
    ],
)
def test_what_is_not_a_persons_answer_to_this_question_leaves_it_waiting(working, forge, error):
    """Strangers, agents, other places, other contracts, odd lifetimes and malformed bodies answer nothing."""
    site, claim = working(known=known())
    ask(site, claim)

    with pytest.raises(error):
        site.plane.answer(claim["runId"], forge(claim))
    assert ask(site, claim) == {"answer": "waiting"}


@pytest.mark.parametrize(
    ("place", "code"),
    [
        ({**PLACE, "host": "free.test"}, "not_permitted"),
        ({**PLACE, "host": "free.test", "rule": "free"}, "not_permitted"),
        ({**PLACE, "port": 80}, "not_permitted"),
        ({**PLACE, "host": "example.com"}, "not_permitted"),
        ({**PLACE, "rule": "another"}, "not_permitted"),
    ],
)
def test_only_what_a_rule_asks_for_can_be_asked(working, place, code):
    """A place that no rule with `ask` covers is refused, and nobody is bothered with it."""
    site, claim = working()

    with pytest.raises(PlaneError) as refused:
        ask(site, claim, place)
    assert refused.value.code == code
    assert site.plane.questions() == []


@pytest.mark.parametrize("place", [{}, {**PLACE, "port": "443"}, {**PLACE, "port": 0}, {**PLACE, "host": "a b"}])
def test_a_malformed_question_is_refused(working, place):
    """What is not a place is an error of the input."""
    site, claim = working()

    with pytest.raises(InputError):
        ask(site, claim, place)


def test_a_denied_host_cannot_be_asked_for(working):
    """What the policy denies stays denied, whatever an asking rule covers."""
    site, claim = working()
    contract = {**claim["contract"], "egress": {**claim["contract"]["egress"], "deny": ["api.example.com"]}}
    with site.store.database.transaction():
        site.store.runs.change(site.store.runs.get(claim["runId"]), contract=contract)

    with pytest.raises(PlaneError, match="no rule of the contract asks"):
        ask(site, claim)


def test_the_number_of_questions_is_bounded(working):
    """A run asks for so many places and no more; those that it asked for it may still look up."""
    site, claim = working()
    for number in range(MOST_QUESTIONS):
        ask(site, claim, {**PLACE, "host": f"h{number}.example.com"})

    with pytest.raises(PlaneError) as refused:
        ask(site, claim, {**PLACE, "host": "onemore.example.com"})
    assert refused.value.status == 429
    assert ask(site, claim, {**PLACE, "host": "h0.example.com"}) == {"answer": "waiting"}


def test_who_gives_up_gets_the_last_answer(working):
    """Giving up turns what waits into a no that nobody can change; an answer that came before stands."""
    site, claim = working()
    ask(site, claim)
    other = {**PLACE, "host": "www.example.com"}
    ask(site, claim, other)
    site.plane.answer(claim["runId"], yes(other))

    assert ask(site, claim, giveUp=True) == {"answer": "no", "reason": "nobody answered in time"}
    assert ask(site, claim, other, giveUp=True)["answer"] == "yes"
    with pytest.raises(PlaneError, match="was answered"):
        site.plane.answer(claim["runId"], yes())


def test_a_question_of_a_run_that_has_ended_is_void(working):
    """When the run has its receipt its question is not listed any more, and not answered."""
    site, claim = working()
    ask(site, claim)
    finish(site, claim)

    assert site.plane.questions() == []
    with pytest.raises(PlaneError, match="it asks nothing"):
        site.plane.answer(claim["runId"], yes())


def test_only_the_holder_of_the_claim_asks(working):
    """A claim that was replaced asks nothing; the one that replaced it does."""
    site, claim = working()
    fresh = site.plane.renew(claim["claimToken"])["claimToken"]

    with pytest.raises(PlaneError, match="has been replaced"):
        ask(site, claim)
    assert ask(site, {**claim, "claimToken": fresh}) == {"answer": "waiting"}


def test_where_the_run_needed_approval_only_its_approvers_answer(working):
    """Who could not approve the run cannot approve a place for it, nor deny one; who could, can."""
    site, claim = working({**BY_BORIS, "network": {"hosts": HOSTS["network"]["hosts"]}}, approve_as=BORIS)
    ask(site, claim)

    for body in (yes(actor=ANNA), no(actor=ANNA)):
        with pytest.raises(PlaneError):
            site.plane.answer(claim["runId"], body)
    assert site.plane.answer(claim["runId"], yes(actor=BORIS))["answer"] == "yes"


def test_a_yes_to_a_place_is_no_yes_to_the_run(make_site):
    """An approval with a question in it does not approve a run that waits; one without does."""
    site = make_site(BY_BORIS, known=known())
    waiting = site.submit()
    claim = {"events": site.plane.run(waiting)["events"]}

    with pytest.raises(PlaneError, match="of a question, not of the run"):
        site.plane.approve(waiting, signed(claim))
    assert site.plane.approve(waiting, signed(claim, question=None))["status"] == "created"


@pytest.mark.parametrize(
    "change",
    [
        lambda _, claim: signed(claim, key=STRANGER, assurance="same-uid")["approval"],
        lambda site, claim: {**ask(site, claim)["approval"], "sig": "x"},
        lambda *_: "yes",
    ],
)
def test_a_runner_cannot_invent_an_approval(working, change):
    """An approval in the chain that the plane did not give is refused, with events and with the receipt alike."""
    site, claim = working()
    ask(site, claim)
    site.plane.answer(claim["runId"], yes())
    invented, events = change(site, claim), list(claim["events"])
    connected = {"type": "network.connected", **reached(invented)}

    with pytest.raises(PlaneError, match="was not given"):
        site.plane.append(claim["claimToken"], follow(claim, [connected], site.clock()))
    claim["events"] = list(events)
    with pytest.raises(PlaneError, match="was not given"):
        finish(site, claim, reached(invented))
    claim["events"] = list(events)
    finish(site, claim, reached(ask(site, claim)["approval"]))


def test_questions_go_with_their_run(working):
    """Pruning a run takes its questions with it."""
    site, claim = working()
    ask(site, claim)
    finish(site, claim)
    site.clock.now += 48 * HOUR

    assert site.plane.prune(older_than_ms=HOUR)["runs"] == 1
    assert site.store.questions.waiting() == []
