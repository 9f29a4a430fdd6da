"""What every test shares: the repository's folder, the asynchronous back end, and Hypothesis's profiles."""

import contextlib
import os
import shutil
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.conformance.conftest import PROMISED
from tipstaff.isolation import owners, places

# "ci" gives the same examples on every machine, so that a red build can be repeated; no deadlines, because machines
# are shared. "quick" is for the inner loop (`make check`). "explore" looks further, for an evening:
# HYPOTHESIS_PROFILE=explore make check
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("quick", derandomize=True, deadline=None, max_examples=15)
settings.register_profile("explore", deadline=None, max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a build ask for tiers: what this machine can have is tested, and never skipped in silence."""
    parser.addoption("--no-skips", action="store_true", help="fail where a test would skip")
    parser.addoption(
        "--require-tier", action="append", default=[], metavar="NAME", help="fail where tests of this tier would skip"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Know the marks by which a test says where it can hold."""
    config.addinivalue_line("markers", "only_if(condition, reason): for one kind of host or user; CI has both users")
    config.addinivalue_line("markers", "promise(clause): only for tiers that keep this clause")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what cannot hold here by its nature. Whatever is left has to run: a skip may hide a defect."""
    out = [item for item in items if not _applies(item)]
    config.hook.pytest_deselected(items=out)
    items[:] = [item for item in items if item not in set(out)]


def _applies(item: pytest.Item) -> bool:
    conditions = [mark.args[0] for mark in item.iter_markers("only_if")]
    clauses = {mark.args[0] for mark in item.iter_markers("promise")}
    return all(conditions) and (not clauses or clauses <= PROMISED[item.callspec.params["tier"]])  # type: ignore[attr-defined]  # of functions


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip into a failure where --no-skips says so: `make test` does."""
    report = yield
    if report.skipped and item.config.getoption("--no-skips"):
        report.outcome = "failed"
    return report


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
