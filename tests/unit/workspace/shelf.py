"""What tests of workspaces share: blobs that nobody checks, as in a store far away; odd trees; folders as values."""

import os
import stat
import subprocess
from hashlib import sha256
from pathlib import Path

from tipstaff.errors import NotFoundError
from tipstaff.workspace.listing import FILE, FOLDER, LINK, Entry

Tree = dict[bytes, tuple[int, bytes]]  # a name, its mode, its content or its target
ODD: Tree = {
    b"plain.txt": (0o100644, b"text\n"),
    b"tool": (0o100755, b"#!/bin/sh\n"),
    b"private": (0o100600, b"mine"),
    b"empty": (0o100644, b""),
    b"same": (0o100444, b"text\n"),
    b"caf\xc3\xa9": (0o100644, b"accent"),
    b"not\xfftext": (0o100644, b"\x00\xff binary \r\n"),
    b"new\nline": (0o100644, b"n"),
    b"-dash": (0o100644, b"d"),
    b'quo"te\\': (0o100644, b"q"),
    b"Case": (0o100644, b"upper"),
    b"case": (0o100644, b"lower"),
    b"l" * 255: (0o100644, b"long"),
    b"deep": (0o040755, b""),
    b"deep/er": (0o040755, b""),
    b"deep/er/file": (0o100644, b"x" * 70_000),
    b"hollow": (0o040755, b""),
    b"closed": (0o040555, b""),
    b"closed/in": (0o100444, b"in"),
    b"link": (0o120777, b"plain.txt"),
    b"deep/up": (0o120777, b"../tool"),
    b"dangling": (0o120777, b"nowhere/at\xff"),
    b"loop": (0o120777, b"loop"),
}


class Shelf:
    """Blobs in memory; `get` gives what lies there, whatever its digest."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def put(self, content: bytes) -> str:
        """Keep `content`."""
        digest = sha256(content).hexdigest()
        self.kept[digest] = content
        return digest

    def get(self, wanted: str) -> bytes:
        """Give what lies there."""
        if wanted not in self.kept:
            raise NotFoundError(f"there is no blob {wanted}")
        return self.kept[wanted]

    def writer(self) -> "Writing":
        """Begin a blob."""
        return Writing(self)


class Writing:
    """One blob being written."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._held = bytearray()

    def write(self, chunk: bytes) -> None:
        """Take some more bytes."""
        self._held += chunk

    def finish(self) -> str:
        """Keep it."""
        return self._shelf.put(bytes(self._held))

    def discard(self) -> None:
        """Forget it."""
        self._held.clear()


def grow(folder: Path, tree: Tree) -> Path:
    """Make a tree as files; folders get their rights last."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (mode, content) in sorted(tree.items()):
        path = Path(os.fsdecode(os.fsencode(folder) + b"/" + name))
        if stat.S_ISDIR(mode):
            path.mkdir()
        elif stat.S_ISLNK(mode):
            path.symlink_to(os.fsdecode(content))
        else:
            path.write_bytes(content)
            path.chmod(mode & 0o777)
    for name, (mode, _) in sorted(tree.items(), reverse=True):
        if stat.S_ISDIR(mode):
            Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).chmod(mode & 0o777)
    return folder


def seen(folder: Path, *, but: tuple[bytes, ...] = (b".git",)) -> Tree:
    """Give a folder as a value, without these at its top."""
    found: Tree = {}
    top = os.fsencode(folder)
    for above, folders, files in os.walk(top):
        if above == top:
            folders[:] = [name for name in folders if name not in but]
        for name in folders + files:
            path = above + b"/" + name
            mode = os.lstat(path).st_mode
            found[path[len(top) + 1 :]] = (mode, _content(path, mode))
    return found


def _content(path: bytes, mode: int) -> bytes:
    if stat.S_ISLNK(mode):
        return os.readlink(path)  # noqa: PTH115 - as it is spelled: a Path would leave out `./`
    return Path(os.fsdecode(path)).read_bytes() if stat.S_ISREG(mode) else b""


def entries(tree: Tree) -> list[Entry]:
    """List a tree as a capture would."""
    return [_entry(name, mode, content) for name, (mode, content) in tree.items()]


def _entry(name: bytes, mode: int, content: bytes) -> Entry:
    if stat.S_ISDIR(mode):
        return Entry(name, FOLDER | (mode & 0o777), "", 0)
    kind = LINK if stat.S_ISLNK(mode) else FILE
    return Entry(name, kind | (mode & 0o777), sha256(content).hexdigest(), len(content))


def git(folder: Path, *words: str, stdin: bytes = b"") -> bytes:
    """Run git as a user would, with nobody's configuration."""
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_SYSTEM": "/dev/null",
        **{f"GIT_{who}_{what}": "t@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    words = ("git", "-c", "init.defaultBranch=main", "-c", "safe.directory=*", "-C", str(folder), *words)
    done = subprocess.run(words, env=environ, input=stdin, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout
