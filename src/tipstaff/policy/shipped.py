"""The policies that Tipstaff ships: one default for each door, read from the package like any other file."""

from functools import cache
from importlib import resources
from typing import Final

from tipstaff.errors import NotFoundError
from tipstaff.policy.compiled import Policy
from tipstaff.policy.load import parse_policy

NAMES: Final = ("local", "twins", "inbox", "ecs", "mcp")
DEFAULTS: Final = {"cli": "local", "grpc": "twins", "inbox": "inbox", "ecs": "ecs", "mcp": "mcp"}  # by door


@cache
def shipped(name: str) -> Policy:
    """Load the shipped policy `name`."""
    return parse_policy(text_of(name), f"tipstaff/policies/{name}.yaml")


def text_of(name: str) -> str:
    """Give the text of the shipped policy `name`, to be read, copied and changed."""
    if name not in NAMES:
        raise NotFoundError(f"there is no shipped policy {name!r}", hint=f"there are {', '.join(NAMES)}")
    return (resources.files("tipstaff") / "policies" / f"{name}.yaml").read_text(encoding="utf-8")
