"""Whoever reached a place that had to be asked for carries an approval of exactly that place."""

import pytest

from tests.vectors.story import APPROVER, BORIS, CLAIMED, COMPLETED, CREATED, EXECUTED, PLANE, STRANGER, Run, at
from tipstaff.evidence import verify
from tipstaff.evidence.approval import approve
from tipstaff.keys import KnownKey, KnownKeys
from tipstaff.model import Actor

PLACE = {"host": "api.example.com", "port": 443, "rule": "ask-first"}
ASKS = {"host": "*.example.com", "ports": [443], "ask": True, "rule": "ask-first"}
ALLOWED = {"type": "policy.evaluated", "decision": "allow", "reason": "a test"}


def connected(signer=APPROVER, of="", expires=3_600_000, decision="allowed", question=PLACE, **fields):
    """The event of a connection with its approval."""

    def event(contract_hash):
        more = {"question": question} if question else {}
        actor = Actor(kind="human", id=BORIS["id"])
        approval = approve(of or contract_hash, actor, signer, "key", at(expires), **more)
        said = {"type": "network.connected", "decision": decision, **PLACE, "approval": approval, **fields}
        return {name: value for name, value in said.items() if value is not None}

    return event


def report(*events, rules=(ASKS,), keys=None, default_deny=True):
    """Verify a run that reached what these events say, under these rules."""
    hosts = [rule["host"] for rule in rules]
    contract = {"network": {"defaultDeny": default_deny, "allowHosts": hosts}, "egress": {"rules": list(rules)}}
    bundle = Run(contract, (CREATED, ALLOWED, CLAIMED, *events, EXECUTED, COMPLETED)).bundle()
    return verify(bundle, [PLANE.public]) if keys is None else verify(bundle, known=keys)


def problems(found):
    """List the numbers and the sentences."""
    return [(one.number, one.message) for one in found.problems]


def test_an_approved_place_is_valid():
    """With its approval the bundle is valid, and says on what that rests."""
    found = report(connected(), connected())

    assert problems(found) == []
    assert len(found.notes) == 1
    assert "the key of 'boris@example.com' is not known" in found.notes[0]


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        (connected(approval=None), "was reached without an approval"),
        (connected(approval="yes"), "was reached without an approval"),
        (connected(approval={}), "malformed"),
        (connected(question=None), "the approval is for the run, not for"),
        (connected(question={**PLACE, "port": 80}), "port 80"),
        (connected(question={**PLACE, "host": "www.example.com"}), "'www.example.com'"),
        (connected(question={**PLACE, "rule": "other"}), "(rule 'other')"),
        (connected(of="0" * 64), "for another contract"),
        (connected(expires=1), "had expired"),
        (connected(host="www.example.com"), "not for 'www.example.com'"),
        (connected(rule=None), "not for 'api.example.com'"),
        (connected(port=None), "not for 'api.example.com' port 0"),
    ],
)
def test_any_other_approval_is_check_24(event, sentence):
    """Without an approval, or with one for something else, the bundle is invalid."""
    found = report(event)

    assert {number for number, _ in problems(found)} == {24}
    assert any(sentence in message for _, message in problems(found))


@pytest.mark.parametrize("name", ["expiresAt", "assurance", "question", "actor", "sig", "publicKeyPem"])
def test_no_field_of_an_approval_can_be_changed(name):
    """A change after the signature is found, whatever it was."""
    changed = {
        "expiresAt": at(9_999_999),
        "assurance": "hardware",
        "question": {**PLACE, "why": "x"},
        "actor": {"kind": "human", "id": "clara@example.com"},
        "sig": "AAAA",
        "publicKeyPem": STRANGER.public.pem,
    }

    def event(contract_hash):
        said = connected()(contract_hash)
        return {**said, "approval": {**said["approval"], name: changed[name]}}

    assert {number for number, _ in problems(report(event))} == {24}


def test_every_way_is_looked_at():
    """One good connection does not cover a later one to the same place without its approval."""
    assert [number for number, _ in problems(report(connected(), connected(approval=None)))] == [24]


@pytest.mark.parametrize(
    "rules",
    [
        ({**ASKS, "ask": False},),
        ({"host": "*.example.com"},),
        (ASKS, {"host": "*.example.com", "ports": [443], "rule": "free"}),
        ({**ASKS, "ports": [80]}, {"host": "api.example.com", "ports": [443]}),
        ({**ASKS, "host": "*.com"}, {"host": "api.example.com"}),
    ],
)
def test_where_nobody_had_to_be_asked_nothing_is_missing(rules):
    """A place that the speaking rules give freely needs no approval: no rule asks, or not all, or not for this port."""
    assert problems(report(connected(approval=None, rule="free"), rules=rules)) == []


@pytest.mark.parametrize(
    "rules",
    [
        (ASKS, {**ASKS, "host": "api.example.com"}),
        ({"host": "*.example.com"}, {**ASKS, "host": "api.example.com", "ports": []}),
        ({"host": "*", "rule": "free"}, ASKS),
        ({**ASKS, "host": "*"},),
        ({**ASKS, "host": "API.Example.com"},),
        (ASKS, {"host": "*.example.com", "rule": "free"}),  # but the event says which of the two let it through
    ],
)
def test_where_somebody_had_to_be_asked_it_shows(rules):
    """The most specific rules speak, and of those the one that the event names."""
    assert [number for number, _ in problems(report(connected(approval=None), rules=rules))] == [24]


def test_an_open_network_still_asks_where_a_rule_says_so():
    """An open network (`defaultDeny: false`) lets the rest through, not what a rule asks for."""
    assert [number for number, _ in problems(report(connected(approval=None), default_deny=False))] == [24]
    assert problems(report(connected(approval=None, host="other.test"), default_deny=False)) == []


def test_a_blocked_attempt_needs_no_approval():
    """What was refused was not reached."""
    assert problems(report(connected(decision="blocked", approval=None))) == []


def test_a_known_approver_is_judged():
    """A known key gives no note; one that was revoked before, or is known as another's, is wrong."""
    plane = KnownKey(public_key_pem=PLANE.public.pem, role="plane")

    def judged(**window):
        mine = KnownKey(public_key_pem=APPROVER.public.pem, role="approver", **window)
        return report(connected(), keys=KnownKeys((plane, mine)))

    assert (problems(judged()), judged().notes) == ([], ())
    assert [number for number, _ in problems(judged(revoked_at=at(0)))] == [24]
    assert [number for number, _ in problems(judged(name="clara@example.com"))] == [24]


def test_an_approval_of_a_place_does_not_approve_a_run():
    """A consent whose approval answers a question is refused; the same without it is not."""
    asked = {"type": "policy.evaluated", "decision": "ask", "reason": "a test"}

    def granted(**more):
        def event(contract_hash):
            actor = Actor(kind="human", id=BORIS["id"])
            approval = approve(contract_hash, actor, APPROVER, "key", at(3_600_000), **more)
            return {"type": "consent.granted", "actor": BORIS, "approval": approval}

        return event

    def verdict(consent):
        return verify(Run({}, (CREATED, asked, consent, CLAIMED, EXECUTED, COMPLETED)).bundle(), [PLANE.public]).verdict

    assert (verdict(granted(question=PLACE)), verdict(granted())) == ("invalid", "valid")


def test_any_host_means_any_host():
    """A rule for `*` names every host."""
    assert problems(report(connected(approval=None), rules=({"host": "*"},))) == []
