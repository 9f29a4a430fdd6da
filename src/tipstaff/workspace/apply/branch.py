"""A run's change as a commit on a branch of its own: by plumbing, with an index of our own, and nothing checked out.

The repository is the user's, so it is the GIT_DIR here; our options and our environment switch off hooks, filters,
signing and everything else that its configuration could start. The working tree, the index and HEAD stay as they are.
"""

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from tipstaff.errors import NotFoundError, RefusedError, UsageError
from tipstaff.model import names
from tipstaff.model.changes import Change, Side
from tipstaff.workspace.apply.choosing import is_in_git, is_link_for_git
from tipstaff.workspace.apply.contents import Content
from tipstaff.workspace.git import Git, GitError, split

HEADS: Final = "refs/heads/"
LONGEST_BRANCH: Final = 200
_COMMIT: Final = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_GITDIR: Final = b"gitdir: "
_MOST_POINTER_BYTES: Final = 4096


class Made(NamedTuple):
    """A branch that was made, and the names whose beginnings are not what its first commit has."""

    ref: str
    commit: str
    parent: str
    others: tuple[bytes, ...]


class Start(NamedTuple):
    """Which branch of which repository is to begin behind which commit."""

    directory: Path
    ref: str
    parent: str


class Message(NamedTuple):
    """What the commit says, and who says it (name and address; empty: tipstaff)."""

    text: str
    person: tuple[str, str] = ("", "")


def repository(folder: Path) -> Path:
    """Find the git directory of a working tree's top folder; UsageError when it is none."""
    path = folder / ".git"
    if path.is_file() and not path.is_symlink():
        said = path.read_bytes()[:_MOST_POINTER_BYTES]
        path = folder / os.fsdecode(said.removeprefix(_GITDIR).strip()) if said.startswith(_GITDIR) else path
    if not (path / "HEAD").is_file():
        raise UsageError(f"--branch: {folder} is not the top folder of a git repository", hint="name one with --to")
    return path


def person(environ: Mapping[str, str]) -> tuple[str, str]:
    """Read the user's name and address from their own configuration, never from a repository's."""
    home = Path(environ.get("HOME") or "/nonexistent")
    files = [Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "git" / "config", home / ".gitconfig"]
    found = {"user.name": "", "user.email": ""}
    with tempfile.TemporaryDirectory(prefix="tipstaff-") as nowhere:
        for file, key in ((file, key) for file in files if file.is_file() for key in found):
            with suppress(GitError):  # it is not set there
                said = Git(Path(nowhere)).run("config", "--file", str(file), "--includes", "--get", key)
                found[key] = said.decode(errors="replace").strip()
    return (found["user.name"], found["user.email"]) if all(found.values()) else ("", "")


def reference(name: str) -> str:
    """Give the full name of a branch; UsageError when git would not take it."""
    if name in {"", "HEAD", "@"} or name.startswith("-") or len(name) > LONGEST_BRANCH:
        raise UsageError(f"--branch: '{name[:64]}' cannot be the name of a branch")
    with tempfile.TemporaryDirectory(prefix="tipstaff-") as nowhere:
        try:
            Git(Path(nowhere)).run("check-ref-format", HEADS + name)
        except GitError as error:
            raise UsageError(f"--branch: '{name}' cannot be the name of a branch", hint="try: agent/NAME") from error
    return HEADS + name


def first_commit(directory: Path, wanted: str | None) -> str:
    """Give the commit to begin from: the run's own, or the HEAD of the repository; it must be there."""
    if wanted is not None and not _COMMIT.match(wanted):
        raise UsageError(f"the run does not say from which commit it began: '{wanted[:64]}'")
    try:
        found = Git(directory).run("rev-parse", "--verify", "--quiet", f"{wanted or 'HEAD'}^{{commit}}")
    except GitError as error:
        said = f"the commit {wanted[:12]}, from which the run began, is not in it" if wanted else "it has no commit"
        raise NotFoundError(f"--branch: {directory}: {said}", hint="name the right repository with --to") from error
    return found.decode().strip()


def make_branch(start: Start, changes: Sequence[Change], content: Content, message: Message) -> Made:
    """Make the branch; UsageError when there is one of that name."""
    directory, ref, parent = start
    refuse_unfit(changes)
    if points_to(directory, ref):
        raise UsageError(f"the branch {ref.removeprefix(HEADS)} exists", hint="give another name, or delete it first")
    with tempfile.TemporaryDirectory(prefix="tipstaff-") as room:
        git = Git(directory, index=Path(room) / "index")
        git.run("read-tree", parent)
        others, kept = _compared(git, changes)
        objects = _objects(git, Path(room), changes, content, kept)
        git.run("update-index", "--replace", "-z", "--index-info", stdin=_index_info(changes, objects, len(parent)))
        tree = git.run("write-tree").decode().strip()
        commit = _commit(git, tree, parent, message)
    _create(Git(directory), ref, commit)
    return Made(ref, commit, parent, others)


def refuse_unfit(changes: Sequence[Change]) -> None:
    """Refuse what no commit may hold: parts of a git directory, and links where git reads files of its own."""
    for change in changes:
        if is_in_git(change.name):
            raise RefusedError(f"{names.shown(change.name)} is part of a git directory and never brought")
        if is_link_for_git(change):
            raise RefusedError(
                f"--branch: {names.shown(change.name)} is a link, and git may refuse to check out a link of this name",
                hint="take the others with --only PATH",
            )


def points_to(directory: Path, ref: str) -> str:
    """Give the commit that a branch points to; empty when it is not there."""
    try:
        return Git(directory).run("rev-parse", "--verify", "--quiet", ref).decode().strip()
    except GitError:
        return ""


def delete_branch(directory: Path, ref: str, commit: str) -> str:
    """Delete a branch that still points to `commit` and that nobody works on; gives why not, or nothing."""
    if points_to(directory, ref) != commit:
        return "it does not point to what was brought any more"
    git = Git(directory)
    if f"branch {ref}".encode() in git.run("worktree", "list", "--porcelain").split(b"\n"):
        return "it is checked out"
    git.run("update-ref", "-d", ref, commit)
    return ""


def _create(git: Git, ref: str, commit: str) -> None:
    try:
        git.run("update-ref", ref, commit, "0" * len(commit))
    except GitError as error:
        raise UsageError(f"the branch {ref.removeprefix(HEADS)} cannot be made: {error.message}") from error


def _compared(git: Git, changes: Sequence[Change]) -> tuple[tuple[bytes, ...], dict[bytes, bytes]]:
    """Hold the beginnings of the changes against the commit; also gives the objects that it has under these names."""
    listed = (line.partition(b"\t") for line in split(git.run("ls-files", "-s", "-z")))
    wanted = {change.name for change in changes}
    there = {name: said.split(b" ")[1] for said, _, name in listed if name in wanted}
    digests = _digests(git, there)
    others = [one.name for one in changes if digests.get(one.name) != (one.base.digest if one.base else None)]
    return tuple(others), there


def _digests(git: Git, there: Mapping[bytes, bytes]) -> dict[bytes, str]:
    """Give the sha-256 of each content; a submodule has none."""
    output = git.run("cat-file", "--batch", stdin=b"".join(b"%s\n" % one for one in there.values()))
    digests, position = {}, 0
    for name in there:
        end = output.index(b"\n", position)
        said = output[position:end].split(b" ")
        position = end + 1
        if said[1] == b"missing":
            continue
        size = int(said[2])
        digests[name] = sha256(output[position : position + size]).hexdigest()
        position += size + 1
    return digests


def _objects(
    git: Git, room: Path, changes: Sequence[Change], content: Content, kept: Mapping[bytes, bytes]
) -> dict[bytes, bytes]:
    """Write the new contents into the repository, as they are; a changed mode takes what the commit has."""
    fresh = [one for one in changes if one.after is not None and (one.status != "mode" or one.kept)]
    for number, change in enumerate(fresh):
        (room / str(number)).write_bytes(content(change.name))
    listed = "".join(f"{room / str(number)}\n" for number in range(len(fresh))).encode()
    made = git.run("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=listed).split() if fresh else []
    return dict(kept) | {change.name: one for change, one in zip(fresh, made, strict=True)}


def _index_info(changes: Sequence[Change], objects: Mapping[bytes, bytes], digits: int) -> bytes:
    gone = [b"0 %s\t%s\0" % (b"0" * digits, change.name) for change in changes if change.after is None]
    come = [
        b"%s %s\t%s\0" % (_mode(change.after), objects[change.name], change.name)
        for change in changes
        if change.after is not None and change.name in objects
    ]
    return b"".join(gone + come)


def _mode(side: Side) -> bytes:
    return b"120000" if side.is_link else b"100755" if side.mode & 0o100 else b"100644"


def _commit(git: Git, tree: str, parent: str, message: Message) -> str:
    who = dict(zip(("NAME", "EMAIL"), message.person, strict=True)) if all(message.person) else {}
    environ = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()}
    words = ("commit-tree", "--no-gpg-sign", "-p", parent, "-F", "-", tree)
    return git.run(*words, stdin=message.text.encode(errors="replace"), environ=environ).decode().strip()
