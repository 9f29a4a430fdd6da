"""What was captured, spelled: the manifest for the contract, and the sentences for the person.

A manifest depends on the content alone, never on when or where it was captured. What was left out is named in it, up to
a number: it travels with every contract. Pure.
"""

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from tipstaff.model import names
from tipstaff.model.noun import VERSION_MANIFEST
from tipstaff.workspace import listing

Json = dict[str, Any]
SHOWN: Final = 5  # names in a sentence
MOST_NAMED: Final = 1_000  # names in a manifest


class Left(NamedTuple):
    """What is not captured."""

    denied: Sequence[bytes]
    out: Sequence[tuple[bytes, str]]  # and why


def tree_manifest(listed: bytes, patterns: Sequence[str], left: Left, git: Json | None) -> Json:
    """Spell the manifest of a tree by its list; `git` says which commit comes along, and in which pack."""
    tree = listing.tree_hash(listed)
    manifest: Json = {
        "version": VERSION_MANIFEST,
        "kind": "tree",
        "baseRef": tree,
        "treeHash": tree,
        "untrackedFiles": [],
        "deniedPatterns": list(patterns),
        "deniedPaths": [names.shown(name) for name in sorted(left.denied)[:MOST_NAMED]],
    }
    if left.out:
        manifest["leftOut"] = [names.spelled(name) | {"reason": why} for name, why in sorted(left.out)[:MOST_NAMED]]
    return manifest if git is None else manifest | {"git": git}


def notices(left: Left, pointers: Collection[bytes], hidden: int) -> list[str]:
    """Say to the folder's owner what the run will not find, or not find as expected."""
    told = []
    if left.denied:
        told.append(f"left out by the deny patterns: {some(left.denied)}")
    reasons: dict[str, list[bytes]] = {}
    for name, why in left.out:
        reasons.setdefault(why, []).append(name)
    told += [f"left out: {some(found)} ({why})" for why, found in sorted(reasons.items())]
    if pointers:
        told.append(f"captured as Git LFS pointers, without the files that they stand for: {some(pointers)}")
    if hidden:
        told.append(f"not in the folder, hence not captured: {hidden} files that a sparse checkout hides")
    return told


def some(found: Collection[bytes]) -> str:
    """Name a few, and say how many more there are."""
    shown = ", ".join(repr(names.shown(name)) for name in sorted(found)[:SHOWN])
    return shown if len(found) <= SHOWN else f"{shown} and {len(found) - SHOWN} more"
