"""Capture of a repository with its whole history, and the way back."""

import os
import socket
import stat
from pathlib import Path

import pytest

from tests.unit.workspace.shelf import ODD, Shelf, git, grow, seen
from tipstaff.errors import InputError, RefusedError
from tipstaff.workspace.capture.denied import DEFAULT_PATTERNS
from tipstaff.workspace.capture.repository import Repository
from tipstaff.workspace.capture.whole import capture_history
from tipstaff.workspace.materialise.making import materialise

PLAIN = {
    name: (mode if stat.S_ISLNK(mode) else 0o100755 if mode & 0o100 else 0o100644, content)
    for name, (mode, content) in ODD.items()
    if not stat.S_ISDIR(mode)
}


@pytest.fixture
def folder(tmp_path):
    """A repository with one commit."""
    work = tmp_path / "work"
    work.mkdir()
    git(work, "init", "-q")
    (work / "a.txt").write_bytes(b"a\n")
    (work / "b.txt").write_bytes(b"b\n")
    commit(work, "first")
    return work


def commit(work: Path, message: str) -> str:
    """Commit all that is in a folder."""
    git(work, "add", "-A", "-f")
    git(work, "commit", "-q", "--allow-empty", "-m", message)
    return git(work, "rev-parse", "HEAD").decode().strip()


def captured(work, shelf, patterns=DEFAULT_PATTERNS):
    """Capture a folder, with its history."""
    repository = Repository.find(work, environ={})
    assert repository is not None
    with repository:
        return capture_history(repository, patterns, shelf)


def brought(work, target, patterns=DEFAULT_PATTERNS):
    """Capture a folder and make it again elsewhere."""
    shelf = Shelf()
    manifest = captured(work, shelf, patterns).manifest
    target.mkdir()
    materialise(manifest, shelf, target)
    return target


def files(folder):
    """Give the files and links of a folder."""
    return {name: found for name, found in seen(folder).items() if not stat.S_ISDIR(found[0])}


def test_a_clean_repository_has_no_diff(folder):
    """What is committed and unchanged needs the bundle alone, in the protocol's own fields."""
    shelf = Shelf()

    found = captured(folder, shelf)

    assert found.form == "git"
    assert found.notices == ()
    assert found.manifest == {
        "version": "warrant.manifest.v1",
        "baseRef": git(folder, "rev-parse", "HEAD").decode().strip(),
        "bundleHash": next(iter(shelf.kept)),
        "untrackedFiles": [],
        "deniedPatterns": list(DEFAULT_PATTERNS),
        "deniedPaths": [],
    }


def test_the_bundle_is_one_that_any_git_can_clone(folder, tmp_path):
    """The bundle's bytes are a git bundle with HEAD and its branch, and with all commits."""
    commit(folder, "second")
    shelf = Shelf()
    bundle = tmp_path / "bundle"
    bundle.write_bytes(shelf.get(captured(folder, shelf).manifest["bundleHash"]))

    git(tmp_path, "clone", "-q", str(bundle), "clone")

    assert git(tmp_path / "clone", "log", "--format=%s") == b"second\nfirst\n"
    assert git(tmp_path / "clone", "branch", "--show-current") == b"main\n"


@pytest.mark.parametrize("state", ["committed", "staged", "untracked"])
def test_an_odd_tree_comes_back(folder, tmp_path, state):
    """Names of any bytes, links, executables and binary contents come back, committed or not."""
    grow(folder, {name: found for name, found in ODD.items() if stat.S_ISDIR(found[0])})
    (folder / "closed").chmod(0o755)
    grow(folder, PLAIN)
    if state == "committed":
        commit(folder, "odd")
    elif state == "staged":
        git(folder, "add", "-A")

    target = brought(folder, tmp_path / "target")

    assert files(target) == files(folder)


def test_rights_of_untracked_files_are_kept(folder, tmp_path):
    """Git knows only the right to execute; an untracked file keeps all its rights."""
    (folder / "private").write_bytes(b"x")
    (folder / "private").chmod(0o600)

    assert files(brought(folder, tmp_path / "target"))[b"private"] == (0o100600, b"x")


def test_staged_and_unstaged_changes_come_back_as_the_folder_has_them(folder, tmp_path):
    """Changed, deleted, renamed, made executable, turned into a link or into a folder: the folder's state counts."""
    grow(folder, {b"%s" % name: (0o100644, name * 9) for name in (b"c", b"d", b"e", b"f", b"g", b"h")})
    commit(folder, "second")
    (folder / "a.txt").write_bytes(b"staged")
    git(folder, "add", "a.txt")
    (folder / "a.txt").write_bytes(b"unstaged after staged\0")
    (folder / "b.txt").unlink()
    git(folder, "mv", "c", "moved")
    (folder / "d").chmod(0o755)
    (folder / "e").unlink()
    (folder / "e").symlink_to("a.txt")
    (folder / "f").unlink()
    grow(folder / "f", {b"in": (0o100644, b"in")})
    git(folder, "add", "f/in")
    git(folder, "rm", "-q", "--cached", "g")
    (folder / "h").unlink()
    grow(folder / "h", {b"in": (0o100644, b"in")})
    (folder / "staged").write_bytes(b"gone again")
    git(folder, "add", "staged")
    (folder / "staged").unlink()

    target = brought(folder, tmp_path / "target")

    assert files(target) == files(folder)
    assert git(target, "log", "--format=%s") == b"second\nfirst\n"
    changed = b" M a.txt\n D b.txt\n D c\n M d\n T e\n D f\n D h\n?? moved\n"
    assert git(target, "status", "--porcelain") == changed
    git(target, "fsck", "--strict")
    git(target, "add", "-A")
    git(target, "commit", "-q", "-m", "third")


def test_contents_are_the_folder_s_bytes_whatever_attributes_ask_for(folder, tmp_path):
    """Line endings, idents, encodings and filters that attributes name change no byte on the way."""
    (folder / ".gitattributes").write_bytes(
        b"*.crlf text eol=crlf\n*.auto text=auto\n*.id ident\n*.u16 working-tree-encoding=UTF-16\n"
        b"*.f filter=x\n*.n -diff\n"
    )
    tree = {
        b"x.crlf": b"one\r\ntwo\r\n",
        b"x.auto": b"one\r\ntwo\r\n",
        b"x.id": b"$Id: expanded $\n",
        b"x.u16": "text\n".encode("utf-16"),
        b"x.f": b"as it is\n",
        b"x.n": b"text\n",
    }
    grow(folder, {name: (0o100644, content) for name, content in tree.items()})
    commit(folder, "attributes")
    grow(folder, {b"y" + name[1:]: (0o100644, content) for name, content in tree.items()})
    git(folder, "add", "-A")
    (folder / "x.crlf").write_bytes(b"one\r\nthree\r\n")
    (folder / "x.n").write_bytes(b"other\n")

    assert files(brought(folder, tmp_path / "target")) == files(folder)


def test_ignored_files_stay_and_untracked_ones_come(folder, tmp_path):
    """What `.gitignore` covers is not captured; what it does not is, with a digest of its own."""
    (folder / ".gitignore").write_bytes(b"*.log\n")
    (folder / "x.log").write_bytes(b"noise")
    (folder / "x.txt").write_bytes(b"news")

    found = files(brought(folder, tmp_path / "target"))

    assert b"x.log" not in found
    assert found[b"x.txt"] == (0o100644, b"news")


def test_denied_untracked_files_stay_and_are_named(folder):
    """An untracked file that a pattern matches is in no blob; the manifest and the notices name it."""
    (folder / ".env").write_bytes(b"TOKEN=hunter2")
    (folder / "keys").mkdir()
    (folder / "keys" / "x.PEM").write_bytes(b"hunter2")
    shelf = Shelf()

    found = captured(folder, shelf)

    assert found.manifest["deniedPaths"] == [".env", "keys/x.PEM"]
    assert found.manifest["untrackedFiles"] == []
    assert found.notices == ("left out by the deny patterns: '.env', 'keys/x.PEM'",)
    assert not any(b"hunter2" in content for content in shelf.kept.values())


@pytest.mark.parametrize("where", ["tree", "index", "history", "branch", "merge"])
def test_denied_tracked_files_are_a_refusal(folder, where):
    """A pattern that matches in HEAD, the index, or any commit that would travel refuses, names it, and offers tree."""
    (folder / "id_rsa").write_bytes(b"hunter2")
    if where == "index":
        git(folder, "add", "id_rsa")
    elif where in {"tree", "history"}:
        commit(folder, "oops")
    if where == "history":
        (folder / "id_rsa").unlink()
        commit(folder, "gone")
    if where in {"branch", "merge"}:
        (folder / "id_rsa").unlink()
        git(folder, "checkout", "-q", "-b", "side")
        (folder / "s").write_bytes(b"s")
        if where == "branch":
            (folder / "id_rsa").write_bytes(b"hunter2")
            commit(folder, "side")
            (folder / "id_rsa").unlink()
        commit(folder, "side again")
        git(folder, "checkout", "-q", "main")
        commit(folder, "main")
        git(folder, "merge", "-q", "--no-ff", "--no-commit", "side")
        if where == "merge":
            (folder / "id_rsa").write_bytes(b"hunter2")
        commit(folder, "merged")
        (folder / "id_rsa").unlink(missing_ok=True)
        commit(folder, "gone")
    shelf = Shelf()

    with pytest.raises(RefusedError, match="'id_rsa'") as refusal:
        captured(folder, shelf)

    assert "--capture tree" in refusal.value.hint
    assert ("(commit " in refusal.value.message) is (where != "index")
    assert shelf.kept == {}


def test_denied_files_of_a_branch_that_does_not_travel_are_no_matter(folder):
    """The twin: only what HEAD's history names is looked at."""
    git(folder, "checkout", "-q", "-b", "side")
    (folder / "id_rsa").write_bytes(b"hunter2")
    commit(folder, "side")
    git(folder, "checkout", "-q", "main")
    shelf = Shelf()

    found = captured(folder, shelf)

    assert found.manifest["deniedPaths"] == []


def test_a_denied_content_under_a_name_of_its_own_and_another_is_found(folder):
    """A denied name is found though its content has another name too, and its commit another parent."""
    (folder / "z.txt").write_bytes(b"same")
    commit(folder, "second")
    (folder / "server.key").write_bytes(b"same")
    commit(folder, "third")
    git(folder, "rm", "-q", "server.key")
    commit(folder, "fourth")

    with pytest.raises(RefusedError, match=r"'server\.key' \(commit "):
        captured(folder, Shelf())


def test_many_denied_files_are_counted(folder):
    """Of many names five are told, and how many more there are."""
    grow(folder, {b"%d.pem" % number: (0o100644, b"x") for number in range(7)})
    commit(folder, "second")

    with pytest.raises(RefusedError, match="and 2 more"):
        captured(folder, Shelf())


def test_what_cannot_travel_stays_and_is_named(folder, tmp_path, monkeypatch):
    """Untracked links that lead out, and repositories within, are left out with a reason; pipes and sockets always."""
    os.mkfifo(folder / "pipe")
    monkeypatch.chdir(folder)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
    (folder / "absolute").symlink_to("/etc/passwd")
    (folder / "up").symlink_to("../outside")
    (folder / "sub").mkdir()
    (folder / "sub" / "top").symlink_to("..")
    (folder / "sub" / "out").symlink_to("top/../outside")
    (folder / "in").symlink_to("sub/../a.txt")
    git(folder, "init", "-q", "within")
    (folder / "within" / "x").write_bytes(b"x")
    commit(folder / "within", "its own")
    shelf = Shelf()

    found = captured(folder, shelf)

    left = {one["path"]: one["reason"] for one in found.manifest["leftOut"]}
    assert set(left) == {"absolute", "up", "sub/out", "within"}
    assert [file["path"] for file in found.manifest["untrackedFiles"]] == ["in", "sub/top"]
    assert any("a link that leads out of the folder" in notice for notice in found.notices)
    (tmp_path / "target").mkdir()
    materialise(found.manifest, shelf, tmp_path / "target")
    assert files(tmp_path / "target")[b"in"] == (0o120777, b"sub/../a.txt")


def test_a_tracked_link_that_leads_out_is_a_refusal(folder):
    """A tracked link out of the folder cannot be left out of a commit, so it is refused; one inside is not."""
    (folder / "in").symlink_to("a.txt")
    commit(folder, "in")
    captured(folder, Shelf())
    (folder / "passwords").symlink_to("/etc/passwd")
    commit(folder, "out")

    with pytest.raises(RefusedError, match="tracked links lead out of the folder: 'passwords'"):
        captured(folder, Shelf())


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_both_formats_and_a_detached_head_work(tmp_path, object_format):
    """A repository by either digest, on a branch or none, comes back as it was."""
    work = tmp_path / "work"
    work.mkdir()
    git(work, "init", "-q", f"--object-format={object_format}", "-b", "topic/ä")
    (work / "a").write_bytes(b"a")
    commit(work, "first")
    (work / "a").write_bytes(b"b")

    branch = brought(work, tmp_path / "one")
    git(work, "checkout", "-q", "--detach")
    detached = brought(work, tmp_path / "two")

    assert files(branch) == files(detached) == {b"a": (0o100644, b"b")}
    assert git(branch, "branch", "--show-current") == "topic/ä\n".encode()
    assert git(detached, "branch", "--show-current") == b""
    assert git(detached, "status", "--porcelain") == b" M a\n"


def test_submodules_are_empty_folders_and_large_file_pointers_are_told(folder, tmp_path):
    """A submodule is named and its folder is empty; a pointer of Git LFS comes as it is, and is named."""
    (folder / "big.bin").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    commit(folder, "pointer")
    head = git(folder, "rev-parse", "HEAD").decode().strip()
    git(folder, "update-index", "--add", "--cacheinfo", f"160000,{head},module")
    git(folder, "commit", "-q", "-m", "module")
    (folder / "module").mkdir()
    shelf = Shelf()

    found = captured(folder, shelf)

    assert [one["path"] for one in found.manifest["leftOut"]] == ["module"]
    assert any("LFS" in notice and "big.bin" in notice for notice in found.notices)
    (tmp_path / "target").mkdir()
    materialise(found.manifest, shelf, tmp_path / "target")
    assert seen(tmp_path / "target")[b"module"] == (0o040755, b"")


def test_files_that_a_sparse_checkout_hides_stay_as_they_are_committed(folder, tmp_path):
    """What is not in the folder only because it is hidden is not deleted."""
    git(folder, "update-index", "--skip-worktree", "b.txt")
    (folder / "b.txt").unlink()

    assert files(brought(folder, tmp_path / "target"))[b"b.txt"] == (0o100644, b"b\n")


def test_a_shallow_repository_is_refused_and_others_are_offered(folder, tmp_path):
    """Where the history is not all there, the whole of it cannot travel."""
    commit(folder, "second")
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{folder}", "shallow")

    with pytest.raises(InputError, match="not all there") as error:
        captured(tmp_path / "shallow", Shelf())

    assert "--capture lean" in error.value.hint


def test_a_repository_without_commits_is_refused(tmp_path):
    """There is no history to travel."""
    git(tmp_path, "init", "-q")

    with pytest.raises(InputError, match="no commits yet"):
        captured(tmp_path, Shelf())


def test_the_same_repository_gives_the_same_manifest(folder):
    """A second capture of the same state names the same blobs."""
    grow(folder, {b"%d" % number: (0o100644, b"%d" % number * 99) for number in range(50)})
    commit(folder, "second")
    (folder / "a.txt").write_bytes(b"dirty")
    shelf = Shelf()

    first = captured(folder, shelf).manifest
    kept = len(shelf.kept)

    assert captured(folder, shelf).manifest == first
    assert len(shelf.kept) == kept


def test_nothing_is_written_into_the_repository(folder):
    """The user's repository is the same before and after, to the last object and the time of its index."""
    (folder / "a.txt").write_bytes(b"dirty")
    (folder / "new").write_bytes(b"new")
    before = seen(folder, but=())
    times = {path: path.lstat().st_mtime_ns for path in folder.rglob("*")}

    captured(folder, Shelf())

    assert seen(folder, but=()) == before
    assert {path: path.lstat().st_mtime_ns for path in folder.rglob("*")} == times


def test_nothing_of_the_repository_is_run(folder, tmp_path):
    """Hooks, filters and programs that the configuration names do not run while a repository is captured."""
    canary = tmp_path / "canary"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {canary}\ncat\n")
    program.chmod(0o755)
    (folder / ".gitattributes").write_bytes(b"* filter=x diff=x\n")
    for key in ("filter.x.clean", "filter.x.smudge", "diff.x.textconv", "diff.x.command", "diff.external",
                "core.fsmonitor", "uploadpack.packObjectsHook", "core.pager", "alias.log"):  # fmt: skip
        git(folder, "config", key, f"!{program}" if key.startswith("alias") else str(program))
    for hook in ("post-index-change", "pre-commit", "reference-transaction"):
        (folder / ".git/hooks" / hook).symlink_to(program)
    (folder / "a.txt").write_bytes(b"dirty")
    canary.unlink(missing_ok=True)

    captured(folder, Shelf())

    assert not canary.exists()
