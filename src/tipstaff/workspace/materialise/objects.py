"""Git's objects in a directory of ours: a pack taken in, a tree listed, contents read. Nothing is ever checked out.

A pack from outside is checked as git does for a fetch (`--strict`), but for faults of old history that harm nobody.
Trees may name the same tree again and again, so a listing is counted while it comes; one huge allocation ends git.
"""

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from tipstaff.errors import InputError
from tipstaff.workspace.git import Git, GitError, complaint
from tipstaff.workspace.listing import FILE, FOLDER, LINK, Entry
from tipstaff.workspace.materialise import bounds
from tipstaff.workspace.materialise.bounds import Caps

CHUNK: Final = 2**20  # bytes
MOST_ALLOCATED: Final = 2**30  # bytes at once: what git needs for its largest object that is not streamed
BOUNDED: Final = {"GIT_ALLOC_LIMIT": str(MOST_ALLOCATED)}
# Real repositories have these: an old tool's way to write a date, a name, a mode. None of them names a file.
_HARMLESS: Final = (
    "badDate,badDateOverflow,badEmail,badName,badTimezone,missingEmail,missingNameBeforeEmail,missingSpaceBeforeDate,"
    "missingSpaceBeforeEmail,multipleAuthors,nulInCommit,zeroPaddedDate,zeroPaddedFilemode"
)
STRICT: Final = "--strict=" + ",".join(f"{fault}=ignore" for fault in _HARMLESS.split(","))
_TYPES: Final = {b"100644": FILE | 0o644, b"100664": FILE | 0o644, b"100755": FILE | 0o755, b"120000": LINK}
_TYPES_OF_MODULES: Final = b"160000"


def take_pack(git: Git, pack: IO[bytes]) -> None:
    """Put a pack from outside, to its end, into the directory; InputError when it is damaged or not complete."""
    folder = git.directory / "objects" / "pack"
    incoming = folder / "incoming.pack"
    with incoming.open("xb") as file:
        shutil.copyfileobj(pack, file, CHUNK)
    try:
        name = git.run("index-pack", STRICT, str(incoming), environ=BOUNDED).split()[-1].decode()
    except GitError as error:
        raise InputError(f"the history of the workspace cannot be used: {error.message}") from error
    for path in sorted(folder.glob("incoming.*")):
        path.rename(folder / f"pack-{name}{path.suffix}")


def check_commit(git: Git, commit: str) -> None:
    """Refuse a name that is not that of a commit in the directory."""
    found = git.run("cat-file", "--batch-check=%(objecttype)", stdin=commit.encode() + b"\n").strip()
    if found != b"commit":
        raise InputError(f"the history of the workspace does not hold the commit {commit}")


def list_tree(git: Git, tree: str, caps: Caps) -> list[Entry]:
    """List all that is in a tree; a submodule is an empty folder. The digests are git's own."""
    entries: list[Entry] = []
    with reading(git, "ls-tree", "-r", "-z", "-l", "--full-tree", tree) as listed:
        for row in pieces(listed):
            entries.append(_entry(row))
            if len(entries) > caps.entries:
                raise bounds.too_many(caps)
    return entries


def contents(git: Git, entries: Sequence[Entry], scratch: Path) -> Iterator[tuple[Entry, IO[bytes]]]:
    """Give the content of each entry as a stream; whoever takes one reads exactly as much as its size says."""
    asked = scratch / "asked"
    asked.write_text("".join(f"{entry.digest}\n" for entry in entries))
    with asked.open("rb") as stdin, reading(git, "cat-file", "--batch", "--buffer", stdin=stdin) as answers:
        for entry in entries:
            said = answers.readline()
            if said != f"{entry.digest} blob {entry.size}\n".encode():
                raise InputError(f"the history of the workspace does not hold the content {entry.digest}")
            yield entry, answers
            answers.read(1)


@contextmanager
def reading(
    git: Git, *words: str, stdin: int | IO[bytes] = subprocess.DEVNULL, bounded: bool = True
) -> Iterator[IO[bytes]]:
    """Start a command and read what it prints; GitError when it fails. It ends with the block, at the latest.

    `bounded` is for objects that came from outside: git may then not allocate as much as these ask for.
    """
    running = git.start(*words, stdin=stdin, environ=BOUNDED if bounded else None)
    with running:
        if running.stdout is None or running.stderr is None:
            raise ValueError("git was started without its streams")
        try:
            yield running.stdout
            left = running.stdout.read(1)
            said = running.stderr.read()
        except BaseException:
            running.kill()
            raise
    if running.returncode != 0 or left:
        raise GitError(f"git {words[0]}: {complaint(said)}")


def pieces(listed: IO[bytes]) -> Iterator[bytes]:
    """Split what a command prints with -z, while it comes."""
    rest = b""
    while chunk := listed.read(CHUNK):
        *whole, rest = (rest + chunk).split(b"\0")
        yield from whole


def _entry(row: bytes) -> Entry:
    said, _, name = row.partition(b"\t")
    mode, _, digest, size = said.split()
    if mode == _TYPES_OF_MODULES:
        return Entry(name, FOLDER | 0o755, "", 0)
    if mode not in _TYPES:
        raise InputError(f"the workspace's history has an entry of the unknown mode {mode.decode()}")
    return Entry(name, _TYPES[mode], digest.decode(), int(size))
