"""Our runner against a plane of the other implementation: contracts with the protocol's fields alone."""

import subprocess
import time

import pytest

from tests.acceptance.repositories import git, grow
from tests.wire.old_plane import ENROLL_TOKEN, OldPlane, serving
from tests.wire.old_words import problems
from tipstaff.evidence import verify

SECRET = "hunter2-hunter2-hunter2"  # noqa: S105 - nobody's
MOCK = {"kind": "agent", "agent": {"kind": "mock"}, "prompt": "do work"}


@pytest.fixture
def plane():
    """A plane of the other implementation."""
    with serving(OldPlane()) as made:
        yield made


@pytest.fixture
def once(stage, plane):
    """Let our runner carry out one run of the plane, whose key it was given."""

    def start(*options, code=0, key=True):
        pinned = stage.folder / "plane.pem"
        pinned.write_text(plane.key.pem)
        words = ["runner", "start", "--plane", plane.url, "--data", stage.data("one"), "--once", *options]
        words += ["--plane-key", pinned] if key else []
        return stage.call(*words, code=code, TIPSTAFF_ENROLL_TOKEN=ENROLL_TOKEN)

    return start


def shell(script, **more):
    """A shell script, as old contracts have it."""
    return {"kind": "shell", "script": script, **more}


def manifest_of(plane, folder):
    """Capture a repository as the other implementation does, into the plane's blobs."""
    packed = folder.parent / "packed.bundle"
    git(folder, "bundle", "create", "--quiet", str(packed), "HEAD", "--all")
    ran = subprocess.run(["/usr/bin/git", "diff", "--binary", "HEAD"], cwd=folder, capture_output=True, check=True)
    loose = (folder / "new.txt").read_bytes()
    return {
        "version": "warrant.manifest.v1",
        "baseRef": git(folder, "rev-parse", "HEAD"),
        "bundleHash": plane.keep(packed.read_bytes()),
        "dirtyDiffHash": plane.keep(ran.stdout),
        "untrackedFiles": [{"path": "new.txt", "hash": plane.keep(loose), "bytes": len(loose)}],
        "deniedPatterns": [".env"],
        "deniedPaths": [],
    }


@pytest.fixture
def repository(tmp_path):
    """A repository with something uncommitted and something unknown to git."""
    folder = grow(tmp_path / "repository")
    (folder / "README.md").write_text("# Notes, changed\n")
    (folder / "new.txt").write_text("new\n")
    return folder


def kinds(run):
    """The types of a run's events."""
    return [link["event"]["type"] for link in run.events]


def test_a_shell_contract_is_carried_out(plane, once):
    """A script runs in our sandbox, its receipt passes the old plane's checks, and --once prints the run's id."""
    run_id = plane.queue(plane.contract(shell("echo out; echo err >&2")))

    ended = once()

    run = plane.runs[run_id]
    assert run_id in ended.stdout.decode()
    assert plane.refused == []
    assert run.receipt is not None
    assert (run.receipt["status"], run.receipt["runner"]["isolation"]) == ("completed", "bwrap")
    assert problems(run.bundle) == []
    assert verify(run.bundle, [plane.key.pem]).verdict == "valid"
    logs = [link["event"]["hash"] for link in run.events if link["event"]["type"] == "artifact.created"]
    assert sorted(plane.blobs[logs[-1]].splitlines()) == [b"err", b"out"]


def test_a_workspace_bundle_is_unpacked_and_its_change_comes_back(plane, once, repository):
    """Bundle, diff and untracked file become the workspace; the mock's note comes back as a diff."""
    run_id = plane.queue(plane.contract(MOCK, workspace=manifest_of(plane, repository)))

    once()

    run = plane.runs[run_id]
    assert run.receipt is not None
    assert run.receipt["status"] == "completed"
    changed = [link["event"]["path"] for link in run.events if link["event"]["type"] == "file.changed"]
    assert "MOCK_AGENT.md" in changed
    assert b"MOCK_AGENT.md" in plane.blobs[run.receipt["workspaceOut"]["diffHash"]]
    assert problems(run.bundle) == []


def test_the_workspace_is_what_the_manifest_says(plane, once, repository):
    """The script inside sees the commit's files, the uncommitted change and the untracked file."""
    script = "cat README.md new.txt src/main.c; git rev-parse HEAD"
    run_id = plane.queue(plane.contract(shell(script), workspace=manifest_of(plane, repository)))

    once()

    run = plane.runs[run_id]
    log = next(link["event"]["hash"] for link in reversed(run.events) if link["event"]["type"] == "artifact.created")
    head = git(repository, "rev-parse", "HEAD")
    assert plane.blobs[log].decode() == f"# Notes, changed\nnew\nint main;\n{head}\n"


def test_a_secret_is_in_the_environment_and_redacted(plane, once):
    """A released secret reaches the command, and nothing that goes back holds its value."""
    contract = plane.contract(shell('echo "it is $MOCK_SECRET"'), secrets=[{"name": "MOCK_SECRET", "scope": "session"}])
    run_id = plane.queue(contract, {"MOCK_SECRET": SECRET})

    once()

    run = plane.runs[run_id]
    assert run.receipt is not None
    assert [one["name"] for one in run.receipt["secretsReleased"]] == ["MOCK_SECRET"]
    assert SECRET not in str(plane.said)
    assert not any(SECRET.encode() in data for data in plane.blobs.values())
    assert any(b"[REDACTED:MOCK_SECRET]" in data for data in plane.blobs.values())


def test_a_failing_run_leaves_a_failed_receipt(plane, once):
    """A script that fails is told with its exit code, and the old plane takes the receipt."""
    run_id = plane.queue(plane.contract(shell("exit 3")))

    once(code=None)

    run = plane.runs[run_id]
    assert run.receipt is not None
    assert (run.receipt["status"], run.events[-1]["event"]["failure"]) == ("failed", "session_failed")
    assert run.events[-1]["event"]["message"] == "agent exited with code 3"


def test_a_timeout_of_the_contract_holds(plane, once):
    """A contract's timeoutMs ends the run, and the receipt says that its budget was exceeded."""
    run_id = plane.queue(plane.contract(shell("sleep 30", timeoutMs=500)))

    once(code=None)

    assert plane.runs[run_id].events[-1]["event"]["failure"] == "budget_exceeded"


def test_what_this_runner_cannot_do_is_a_receipt(plane, once):
    """An agent without a harness here ends as capability_mismatch with a receipt, and not as silence."""
    contract = plane.contract({"kind": "agent", "agent": {"kind": "pi"}, "prompt": "x"})
    run_id = plane.queue(contract)

    once(code=None)

    run = plane.runs[run_id]
    assert run.receipt is not None
    assert run.events[-1]["event"]["failure"] == "capability_mismatch"
    assert "command.executed" not in kinds(run)


def test_only_old_fields_are_needed_and_polling_is_patient(plane, stage):
    """A runner that finds nothing asks an old plane about once a second, and ends at SIGTERM."""
    pinned = stage.folder / "plane.pem"
    pinned.write_text(plane.key.pem)
    stage.url = plane.url
    words = ["runner", "start", "--plane", plane.url, "--data", stage.data("one"), "--plane-key", pinned]
    runner = stage.begin("runner", *words, TIPSTAFF_ENROLL_TOKEN=ENROLL_TOKEN)

    until = time.monotonic() + 30
    while len(plane.posts("/v1/claims")) < 3 and time.monotonic() < until:
        time.sleep(0.05)
    began, before = time.monotonic(), len(plane.posts("/v1/claims"))
    time.sleep(3)
    asked, passed = len(plane.posts("/v1/claims")) - before, time.monotonic() - began

    assert 1 <= asked <= passed + 2
    assert runner.stop() == 0


def test_without_the_planes_key_an_old_plane_is_refused(plane, once):
    """An old plane tells no key: the runner says so in a sentence and how to go on, and asks for no work."""
    run_id = plane.queue(plane.contract(shell("true")))

    ended = once(key=False, code=None)

    assert ended.returncode != 0
    assert b"--plane-key" in ended.stderr
    assert b"Traceback" not in ended.stderr
    assert plane.posts("/v1/claims") == []
    assert plane.runs[run_id].token == ""


def test_a_data_directory_of_the_other_implementation_is_taken(plane, once):
    """A second start uses the identity of the first, and does not enrol again; another pool is refused."""
    for _ in range(2):
        plane.queue(plane.contract(shell("true")))
        once()

    refused = once("--pool", "elsewhere", code=None)

    assert len(plane.runners) == 1
    assert refused.returncode != 0
    assert b"pool" in refused.stderr
