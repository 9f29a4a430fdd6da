"""Nothing that policy asks about runs before the right people have signed exactly that contract."""

import pytest

from tests.unit.plane.embedded import ANNA, APPROVER, ASKING, BORIS, PLANE, REQUEST, START, STRANGER, carry_out
from tipstaff.errors import InputError, NotFoundError, PlaneError
from tipstaff.evidence import verify
from tipstaff.evidence.approval import approve
from tipstaff.keys import KnownKey, KnownKeys
from tipstaff.model import Actor
from tipstaff.model.times import timestamp

DAY = 86_400_000
CLARA = {"kind": "human", "id": "clara@example.com"}


def asking(**approvals):
    """Make a policy that asks first."""
    wanted = {"approvers": ["boris@example.com"], **approvals}
    return {"rules": [{"id": "ask-first", "effect": "ask", "when": "any", "approvals": wanted}]}


def known(key=APPROVER, name="boris@example.com", **fields):
    """Make a file with one approver's key."""
    return KnownKeys((KnownKey(public_key_pem=key.public.pem, role="approver", name=name, **fields),))


def signed(waiting, key=APPROVER, actor=BORIS, assurance="key", expires=START + DAY):
    """Sign an approval of a waiting run."""
    return {"approval": approve(waiting.contract_hash, Actor(**actor), key, assurance, timestamp(expires))}


def test_an_approved_run_is_claimed_and_verifies(make_site):
    """A signature by a known approver's key lets the run be claimed, and the bundle carries it."""
    site = make_site(asking(assurance="key"), known=known())
    waiting = site.plane.submit(REQUEST)
    assert site.claim() == {"empty": True}

    assert site.plane.approve(waiting.run_id, signed(waiting))["status"] == "created"
    carry_out(site, site.claim())
    report = verify(site.plane.bundle(waiting.run_id), [PLANE.public])
    assert report.verdict == "valid"
    assert verify(site.plane.bundle(waiting.run_id), known=_all_known()).notes == ()


def _all_known():
    return KnownKeys((*known().entries, KnownKey(public_key_pem=PLANE.public.pem, role="plane")))


def test_the_same_user_is_vouched_for_by_the_plane(make_site):
    """Without a key of its own, a person at this machine approves as same-uid, and the record says no more."""
    site = make_site(ASKING)
    waiting = site.plane.submit(REQUEST)

    assert site.plane.approve(waiting.run_id, {"actor": BORIS})["status"] == "created"
    claim = site.claim()
    granted = next(link["event"] for link in claim["events"] if link["event"]["type"] == "consent.granted")
    assert granted["approval"]["assurance"] == "same-uid"
    carry_out(site, claim)
    assert verify(site.plane.bundle(waiting.run_id), [PLANE.public]).verdict == "valid"


def test_same_uid_is_not_enough_where_a_key_is_demanded(make_site):
    """An approval that is less sure than policy demands does not count, and says why."""
    site = make_site(asking(assurance="key"), known=known())
    waiting = site.plane.submit(REQUEST)

    with pytest.raises(PlaneError, match="approved as same-uid, and key is demanded"):
        site.plane.approve(waiting.run_id, {"actor": BORIS})
    assert site.claim() == {"empty": True}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"actor": ANNA}, "is not an approver"),
        ({"actor": CLARA}, "is not an approver"),
        ({"actor": {"kind": "agent", "id": "boris@example.com"}}, "is an agent"),
    ],
)
def test_the_wrong_person_does_not_count(make_site, body, message):
    """Who is not listed, or is no person, cannot approve."""
    site = make_site(ASKING)
    waiting = site.plane.submit(REQUEST)

    with pytest.raises(PlaneError, match=message):
        site.plane.approve(waiting.run_id, body)
    assert site.claim() == {"empty": True}


def test_the_requester_does_not_approve_itself(make_site):
    """Who asked does not approve, even when listed; somebody else who is listed does."""
    site = make_site(asking(approvers=["*@example.com"]))
    waiting = site.plane.submit(REQUEST)

    with pytest.raises(PlaneError, match="asked for it"):
        site.plane.approve(waiting.run_id, {"actor": ANNA})
    assert site.plane.approve(waiting.run_id, {"actor": CLARA})["status"] == "created"


def test_a_quorum_counts_people(make_site):
    """Two approvals by one person are one; by two persons they are two."""
    site = make_site(asking(approvers=["*@example.com"], quorum=2))
    waiting = site.plane.submit(REQUEST)
    first = site.plane.approve(waiting.run_id, {"actor": BORIS})
    site.clock.now += 1000
    again = site.plane.approve(waiting.run_id, {"actor": BORIS})

    assert (first["status"], again["status"]) == ("awaiting_approval", "awaiting_approval")
    assert "needs 2" in again["missing"][0]
    assert site.claim() == {"empty": True}
    assert site.plane.approve(waiting.run_id, {"actor": CLARA})["status"] == "created"
    assert "runId" in site.claim()


def test_the_same_approval_twice_is_one_event(make_site):
    """An approval that is sent again leaves no second event."""
    site = make_site(asking(quorum=1), known=known())
    waiting = site.plane.submit(REQUEST)
    for _ in range(2):
        site.plane.approve(waiting.run_id, signed(waiting))

    types = [link["event"]["type"] for link in site.plane.run(waiting.run_id)["events"]]
    assert types.count("consent.granted") == 1


def _changed(body, **fields):
    return {"approval": {**body["approval"], **fields}}


@pytest.mark.parametrize(
    ("forge", "error"),
    [
        (lambda w: signed(w, key=STRANGER), PlaneError),
        (lambda w: signed(w, actor=CLARA), PlaneError),
        (lambda w: _changed(signed(w), expiresAt=timestamp(START + 1000)), PlaneError),
        (lambda w: _changed(signed(w), keyId=STRANGER.public.key_id), PlaneError),
        (lambda w: _changed(signed(w), contractHash="0" * 64), PlaneError),
        (lambda w: _changed(signed(w), version="v2"), PlaneError),
        (lambda w: _changed(signed(w), publicKeyPem="no key"), InputError),
        (lambda w: signed(w, expires=START - 1), PlaneError),
        (lambda w: signed(w, expires=START + 2 * DAY), PlaneError),
        (lambda _: {"approval": None}, InputError),
        (lambda _: {"approval": {}}, InputError),
        (lambda _: {}, InputError),
        (lambda _: {"actor": {"kind": "human"}}, InputError),
    ],
)
def test_a_forged_approval_is_refused(make_site, forge, error):
    """Unknown keys, borrowed names, changed fields, other contracts and odd lifetimes leave the run waiting."""
    site = make_site(asking(assurance="key"), known=known())
    waiting = site.plane.submit(REQUEST)

    with pytest.raises(error):
        site.plane.approve(waiting.run_id, forge(waiting))
    assert site.plane.run(waiting.run_id)["status"] == "awaiting_approval"
    assert site.plane.approve(waiting.run_id, signed(waiting))["status"] == "created"


@pytest.mark.parametrize(
    ("keys", "accepted"),
    [
        (known(), True),
        (known(revoked_at=timestamp(START - 1)), False),
        (known(not_after=timestamp(START - 1)), False),
        (known(name=""), False),
        (known(name="clara@example.com"), False),
        (KnownKeys(), False),
    ],
)
def test_a_key_counts_as_its_owners_and_in_its_time(make_site, keys, accepted):
    """A key approves for the person it is known as, while it is valid."""
    site = make_site(asking(assurance="key"), known=keys)
    waiting = site.plane.submit(REQUEST)

    if accepted:
        assert site.plane.approve(waiting.run_id, signed(waiting))["status"] == "created"
    else:
        with pytest.raises(PlaneError, match="the approver's key"):
            site.plane.approve(waiting.run_id, signed(waiting))


def test_a_known_key_need_not_travel(make_site):
    """An approval without its public key is checked against the known one."""
    site = make_site(asking(assurance="key"), known=known())
    waiting = site.plane.submit(REQUEST)
    body = signed(waiting)
    del body["approval"]["publicKeyPem"], body["approval"]["sig"]
    from tipstaff.canonical import digest  # noqa: PLC0415 - one use

    body["approval"]["sig"] = APPROVER.sign(digest(body["approval"]).encode())

    assert site.plane.approve(waiting.run_id, body)["status"] == "created"


def test_from_afar_nobody_is_the_same_user(make_site):
    """A door that has only seen a console takes no same-uid approval by a stranger's key; its own word it does."""
    site = make_site(ASKING, known=known())
    waiting = site.plane.submit(REQUEST)

    with pytest.raises(PlaneError, match="is not known as"):
        site.plane.approve(waiting.run_id, signed(waiting, key=STRANGER, assurance="same-uid"), by="console")
    with pytest.raises(PlaneError, match="is not known as"):
        site.plane.approve(waiting.run_id, signed(waiting, key=STRANGER, assurance="console"), by="console")
    assert site.plane.approve(waiting.run_id, {"actor": BORIS}, by="console")["status"] == "created"


@pytest.mark.parametrize(("late", "claimed"), [(60_000, True), (60_001, False)])
def test_an_approval_that_ran_out_is_worth_nothing(make_site, late, claimed):
    """What was approved must be claimed before the approval runs out; then a new request has to be made."""
    site = make_site(ASKING, known=known())
    waiting = site.plane.submit(REQUEST)
    site.plane.approve(waiting.run_id, signed(waiting, expires=START + 60_001))
    site.clock.now += late

    claim = site.claim()
    assert ("runId" in claim) is claimed
    if claimed:
        carry_out(site, claim)
        assert verify(site.plane.bundle(waiting.run_id), [PLANE.public]).verdict == "valid"
    else:
        site.clock.now += 1
        with pytest.raises(PlaneError, match="ask anew"):
            site.plane.approve(waiting.run_id, {"actor": BORIS})
        assert [one["how"] for one in site.plane.close_lost()] == ["consent_timeout"]


def test_a_denied_run_ends_with_a_refusal(make_site):
    """An approver's no ends the run for good; somebody else's does not."""
    site = make_site(ASKING)
    waiting = site.plane.submit(REQUEST)
    with pytest.raises(PlaneError, match="is not an approver"):
        site.plane.deny(waiting.run_id, {"actor": CLARA})

    assert site.plane.deny(waiting.run_id, {"actor": BORIS})["status"] == "failed"
    run = site.plane.run(waiting.run_id)
    assert run["events"][-1]["event"]["failure"] == "policy_denied"
    assert (run["refusal"]["runId"], run["refusal"]["rules"]) == (waiting.run_id, ["approval.denied"])
    assert verify(run["refusal"], [PLANE.public]).verdict == "valid"
    with pytest.raises(PlaneError, match="too late"):
        site.plane.approve(waiting.run_id, {"actor": BORIS})


@pytest.mark.parametrize(("late", "closed"), [(DAY, []), (DAY + 1, ["consent_timeout"])])
def test_waiting_has_an_end(make_site, late, closed):
    """A run that nobody approved in time ends as consent_timeout, with a refusal, and not before."""
    site = make_site(ASKING)
    waiting = site.plane.submit(REQUEST)
    site.clock.now += late

    assert [one["how"] for one in site.plane.close_lost()] == closed
    run = site.plane.run(waiting.run_id)
    assert run["status"] == ("failed" if closed else "awaiting_approval")
    assert ("refusal" in run) is bool(closed)


def test_who_waits_may_stop_waiting(make_site):
    """A door ends the wait early; a run that was approved meanwhile goes on."""
    site = make_site(ASKING)
    given_up, approved = site.plane.submit(REQUEST), site.plane.submit(REQUEST)
    site.plane.approve(approved.run_id, {"actor": BORIS})

    assert site.plane.expire(given_up.run_id)["status"] == "failed"
    assert site.plane.run(given_up.run_id)["events"][-1]["event"]["failure"] == "consent_timeout"
    assert site.plane.expire(approved.run_id)["status"] == "created"
    assert site.claim()["runId"] == approved.run_id


def test_what_needs_no_approval_takes_none(site):
    """An approval of a run that policy simply allowed is refused, and so is one of no run at all."""
    run_id = site.submit()

    with pytest.raises(PlaneError, match="needs no approval"):
        site.plane.approve(run_id, {"actor": BORIS})
    with pytest.raises(NotFoundError):
        site.plane.approve("run_none", {"actor": BORIS})
