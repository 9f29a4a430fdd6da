"""A plane that somebody took over, or that somebody plays: our runner runs nothing that its pinned key did not sign.

The contracts below would start a `sleep` with a number of its own: whether it was started is looked up among the
processes of the machine while the runner decides, and no event of a command may reach the plane.
"""

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.processes import running
from tests.wire.old_plane import ENROLL_TOKEN, OldPlane, serving
from tests.wire.old_words import OldChain, OldKey, hash_of, now

AN_HOUR = timedelta(hours=1)
UNREADABLE = "a claim that cannot be read"  # what the runner says of one, in its log


@pytest.fixture
def plane():
    """A plane that the runner trusts, and that changes its mind."""
    with serving(OldPlane()) as made:
        yield made


@pytest.fixture
def canary():
    """A number that no other test sleeps for."""
    return f"4.{time.monotonic_ns()}"


@pytest.fixture
def runner(stage, plane):
    """Our runner, at work for that plane."""
    pinned = stage.folder / "plane.pem"
    pinned.write_text(plane.key.pem)
    words = ["runner", "start", "--plane", plane.url, "--data", stage.data("one"), "--plane-key", pinned]
    return stage.begin("runner", *words, TIPSTAFF_ENROLL_TOKEN=ENROLL_TOKEN)


def sleeping(plane, canary, **changes):
    """A contract whose command can be seen."""
    return plane.contract({"kind": "shell", "script": f"sleep {canary}; echo ran"}, **changes)


def decided(stage, plane, runner, canary):
    """Wait until the runner has refused a claim or ended the run; says whether the command was ever seen."""
    until, seen = time.monotonic() + 30, False
    while time.monotonic() < until and runner.alive:
        seen |= bool([one for one in running(f"sleep {canary}") if one != runner.process.pid])
        if plane.posts("/complete") or refusals(stage) or UNREADABLE in runner.text:
            break
        time.sleep(0.03)
    return seen


def refusals(stage):
    """What the runner wrote down as refused."""
    path = stage.data("one") / "refused.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def later(delta):
    """A time from now, as the wire has it."""
    return (datetime.now(UTC) + delta).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def test_the_twin_of_all_below_runs(stage, plane, runner, canary):
    """A contract that is signed, current, ours and unchanged runs: the command is seen, and its receipt comes."""
    run_id = plane.queue(sleeping(plane, canary))

    assert decided(stage, plane, runner, canary)
    receipt = plane.runs[run_id].receipt
    assert receipt is not None
    assert receipt["status"] == "completed"
    assert refusals(stage) == []


def unsigned(claim):
    """Take the signature off."""
    return claim | {"contract": claim["contract"] | {"signatures": []}}


def changed(claim):
    """Change what would run, beneath the signature."""
    contract = claim["contract"]
    script = contract["execution"]["script"]
    return claim | {"contract": contract | {"execution": {"kind": "shell", "script": f"{script}; id"}}}


def resigned(claim):
    """Sign with a key of one's own, under the plane's name."""
    contract = {name: value for name, value in claim["contract"].items() if name != "signatures"}
    stranger = OldKey().signed(contract, "plane")
    stranger["signatures"][0]["keyId"] = claim["contract"]["signatures"][0]["keyId"]
    return claim | {"contract": stranger}


def of_another(claim):
    """Say another run's id around the contract."""
    return claim | {"runId": "run_00000000-0000-4000-8000-000000000000"}


def other_genesis(claim):
    """Begin the chain at another contract's hash."""
    first = {"seq": 0, "ts": claim["events"][0]["ts"], "prev": "0" * 64, "event": {"type": "run.created"}}
    return claim | {"events": [{"version": "warrant.event.v1", **first, "hash": hash_of(first)}, *claim["events"][1:]]}


def unnamed_secret(claim):
    """Bring a secret that the contract does not name."""
    return claim | {"secrets": [{"name": "PATH_TO_RUIN", "value": "x" * 20}]}


def nothing_in_it(claim):
    """Bring a claim without a contract."""
    return {name: value for name, value in claim.items() if name != "contract"}


def wrong_types(claim):
    """Bring fields of other types."""
    return claim | {"contract": [], "events": 7, "secrets": "none"}


@pytest.mark.parametrize(
    "alter",
    [unsigned, changed, resigned, of_another, other_genesis, unnamed_secret, nothing_in_it, wrong_types],
    ids=lambda one: one.__name__,
)
def test_flaw_16_what_the_pinned_key_did_not_sign_does_not_run(stage, plane, runner, canary, alter):
    """An unsigned, changed, resigned or foreign contract, and one with odd things around it, never starts anything."""
    plane.alter, plane.credulous = alter, True
    plane.queue(sleeping(plane, canary))

    seen = decided(stage, plane, runner, canary)

    assert not seen
    assert "command.executed" not in json.dumps(plane.said)
    assert refusals(stage) or UNREADABLE in runner.text, runner.text
    assert plane.posts("/complete") == []
    assert runner.alive
    still_works(plane, runner)


def still_works(plane, runner):
    """The runner that refused goes on with honest work."""
    plane.alter, plane.credulous = lambda claim: claim, False
    run_id = plane.queue(plane.contract({"kind": "shell", "script": "echo honest"}))
    until = time.monotonic() + 40
    while plane.runs[run_id].receipt is None and time.monotonic() < until:
        time.sleep(0.05)
    receipt = plane.runs[run_id].receipt
    assert receipt is not None, runner.text
    assert receipt["status"] == "completed"


@pytest.mark.parametrize(
    "change",
    [
        {"expiresAt": later(-AN_HOUR)},
        {"runner": {"pool": "elsewhere"}},
        {"network": {"defaultDeny": False, "allowHosts": []}},
        {"version": "warrant.contract.v9"},
        {"isolation": "vercel-sandbox"},
        {"files": {"workspace": "/etc", "inPlace": True, "readable": []}},
        {"files": {"readable": ["/etc"]}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_flaw_12_and_16_what_is_signed_but_not_for_here_does_not_run(stage, plane, runner, canary, change):
    """An expired contract, one for another pool, with an open network or with folders of this host runs nothing."""
    plane.credulous = True
    plane.queue(sleeping(plane, canary, **change))

    seen = decided(stage, plane, runner, canary)

    assert not seen
    assert "command.executed" not in json.dumps(plane.said)
    receipts = [body["receipt"]["status"] for body in plane.posts("/complete")]
    assert bool(refusals(stage)) is not (receipts == ["failed"]), runner.text


def test_a_secret_that_is_missing_is_not_run_without(stage, plane, runner, canary):
    """A contract that names a secret which did not come runs nothing."""
    plane.credulous = True
    plane.queue(sleeping(plane, canary, secrets=[{"name": "MOCK_SECRET", "scope": "session"}]))

    assert not decided(stage, plane, runner, canary)
    assert "command.executed" not in json.dumps(plane.said)


def test_flaw_22_wrong_bytes_behind_a_hash_are_refused(stage, plane, runner, canary):
    """A blob that is not what its name says ends the run as transfer_failed before anything is started."""
    name = plane.keep(b"the right bytes")
    plane.blobs[name] = b"other bytes"
    manifest = {
        "version": "warrant.manifest.v1",
        "baseRef": "0" * 40,
        "bundleHash": name,
        "untrackedFiles": [],
        "deniedPatterns": [],
        "deniedPaths": [],
    }
    run_id = plane.queue(sleeping(plane, canary, workspace=manifest))

    seen = decided(stage, plane, runner, canary)

    assert not seen
    run = plane.runs[run_id]
    assert run.receipt is not None, runner.text
    assert run.events[-1]["event"]["failure"] == "transfer_failed"
    assert "command.executed" not in json.dumps(plane.said)


def as_it_was(claim):
    """The same claim again."""
    return claim


def told_anew(claim):
    """The same contract, with a chain of the same events at other times: no event of a claim is signed."""
    first = {"seq": 0, "ts": now(), "prev": claim["events"][0]["prev"], "event": claim["events"][0]["event"]}
    chain = OldChain([{"version": "warrant.event.v1", **first, "hash": hash_of(first)}])
    for link in claim["events"][1:]:
        chain.add(link["event"]["type"], **{name: it for name, it in link["event"].items() if name != "type"})
    return claim | {"events": chain.links, "claimToken": "another"}


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("again", [as_it_was, told_anew], ids=lambda one: one.__name__)
def test_a_replayed_claim_is_not_run_twice(stage, plane, runner, again, restarted):
    """A contract that was carried out once, handed out again by a plane that takes every word, starts nothing."""
    canary = f"1.{time.monotonic_ns()}"
    run_id = plane.queue(sleeping(plane, canary))
    kept = []

    def keeping(claim):
        kept.append(claim)
        return claim

    plane.alter = keeping
    assert decided(stage, plane, runner, canary)
    until = time.monotonic() + 20
    while plane.runs[run_id].receipt is None and time.monotonic() < until:
        time.sleep(0.05)
    assert plane.runs[run_id].receipt is not None

    plane.alter, plane.credulous = lambda _claim: again(kept[0]), True
    if restarted:
        runner.kill()
        runner = stage.begin("again", "runner", "start", "--plane", plane.url, "--data", stage.data("one"))
    plane.queue(sleeping(plane, f"{canary}9"))
    until, seen = time.monotonic() + 8, False
    while time.monotonic() < until and not refusals(stage) and not seen:
        seen = bool(running(f"sleep {canary}"))
        time.sleep(0.03)

    assert not seen
    assert refusals(stage), runner.text


@pytest.mark.parametrize("reply", [b"", b"not json", b"[]", b"[" * 100_000, b'{"empty":"no"}', b'{"runId":5}'])
def test_a_claims_reply_that_is_none_does_not_stop_the_runner(plane, runner, reply):
    """Whatever bytes answer a claim, the runner stays up and goes on with honest work."""
    honest = plane.answer
    bad = iter([reply] * 3)

    def answered(path, body):
        odd = next(bad, None) if path == "/v1/claims" else None
        return honest(path, body) if odd is None else (200, odd)

    plane.answer = answered
    still_works(plane, runner)

    assert runner.alive
    assert "Traceback" not in runner.text


def test_an_endless_reply_does_not_fill_the_memory(plane, runner):
    """A reply of 200 megabytes is not read to its end: the runner stays small, and goes on."""
    honest = plane.answer
    bad = iter([b" " * 200_000_000] * 2)

    def answered(path, body):
        odd = next(bad, None) if path == "/v1/claims" else None
        return honest(path, body) if odd is None else (200, odd)

    plane.answer = answered
    still_works(plane, runner)

    status = Path(f"/proc/{runner.process.pid}/status").read_text()
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    assert peak < 250_000  # KiB
    assert next(bad, None) is None


@pytest.mark.parametrize("route", ["/v1/claims", "/events", "/complete"])
def test_a_redirect_is_not_followed(plane, runner, route):
    """A plane that sends its runner elsewhere, with its token, is not obeyed: nothing comes there."""
    honest = plane.answer
    with serving(OldPlane()) as elsewhere:
        sent: list[str] = []

        def answered(path, body):
            if path.endswith(route) and len(sent) < 2:
                sent.append(path)
                return 307, {"error": "go", "location": f"{elsewhere.url}{path}"}
            return honest(path, body)

        plane.answer = answered
        plane.queue(plane.contract({"kind": "shell", "script": "echo honest"}))
        until = time.monotonic() + 20
        while not sent and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(1.5)

        assert sent
        assert elsewhere.said == []
    assert runner.alive


def test_another_key_later_is_refused(stage, plane):
    """A runner that pinned a key does not take another one for the same plane, told or not."""
    words = ["runner", "start", "--plane", plane.url, "--data", stage.data("one"), "--once"]
    first, other = stage.folder / "plane.pem", stage.folder / "other.pem"
    first.write_text(plane.key.pem)
    other.write_text(OldKey().pem)
    plane.queue(plane.contract({"kind": "shell", "script": "true"}))
    stage.call(*words, "--plane-key", first, TIPSTAFF_ENROLL_TOKEN=ENROLL_TOKEN)

    refused = stage.call(*words, "--plane-key", other, code=None)

    assert refused.returncode != 0
    assert b"key" in refused.stderr
    assert (stage.data("one") / "plane.pub.pem").read_text().strip() == plane.key.pem.strip()
