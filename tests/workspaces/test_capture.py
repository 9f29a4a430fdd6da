"""Folders become manifests and bases: what is taken, what is left out, what is refused, what is done only once."""

import os
import socket
import threading
import time
from pathlib import Path

import pytest

from tests.unit.workspace.shelf import ODD, Shelf, git, grow, seen
from tipstaff.canonical import digest
from tipstaff.errors import InputError, RefusedError, UsageError
from tipstaff.workspace import listing
from tipstaff.workspace.capture.capturing import Captured, Form, Wish, capture
from tipstaff.workspace.capture.remembered import RACY_NANOSECONDS
from tipstaff.workspace.capture.scan import Limits
from tipstaff.workspace.depot import Depot


class Place:
    """A folder to capture, and where it is captured to."""

    def __init__(self, top: Path) -> None:
        self.folder = top / "folder"
        self.folder.mkdir()
        self.depot = Depot(top / "workspaces")
        self.blobs = Shelf()

    def capture(self, form: Form = "tree", *deny: str, limits: Limits | None = None) -> Captured:
        """Capture the folder."""
        wish = Wish(form, deny) if deny else Wish(form)
        return capture(self.folder, wish, self.depot, self.blobs, environ={}, limits=limits)

    def base(self, captured: Captured) -> Path:
        """Give the folder that came of it."""
        found = self.depot.known(digest(captured.manifest))
        assert found is not None
        return found

    def track(self, *names: str) -> None:
        """Make a repository of the folder, and commit these."""
        git(self.folder, "init", "--quiet")
        git(self.folder, "add", "--force", *names)
        git(self.folder, "commit", "--quiet", "--allow-empty", "--message", "one")


@pytest.fixture
def place(tmp_path):
    """An empty folder, and an empty depot."""
    return Place(tmp_path)


def age(folder: Path) -> None:
    """Let everything be old enough to be believed, and nothing look as if it had been read."""
    for path in [*folder.rglob("*"), folder]:
        if not path.is_symlink():
            os.utime(path, (0, 1_000_000_000))
    time.sleep(2 * RACY_NANOSECONDS / 1e9)  # nobody can set the time at which an inode was changed


def capture_often(place: Place) -> None:
    """Capture until it fails: a moment of rest may let one through."""
    for _ in range(20):
        place.capture()


def inodes(base: Path) -> dict[str, int]:
    """Tell files apart."""
    return {str(path.relative_to(base)): path.stat().st_ino for path in base.rglob("*") if path.is_file()}


@pytest.mark.parametrize("form", ["tree", "lean"])
def test_everything_comes_along(place, form):
    """Names of any bytes, rights, links, loops and empty folders are in the base as they are in the folder."""
    grow(place.folder, ODD)
    if form == "lean":
        place.track("plain.txt", "deep/er/file")

    captured = place.capture(form)

    assert seen(place.base(captured)) == seen(place.folder) == ODD
    assert captured.form == form
    assert captured.notices == ()


def test_the_list_is_a_blob_that_names_the_tree(place):
    """The manifest's tree is the digest of its list, which says of every file what it is."""
    grow(place.folder, ODD)

    captured = place.capture()
    listed = place.blobs.get(captured.manifest["treeHash"])

    assert {entry.name: entry.mode for entry in listing.decode(listed)} == {
        name: mode for name, (mode, _) in ODD.items()
    }
    assert captured.manifest["baseRef"] == captured.manifest["treeHash"] == listing.tree_hash(listed)


def test_the_same_content_has_the_same_manifest(tmp_path):
    """Where and when a folder was captured is not in its manifest."""
    manifests = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        found = Place(tmp_path / name)
        grow(found.folder, ODD)
        manifests.append(found.capture().manifest)

    assert manifests[0] == manifests[1]


@pytest.mark.parametrize(("commits", "form"), [(True, "lean"), (False, "tree")])
def test_auto_takes_a_commit_where_there_is_one(place, commits, form):
    """A repository with commits is captured with its commit, any other folder without."""
    (place.folder / "file").write_text("x")
    if commits:
        place.track("file")

    captured = place.capture("auto")

    assert captured.form == form
    assert ("git" in captured.manifest) is commits


@pytest.mark.parametrize("is_repository", [True, False])
@pytest.mark.parametrize("form", ["lean", "git"])
def test_a_commit_is_needed_for_some_forms(place, form, is_repository):
    """What begins from a commit is refused where there is none, with the form that works."""
    if is_repository:
        git(place.folder, "init", "--quiet")

    with pytest.raises(RefusedError, match="no commit to begin from") as caught:
        place.capture(form)
    assert "--capture tree" in caught.value.hint


def test_ignored_files_stay(place):
    """In a repository, what is ignored is not captured; folders with nothing in them are."""
    grow(
        place.folder,
        {
            b".gitignore": (0o100644, b"build\n*.log\n"),
            b"build": (0o040755, b""),
            b"build/out": (0o100644, b"x"),
            b"a.log": (0o100644, b"x"),
            b"logs": (0o040755, b""),
            b"logs/b.log": (0o100644, b"x"),
            b"hollow": (0o040755, b""),
            b"hollow/er": (0o040700, b""),
            b"kept": (0o100644, b"x"),
        },
    )
    place.track(".gitignore")

    assert seen(place.base(place.capture("auto"))).keys() == {b".gitignore", b"hollow", b"hollow/er", b"kept"}


def test_a_plain_folder_ignores_nothing(place):
    """Without a repository nothing is ignored: no list says for whom."""
    grow(place.folder, {b".gitignore": (0o100644, b"*.log\n"), b"a.log": (0o100644, b"x")})

    assert seen(place.base(place.capture("auto"))).keys() == {b".gitignore", b"a.log"}


def test_a_part_of_a_repository_is_told(place):
    """A folder inside a repository is captured as a plain one, and its owner is told what that means."""
    git(place.folder, "init", "--quiet")
    grow(place.folder / "part", {b"a.log": (0o100644, b"x")})
    (place.folder / ".gitignore").write_text("*.log\n")

    captured = capture(place.folder / "part", Wish(), place.depot, place.blobs, environ={})

    assert seen(place.base(captured)).keys() == {b"a.log"}
    assert "only a part of the repository" in captured.notices[0]


@pytest.mark.parametrize("form", ["tree", "lean"])
def test_untracked_files_that_are_denied_are_left_out_and_named(place, form):
    """A denied file is not in the base, and its name is in the manifest and in the notices."""
    grow(
        place.folder,
        {
            b"file": (0o100644, b"x"),
            b".env": (0o100644, b"TOKEN=1"),
            b"sub": (0o040755, b""),
            b"sub/a.PEM": (0o100644, b"x"),
            b"id_rsa.d": (0o040755, b""),
            b"id_rsa.d/in": (0o100644, b"x"),
        },
    )
    if form == "lean":
        place.track("file")

    captured = place.capture(form)

    assert captured.manifest["deniedPaths"] == [".env", "id_rsa.d", "sub/a.PEM"]
    assert seen(place.base(captured)).keys() == {b"file", b"sub"}
    assert captured.notices == ("left out by the deny patterns: '.env', 'id_rsa.d', 'sub/a.PEM'",)


@pytest.mark.parametrize("where", ["index", "commit", "deleted"])
def test_a_tracked_file_that_is_denied_is_a_refusal(place, where):
    """A denied name in the index or in HEAD's tree is refused by name; the tree leaves it out."""
    grow(place.folder, {b"file": (0o100644, b"x"), b"a.key": (0o100644, b"x")})
    place.track("file" if where == "index" else ".")
    if where == "index":
        git(place.folder, "add", "a.key")
    else:
        (place.folder / "a.key").unlink()
    if where == "commit":
        git(place.folder, "rm", "--quiet", "--cached", "a.key")

    with pytest.raises(RefusedError, match=r"'a\.key'") as caught:
        place.capture("auto")
    assert "--capture tree" in caught.value.hint
    assert seen(place.base(place.capture("tree"))).keys() == {b"file"}
    assert seen(place.base(place.capture("auto", "*.other"))).keys() >= {b"file"}


def test_what_cannot_come_along_is_named(place):
    """Sockets, pipes and links that lead out are left out, each with its reason; other links are not."""
    grow(
        place.folder,
        {
            b"absolute": (0o120777, b"/etc/passwd"),
            b"out": (0o120777, b"../elsewhere"),
            b"sub": (0o040755, b""),
            b"sub/out": (0o120777, b"../x/../../y"),
            b"sub/in": (0o120777, b"../absolute"),
        },
    )
    os.mkfifo(place.folder / "pipe")
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(os.path.relpath(place.folder / "door"))

    captured = place.capture()

    assert {found["path"]: found["reason"] for found in captured.manifest["leftOut"]} == {
        "absolute": "a link that leads out of the folder",
        "door": "a socket",
        "out": "a link that leads out of the folder",
        "pipe": "a pipe",
        "sub/out": "a link that leads out of the folder",
    }
    assert seen(place.base(captured)).keys() == {b"sub", b"sub/in"}
    assert "left out: 'pipe' (a pipe)" in captured.notices


def test_other_repositories_are_named(place, tmp_path):
    """A submodule is an empty folder, a repository of its own is left out; of a plain folder only `.git` is."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "file").write_text("x")
    git(other, "init", "--quiet")
    git(other, "add", "file")
    git(other, "commit", "--quiet", "--message", "one")
    place.track()
    git(place.folder, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "sub")
    git(place.folder, "clone", "--quiet", str(other), "nested")
    (place.folder / ".git/hooks").mkdir(exist_ok=True)

    captured = place.capture("auto")

    assert seen(place.base(captured)).keys() == {b".gitmodules", b"sub"}
    assert [found["path"] for found in captured.manifest["leftOut"]] == ["nested", "sub"]

    (place.folder / ".git").rename(tmp_path / "away")
    (place.folder / "sub/.git").rename(place.folder / "sub/.GiT")
    captured = place.capture("auto")

    assert seen(place.base(captured)).keys() == {b".gitmodules", b"sub", b"sub/file", b"nested", b"nested/file"}
    assert [found["path"] for found in captured.manifest["leftOut"]] == ["nested/.git", "sub/.GiT"]


def test_pointers_to_large_files_are_told(place):
    """A Git LFS pointer is captured as it is, and told, also when it is not read again."""
    (place.folder / "large.bin").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
    age(place.folder)

    told = [place.capture().notices for _ in range(2)]
    (place.folder / "other").write_text("x")
    told.append(place.capture().notices)

    assert [len(one) for one in told] == [1, 1, 1]
    assert "'large.bin'" in told[2][0]


def test_a_file_that_only_pretends_to_be_large_is_refused(place):
    """A sparse file is refused before it is read; one that is as large as it says is not."""
    limits = Limits(sparse_bytes=1 << 20)
    (place.folder / "honest").write_bytes(bytes(2 << 20))
    place.capture(limits=limits)
    with (place.folder / "bomb").open("wb") as file:
        file.truncate(1 << 40)

    with pytest.raises(RefusedError, match="'bomb' says that it has"):
        place.capture(limits=limits)


@pytest.mark.parametrize("limits", [Limits(entries=2), Limits(total_bytes=10)])
def test_too_much_is_refused(place, limits):
    """More entries or bytes than the limits allow are refused, exactly as many are not."""
    (place.folder / "one").write_bytes(b"12345")
    (place.folder / "two").write_bytes(b"12345")
    place.capture(limits=limits)
    (place.folder / "three").write_bytes(b"1")

    with pytest.raises(RefusedError, match="holds more than"):
        place.capture(limits=limits)


def test_a_large_file_is_captured_in_parts(place):
    """A file of several parts comes out whole."""
    content = os.urandom(1 << 20) * 3 + b"end"
    (place.folder / "large").write_bytes(content)

    assert (place.base(place.capture()) / "large").read_bytes() == content


@pytest.mark.only_if(os.geteuid() != 0, "root reads everything")
@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_cannot_be_read_is_named(place, what):
    """A file or a folder without rights is an error with its name."""
    (place.folder / "folder").mkdir()
    (place.folder / "file").write_text("x")
    (place.folder / what).chmod(0)

    with pytest.raises(InputError, match=f"'{what}' cannot be read"):
        place.capture()
    (place.folder / what).chmod(0o700)
    place.capture()


def test_a_folder_that_never_rests_is_an_error(place):
    """A file that is written all the time is named; when that ends, the folder can be captured."""
    restless = place.folder / "restless"
    for number in range(300):
        (place.folder / f"file-{number:03}").write_bytes(b"x" * 1000)
    ended = threading.Event()

    def write() -> None:
        while not ended.is_set():
            with restless.open("ab") as file:
                file.write(b"x")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with pytest.raises(InputError, match="'restless' changes while"):
            capture_often(place)
    finally:
        ended.set()
        writer.join()
    place.capture()


def test_what_is_no_folder_cannot_be_captured(place):
    """A file, or nothing at all, is refused by name."""
    with pytest.raises(UsageError, match="is not a folder"):
        capture(place.folder / "nothing", Wish(), place.depot, place.blobs)


def test_a_folder_may_be_named_by_a_link(place, tmp_path):
    """The folder itself may be given through a link: its owner did so."""
    grow(place.folder, ODD)
    (tmp_path / "link").symlink_to(place.folder)

    captured = capture(tmp_path / "link", Wish("tree"), place.depot, place.blobs)

    assert seen(place.base(captured)) == ODD


@pytest.mark.parametrize("form", ["tree", "lean"])
def test_nothing_is_done_twice(place, form):
    """A second capture of an unchanged folder gives the same, reads no file and writes none."""
    grow(place.folder, ODD)
    place.track("plain.txt")
    time.sleep(2 * RACY_NANOSECONDS / 1e9)
    first = place.capture(form)
    age(place.folder)
    assert place.capture(form) == first  # times have changed, content has not
    age_of = {path: path.stat().st_atime for path in place.folder.glob("*") if path.is_file()}
    written = {path: path.lstat().st_ctime_ns for path in place.depot.root.rglob("*/*/*")}

    assert place.capture(form) == first
    assert {path: path.stat().st_atime for path in age_of} == age_of
    assert {path: path.lstat().st_ctime_ns for path in place.depot.root.rglob("*/*/*")} == written


def test_what_is_unchanged_is_shared(place):
    """A new base links what is as it was, and copies what is not, whatever changed about it."""
    for name in ("same", "written", "other-mode", "swapped"):
        (place.folder / name).write_text(name)
    age(place.folder)
    first = place.base(place.capture())
    (place.folder / "written").write_text("WRITTEN")  # as long as before
    os.utime(place.folder / "written", (1_000_000_000, 1_000_000_000))
    (place.folder / "other-mode").chmod(0o600)
    (place.folder / "new").write_text("swapped")
    (place.folder / "new").rename(place.folder / "swapped")

    second = place.base(place.capture())

    assert seen(second) == seen(place.folder)
    shared = {name for name, inode in inodes(second).items() if inodes(first)[name] == inode}
    assert shared == {"same"}


def test_a_file_of_this_moment_is_read_again(place):
    """A file that was written just now is not believed by its times: the same times may tell of other bytes."""
    file = place.folder / "file"
    file.write_bytes(b"one")
    before = file.stat()
    first = place.capture()
    file.write_bytes(b"two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    second = place.capture()

    assert (place.base(first) / "file").read_bytes() == b"one"
    assert (place.base(second) / "file").read_bytes() == b"two"


def test_a_removed_base_is_made_again(place):
    """What is remembered of a folder does not stand in for a base that is gone."""
    grow(place.folder, ODD)
    age(place.folder)
    first = place.capture()
    (place.depot.root / "bases" / digest(first.manifest)).rename(place.depot.root / "gone")

    assert place.capture() == first
    assert seen(place.base(first)) == ODD


def test_a_damaged_memory_is_no_obstacle(place):
    """Where what is remembered cannot be read, everything is captured anew."""
    grow(place.folder, ODD)
    first = place.capture()
    for path in (place.depot.root / "remembered").iterdir():
        path.write_bytes(b"\x93garbage")

    assert place.capture() == first


def test_other_patterns_are_not_answered_from_memory(place):
    """A capture with other deny patterns looks again."""
    grow(place.folder, {b"file": (0o100644, b"x"), b"notes": (0o100644, b"x")})
    age(place.folder)
    place.capture("tree", "*.none")

    assert seen(place.base(place.capture("tree", "notes"))).keys() == {b"file"}


@pytest.mark.parametrize("form", ["auto", "lean", "tree"])
def test_a_damaged_index_leaves_the_tree(place, form):
    """With a damaged index only the tree can be captured: all files count as untracked, and that is told."""
    grow(place.folder, {b"file": (0o100644, b"x"), b"other": (0o100644, b"x"), b".gitignore": (0o100644, b"other\n")})
    place.track("file")
    (place.folder / ".git/index").write_bytes(b"nothing")

    if form == "tree":
        captured = place.capture(form)
        assert seen(place.base(captured)).keys() == {b".gitignore", b"file"}
        assert "all files count as untracked" in captured.notices[0]
    else:
        with pytest.raises(InputError, match="cannot list") as caught:
            place.capture(form)
        assert "--capture tree" in caught.value.hint


def test_missing_objects_leave_the_tree(place):
    """Where the commit's objects are not all there, only the tree can be captured."""
    (place.folder / "file").write_text("x")
    place.track("file")
    blob = git(place.folder, "rev-parse", "HEAD:file").decode().strip()
    (place.folder / ".git/objects" / blob[:2] / blob[2:]).unlink()

    with pytest.raises(InputError, match="not all there"):
        place.capture("lean")
    assert seen(place.base(place.capture("tree"))).keys() == {b"file"}


def test_a_pointer_elsewhere_leaves_the_tree(place):
    """A `.git` file that leads nowhere is refused, but for the tree, which does not need it."""
    grow(place.folder, {b"file": (0o100644, b"x"), b".git": (0o100644, b"gitdir: nowhere\n")})

    with pytest.raises(InputError, match="where no repository is"):
        place.capture("auto")
    assert seen(place.base(place.capture("tree"))).keys() == {b"file"}


def test_a_folder_that_became_a_link_is_not_entered(place):
    """A link in the place of a folder is captured as a link: what it points to is not entered."""
    grow(place.folder, {b"sub": (0o040755, b""), b"sub/file": (0o100644, b"x")})
    place.track("sub/file")
    (place.folder / "sub").rename(place.folder.parent / "moved")
    (place.folder / "sub").symlink_to("nowhere")

    assert seen(place.base(place.capture("auto"))) == {b"sub": (0o120777, b"nowhere")}


CONFIGURATION = """
[core]
	fsmonitor = "touch {canary}/fsmonitor; false"
	hooksPath = {hooks}
	sshCommand = touch {canary}/ssh
	pager = touch {canary}/pager
	editor = touch {canary}/editor
	gitProxy = touch {canary}/proxy
	alternateRefsCommand = touch {canary}/refs
	attributesFile = {hooks}/attributes
	splitIndex = true
	untrackedCache = true
[filter "x"]
	clean = touch {canary}/clean; cat
	smudge = touch {canary}/smudge; cat
	process = touch {canary}/process
	required = true
[diff]
	external = touch {canary}/external
[diff "x"]
	textconv = touch {canary}/textconv; cat
	command = touch {canary}/command
[merge "x"]
	driver = touch {canary}/driver
[credential]
	helper = "!touch {canary}/credential"
[alias]
	ls-files = "!touch {canary}/alias"
	read-tree = "!touch {canary}/alias"
[include]
	path = {hooks}/included
[uploadpack]
	packObjectsHook = touch {canary}/pack
[gpg]
	program = touch {canary}/gpg
[trace2]
	normalTarget = {canary}/trace
[remote "origin"]
	url = "ext::touch {canary}/remote"
	promisor = true
	partialclonefilter = blob:none
[extensions]
	partialClone = origin
"""


@pytest.mark.parametrize("form", ["tree", "lean", "git"])
def test_nothing_of_a_repository_is_run(place, tmp_path, form):
    """Whatever a repository's configuration, attributes and hooks would start, a capture starts none of it."""
    canary, hooks = tmp_path / "canary", tmp_path / "hooks"
    canary.mkdir()
    hooks.mkdir()
    grow(place.folder, {b".gitattributes": (0o100644, b"* filter=x diff=x merge=x\n"), b"file": (0o100644, b"x\n")})
    place.track(".")
    (hooks / "included").write_text(f"[core]\n\tfsmonitor = touch {canary}/included\n")
    for folder in (hooks, place.folder / ".git/hooks"):
        folder.mkdir(exist_ok=True)
        for name in ("post-index-change", "pre-commit", "post-checkout", "reference-transaction", "fsmonitor-watchman"):
            (folder / name).write_text(f"#!/bin/sh\ntouch {canary}/hook\n")
            (folder / name).chmod(0o755)
    with (place.folder / ".git/config").open("a") as file:
        file.write(CONFIGURATION.format(canary=canary, hooks=hooks))
    (place.folder / "file").write_text("changed\n")
    (place.folder / "untracked").write_text("new\n")

    place.capture(form)

    assert list(canary.iterdir()) == []


def test_the_canary_would_sing(place, tmp_path):
    """The same configuration does run programs when git itself is asked in the repository."""
    canary = tmp_path / "canary"
    canary.mkdir()
    grow(place.folder, {b".gitattributes": (0o100644, b"* filter=x\n"), b"file": (0o100644, b"x\n")})
    place.track(".")
    git(place.folder, "config", "filter.x.clean", f"touch {canary}/clean; cat")
    (place.folder / "file").write_text("changed\n")

    git(place.folder, "add", "file")

    assert [path.name for path in canary.iterdir()] == ["clean"]


def test_the_folder_is_only_read(place):
    """A capture changes neither a file nor the repository."""
    grow(place.folder, ODD)
    place.track("plain.txt")
    before = {path: (path.lstat().st_mtime_ns, path.lstat().st_ctime_ns) for path in place.folder.rglob("*")}

    place.capture("lean")

    assert {path: (path.lstat().st_mtime_ns, path.lstat().st_ctime_ns) for path in place.folder.rglob("*")} == before
    assert list((place.depot.root / "making").iterdir()) == []
