"""What every test shares: the repository's folder, the asynchronous back end, and Hypothesis's profiles."""

import contextlib
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import settings

from tipstaff.isolation import owners, places

# "ci" gives the same examples on every machine, so that a red build can be repeated; no deadlines, because machines
# are shared. "quick" is for the inner loop (`make check`). "explore" looks further, for an evening:
# HYPOTHESIS_PROFILE=explore make check
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("quick", derandomize=True, deadline=None, max_examples=25)
settings.register_profile("explore", deadline=None, max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a build ask for tiers: what this machine can have is tested, and never skipped in silence."""
    parser.addoption(
        "--require-tier", action="append", default=[], metavar="NAME", help="fail where tests of this tier would skip"
    )


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's folder."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture
def anyio_backend() -> str:
    """Run asynchronous tests on asyncio, the only back end that Tipstaff supports."""
    return "asyncio"


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Leave the host as it was: take away the empty folders that spawners keep, unless somebody else's still lives."""
    if hasattr(session.config, "workerinput"):
        return  # one of several processes of this build: the first one tidies up when all are done
    state, scratch = Path(places.state_folder(os.environ)), Path(places.scratch_folder())
    if state.is_dir():
        owners.sweep(str(state))
    if state.is_dir() and not any((state / "owners").glob("*")):
        shutil.rmtree(state)
        with contextlib.suppress(OSError):  # somebody's files are in it
            scratch.rmdir()
