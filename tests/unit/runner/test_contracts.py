"""What a runner makes sure of before anything happens: each check, with the contract that passes it."""

import copy

import pytest

from tests.unit.plane.embedded import PLANE, RUNNER, STRANGER
from tipstaff.evidence.chain import chained
from tipstaff.evidence.seal import payload_digest, signed
from tipstaff.model.times import timestamp
from tipstaff.runner.client import Claim
from tipstaff.runner.contracts import ForeignContractError, Place, refuse_foreign, refuse_unfit
from tipstaff.runner.older import view_of
from tipstaff.session.plan import UnfitContractError

NONCE = "ab" * 16


@pytest.fixture
def place(site):
    runner_id = site.plane.enroll(RUNNER.public.pem, "default")["runnerId"]
    return Place(plane_key=PLANE.public, runner_id=runner_id, runner_key_id=RUNNER.public.key_id, pool="default")


@pytest.fixture
def claim(site):
    site.submit()
    reply = site.claim(tiers=["bwrap"], nonce=NONCE)
    return Claim(reply["runId"], reply["contract"], reply["claimToken"], 1, reply["events"], {}, 60_000, reply["proof"])


def altered(claim, key=PLANE, **fields):
    """Give the claim with another contract, signed anew, and a chain that begins with it."""
    contract = {name: value for name, value in claim.contract.items() if name != "signatures"} | fields
    contract = signed(contract, key, "plane")
    prev, events = payload_digest(contract), []
    for link in claim.events:
        events.append(chained(link["seq"], link["ts"], prev, link["event"]))
        prev = events[-1]["hash"]
    return claim._replace(contract=contract, events=events)


def test_the_planes_own_contract_passes(claim, place, site):
    """A contract as our plane gives it is taken, and so is one that it signed anew."""
    refuse_foreign(claim, place, site.clock())
    refuse_foreign(altered(claim, purpose="another"), place, site.clock())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda claim: altered(claim, STRANGER), "not signed by our plane"),
        (lambda claim: claim._replace(contract={**claim.contract, "purpose": "x"}), "not signed by our plane"),
        (lambda claim: claim._replace(contract={}), "not signed by our plane"),
        (lambda claim: altered(claim, issuer={"keyId": STRANGER.public.key_id, "role": "plane"}), "another issuer"),
        (lambda claim: altered(claim, runId="run_other"), "another run's"),
        (lambda claim: altered(claim, runner={"pool": "other"}), "for the pool"),
        (lambda claim: altered(claim, expiresAt=timestamp(1)), "expired"),
        (lambda claim: altered(claim, secrets="none"), "cannot be read"),
        (lambda claim: altered(claim, secrets=[{"name": "TOKEN", "scope": "session"}]), "secrets"),
        (lambda claim: claim._replace(secrets={"TOKEN": "hunter2"}), "secrets"),
        (lambda claim: claim._replace(events=altered(claim, purpose="x").events), "another contract"),
        (lambda claim: claim._replace(events=claim.events[:-1]), "this runner claimed"),
        (lambda claim: claim._replace(events=[claim.events[0], *claim.events[2:]]), "not in order"),
        (lambda claim: claim._replace(events=[{}]), "not in order"),
    ],
)
def test_what_is_not_ours_is_dropped(claim, place, site, change, words):
    """A contract of another plane, run, pool, time or chain is refused, and the words hold no secret."""
    with pytest.raises(ForeignContractError, match=words) as refused:
        refuse_foreign(change(claim), place, site.clock())
    assert "hunter2" not in str(refused.value)


def test_another_runners_claim_is_dropped(claim, place, site):
    """The chain must say that this very runner claimed the run."""
    other = Place(plane_key=PLANE.public, runner_id="rnr_x", runner_key_id=place.runner_key_id, pool="default")

    with pytest.raises(ForeignContractError, match="this runner claimed"):
        refuse_foreign(claim, other, site.clock())


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, ""),
        ({"tier": "gvisor"}, "no tier 'gvisor'"),
        ({"minimumTier": "gvisor"}, "below the contract's minimum"),
        ({"minimumTier": "unheard-of"}, "below the contract's minimum"),
        ({"minimumTier": "process"}, ""),
        ({"network": {"defaultDeny": False, "allowHosts": []}}, "open network"),
        ({"network": {"allowHosts": []}}, ""),
        ({"files": {"workspace": "/srv/app", "inPlace": False, "readable": []}}, "no folders of its host"),
        ({"files": {"inPlace": False, "readable": ["/etc/hosts"]}}, "no folders of its host"),
        ({"files": {"inPlace": True, "readable": []}}, "no folders of its host"),
        ({"files": {"workspace": "/srv/app", "captured": True, "inPlace": False, "readable": []}}, ""),
        ({"execution": {"kind": "argv", "command": "env", "env": {"inherit": ["AWS_SECRET"]}}}, "inherit"),
        ({"execution": {"kind": "argv", "command": "env", "env": {"inherit": ["PATH", "HOME"]}}}, ""),
    ],
)
def test_what_this_host_does_not_share_is_a_mismatch(claim, fields, words):
    """A contract that needs the requester's own host is refused with the protocol's name; its twin is not."""
    view = view_of({**copy.deepcopy(claim.contract), **fields}, ["bwrap"])
    if not words:
        refuse_unfit(view, ["bwrap"])
        return
    with pytest.raises(UnfitContractError, match=words) as refused:
        refuse_unfit(view, ["bwrap"])
    assert refused.value.failure == "capability_mismatch"
