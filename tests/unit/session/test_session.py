"""One contract, carried out: what is told before the command, what after it, and what never runs."""

import pytest

from tipstaff.isolation.tier import Ended
from tipstaff.model.tiers import Verdict
from tipstaff.session import Outside

pytestmark = pytest.mark.anyio


def kinds(events):
    """List the types of events."""
    return [link["event"]["type"] for link in events]


async def test_a_good_run_is_told_in_order(carry, tier):
    """The workspace is told before the command is let go, the rest comes with the receipt."""
    tier.prints = [("stdout", b"hello\n")]

    told, released = await carry()

    assert kinds(released) == ["workspace.materialized"]
    assert kinds(told.events) == ["command.executed", "artifact.created", "boundary.crossed", "run.completed"]
    assert (told.receipt["status"], told.receipt["ending"], told.receipt["exitCode"]) == ("completed", "exited", 0)
    assert told.receipt["eventsHead"] == told.events[-1]["hash"]


@pytest.mark.parametrize(
    ("ending", "code", "failure"),
    [
        ("exited", 3, "session_failed"),
        ("signalled", 139, "session_failed"),
        ("timed-out", 124, "budget_exceeded"),
        ("out-of-memory", 137, "budget_exceeded"),
        ("disk-limit", 153, "budget_exceeded"),
        ("output-limit", 141, "budget_exceeded"),
    ],
)
async def test_each_bad_ending_has_its_name(carry, tier, ending, code, failure):
    """A run that did not end well says why, by the protocol's name and by its own."""
    tier.ended = Ended(ending=ending, exit_code=code)

    told, _ = await carry()

    last = told.events[-1]["event"]
    assert (last["type"], last["failure"]) == ("run.failed", failure)
    assert (told.receipt["status"], told.receipt["ending"], told.receipt["exitCode"]) == ("failed", ending, code)


async def test_a_sandbox_that_is_too_weak_runs_nothing(carry, tier):
    """A clause that the contract demands and the sandbox does not hold ends the run before its command."""
    demands = [{"clause": "memory", "strength": "enforced"}]
    tier.verdicts = (Verdict(clause="memory", strength="weaker", by="sampled"),)

    told, _ = await carry(change={"demands": demands})

    assert not tier.released
    assert kinds(told.events) == ["run.failed"]
    assert told.events[-1]["event"]["failure"] == "capability_mismatch"
    assert "memory is weaker (sampled), the contract demands enforced" in told.events[-1]["event"]["message"]


async def test_a_sandbox_that_is_strong_enough_runs(carry, tier):
    """A clause that is held as the contract demands lets the command go."""
    tier.verdicts = (Verdict(clause="memory", strength="weaker"),)

    told, _ = await carry(change={"demands": [{"clause": "memory", "strength": "weaker"}]})

    assert tier.released
    assert told.receipt["status"] == "completed"


async def test_silence_about_a_clause_is_not_enforcement(carry, tier):
    """A clause of which the sandbox says nothing is not held."""
    tier.verdicts = ()

    told, _ = await carry(change={"demands": [{"clause": "network", "strength": "weaker"}]})

    assert not tier.released
    assert told.receipt["ending"] == "setup-failed"


async def test_both_streams_go_into_one_log_unless_told_otherwise(carry, tier, blobs):
    """The protocol merges both streams into one log; `capture` keeps two, standard output first."""
    tier.prints = [("stdout", b"out\n"), ("stderr", b"err\n")]

    merged, _ = await carry()
    apart, _ = await carry(
        execution={"kind": "argv", "command": "make", "args": ["test"], "log": {"stderr": "capture"}}
    )

    logs = [[blobs.get(one) for one in told.receipt["workspaceOut"]["artifactHashes"]] for told in (merged, apart)]
    assert logs == [[b"out\nerr\n"], [b"out\n", b"err\n"]]


@pytest.mark.parametrize(("disclosure", "leaves"), [("none", False), ("metadata-only", False), ("redacted", True)])
async def test_output_leaves_only_where_the_contract_says_so(carry, tier, blobs, disclosure, leaves):
    """Under the two closed disclosures no output is kept; its size and digest are told all the same."""
    tier.prints = [("stdout", b"secret plan")]

    told, _ = await carry(change={"disclosure": disclosure})

    assert (b"secret plan" in blobs.kept.values()) is leaves
    assert told.receipt["streams"]["stdout"]["bytes"] == len(b"secret plan")


async def test_the_kept_copy_is_capped_and_says_so(carry, tier, blobs):
    """Of a long stream the beginning is kept, with a marker; size and digest are those of the whole."""
    tier.prints = [("stdout", b"x" * 700), ("stdout", b"y" * 700)]

    told, _ = await carry(limits={"outputBytes": 1024})

    record = told.receipt["streams"]["stdout"]
    assert (record["bytes"], record["truncated"]) == (1400, True)
    kept = blobs.get(record["kept"])
    assert kept.startswith(b"x" * 700 + b"y" * 324 + b"\n[tipstaff: the first 1024 of 1400 bytes are kept]")


async def test_what_passes_through_is_never_cut(carry, tier):
    """Whoever listens gets every byte, also those that are not kept."""
    tier.prints = [("stdout", b"x" * 700), ("stdout", b"y" * 700)]
    heard = bytearray()

    await carry(outside=Outside(stdout=heard.extend), limits={"outputBytes": 1024})

    assert bytes(heard) == b"x" * 700 + b"y" * 700


async def test_a_cancelled_run_says_who_stopped_it(carry):
    """A word from the plane that somebody wants the run stopped ends it, and the event names that person."""
    boris = {"kind": "human", "id": "boris@example.com"}

    told, _ = await carry(answer=boris)

    assert told.events[-1]["event"] == {"type": "run.cancelled", "actor": boris}
    assert told.receipt["status"] == "cancelled"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"tier": "gvisor"}, "gvisor"),
        ({"execution": {"kind": "agent", "agent": {"kind": "pi"}, "prompt": "x"}}, "harness"),
        ({"execution": {"kind": "argv"}}, "execution"),
    ],
)
async def test_what_cannot_be_kept_is_not_run(carry, tier, change, why):
    """A contract that asks for more than this version does ends with a receipt that says what is missing."""
    told, _ = await carry(change=change)

    assert not tier.released
    assert told.events[-1]["event"]["failure"] == "capability_mismatch"
    assert why in told.events[-1]["event"]["message"]
