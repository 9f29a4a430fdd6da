"""A whole governed run in this process: real sandbox, real store, a receipt that verifies."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from tests.unit.policy.conftest import open_policy
from tipstaff.evidence import verify
from tipstaff.home import Home
from tipstaff.keys.known import read_known_keys
from tipstaff.local.embedded import Consent, open_local
from tipstaff.local.opening import open_plane
from tipstaff.local.policies import choose_policy
from tipstaff.policy.shipped import text_of
from tipstaff.session import Outside

pytestmark = pytest.mark.anyio
ANNA = {"kind": "human", "id": "anna@example.com"}


def asking(*argv, **fields):
    """Ask for a command, as a door does."""
    execution = {"kind": "argv", "command": argv[0], "args": list(argv[1:]), "log": {"stderr": "capture"}}
    return {"requestedBy": ANNA, "execution": execution, **fields}


@pytest.fixture
def home(tmp_path) -> Home:
    """A home of its own for each test."""
    return Home(tmp_path / "home")


@pytest.fixture
async def local(home):
    """That home, opened under the shipped default."""
    async with open_local(home, choose_policy(home, None, {})) as opened:
        yield opened


def verdict(local, run_id):
    """Verify a run by nothing but its bundle and the home's known keys."""
    return verify(local.plane.bundle(run_id), known=read_known_keys(local.home.known_keys))


async def test_a_run_leaves_output_and_a_receipt_that_verifies(local):
    """What a command printed and how it ended come back, and the bundle is valid."""
    outcome = await local.run(asking("sh", "-c", "echo out; echo err >&2; exit 3"))

    assert (outcome.stdout, outcome.stderr) == (b"out\n", b"err\n")
    assert (outcome.ending, outcome.exit_code, outcome.ok) == ("exited", 3, False)
    assert verdict(local, outcome.run_id).verdict == "valid"


async def test_a_denied_request_leaves_a_refusal_that_verifies(home):
    """What policy denies never runs, and the signed refusal is valid evidence."""
    denying = {"rules": [{"id": "nobody", "effect": "deny", "when": "any", "reason": "nobody runs anything"}]}

    async with open_local(home, open_policy(**denying)) as local:
        outcome = await local.run(asking("rm", "-rf", "/"))

    assert (outcome.decision, outcome.ending, outcome.exit_code, outcome.run_id) == ("deny", "refused", 126, None)
    assert verify(outcome.refusal or {}, known=read_known_keys(home.known_keys)).verdict == "valid"


async def test_many_runs_at_once_keep_their_output_apart(local):
    """Each of forty runs that go on at once gets its own output and its own receipt."""
    outcomes = await asyncio.gather(*(local.run(asking("echo", str(number))) for number in range(40)))

    assert [outcome.stdout for outcome in outcomes] == [f"{number}\n".encode() for number in range(40)]
    assert len({outcome.run_id for outcome in outcomes}) == 40
    assert all(verdict(local, outcome.run_id).verdict == "valid" for outcome in outcomes[:5])


async def test_a_caller_who_leaves_takes_only_its_own_run_down(local):
    """A task that is cancelled stops its run, which still gets a receipt; its neighbour goes on."""
    leaving = asyncio.create_task(local.run(asking("sleep", "60")))
    staying = asyncio.create_task(local.run(asking("sh", "-c", "sleep 1; echo still here")))
    await asyncio.sleep(0.5)

    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving

    assert (await staying).stdout == b"still here\n"
    await local.close()
    assert {line["status"] for line in local.plane.history()} == {"cancelled", "completed"}


async def test_cancelling_ends_everything_and_leaves_a_receipt(local):
    """A run that is stopped ends as cancelled, with all that it started, and its receipt is valid."""
    cancel = asyncio.Event()
    running = asyncio.create_task(
        local.run(asking("sh", "-c", "setsid sleep 61.5 & sleep 62.5"), outside=Outside(cancel=cancel))
    )
    await asyncio.sleep(0.5)

    cancel.set()
    outcome = await running

    assert (outcome.ending, outcome.exit_code, outcome.receipt["status"]) == ("cancelled", 130, "cancelled")
    assert verdict(local, outcome.run_id).verdict == "valid"
    assert not running_with(b"sleep\x0061.5")


def running_with(words):
    """List the processes of the host whose command line holds `words`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found += [path] if words in path.read_bytes() else []
    return found


ASKING = {
    "tiers": {"tolerate": {"memory": "weaker", "cpu": "unenforceable"}},  # as where a user may make no control group
    "rules": [
        {"id": "ask", "effect": "ask", "when": "any", "approvals": {"approvers": ["boris@example.com"]}},
    ],
}
BORIS = {"kind": "human", "id": "boris@example.com"}


@pytest.mark.parametrize("answer", ["approve", "deny"])
async def test_people_decide_where_policy_asks(home, answer):
    """An approved run runs and its bundle is valid; a denied one never does and leaves a signed refusal."""

    async def answering(local, waiting):
        getattr(local.plane, answer)(waiting.run_id, {"actor": BORIS})

    async with open_local(home, open_policy(**ASKING)) as local:
        outcome = await local.run(asking("echo", "hi"), consent=Consent(asked=answering))

        if answer == "approve":
            assert outcome.stdout == b"hi\n"
            assert verdict(local, outcome.run_id).verdict == "valid"
        else:
            assert (outcome.ending, outcome.exit_code, outcome.stdout) == ("refused", 126, b"")
            assert verify(outcome.refusal or {}, known=read_known_keys(home.known_keys)).verdict == "valid"


async def test_nobody_waits_for_ever(home):
    """A run that nobody approves in time ends refused, and says what was missing."""
    async with open_local(home, open_policy(**ASKING)) as local:
        outcome = await local.run(asking("echo", "hi"), consent=Consent(timeout_seconds=0.3))

    assert (outcome.ending, outcome.exit_code) == ("refused", 126)
    assert "boris@example.com" in outcome.message


async def test_two_processes_share_one_home(home, local):
    """What one process runs, another one that has the same home open sees and verifies."""
    outcome = await local.run(asking("echo", "hi"))

    with open_plane(home) as plane:
        assert plane.history()[0]["runId"] == outcome.run_id
        assert verify(plane.bundle(outcome.run_id), known=read_known_keys(home.known_keys)).verdict == "valid"


@pytest.mark.parametrize("inside", ["home", "policy"])
async def test_no_grant_meets_the_home_or_the_policy(home, tmp_path, inside):
    """A workspace that contains the home or the policy file is refused; its neighbour is taken."""
    for name in ("outer", "beside"):
        (tmp_path / name).mkdir()
    place = Home(tmp_path / "outer" / "home") if inside == "home" else home
    policy = (tmp_path / "outer" if inside == "policy" else tmp_path) / "policy.yaml"
    policy.write_text(text_of("local"))

    async with open_local(place, choose_policy(place, str(policy), {})) as local:
        met = await local.run(asking("true", files={"workspace": str(tmp_path / "outer")}))
        free = await local.run(asking("true", files={"workspace": str(tmp_path / "beside")}))

    assert (met.ending, "protected" in met.reasons[0]) == ("refused", True)
    assert free.ok
