"""Stages for the tests of the wire: one for each test that breaks things, one for a file of tests that do not."""

import itertools
from collections.abc import Callable, Iterator

import pytest

from tests.wire.old_peer import OldClient, OldRunner
from tests.wire.stage import PATIENT, POLICY, Stage

ASKING = POLICY.replace(
    "pools:",
    "  - {id: looked-at, effect: ask, when: {principals: [careful]}, approvals: {approvers: [alice, careful]}}\npools:",
)
SECRET = "hunter2-hunter2-hunter2"  # noqa: S105 - nobody's
_numbers = itertools.count()


@pytest.fixture
def stage(tmp_path) -> Iterator[Stage]:
    """An empty stage."""
    with Stage(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Iterator[Stage]:
    """A plane that serves old peers too, with a secret and principals; tests that share it have pools of their own."""
    with Stage(tmp_path_factory.mktemp("site")) as made:
        made.init_plane(policy=ASKING, minimum="process", secrets={"MOCK_SECRET": SECRET}, limits=PATIENT)
        yield made.start_plane("--open-blobs")


@pytest.fixture(scope="module")
def requester(site) -> OldClient:
    """Somebody who may ask for runs."""
    return OldClient(site.url, site.token("demo"))


@pytest.fixture
def pool() -> str:
    """A pool that no other test uses."""
    return f"pool-{next(_numbers)}"


@pytest.fixture
def enrolled(site, tmp_path) -> Callable[[str], OldRunner]:
    """Make a runner of the other implementation that the plane knows."""

    def enroll(pool: str) -> OldRunner:
        runner = OldRunner(site.url, tmp_path / f"runner-{next(_numbers)}", pool)
        reply = runner.enroll(site.enroll_token())
        assert reply.status == 200, reply
        return runner

    return enroll
