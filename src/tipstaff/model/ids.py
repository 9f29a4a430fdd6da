"""Ids of runs and of refused requests, as every plane makes them: a kind and a UUID, and nothing else.

An id becomes the name of a folder here and a part of an address there, so one that arrives is held against this form
before it is used for either. (A verifier, which uses it for neither, takes any plain name: see `contract.RunId`.)
"""

import re
from typing import Final

_UUID: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z"
_RUN: Final = re.compile("run_" + _UUID)
_REFUSAL: Final = re.compile("ref_" + _UUID)


def is_run_id(value: object) -> bool:
    """Say whether this is the whole id of a run."""
    return isinstance(value, str) and _RUN.match(value) is not None


def is_refusal_id(value: object) -> bool:
    """Say whether this is the whole id of a refused request."""
    return isinstance(value, str) and _REFUSAL.match(value) is not None
