"""Paths of the host, in one spelling, and the patterns that cover them.

A pattern is absolute; `*` and `?` stay within one name, and `**` as a last part covers the folder and all beneath it.
Names only: a symbolic link is followed by nobody here, and whoever opens a path checks what was really opened.
"""

import posixpath
from typing import Final

from tipstaff.policy.patterns import STAR, glob, tokens

PROTECTED: Final = ("/proc", "/sys", "/dev", "/run")  # the kernel's and the system's own; no run ever sees the host's
DEEP: Final = "**"


def normal_path(text: str) -> str:
    """Spell the absolute path `text` in its one way; ValueError says what is wrong with it."""
    if "\0" in text:
        raise ValueError("a path holds no NUL")
    if not text.startswith("/"):
        raise ValueError("a path of the host is absolute")
    if ".." in text.split("/"):
        raise ValueError("a path of the host has no `..`")
    return tidy(text)


def tidy(path: str) -> str:
    """Drop what means nothing in an absolute path: doubled slashes, single dots, a last slash."""
    return "/" + posixpath.normpath(path).lstrip("/")


def stays_inside(text: str) -> bool:
    """Say whether the relative path `text` stays in the folder that it starts from, without a step outside."""
    if text.startswith("/") or "\0" in text:
        return False
    depth = 0
    for part in text.split("/"):
        depth += {"": 0, ".": 0, "..": -1}.get(part, 1)
        if depth < 0:
            return False
    return True


def meets(path: str, other: str) -> bool:
    """Say whether one of two normal paths contains the other."""
    return _contains(path, other) or _contains(other, path)


def _contains(folder: str, path: str) -> bool:
    return folder in (path, "/") or path.startswith(folder + "/")


class PathPattern:
    """One path glob of a policy."""

    __slots__ = ("_deep", "_parts", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        parts = normal_path(text).split("/")[1:]
        self._deep = parts[-1] == DEEP
        names = [part for part in (parts[:-1] if self._deep else parts) if part]
        for name in names:
            if STAR * 2 in tokens(name):
                raise ValueError("`**` stands only as the last part of a path")
        self._parts = tuple(glob(name) for name in names)

    def covers(self, path: str) -> bool:
        """Say whether the normal `path` is one that this pattern grants."""
        names = [] if path == "/" else path.split("/")[1:]
        if len(names) < len(self._parts) or (len(names) > len(self._parts) and not self._deep):
            return False
        return all(match(name) for match, name in zip(self._parts, names, strict=False))
