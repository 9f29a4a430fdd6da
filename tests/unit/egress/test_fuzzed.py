"""What fuzzing has found stays found."""

from pathlib import Path

import pytest

from tests.fuzz.egress_heads import CORPUS, check, seeds


@pytest.mark.parametrize("path", sorted(CORPUS.iterdir()), ids=lambda path: path.name)
def test_the_corpus_holds(path: Path) -> None:
    """Every kept input parses or is refused, the same in any pieces."""
    check(path.read_bytes())


def test_the_seeds_hold():
    """What fuzzing starts from is held to the same promises."""
    for data in seeds():
        check(data)
