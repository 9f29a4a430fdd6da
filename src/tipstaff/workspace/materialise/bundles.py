"""A git bundle's head: which commits it holds, under which names, and where its pack begins.

Read here and not by git, so that nothing but the pack reaches git. A bundle that builds on commits which it does not
hold, or leaves objects out, is refused: a workspace must stand by itself. Pure.
"""

import re
from typing import Final, NamedTuple

from tipstaff.errors import InputError
from tipstaff.workspace.inside import OBJECT_FORMATS, check_ref

MOST_HEAD: Final = 2**20  # bytes
DEFAULT_REF: Final = "refs/heads/main"
_SIGNATURES: Final = (b"# v2 git bundle", b"# v3 git bundle")
_FORMAT: Final = b"@object-format="
_REF: Final = re.compile(rb"([0-9a-f]{40}|[0-9a-f]{64}) (.+)")


class Head(NamedTuple):
    """What a bundle says before its pack."""

    object_format: str
    refs: tuple[tuple[str, str], ...]  # a commit and its name
    length: int  # where the pack begins

    def branch_of(self, commit: str) -> str | None:
        """Give the branch at this commit, None where HEAD alone is there; InputError when nothing is."""
        refs = [ref for named, ref in self.refs if named == commit]
        if not refs:
            raise InputError(f"the workspace's bundle does not hold the commit {commit[:80]}")
        branches = sorted(ref for ref in refs if _is_branch(ref))
        return DEFAULT_REF if DEFAULT_REF in branches else branches[0] if branches else None


def read(bundle: bytes) -> Head:
    """Read the head of a bundle; InputError when it is none that stands by itself."""
    end = bundle.find(b"\n\n", 0, MOST_HEAD)
    signature, *lines = bundle[: max(end, 0)].split(b"\n")
    if signature not in _SIGNATURES:
        raise InputError("the workspace's bundle is not a git bundle")
    said = [line for line in lines if line.startswith(b"@")]
    object_format = _object_format(said)
    refs = tuple(_ref(line, object_format) for line in lines[len(said) :])
    return Head(object_format, refs, end + 2)


def _object_format(said: list[bytes]) -> str:
    formats = [line.removeprefix(_FORMAT).decode(errors="replace") for line in said if line.startswith(_FORMAT)]
    if len(formats) != len(said) or len(formats) > 1 or not set(formats) <= OBJECT_FORMATS.keys():
        raise InputError(
            "the workspace's bundle asks for what is not known here", hint="make it with git bundle create"
        )
    return formats[0] if formats else "sha1"


def _ref(line: bytes, object_format: str) -> tuple[str, str]:
    if line.startswith(b"-"):
        raise InputError("the workspace's bundle builds on commits that it does not hold")
    found = _REF.fullmatch(line)
    if found is None or len(found[1]) != OBJECT_FORMATS[object_format]:
        raise InputError("the workspace's bundle has a head that cannot be read")
    return found[1].decode(), found[2].decode(errors="replace")


def _is_branch(ref: str) -> bool:
    try:
        check_ref(ref)
    except InputError:
        return False
    return True
