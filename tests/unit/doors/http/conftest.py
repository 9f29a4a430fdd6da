"""One plane for a whole file where tests do not disturb each other, and one for a test that changes how it serves."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from tests.unit.doors.http.served import Served, serving
from tipstaff.doors.http.settings import Limits

GENEROUS = Limits(failures=1_000_000)  # what the tests of one file get wrong, others need not wait for
Serve = Callable[..., AbstractContextManager[Served]]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A plane that the tests of one file share."""
    with serving(tmp_path_factory.mktemp("plane") / "home", limits=GENEROUS) as one:
        yield one


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    """Serve a plane with settings of one's own."""
    return partial(serving, tmp_path / "home")
