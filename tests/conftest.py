"""What every test shares: the repository's folder, the asynchronous back end, and Hypothesis's profiles."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

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
