"""A user's repository, looked at by git without anything of its configuration taking part.

Git works on a directory of ours that borrows the repository's objects and has a copy of its index; what git writes
lands there, never in the repository. Which files are ignored is for `.gitignore`, `info/exclude` and the user's own
list to say, and nobody else. Does not decide what is captured.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Self

from tipstaff.errors import InputError
from tipstaff.model import names
from tipstaff.workspace import inside
from tipstaff.workspace.beneath import Beneath
from tipstaff.workspace.capture.pointers import Head, Places, head, lenders, object_format, places, read, unreadable
from tipstaff.workspace.git import SECONDS, Git, GitError, complaint, split

_UNFINISHED: Final = {
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "BISECT_LOG": "a bisection",
}
_LIST: Final = ("ls-files", "-z", "-t", "--stage", "--others", "--exclude-standard")
_LIST_TREE: Final = ("ls-tree", "-r", "-z", "--name-only", "--full-tree")
_LIST_CONFIG: Final = ("config", "--list", "-z")
_GITLINK: Final = b"160000"
_MOST_INDEX: Final = 2**30  # bytes: ten million files


class Names(NamedTuple):
    """What git lists of a folder."""

    tracked: dict[bytes, bytes]  # and the type of each: b"100644", b"120000", b"160000" for a submodule
    untracked: list[bytes]  # a repository of its own is one name, with `/` at its end
    hidden: int  # tracked files that a sparse checkout keeps out of the folder


class Started:
    """A command of git that prints while we do something else, into a file: a pipe would hold it up."""

    def __init__(
        self,
        git: Git,
        *words: str,
        stdin: bytes = b"",
        environ: Mapping[str, str] | None = None,
        seconds: float = SECONDS,
    ) -> None:
        """Begin; it must end within `seconds` from when it is waited for."""
        from tempfile import TemporaryFile  # noqa: PLC0415 - slow to import, and most runs capture nothing

        self._words = words
        self._seconds = seconds
        self._file = TemporaryFile(dir=git.directory)  # noqa: SIM115 - closed by `stop`
        with TemporaryFile(dir=git.directory) as asked:
            asked.write(stdin)
            asked.seek(0)
            self._running = git.start(*words, stdin=asked, stdout=self._file, environ=environ)
        self._printed: bytes | None = None

    def printed(self) -> bytes:
        """Wait for its end and give what it printed; GitError when it fails."""
        if self._printed is None:
            try:
                _, complaints = self._running.communicate(timeout=self._seconds)
            except subprocess.TimeoutExpired as error:  # a pipe in place of a .gitignore or an object, for example
                self.kill()
                raise GitError(f"git {self._words[0]} took longer than {self._seconds:.0f} seconds") from error
            if self._running.returncode != 0:
                raise GitError(f"git {self._words[0]}: {complaint(complaints)}")
            self._file.seek(0)
            self._printed = self._file.read()
        return self._printed

    def is_running(self) -> bool:
        """Say whether it still works."""
        return self._running.poll() is None

    def kill(self) -> None:
        """End it, whoever waits for it."""
        self._running.kill()

    def stop(self) -> None:
        """End it, and let go of it."""
        self.kill()
        self._running.wait()
        for stream in (self._file, self._running.stderr):
            if stream is not None:
                stream.close()


class Repository:
    """One repository; close it, so that nothing of ours is left."""

    def __init__(self, folder: Path, found: Places | None, scratch: Path, environ: Mapping[str, str]) -> None:
        """Look at the repository in `folder`; without `found` only at which files are ignored."""
        self.folder = folder
        self.notices: list[str] = []
        self.commit: str | None = None
        self.ref: str | None = None
        self.object_format = "sha1"
        self.exclude = ""  # what only this clone ignores, without comments
        self.objects: Path | None = None  # the repository's own; None where it is not looked at
        self._index: Started | None = None
        self._tree: Started | None = None
        self._names: Names | None = None
        self._directory = scratch / "look"
        plain = Git.make(self._directory)
        if found is not None:
            self.object_format = object_format(found, lambda path: plain.run(*_LIST_CONFIG, "--file", str(path)))
            Git.make(self._directory, object_format=self.object_format)
            self._borrow(found)
        self.git = Git(
            self._directory,
            index=self._directory / "index",
            work_tree=folder,
            excludes=_global_excludes(plain, environ),
        )

    @classmethod
    def find(
        cls, folder: Path, *, scratch: Path | None = None, environ: Mapping[str, str] | None = None
    ) -> "Repository | None":
        """Find the repository whose working tree begins at `folder`; None where none does.

        What is made to look at it lies beneath `scratch`. InputError where it cannot be read as one.
        """
        found = places(folder)
        return cls._made(folder, found, scratch, environ) if found is not None else None

    @classmethod
    def ignoring(
        cls, folder: Path, *, scratch: Path | None = None, environ: Mapping[str, str] | None = None
    ) -> "Repository":
        """Look at a folder whose repository cannot be read: nothing is tracked, what is ignored still is."""
        return cls._made(folder, None, scratch, environ)

    @classmethod
    def _made(
        cls, folder: Path, found: Places | None, scratch: Path | None, environ: Mapping[str, str] | None
    ) -> "Repository":
        from tempfile import mkdtemp  # noqa: PLC0415 - slow to import, and most runs capture nothing

        own = Path(mkdtemp(prefix="tipstaff-", dir=scratch))
        try:
            return cls(folder.absolute(), found, own, os.environ if environ is None else environ)
        except BaseException:
            shutil.rmtree(own, ignore_errors=True)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove what was made to look at it."""
        for started in (self._index, self._tree):
            if started is not None:
                started.stop()
        shutil.rmtree(self._directory.parent, ignore_errors=True)

    def _borrow(self, found: Places) -> None:
        """Let our directory have the repository's objects, HEAD, index and list of what is ignored."""
        self._read_head(head(found))
        self.objects = found.shared / "objects"
        self._check_lenders(found.own, self.objects)
        (self._directory / "objects/info/alternates").write_bytes(_line(os.path.realpath(self.objects)))
        with Beneath(os.path.realpath(found.own)) as own:
            for path in [found.own / "index", *found.own.glob("sharedindex.*")]:
                _copy(own, os.fsencode(path.name), self._directory / path.name)
        said = read(found.shared, b"info/exclude") or b""
        (self._directory / "info/exclude").write_bytes(said)
        self.exclude = _patterns(said)
        for what in sorted({_UNFINISHED[name] for name in _UNFINISHED if (found.own / name).exists()}):
            self.notices.append(f"{what} is not finished in the repository: files are captured as they are now")

    def _check_lenders(self, own: Path, objects: Path) -> None:
        """Say that objects come from elsewhere; where the repository is somebody else's, they must be theirs too."""
        if not (found := lenders(objects)):
            return
        owner = own.stat().st_uid
        others = [path for path in found if owner != os.geteuid() and _owner(path) != owner]
        if others:
            raise unreadable(f"the repository is not yours, and names another's objects: {str(others[0])!r}")
        self.notices.append(
            f"objects of the repository come from elsewhere: {', '.join(map(repr, map(str, found)))[:500]}"
        )

    def _read_head(self, said: Head) -> None:
        self.commit = said.commit
        if said.ref is not None:
            try:
                inside.check_ref(ref := said.ref.decode(errors="surrogateescape"))
                self.ref = ref
            except InputError:
                self.notices.append(
                    f"HEAD is at {names.shown(said.ref)!r}, which is no branch: it is captured detached"
                )
        value = f"{self.commit}\n" if self.commit else "ref: refs/heads/main\n"
        (self._directory / "HEAD").write_text(value)

    def begin(self) -> None:
        """Let git begin to list the files, while somebody does something else."""
        self._index = self._index or Started(self.git, *_LIST)

    def is_listing(self) -> bool:
        """Say whether git is still at it."""
        return self._index is not None and self._index.is_running()

    def listed(self) -> bytes:
        """Give git's list of what is tracked, and of what is neither tracked nor ignored, as it printed it.

        InputError where the index is damaged.
        """
        self.begin()
        try:
            return self._index.printed() if self._index is not None else b""
        except GitError as error:
            raise unreadable(f"git cannot list the files of {self.folder}: {error.message}") from error

    def names(self) -> Names:
        """Give the same by name."""
        if self._names is None:
            self._names = _parsed(self.listed())
        return self._names

    def tracked(self) -> list[bytes]:
        """List what the index names, whether it is in the folder or not."""
        return list(self.names().tracked)

    def untracked(self) -> list[bytes]:
        """List the files that are neither tracked nor ignored."""
        return self.names().untracked

    def begin_committed(self) -> None:
        """Let git begin to list HEAD's tree, too."""
        if self.commit is not None:
            self._tree = self._tree or Started(self.git, *_LIST_TREE, self.commit)

    def committed(self) -> bytes:
        """Give the names in HEAD's tree, each with a NUL behind it; InputError where objects are missing."""
        self.begin_committed()
        try:
            return self._tree.printed() if self._tree is not None else b""
        except GitError as error:
            raise unreadable(f"the repository's objects are damaged or not all there: {error.message}") from error

    def only_committed(self) -> set[bytes]:
        """Give the names that HEAD's tree has, but not the index."""
        tracked, committed = self.names().tracked, self.committed()
        if committed == b"".join(name + b"\0" for name in tracked):  # nearly always
            return set()
        return set(split(committed)) - tracked.keys()


def _owner(path: Path) -> int | None:
    with suppress(OSError, ValueError):
        return path.stat().st_uid
    return None


def _copy(folder: Beneath, name: bytes, target: Path) -> None:
    """Copy a file of a repository, through no link; its owner may be exchanging it for another at the same time."""
    try:
        descriptor = folder.open(name)
    except FileNotFoundError:
        return
    except OSError as error:
        raise unreadable(f"the repository's {names.shown(name)!r} cannot be read: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as source, target.open("wb") as copy:
        if os.fstat(descriptor).st_size > _MOST_INDEX:
            raise unreadable(f"the repository's {names.shown(name)!r} is larger than {_MOST_INDEX} bytes")
        shutil.copyfileobj(source, copy)


def submodules(listed: Names) -> list[bytes]:
    """Name the submodules among what is tracked."""
    return [name for name, kind in listed.tracked.items() if kind == _GITLINK]


def _parsed(said: bytes) -> Names:
    """Read what git listed: `? name` for what it does not track, otherwise `H mode digest stage`, a tab, the name."""
    tracked: dict[bytes, bytes] = {}
    untracked, hidden = [], 0
    for line in split(said):
        if line[:2] == b"? ":
            untracked.append(line[2:])
            continue
        about, _, name = line.partition(b"\t")
        tracked[name] = about[2:8]
        hidden += about[:1] == b"S"
    return Names(tracked, untracked, hidden)


def _patterns(said: bytes) -> str:
    """Give the lines of a list of what is ignored that say something; those that are no text are dropped."""
    lines = [line for line in said.decode(errors="replace").splitlines() if line.strip() and not line.startswith("#")]
    return "".join(f"{line}\n" for line in lines if "\ufffd" not in line)


def _line(path: str) -> bytes:
    """Spell a path as a line of git's list of other objects, quoted as C has it where it holds a newline."""
    raw = os.fsencode(path)
    if b"\n" in raw:
        raw = b'"' + raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'
    return raw + b"\n"


def _global_excludes(git: Git, environ: Mapping[str, str]) -> Path | None:
    """Find the user's own list of what is ignored everywhere, by the user's own configuration."""
    home = environ.get("HOME", "")
    above = environ.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else "")
    found = None
    for path in [f"{above}/git/config"] * bool(above) + [f"{home}/.gitconfig"] * bool(home):
        with suppress(GitError, OSError):
            if _may_exclude(Path(path)):
                words = ("config", "--file", path, "--includes", "-z", "--type=path", "--get", "core.excludesFile")
                found = git.run(*words, environ={"HOME": home}).rstrip(b"\0")
    if found is not None:
        return Path(os.fsdecode(found))
    return Path(above, "git/ignore") if above else None


def _may_exclude(path: Path) -> bool:
    """Say whether a configuration may name such a list: asking git takes a moment."""
    said = path.read_bytes().lower()
    return b"excludesfile" in said or b"include" in said
