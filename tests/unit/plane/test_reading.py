"""The plane tells what it keeps: one list in the order of time, what waits, why, and what was printed."""

from hashlib import sha256

import pytest

from tests.unit.plane.embedded import (
    ANNA,
    ASKING,
    BORIS,
    COMPLETED,
    REQUEST,
    FakeClock,
    carry_out,
    executed,
    follow,
    materialized,
    receipt,
)
from tipstaff.errors import InputError, NotFoundError
from tipstaff.plane import Refused

RM = {"kind": "argv", "command": "rm", "args": ["-r", "x"]}
DENYING = {
    "rules": [
        {"id": "rest", "effect": "allow", "when": "any"},
        {"id": "no-rm", "effect": "deny", "when": {"argv": [["rm", "..."]]}, "reason": "not here"},
    ]
}


def refused(site):
    """Have a request denied; gives the refusal's id."""
    outcome = site.plane.submit({**REQUEST, "execution": RM})
    assert isinstance(outcome, Refused)
    return outcome.refusal["id"]


def ids(lines):
    """Name the entries of a list."""
    return [line["id"] for line in lines]


@pytest.mark.parametrize("step", [0, 1])
def test_runs_and_refusals_are_one_list_by_time(make_site, step):
    """The newest comes first, whatever it is; at one and the same time runs come before refusals."""
    clock = FakeClock()
    site = make_site(DENYING, clock=clock)
    made = []
    for make in (site.submit, lambda: refused(site), site.submit, lambda: refused(site)):
        made.append(make())
        clock.now += step

    expected = made[::-1] if step else [made[2], made[0], made[3], made[1]]
    assert ids(site.plane.history()) == expected
    for count in (1, 2, 3):
        pages, before = [], None
        while page := ids(site.plane.history(count, before)):
            pages += page
            before = page[-1]
        assert pages == expected


def test_a_page_behind_nothing_is_refused(site):
    """An entry that is not there cannot be gone on from."""
    with pytest.raises(NotFoundError, match="there is no run 'run_x'"):
        site.plane.history(5, "run_x")


def test_a_refused_request_is_told_with_its_reasons(make_site):
    """A denial is told with what was asked, by whom, the rules, the policy, and the whole request."""
    site = make_site(DENYING)
    name = refused(site)

    told = site.plane.why(name)

    assert told["execution"]["command"] == "rm"
    assert (told["decision"], told["principal"], told["rules"]) == ("deny", ANNA["id"], ["no-rm"])
    assert told["reasons"] == ["no-rm: not here"]
    assert told["request"]["requestedBy"] == ANNA
    assert told["policy"] == site.authority.policy.value["name"]
    assert site.plane.refusal(name)["id"] == name


def test_what_ended_well_is_told_with_its_proof(site):
    """A run that was carried out is told with its contract, its receipt and its ending."""
    run_id = site.submit()
    signed = carry_out(site, site.claim())

    told = site.plane.run(run_id)

    assert (told["receipt"], told["ending"], told["contract"]["runId"]) == (signed, "exited", run_id)
    assert site.plane.why(run_id)["decision"] == "allow"
    assert "failure" not in site.plane.why(run_id)


def test_what_waits_is_told_exactly(make_site):
    """A run that waits is listed with its contract, until when, and who may approve; afterwards it is not."""
    site = make_site(ASKING)
    run_id = site.submit()

    (waiting,) = site.plane.waiting()

    assert (waiting["runId"], waiting["contract"]["execution"]["command"]) == (run_id, "make")
    assert waiting["contractHash"] == site.plane.run(run_id)["contractHash"]
    assert waiting["consentRequirements"][0]["approvers"] == [BORIS["id"]]
    site.plane.approve(run_id, {"actor": BORIS})
    assert site.plane.waiting() == []


@pytest.mark.parametrize(("reason", "told"), [({}, ""), ({"reason": "not on a Friday"}, ": not on a Friday")])
def test_a_denial_by_a_person_keeps_their_words(make_site, reason, told):
    """Why somebody said no stands in the refusal, in the run, and in the answer to why."""
    site = make_site(ASKING)
    run_id = site.submit()

    site.plane.deny(run_id, {"actor": BORIS, **reason})

    assert site.plane.why(run_id)["failureMessage"] == f"{BORIS['id']!r} denied it{told}"
    assert site.plane.run(run_id)["refusal"]["reasons"] == [f"{BORIS['id']!r} denied it{told}"]
    assert site.plane.why(site.plane.run(run_id)["refusal"]["id"])["id"] == run_id


@pytest.mark.parametrize("reason", [7, "x" * 1001])
def test_a_reason_that_is_no_short_text_is_refused(make_site, reason):
    """A reason that could not be kept leaves the run waiting."""
    site = make_site(ASKING)
    run_id = site.submit()

    with pytest.raises(InputError, match="the reason"):
        site.plane.deny(run_id, {"actor": BORIS, "reason": reason})

    assert site.plane.status(run_id) == "awaiting_approval"


def test_output_of_what_never_ran_is_refused(make_site):
    """A run without a receipt has no output, and says in which state it is."""
    site = make_site(ASKING)
    run_id = site.submit()

    with pytest.raises(NotFoundError, match="it is awaiting_approval"):
        site.plane.output(run_id, "stdout")


@pytest.mark.parametrize("kept", [True, False])
def test_kept_output_is_given(site, kept):
    """The bytes that the receipt names are given, and none where it names none."""
    digest = site.store.blobs.put(b"hello\n")
    run_id = site.submit()
    streams = {"stdout": {"bytes": 6, "sha256": digest, "truncated": False, **({"kept": digest} if kept else {})}}
    claim, now = site.claim(), site.clock()
    brought = [{"type": "artifact.created", "kind": "log", "hash": digest}] if kept else []
    events = follow(claim, [materialized(claim), executed(), *brought, COMPLETED], now)
    site.plane.complete(claim["claimToken"], receipt(claim, now, streams=streams), events)

    assert site.plane.output(run_id, "stdout") == (b"hello\n" if kept else b"")
    assert site.plane.output(run_id, "stderr") == b""


@pytest.mark.parametrize("size", [0, 6])
def test_nothing_printed_needs_no_content(site, size):
    """A stream in which nothing was printed is given though nobody brought its content; one with bytes is not."""
    digest = sha256(b"" if size == 0 else b"hello\n").hexdigest()
    run_id = site.submit()
    streams = {"stdout": {"bytes": size, "sha256": digest, "truncated": False, "kept": digest}}
    claim, now = site.claim(), site.clock()
    events = follow(claim, [materialized(claim), executed(), COMPLETED], now)
    site.plane.complete(claim["claimToken"], receipt(claim, now, streams=streams), events)

    if size == 0:
        assert site.plane.output(run_id, "stdout") == b""
    else:
        with pytest.raises(NotFoundError, match="not kept any more"):
            site.plane.output(run_id, "stdout")


def test_ids_are_found_by_their_beginning(make_site):
    """Only ids that begin with exactly these characters are found, at most as many as wanted."""
    site = make_site(DENYING)
    runs, denied = sorted(site.submit() for _ in range(3)), refused(site)

    assert site.plane.named("run_") == runs
    assert site.plane.named("run_", 2) == runs[:2]
    assert site.plane.named("ref_") == [denied]
    assert site.plane.named(runs[1]) == [runs[1]]
    assert site.plane.named("r%") == site.plane.named("run__") == site.plane.named("RUN_") == []
