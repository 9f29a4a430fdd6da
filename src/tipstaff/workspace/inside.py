"""The `.git` that a run finds in its workspace: ours from the first byte, and of the user's no more than a commit.

It has a HEAD, one ref, a configuration that makes commits work, and room for objects; no remote, hook, credential or
helper. Whoever asks for it puts the packs into `objects/pack` and makes the index. The ref comes from a manifest, so it
is checked as git would, and kept in `packed-refs`: no file is ever named by it.
"""

import os
import re
from pathlib import Path
from typing import Final

from tipstaff.errors import InputError
from tipstaff.workspace.beneath import Beneath

# `hooks` is empty, and there because programs that put a hook into a repository do not make it.
FOLDERS: Final = (
    b"objects", b"objects/info", b"objects/pack", b"refs", b"refs/heads", b"refs/tags", b"info", b"hooks",
)  # fmt: skip
OBJECT_FORMATS: Final = {"sha1": 40, "sha256": 64}  # digits of a name
LONGEST_REF: Final = 1024
# What `git check-ref-format` refuses, for a branch; a part may neither begin with a dot nor end with ".lock".
_BRANCH: Final = re.compile(r"refs/heads/(?!-)[^\x00-\x20\x7f\ud800-\udfff~^:?*\[\\]+")
_NOT_IN_BRANCH: Final = re.compile(r"\.\.|@\{|//|/\.|\.(?:/|$)|/$|\.lock(?:/|$)")


def write_git(  # noqa: PLR0913 - a commit, where it goes, and the two things that may be said of it
    target: Path, commit: str, ref: str | None, object_format: str, *, shallow: bool, exclude: bytes = b""
) -> Path:
    """Make `.git` in a folder that has none, with HEAD at `commit`: on the branch `ref`, or detached when it is None.

    InputError where the commit or the ref cannot be one. Gives the path of the new directory.
    """
    check_commit(commit, object_format)
    if ref is not None:
        check_ref(ref)
    path = target / ".git"
    path.mkdir()
    with Beneath(path) as folder:
        for name in FOLDERS:
            folder.make_folder(name)
        for name, content in _files(commit, ref, object_format).items():
            _write(folder, name, content)
        _write(folder, b"info/exclude", exclude)
        if shallow:
            _write(folder, b"shallow", f"{commit}\n".encode())
    return path


def settle(path: Path) -> None:
    """Give all that is in such a directory the rights of any repository, whatever the mask of whoever made it."""
    path.chmod(0o755)
    for above, folders, files in os.walk(path):
        for name in folders:
            Path(above, name).chmod(0o755)
        for name in files:
            Path(above, name).chmod(0o444 if Path(above).name == "pack" else 0o644)


def _files(commit: str, ref: str | None, object_format: str) -> dict[bytes, bytes]:
    configured = configuration(object_format)
    if ref is None:
        return {b"HEAD": f"{commit}\n".encode(), b"config": configured}
    packed = f"# pack-refs with: peeled fully-peeled sorted \n{commit} {ref}\n"
    return {b"HEAD": f"ref: {ref}\n".encode(), b"config": configured, b"packed-refs": packed.encode()}


def _write(folder: Beneath, name: bytes, content: bytes) -> None:
    with os.fdopen(folder.create(name, 0o644), "wb") as file:
        file.write(content)


def configuration(object_format: str) -> bytes:
    """Give the whole configuration: what git needs, and a stand-in for the person, so that commits work."""
    version, extension = (1, "[extensions]\n\tobjectFormat = sha256\n") if object_format == "sha256" else (0, "")
    core = f"[core]\n\trepositoryFormatVersion = {version}\n\tbare = false\n\tfileMode = true\n\tsymlinks = true\n"
    return f"{core}{extension}[user]\n\tname = tipstaff\n\temail = tipstaff@localhost\n".encode()


def check_commit(commit: object, object_format: object) -> None:
    """Refuse what cannot be the name of a commit, or of a kind of names."""
    if object_format not in OBJECT_FORMATS:
        raise InputError(f"git names objects by sha1 or sha256, not by {str(object_format)[:20]!r}")
    digits = OBJECT_FORMATS[str(object_format)]
    if type(commit) is not str or len(commit) != digits or set(commit) - set("0123456789abcdef"):
        raise InputError(f"this is not the name of a commit: {str(commit)[:80]!r}")


def check_ref(ref: object) -> None:
    """Refuse what is not the full name of a branch."""
    if type(ref) is not str or len(ref) > LONGEST_REF or not _BRANCH.fullmatch(ref) or _NOT_IN_BRANCH.search(ref):
        raise InputError(f"this is not the full name of a branch: {str(ref)[:80]!r}")
