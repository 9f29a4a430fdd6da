"""Repositories as they are found: odd, damaged, unfinished, linked to others, hostile."""

import os
import shutil
from pathlib import Path

import pytest

from tests.unit.workspace.shelf import git
from tipstaff.errors import InputError
from tipstaff.workspace.capture.repository import Repository, submodules


@pytest.fixture
def project(tmp_path):
    """A repository with one commit."""
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "file").write_text("content\n")
    commit(folder, "one")
    return folder


def commit(folder: Path, message: str) -> str:
    """Commit everything; gives the commit."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", message)
    return head(folder)


def head(folder: Path) -> str:
    """Give what git says HEAD is."""
    return git(folder, "rev-parse", "HEAD").decode().strip()


def look(folder: Path, home: Path | None = None) -> Repository:
    """Find the repository of a folder."""
    found = Repository.find(folder, environ={"HOME": str(home)} if home else {})
    assert found is not None
    return found


def test_a_folder_without_a_repository_has_none(tmp_path):
    """Nothing is found in a plain folder, nor in a folder inside a repository."""
    git(tmp_path, "init", "--quiet")
    (tmp_path / "inner").mkdir()

    assert Repository.find(tmp_path / "inner", environ={}) is None


def test_head_is_read_as_git_reads_it(project):
    """Commit and branch are those that git names, from a file of their own or packed."""
    for _ in range(2):
        with look(project) as found:
            assert (found.commit, found.ref, found.object_format) == (head(project), "refs/heads/main", "sha1")
        git(project, "pack-refs", "--all")


def test_a_detached_head_has_no_branch(project):
    """Detached, there is a commit and no branch."""
    git(project, "checkout", "--quiet", "--detach")

    with look(project) as found:
        assert (found.commit, found.ref) == (head(project), None)


def test_a_repository_without_commits_has_none(tmp_path):
    """Before the first commit there is a branch and no commit."""
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    (tmp_path / "new").write_text("")

    with look(tmp_path) as found:
        assert (found.commit, found.ref, found.untracked()) == (None, "refs/heads/main", [b"new"])


def test_names_are_those_of_git(project):
    """Tracked, untracked and ignored files are told apart, byte for byte."""
    odd = [b"new\nline", b"not\xfftext", b"l" * 255, b"Case", b"case", b'qu"o\\te', b"? H 100644"]
    for name in odd:
        Path(os.fsdecode(os.fsencode(project) + b"/" + name)).write_bytes(b"")
    (project / ".gitignore").write_text("*.log\n!kept.log\nbuild/\n")
    for log in ("a.log", "kept.log"):
        (project / log).write_text("")
    (project / "build").mkdir()
    (project / "build/out").write_text("")

    with look(project) as found:
        assert found.tracked() == [b"file"]
        assert set(found.untracked()) == {*odd, b".gitignore", b"kept.log"}
    commit(project, "odd")
    with look(project) as found:
        assert set(found.tracked()) == {*odd, b"file", b".gitignore", b"kept.log"}
        assert found.untracked() == []


@pytest.mark.parametrize("place", ["info", "config", "include", "default"])
def test_what_the_user_ignores_is_ignored(project, tmp_path, place):
    """The clone's own list counts, and the user's, wherever the user's configuration puts it."""
    home = tmp_path / "home"
    (home / ".config/git").mkdir(parents=True)
    files = {
        "info": project / ".git/info/exclude",
        "config": home / "mine",
        "include": home / "mine",
        "default": home / ".config/git/ignore",
    }
    if place in {"config", "include"}:
        said = "[core]\n\texcludesFile = ~/mine\n"
        (home / ".gitconfig").write_text(said if place == "config" else "[include]\n\tpath = other\n")
        (home / "other").write_text(said)
    (project / "scratch").write_text("")
    with look(project, home) as found:
        assert found.untracked() == [b"scratch"]

    files[place].write_text("# mine\nscratch\n")

    with look(project, home) as found:
        assert found.untracked() == []
        assert found.exclude == ("scratch\n" if place == "info" else "")


def test_a_worktree_is_a_repository(project, tmp_path):
    """A worktree has its own HEAD and index, and the objects of the first one."""
    git(project, "worktree", "add", "--quiet", "-b", "other", str(tmp_path / "other"))
    made = commit(tmp_path / "other", "two")

    with look(tmp_path / "other") as found:
        assert (found.commit, found.ref, found.tracked()) == (made, "refs/heads/other", [b"file"])


def test_a_submodule_is_a_repository(project, tmp_path):
    """A submodule's folder is a repository of its own, and one name in the one above."""
    above = tmp_path / "above"
    above.mkdir()
    git(above, "init", "--quiet")
    git(above, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(project), "sub")
    commit(above, "with a submodule")

    with look(above) as found:
        assert submodules(found.names()) == [b"sub"]
    with look(above / "sub") as found:
        assert (found.commit, found.tracked()) == (head(project), [b"file"])


@pytest.mark.parametrize(
    ("pointer", "said"),
    [
        ("gitdir: {other}/.git\n", "belongs to another folder"),
        ("gitdir: nowhere\n", "where no repository is"),
        ("gitdir: ../../../../../../../..\n", "not a git directory"),
        ("something else", "does not say where"),
        ("", "does not say where"),
    ],
)
def test_a_pointer_that_leads_elsewhere_is_refused(project, tmp_path, pointer, said):
    """A `.git` file leads to a directory that names the folder in turn, or to an error that offers the tree."""
    folder = tmp_path / "taken"
    folder.mkdir()
    (folder / ".git").write_text(pointer.format(other=project))

    with pytest.raises(InputError, match=said) as caught:
        Repository.find(folder, environ={})
    assert "--capture tree" in caught.value.hint


def test_a_link_is_no_repository(project, tmp_path):
    """A `.git` that is a symbolic link is refused."""
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken/.git").symlink_to(project / ".git")

    with pytest.raises(InputError, match="symbolic link"):
        Repository.find(tmp_path / "taken", environ={})


def test_objects_may_be_named_by_sha256(tmp_path):
    """A repository of the newer format is read, too."""
    git(tmp_path, "init", "--quiet", "--object-format=sha256")
    (tmp_path / "file").write_text("x")
    made = commit(tmp_path, "one")

    with look(tmp_path) as found:
        assert (found.commit, found.object_format, found.committed()) == (made, "sha256", b"file\0")
    assert len(made) == 64


@pytest.mark.parametrize("extension", ["refStorage = reftable", "newFangled = true", "objectFormat = sha3"])
def test_an_unknown_extension_is_refused(project, extension):
    """A repository in a form that we do not know is refused, never guessed at."""
    with (project / ".git/config").open("a") as file:
        file.write(f"[extensions]\n\t{extension}\n")

    with pytest.raises(InputError, match="not known here"):
        Repository.find(project, environ={})


def test_a_known_extension_is_not_refused(project):
    """What only says how a repository is kept does not stand in the way."""
    with (project / ".git/config").open("a") as file:
        file.write("[extensions]\n\tworktreeConfig = true\n\tpartialClone = origin\n\trefStorage = files\n")

    with look(project) as found:
        assert found.object_format == "sha1"


@pytest.mark.parametrize("said", ["garbage", "ref: ../../outside", "ref: refs/heads/../../x", "ref: refs/heads/b"])
def test_a_damaged_head_is_said(project, said):
    """A HEAD that names nothing is an error, and so are refs that go round in circles."""
    (project / ".git/HEAD").write_text(f"{said}\n")
    (project / ".git/refs/heads/b").write_text("ref: refs/heads/b\n")

    with pytest.raises(InputError, match=r"damaged|no ref|circles"):
        Repository.find(project, environ={})


def test_a_ref_is_not_read_through_a_link(project, tmp_path):
    """A ref that is a link to a file outside is not followed."""
    (tmp_path / "outside").write_text("0" * 40)
    (project / ".git/refs/heads/main").unlink()
    (project / ".git/refs/heads/main").symlink_to(tmp_path / "outside")

    with pytest.raises(InputError, match="cannot be read"):
        Repository.find(project, environ={})


def test_what_is_not_finished_is_told(project):
    """A merge or a rebase in progress is said in a sentence, and stops nothing."""
    (project / ".git/MERGE_HEAD").write_text(head(project))
    (project / ".git/rebase-merge").mkdir()

    with look(project) as found:
        assert [notice.partition(" is not")[0] for notice in found.notices] == ["a merge", "a rebase"]


def test_a_damaged_index_is_said(project):
    """An index that git cannot read is an error that offers the tree; without it everything is untracked."""
    (project / ".git/index").write_bytes(b"DIRC" + bytes(60))

    with look(project) as found, pytest.raises(InputError, match="cannot list") as caught:
        found.tracked()
    assert "--capture tree" in caught.value.hint
    with Repository.ignoring(project, environ={}) as found:
        assert (found.tracked(), found.untracked()) == ([], [b"file"])


def test_a_split_index_is_read(project):
    """An index that lies in two files is one."""
    git(project, "config", "core.splitIndex", "true")
    git(project, "update-index", "--split-index")
    assert list((project / ".git").glob("sharedindex.*"))

    with look(project) as found:
        assert found.tracked() == [b"file"]


def test_a_sparse_checkout_is_told(project):
    """Tracked files that are not in the folder by wish are counted."""
    (project / "folder").mkdir()
    (project / "folder/hidden").write_text("")
    commit(project, "two")
    git(project, "sparse-checkout", "set", "--cone", "--sparse-index")

    with look(project) as found:
        assert (set(found.tracked()), found.names().hidden) == ({b"file", b"folder/hidden"}, 1)


def test_objects_of_another_repository_are_found(project, tmp_path):
    """A clone that shares its objects is read, and so is one whose path holds a newline and a quote."""
    git(tmp_path, "clone", "--quiet", "--shared", str(project), "clone")
    odd = shutil.copytree(project, tmp_path / 'odd\n"place')

    for folder in (tmp_path / "clone", odd):
        with look(folder) as found:
            assert found.committed() == b"file\0"


def test_missing_objects_are_said(project):
    """A commit whose objects are gone is an error that offers the tree."""
    tree = git(project, "rev-parse", "HEAD^{tree}").decode().strip()
    (project / ".git/objects" / tree[:2] / tree[2:]).unlink()

    with look(project) as found, pytest.raises(InputError, match="not all there"):
        found.committed()


def test_nothing_is_left_and_nothing_is_written(project, tmp_path):
    """Looking leaves the repository as it was, and takes its own things away."""
    before = {path: path.stat().st_mtime_ns for path in project.rglob("*")}
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    found = Repository.find(project, scratch=scratch, environ={})
    assert found is not None
    with found:
        found.git.run("hash-object", "-w", "--stdin", stdin=b"new")
        found.tracked()
        assert any(scratch.iterdir())

    assert {path: path.stat().st_mtime_ns for path in project.rglob("*")} == before
    assert list(scratch.iterdir()) == []
