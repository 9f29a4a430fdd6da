"""A store in a folder of its own for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tipstaff.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store."""
    made = Store(tmp_path)
    yield made
    made.close()
