"""What a plane signs for beside its contracts: each part of its word counts, and without it there is none."""

import json

import msgspec
import pytest

from tests.unit.plane.embedded import ANNA, PLANE, RUNNER, STRANGER
from tipstaff.canonical import digest
from tipstaff.evidence.seal import signed
from tipstaff.model.times import timestamp
from tipstaff.runner.client import Claim
from tipstaff.runner.contracts import ForeignContractError, Place
from tipstaff.runner.held import HeldLease
from tipstaff.runner.proofs import claimed_at, is_countersigned, is_yes

NONCE = "ab" * 16
QUESTION = {"host": "api.example.com", "port": 443, "rule": "ask-first"}


@pytest.fixture
def place(site):
    runner_id = site.plane.enroll(RUNNER.public.pem, "default")["runnerId"]
    key_id = RUNNER.public.key_id
    return Place(plane_key=PLANE.public, runner_id=runner_id, runner_key_id=key_id, pool="default", proves=True)


@pytest.fixture
def claim(site):
    site.submit()
    reply = site.claim(tiers=["bwrap"], nonce=NONCE)
    return Claim(reply["runId"], reply["contract"], reply["claimToken"], 1, reply["events"], {}, 60_000, reply["proof"])


def resigned(claim, key=PLANE, **fields):
    """Give the claim with another word on it, signed anew."""
    said = {name: value for name, value in claim.proof.items() if name != "signatures"} | fields
    return claim._replace(proof=signed(said, key, "plane"))


def test_the_planes_word_on_a_claim_gives_its_time(claim, place, site):
    """A claim as our plane gives it is ours, at the plane's time; so is one that it signed anew."""
    assert claimed_at(claim, NONCE, place) == site.clock()
    assert claimed_at(resigned(claim, ts=timestamp(5000)), NONCE, place) == 5000


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda claim: claim._replace(proof={**claim.proof, "ts": timestamp(1)}), "contract_forged"),
        (lambda claim: claim._replace(proof={}), "contract_forged"),
        (lambda claim: resigned(claim, STRANGER), "contract_forged"),
        (lambda claim: claim._replace(proof=None), "claim_unproven"),
        (lambda claim: resigned(claim, version="tipstaff.time.v1"), "claim_differs"),
        (lambda claim: resigned(claim, nonce="cd" * 16), "claim_differs"),
        (lambda claim: resigned(claim, ts="soon"), "claim_differs"),
        (lambda claim: resigned(claim, ts=None), "claim_differs"),
        (lambda claim: resigned(claim, runId="run_other"), "claim_differs"),
        (lambda claim: resigned(claim, contractHash="0" * 64), "claim_differs"),
        (lambda claim: resigned(claim, attempt=2), "claim_differs"),
        (lambda claim: resigned(claim, runnerId="rnr_other"), "claim_differs"),
        (lambda claim: resigned(claim, runnerKeyId=STRANGER.public.key_id), "claim_differs"),
        (lambda claim: resigned(claim, eventCount=1), "claim_differs"),
        (lambda claim: resigned(claim, eventsHead="0" * 64), "claim_differs"),
        (lambda claim: claim._replace(attempt=2), "claim_differs"),
        (lambda claim: claim._replace(events=claim.events[:-1]), "claim_differs"),
        (lambda claim: claim._replace(events=[*claim.events[:-1], {}]), "claim_differs"),
        (lambda claim: claim._replace(contract={**claim.contract, "purpose": "x"}), "claim_differs"),
        (lambda claim: claim._replace(contract={"a": "\ud800"}), "contract_foreign"),
    ],
)
def test_a_word_on_another_claim_is_none(claim, place, change, code):
    """Whatever part of the plane's word does not fit this claim, or is not signed, makes it nobody's."""
    with pytest.raises(ForeignContractError) as refused:
        claimed_at(change(claim), NONCE, place)
    assert refused.value.code == code


def test_a_plane_that_never_signed_for_claims_need_not(claim, place):
    """A runner that was enrolled at an older plane takes a claim without the plane's word, but no wrong word."""
    older = msgspec.structs.replace(place, proves=False)
    assert claimed_at(claim._replace(proof=None), NONCE, older) is None
    with pytest.raises(ForeignContractError):
        claimed_at(resigned(claim, STRANGER), NONCE, older)


def answered(key=PLANE, approval=None, **fields):
    """A yes as the plane signs it, but for what is said otherwise."""
    given = {"sig": "anna's"}
    said = {"version": "tipstaff.answer.v1", "runId": "run_1", **QUESTION, "answer": "yes", "ts": timestamp(0)}
    said |= {"approvalHash": digest(given), **fields}
    return {"answer": "yes", "approval": approval or given, "signed": signed(said, key, "plane")}


@pytest.mark.parametrize(
    ("answer", "counts"),
    [
        (answered(), True),
        (answered(STRANGER), False),
        (answered(approval={"sig": "boris'"}), False),
        (answered(approval={"sig": "\ud800"}), False),
        (answered(answer="no"), False),
        (answered(runId="run_2"), False),
        (answered(host="other.example.com"), False),
        (answered(port=80), False),
        (answered(rule="other"), False),
        (answered(version="tipstaff.claim.v1"), False),
        ({**answered(), "signed": None}, False),
        ({**answered(), "signed": {}}, False),
        ({"answer": "yes", "approval": {"sig": "anna's"}}, False),
    ],
)
def test_a_yes_counts_only_for_what_the_plane_signed(answer, counts):
    """The plane's word on an answer is for one run, one place and one approval."""
    assert is_yes(answer, QUESTION, "run_1", PLANE.public) is counts


def test_a_receipt_is_the_planes_only_with_its_name_under_ours():
    """Only the pinned key's signature over the very receipt that was sent says that the plane has it."""
    ours = signed({"version": "warrant.receipt.v1", "runId": "run_1"}, RUNNER, "runner")

    assert is_countersigned(signed(ours, PLANE, "plane"), ours, PLANE.public)
    for other in (ours, {}, signed(ours, STRANGER, "plane"), signed({**ours, "runId": "run_2"}, PLANE, "plane")):
        assert not is_countersigned(other, ours, PLANE.public)


@pytest.mark.parametrize("meddled", [False, True])
@pytest.mark.parametrize("proves", [False, True])
async def test_a_run_is_opened_by_what_the_plane_signed_and_by_nobody_on_the_way(make_bench, meddled, proves):
    """A yes of somebody on the way is a no where the plane signs for answers; the plane's own is a yes."""
    rule = {"id": "ask-first", "host": "*.example.com", "ports": [443], "ask": True}
    bench = make_bench({"network": {"hosts": [rule]}})
    bench.site.submit(network={"allowHosts": ["*.example.com"]})
    bench.proves = proves
    means = bench.means()
    claim = await means.client.claim(["bwrap"], {"nonce": NONCE})
    lease = HeldLease(means.client, means.spool.open(claim), means.place, float)
    assert (await lease.ask(QUESTION))["answer"] == "waiting"
    if meddled:
        forged = {"answer": "yes", "approval": {"sig": "mallory's"}}
        bench.plane.twist = lambda _method, path, _body: (200, json.dumps(forged).encode()) if "ask" in path else None
    else:
        bench.site.plane.answer(claim.run_id, {"question": QUESTION, "actor": ANNA, "answer": "yes"})

    answer = await lease.ask(QUESTION)

    assert answer["answer"] == ("no" if meddled and proves else "yes")
