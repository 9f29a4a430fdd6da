"""A plane in a folder of its own for each test."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.plane.embedded import Embedded
from tests.unit.policy.conftest import open_policy

MakeSite = Callable[..., Embedded]


@pytest.fixture
def make_site(tmp_path: Path) -> Iterator[MakeSite]:
    """Make planes on one home, with sections of the policy replaced."""
    made: list[Embedded] = []

    def make(policy: dict[str, Any] | None = None, folder: Path = tmp_path, **means: Any) -> Embedded:
        made.append(Embedded(folder, policy=open_policy(**(policy or {})), **means))
        return made[-1]

    yield make
    for site in made:
        site.close()


@pytest.fixture
def site(make_site: MakeSite) -> Embedded:
    """One plane whose policy allows everything."""
    return make_site()
