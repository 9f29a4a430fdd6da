"""What a plane that serves several does not sign for, though a verifier could not tell: and its permitted twins."""

import msgspec
import pytest

from tests.unit.plane.embedded import COMPLETED, PLANE, executed, follow, materialized, receipt
from tipstaff.errors import NotFoundError, PlaneError
from tipstaff.evidence import verify
from tipstaff.evidence.chain import chained
from tipstaff.evidence.seal import signed
from tipstaff.plane.contents import run_owner
from tipstaff.plane.wire import answer
from tipstaff.store.runs import Runs

TIERS = {"tiers": ["bwrap", "process"]}
HOUR_MS = 3_600_000
FULL_USAGE = {"wallMs": 1, "cpuMs": 1, "peakMemoryBytes": 1}


@pytest.fixture
def shared(make_site):
    """A plane that serves several."""
    return make_site(shared=True)


def started(site):
    """Claim a run, and let its command go."""
    site.submit()
    claim = site.claim(**TIERS)
    claim["said"] = site.plane.append(
        claim["claimToken"], follow(claim, [materialized(claim)], site.clock()), release=True
    )
    return claim


def complete(site, claim, *more, ended=None, **fields):
    """End a run, with more events and with these fields in its receipt."""
    events = follow(claim, [executed(), *more, COMPLETED], site.clock())
    document = receipt(claim, ended or site.clock(), **fields)
    return site.plane.complete(claim["claimToken"], document, events)["receipt"]


def refused(site, claim, *more, **fields):
    """End a run in vain; gives the reasons. The claim stays as it was."""
    with pytest.raises(PlaneError) as error:
        complete(site, {**claim, "events": list(claim["events"])}, *more, **fields)
    assert (error.value.status, error.value.code) == (422, "receipt_invalid")
    return " ".join(error.value.reasons)


def stream(content, size=3):
    """What a receipt says of a stream that is kept."""
    return {"stdout": {"bytes": size, "sha256": content, "truncated": False, "kept": content}}


def log(content):
    """The event that names a log."""
    return {"type": "artifact.created", "kind": "log", "hash": content}


def test_what_a_run_printed_is_what_it_brought(shared):
    """A receipt cannot have somebody else's content shown as output; content of its own run's events it can."""
    secret = shared.store.blobs.put(b"somebody else's")
    claim = started(shared)
    assert "no event created" in refused(shared, claim, streams=stream(secret))
    mine = shared.store.blobs.put(b"hi\n")
    shared.store.blobs.own(run_owner(claim["runId"]), mine)
    complete(shared, claim, log(mine), streams=stream(mine))

    assert shared.plane.output(claim["runId"], "stdout") == b"hi\n"


def test_nothing_printed_needs_no_event(shared):
    """The copy of an empty stream is nobody's, and gives nothing, whatever it is called."""
    claim = started(shared)
    complete(shared, claim, streams=stream(shared.store.blobs.put(b"somebody else's"), size=0))

    assert shared.plane.output(claim["runId"], "stdout") == b""


def test_output_that_no_event_names_is_not_given(site):
    """A receipt that is kept all the same, as one of an older plane, shows nobody's content: nor that it is there."""
    kept = site.store.blobs.put(b"somebody else's")
    answers = []
    for content in (kept, "ab" * 32):
        run_id = site.submit()
        claim = site.claim()
        events = follow(claim, [materialized(claim), executed(), COMPLETED], site.clock())
        site.plane.complete(claim["claimToken"], receipt(claim, site.clock(), streams=stream(content)), events)
        with pytest.raises(NotFoundError) as error:
            site.plane.output(run_id, "stdout")
        answers.append(error.value.message.replace(run_id, "RUN"))

    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    "fields",
    [
        {"streams": 5},
        {"streams": None},
        {"streams": {"stdout": 5}},
        {"streams": {"stdout": {"bytes": 1, "sha256": "", "kept": ["x"]}}},
        {"streams": {"stdout": {"bytes": -1, "sha256": ""}}},
        {"streams": {"stdout": {"sha256": ""}}},
        {"enforcement": 5},
        {"enforcement": [1]},
        {"enforcement": [{"clause": "network"}]},
        {"enforcement": None},
        {"usage": 5},
        {"usage": None},
        {"usage": {"wallMs": "long"}},
        {"usage": {"wallMs": 1}},
        {"changes": []},
        {"changes": None},
        {"host": "h"},
        {"executionStartedAt": "2026-02-31T00:00:00.000Z"},
    ],
)
def test_what_readers_rely_on_has_its_form(shared, fields):
    """A receipt that would break whoever shows it is not kept; one in full is, and can be shown."""
    claim = started(shared)
    assert refused(shared, claim, **fields)
    good = {
        "streams": {"stdout": {"bytes": 0, "sha256": "", "truncated": False}},
        "enforcement": [{"clause": "network", "verdict": "weaker", "by": "a proxy"}],
        "usage": FULL_USAGE,
        "changes": {"files": 0},
        "host": {"kernel": "6.1"},
    }
    complete(shared, claim, **good)

    assert shared.plane.why(claim["runId"])["weak"] == good["enforcement"]
    assert shared.plane.output(claim["runId"], "stdout") == b""
    assert verify(shared.plane.bundle(claim["runId"]), [PLANE.public]).ok


@pytest.mark.parametrize("signatures", [5, None, {}, "x", [5], [{"signer": []}], [{"signer": {}}]])
@pytest.mark.parametrize("serving", [True, False])
def test_odd_signatures_are_a_refusal(make_site, signatures, serving):
    """What is no list of signatures is answered with 422, by any plane."""
    site = make_site(shared=serving)
    claim = started(site)
    body = {"claimToken": claim["claimToken"], "receipt": {"signatures": signatures}}

    assert answer(site.plane, f"/v1/runs/{claim['runId']}/complete", msgspec.json.encode(body))[0] == 422
    assert complete(site, claim)["status"] == "completed"


def test_a_receipt_is_not_large(shared):
    """More than a mebibyte is refused, whatever fills it; a little less is taken."""
    claim = started(shared)
    assert "bytes" in refused(shared, claim, future="x" * 1024 * 1024)

    assert complete(shared, claim, future="x" * 1000 * 1024)["status"] == "completed"


def test_a_receipt_that_is_no_json_is_a_refusal(shared):
    """Half a character is refused before anything else is done with it, also where the run has ended."""
    claim = started(shared)
    for _ in range(2):
        with pytest.raises(PlaneError) as error:
            shared.plane.complete(claim["claimToken"], {"future": "\ud800"})
        assert error.value.status == 422
        if shared.plane.status(claim["runId"]) != "completed":
            complete(shared, claim)


def test_late_events_that_are_no_json_are_not_attached(shared):
    """A late receipt is kept beside the run without the events that cannot be."""
    claim = started(shared)
    shared.clock.now += 10 * HOUR_MS
    shared.plane.close_lost()
    with pytest.raises(PlaneError) as error:
        shared.plane.complete(claim["claimToken"], {"status": "late"}, [{"event": "\ud800"}])

    assert error.value.status == 409
    assert [one["events"] for one in shared.plane.run(claim["runId"])["attachments"]] == [[]]


@pytest.mark.parametrize(("hours", "taken"), [(27, False), (25, True)])
def test_the_end_is_dated_near_the_planes_time(shared, hours, taken):
    """An end far ahead of the plane's clock is not signed for; one by a clock of the wrong zone is."""
    claim = started(shared)
    ended = shared.clock() + hours * HOUR_MS
    if taken:
        assert complete(shared, claim, ended=ended)["status"] == "completed"
    else:
        assert "set the runner's clock" in refused(shared, claim, ended=ended)


def test_checkpoints_count_up_and_are_few(shared):
    """The same twice, one of fewer events after one of more, and too many are refused; in order they are taken."""
    claim = started(shared)
    first = claim["said"]["checkpoint"]
    links = follow(claim, [{"type": "checkpoint.created", "checkpointId": "c", "tier": "t"}], shared.clock())
    second = shared.plane.append(claim["claimToken"], links, release=True)["checkpoint"]
    for odd in ([first, first], [second, first], [first] * 129, [first] * 2000):
        assert "31." in refused(shared, claim, checkpoints=odd)

    assert complete(shared, claim, checkpoints=[first, second])["checkpoints"] == [first, second]


def test_an_export_compares_text_and_never_fails(shared):
    """Whatever an older plane let into a chain, an export gives it, and all that comes after it."""
    claim = started(shared)
    complete(shared, claim)
    odd = chained(99, "2026-02-31T00:00:00.000Z", "0" * 64, COMPLETED)
    with shared.store.database.transaction():
        Runs(shared.store.database).add_events(claim["runId"], [odd])
    other = started(shared)
    complete(shared, other)
    auditor = shared.plane.caller(shared.plane.people.issue("aud", "auditor")["token"])
    lines = [msgspec.json.decode(line) for line in auditor.export()]

    assert {line["runId"] for line in lines} == {claim["runId"], other["runId"]}
    assert any(line["ts"] == odd["ts"] for line in lines)
    assert list(auditor.export("9999-12-31T23:59:59.999Z")) == []
    assert len(list(auditor.export("0001-01-01T00:00:00.000+14:00"))) == len(lines)
    assert len(list(auditor.export("2026-03-01T00:00:00.000Z"))) == len(lines) - 1


def test_a_receipt_is_no_head_of_a_journal(shared):
    """A receipt that a runner gave a head's fields is signed as a receipt, and proves no journal."""
    claim = started(shared)
    entry = shared.plane.journal()["entries"][-1]
    kept = complete(shared, claim, seq=entry["seq"], hash=entry["hash"], ts=entry["ts"])
    head = {**kept, "signatures": [one for one in kept["signatures"] if one["signer"] == "plane"]}
    true = shared.plane.journal()

    assert verify(true, [PLANE.public]).ok
    assert verify(true["head"], [PLANE.public]).ok
    assert verify({**true, "head": head}, [PLANE.public]).verdict == "invalid"
    assert verify(head, [PLANE.public]).verdict == "invalid"


def test_a_home_whose_head_has_no_version_goes_on(site):
    """The journal of an older home verifies, and takes the next entry."""
    site.submit()
    older = {name: value for name, value in site.plane.journal()["head"].items() if name in ("seq", "hash", "ts")}
    with site.store.database.transaction():
        site.store.database.run("UPDATE journal_head SET head = ?", msgspec.json.encode(signed(older, PLANE, "plane")))
    assert verify(site.plane.journal(), [PLANE.public]).ok
    site.submit()

    assert verify(site.plane.journal(), [PLANE.public]).ok
    assert site.plane.journal()["head"]["version"] == "tipstaff.journal-head.v1"
