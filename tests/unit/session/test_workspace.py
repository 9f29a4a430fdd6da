"""A session and its workspace: what it is planned on, what is told of its change, and which agents it takes."""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tipstaff.errors import InputError
from tipstaff.isolation.tier import Ended, Leaving

pytestmark = pytest.mark.anyio
MANIFEST = {"version": "warrant.manifest.v1", "kind": "tree", "baseRef": "a" * 64, "treeHash": "a" * 64}
AGENT = {"agentKind": "mock", "prompt": "hello", "execution": None}


class Standing:
    """Workspaces of which one stands, and which count who holds it."""

    def __init__(self, base: Path | None) -> None:
        self._base = base
        self.held = 0

    @contextmanager
    def base(self, _manifest: dict[str, Any]) -> Iterator[Path]:
        if self._base is None:
            raise InputError("its list cannot be read")
        self.held += 1
        try:
            yield self._base
        finally:
            self.held -= 1


def events(told, kind):
    """Give the events of one type."""
    return [link["event"] for link in told.events if link["event"]["type"] == kind]


@pytest.fixture
def base(tmp_path) -> Path:
    """A workspace that stands."""
    folder: Path = tmp_path / "base"
    folder.mkdir()
    (folder / "kept.txt").write_text("as it was\n")
    return folder


@pytest.fixture
def upper(tmp_path) -> Path:
    """What a command left: one file."""
    folder: Path = tmp_path / "upper"
    folder.mkdir()
    (folder / "note.txt").write_text("hello\n")
    return folder


@pytest.fixture
def left(tier, base, upper):
    """Have the command leave that file."""

    def leave() -> None:
        tier.leaves = Leaving(base=base, upper=upper, copy=None)

    return leave


async def test_a_captured_workspace_is_what_the_run_sees(carry, tier, base):
    """The plan is on the unpacked base, copy-on-write; it is held while the run goes on, and let go after."""
    standing = Standing(base)

    told, _ = await carry(workspaces=standing, workspace=MANIFEST)

    assert told.receipt["status"] == "completed"
    assert (tier.plans[0].workspace, tier.plans[0].mode, tier.plans[0].keep) == (base, "copy-on-write", True)
    assert standing.held == 0


async def test_a_workspace_that_cannot_be_unpacked_runs_nothing(carry, tier):
    """The run ends with the protocol's name for it, and a sentence."""
    told, _ = await carry(workspaces=Standing(None), workspace=MANIFEST)

    assert tier.plans == []
    (failed,) = events(told, "run.failed")
    assert failed["failure"] == "transfer_failed"
    assert "its list cannot be read" in failed["message"]


async def test_a_runner_without_workspaces_says_so(carry, tier):
    """A contract that cannot be kept here is a capability mismatch."""
    told, _ = await carry(workspace=MANIFEST)

    assert tier.plans == []
    assert events(told, "run.failed")[0]["failure"] == "capability_mismatch"


async def test_what_a_run_changed_is_told_behind_its_command(carry, left, base, blobs):
    """Each name is an event with its digest, then diff and contents are, then the log; the receipt repeats them."""
    left()

    told, _ = await carry(workspaces=Standing(base), workspace=MANIFEST)

    names = [link["event"]["type"] for link in told.events]
    crossed = ["artifact.created", "boundary.crossed"]
    assert names == ["command.executed", "file.changed", *crossed, *crossed, *crossed, "run.completed"]
    (changed,) = events(told, "file.changed")
    assert (changed["path"], changed["contentHash"]) == ("note.txt", sha256(b"hello\n").hexdigest())
    diff = told.receipt["workspaceOut"]["diffHash"]
    assert b"+hello" in blobs.kept[diff]
    assert [one["kind"] for one in events(told, "artifact.created")] == ["diff", "bundle", "log"]
    assert told.receipt["changes"]["files"] == 1
    assert [change["path"] for change in told.changes] == ["note.txt"]


@pytest.mark.parametrize(
    ("disclosure", "leaves"),
    [("none", (0, 0)), ("metadata-only", (1, 0)), ("redacted", (1, 2)), ("full", (1, 2))],
)
async def test_content_leaves_only_as_far_as_the_contract_discloses(carry, left, base, disclosure, leaves):
    """Under `none` not even a name leaves, under `metadata-only` no content does."""
    names, kept = leaves
    left()

    told, _ = await carry(workspaces=Standing(base), workspace=MANIFEST, change={"disclosure": disclosure})

    assert len(events(told, "file.changed")) == names
    assert len([one for one in events(told, "artifact.created") if one["kind"] != "log"]) == kept
    assert ("changes" in told.receipt) is (names > 0)


async def test_an_untouched_workspace_costs_nothing(carry, tier, base, tmp_path):
    """A run that wrote nothing tells of no change, and no diff is made."""
    (tmp_path / "nothing").mkdir()
    tier.leaves = Leaving(base=base, upper=tmp_path / "nothing", copy=None)

    told, _ = await carry(workspaces=Standing(base), workspace=MANIFEST)

    assert events(told, "file.changed") == []
    assert told.receipt["workspaceOut"]["diffHash"] == ""


async def test_a_change_that_cannot_be_kept_is_a_failed_transfer(carry, tier, base, tmp_path):
    """A captured workspace's run whose change is lost does not end well, and says what it had done."""
    tier.leaves = Leaving(base=base, upper=tmp_path / "gone", copy=None)

    told, _ = await carry(workspaces=Standing(base), workspace=MANIFEST)

    (failed,) = events(told, "run.failed")
    assert failed["failure"] == "transfer_failed"
    assert "it had exited 0" in failed["message"]
    assert (told.receipt["ending"], told.receipt["exitCode"]) == ("setup-failed", 125)
    assert told.receipt["executionStartedAt"]
    assert events(told, "command.executed")[0]["exitCode"] == 125


async def test_a_live_workspace_whose_change_is_lost_ends_as_it_did(carry, tier, base, tmp_path):
    """Where the point was the command, the receipt only says that its change is not there."""
    tier.leaves = Leaving(base=base, upper=tmp_path / "gone", copy=None)

    told, _ = await carry()

    assert (told.receipt["ending"], told.receipt["exitCode"]) == ("exited", 0)
    assert "could not be kept" in told.receipt["changes"]["problem"]


async def test_an_agent_is_a_command_like_any(carry, tier):
    """The mock agent is started by its script, and the receipt hashes the protocol's line for it."""
    tier.ended = Ended(ending="exited", exit_code=0)

    told, _ = await carry(**AGENT)

    assert tier.plans[0].argv[0] == "bash"
    assert tier.plans[0].argv[-1] == "hello"
    (executed,) = events(told, "command.executed")
    assert "spawnedArgvHash" not in executed


async def test_what_is_started_instead_is_hashed_beside(carry):
    """A prompt that goes by file leaves both hashes."""
    told, _ = await carry(agentKind="mock", prompt="x" * 200_000, execution=None)

    (executed,) = events(told, "command.executed")
    assert executed["spawnedArgvHash"] != executed["argvHash"]


async def test_a_harness_is_never_spawned_by_a_tier_without_it(carry, tier):
    """An agent such as `pi` ends before anything is started; a tier that brings its harness takes it."""
    told, _ = await carry(agentKind="pi", prompt="hello", execution=None)

    assert tier.plans == []
    assert events(told, "run.failed")[0]["failure"] == "capability_mismatch"

    tier.harnesses = frozenset({"pi"})
    told, _ = await carry(agentKind="pi", prompt="hello", execution=None)

    assert (tier.plans[0].harness, tier.plans[0].argv) == ("pi", ("pi", "--harness-only"))
    assert told.receipt["status"] == "completed"


async def test_an_agent_that_is_not_built_in_runs_nothing(carry, tier):
    """An unknown kind is a capability mismatch, with a receipt."""
    told, _ = await carry(agentKind="somebody", prompt="hello", execution=None)

    assert tier.plans == []
    assert events(told, "run.failed")[0]["failure"] == "capability_mismatch"
