"""Where a repository keeps its things: its directory, the shared one of its worktrees, its format, its HEAD.

All of it is read, nothing of it is run. A `.git` that is a file must point to a directory that points back, and one
that shares another's objects must lie among its worktrees: otherwise a folder from elsewhere could name any repository
of its user, and have it captured. What is not understood is an error that offers the plain tree.
"""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from tipstaff.errors import InputError, TipstaffError
from tipstaff.model import names
from tipstaff.workspace.beneath import Beneath

OFFER: Final = "capture the files without their history: --capture tree"
EXTENSIONS: Final = frozenset(
    {"noop", "noop-v1", "objectformat", "partialclone", "preciousobjects", "refstorage", "relativeworktrees",
     "worktreeconfig"}
)  # fmt: skip
_MOST_BYTES: Final = 64 * 1024 * 1024  # packed-refs of a very large repository
_DEEPEST: Final = 5  # symbolic refs that name symbolic refs
_digits = re.compile(rb"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")


class Places(NamedTuple):
    """The directories of one repository."""

    own: Path  # HEAD and the index
    shared: Path  # objects, refs and the configuration; the same, unless this is one worktree of several


class Head(NamedTuple):
    """What HEAD says."""

    commit: str | None  # None: no commits yet
    ref: bytes | None  # None: detached


def unreadable(said: str) -> TipstaffError:
    """Say that a repository cannot be captured as one, and what can be done instead."""
    return InputError(said, hint=OFFER)


def places(folder: Path) -> Places | None:
    """Find the directories of the repository whose working tree begins at `folder`; None where none does."""
    path = folder / ".git"
    if path.is_symlink():
        raise unreadable(f"{path} is a symbolic link, which may lead to anybody's repository")
    if path.is_file():
        return _pointed_to(path)
    if not path.is_dir():
        return None
    return _checked(Places(path, _shared(path)))


def _pointed_to(path: Path) -> Places:
    said = _content(path) or b""
    if not said.startswith(b"gitdir: "):
        raise unreadable(f"{path} is a file that does not say where the repository is")
    own = path.parent / os.fsdecode(said.removeprefix(b"gitdir: ").rstrip(b"\r\n"))
    if not own.is_dir():
        raise unreadable(f"{path} points to {str(own)!r}, where no repository is")
    found = _checked(Places(own, _shared(own)))
    if not _points_back(found, path):
        raise unreadable(f"{path} points to {str(own)!r}, which belongs to another folder")
    return found


def _points_back(found: Places, path: Path) -> bool:
    """Say whether a worktree's directory, or a submodule's, names the folder that named it."""
    if (said := _content(found.own / "gitdir")) is not None:
        return _is_same(found.own / os.fsdecode(said.rstrip(b"\r\n")), path)
    settings = _content(found.own / "config") or b""
    worktrees = re.findall(rb"^\s*worktree\s*=\s*(.+?)\s*$", settings, re.MULTILINE | re.IGNORECASE)
    return any(_is_same(found.own / os.fsdecode(one.strip(b'"')), path.parent) for one in worktrees)


def _is_same(one: Path, other: Path) -> bool:
    with suppress(OSError, ValueError):  # what a file says may hold a NUL
        return one.samefile(other)
    return False


def _shared(own: Path) -> Path:
    """Find the directory whose objects and refs this one shares: only its owner can put something into `worktrees`."""
    said = _content(own / "commondir")
    if said is None:
        return own
    shared = own / os.fsdecode(said.rstrip(b"\r\n"))
    if not _is_same(Path(os.path.realpath(own)).parent, shared / "worktrees"):
        raise unreadable(f"{own} shares what is {str(shared)!r}, but is none of its worktrees")
    return shared


def _checked(found: Places) -> Places:
    if not ((found.own / "HEAD").is_file() and (found.shared / "objects").is_dir()):
        raise unreadable(f"{str(found.own)!r} is not a git directory: it lacks HEAD or its objects")
    return found


def object_format(found: Places, ask: Callable[[Path], bytes]) -> str:
    """Say by which digests a repository names its objects; an extension of git that we do not know is an error.

    `ask` lists a configuration file as `git config --list -z` does, and is needed only where there are extensions.
    """
    path = found.shared / "config"
    if b"extensions" not in (_content(path) or b"").lower():
        return "sha1"
    pairs = [line.partition(b"\n") for line in ask(path).split(b"\0")]
    said = {key.decode(errors="replace").lower(): value.decode(errors="replace") for key, _, value in pairs}
    prefix = "extensions."
    extensions = {key.removeprefix(prefix): value for key, value in said.items() if key.startswith(prefix)}
    unknown = sorted(extensions.keys() - EXTENSIONS)
    if extensions.get("refstorage", "files").lower() != "files":
        unknown.append(f"refStorage = {extensions['refstorage']}")
    if unknown:
        raise unreadable(f"the repository uses an extension of git that is not known here: {', '.join(unknown)[:200]}")
    wanted = extensions.get("objectformat", "sha1").lower()
    if wanted not in {"sha1", "sha256"}:
        raise unreadable(f"the repository names its objects by '{wanted[:20]}', which is not known here")
    return wanted


def head(found: Places) -> Head:
    """Read HEAD, and the commit that its branch is at."""
    said = _line(found.own / "HEAD")
    if not said.startswith(b"ref: "):
        return Head(_commit(said, "HEAD"), None)
    first = ref = said.removeprefix(b"ref: ").strip()
    for _ in range(_DEEPEST):
        said = _ref(found.shared, ref)
        if not said.startswith(b"ref: "):
            return Head(_commit(said, names.shown(ref)) if said else None, first)
        ref = said.removeprefix(b"ref: ").strip()
    raise unreadable(f"HEAD goes round in circles at {names.shown(ref)[:200]!r}")


def _ref(shared: Path, ref: bytes) -> bytes:
    """Give what a ref says; empty where it is not there."""
    if names.fault(ref) or not ref.startswith(b"refs/"):
        raise unreadable(f"HEAD names {names.shown(ref)[:200]!r}, which is no ref")
    if (said := _loose(shared, ref)) is not None:
        return said
    packed = b"\n" + (_content(shared / "packed-refs") or b"")
    end = packed.find(b" " + ref + b"\n")
    return packed[packed.rfind(b"\n", 0, end) + 1 : end] if end >= 0 else b""


def _loose(shared: Path, ref: bytes) -> bytes | None:
    """Read a ref that has a file of its own."""
    try:
        with Beneath(shared) as folder, os.fdopen(folder.open(ref), "rb") as file:
            return file.read(_MOST_BYTES).strip()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except OSError as error:
        raise unreadable(f"{names.shown(ref)[:200]!r} of the repository cannot be read: {error.strerror}") from error


def _commit(said: bytes, whose: str) -> str:
    if not _digits.match(said):
        raise unreadable(f"{whose[:200]} of the repository is damaged: it names no commit")
    return said.decode()


def _line(path: Path) -> bytes:
    said = _content(path)
    if said is None:
        raise unreadable(f"{path} cannot be read")
    return said.strip()


def _content(path: Path) -> bytes | None:
    """Read a file of a repository, through no link; None where there is none."""
    return read(path.parent, os.fsencode(path.name))


def read(folder: Path, name: bytes) -> bytes | None:
    """Read a file beneath a folder of a repository, through no link; None where there is none."""
    try:
        with Beneath(os.path.realpath(folder)) as beneath, os.fdopen(beneath.open(name), "rb") as file:
            return file.read(_MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except OSError as error:
        raise unreadable(
            f"{str(folder)!r} has a {names.shown(name)!r} that cannot be read: {error.strerror}"
        ) from error


def lenders(objects: Path) -> list[Path]:
    """Name the directories whose objects these objects go on in, by link or by git's list of alternates."""
    found = [objects] if objects.is_symlink() else []
    waiting = [(Path(os.path.realpath(objects)), 0)]
    while waiting:
        one, depth = waiting.pop()
        said = read(one, b"info/alternates") or b""
        named = [one / os.fsdecode(line.strip(b'"')) for line in said.splitlines() if line and line[:1] != b"#"]
        found += named
        waiting += [(path, depth + 1) for path in named if depth < _DEEPEST and path.is_dir()]
    return found
