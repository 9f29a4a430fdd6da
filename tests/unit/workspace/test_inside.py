"""The `.git` that a run finds."""

import os

import pytest

from tests.unit.workspace.shelf import git
from tipstaff.errors import InputError
from tipstaff.workspace import inside


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
@pytest.mark.parametrize("ref", ["refs/heads/main", "refs/heads/a/b", None])
def test_git_takes_it_for_a_repository(tmp_path, object_format, ref):
    """Git finds the format, the branch, and somebody to commit as."""
    commit = "1" * inside.OBJECT_FORMATS[object_format]

    inside.write_git(tmp_path, commit, ref, object_format, shallow=False)

    assert git(tmp_path, "rev-parse", "--show-object-format").decode().strip() == object_format
    assert git(tmp_path, "rev-parse", "HEAD").decode().strip() == commit
    assert git(tmp_path, "branch", "--show-current").decode().strip() == (ref or "").removeprefix("refs/heads/")
    assert git(tmp_path, "config", "user.email") == b"tipstaff@localhost\n"


def test_it_can_be_shallow_and_ignore(tmp_path):
    """A commit without its parents says so, and what is ignored is still."""
    path = inside.write_git(tmp_path, "1" * 40, None, "sha1", shallow=True, exclude=b"*.log\n")

    assert (path / "shallow").read_text() == "1" * 40 + "\n"
    assert git(tmp_path, "check-ignore", "x.log") == b"x.log\n"


def test_the_mask_does_not_matter(tmp_path):
    """Everybody who may enter the folder may read its git, whatever the mask of whoever made it."""
    mask = os.umask(0o077)
    try:
        path = inside.write_git(tmp_path, "1" * 40, "refs/heads/main", "sha1", shallow=False)
        (path / "objects/pack/pack-1.pack").write_bytes(b"")
        (path / "index").write_bytes(b"")
        inside.settle(path)
    finally:
        os.umask(mask)

    rights = {one.relative_to(path).as_posix(): one.stat().st_mode & 0o777 for one in path.rglob("*")}
    assert {rights[name] for name in ("objects", "objects/pack", "refs/heads")} == {0o755}
    assert {rights[name] for name in ("HEAD", "config", "index", "packed-refs")} == {0o644}
    assert rights["objects/pack/pack-1.pack"] == 0o444
    assert path.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    "ref",
    [
        "main",
        "HEAD",
        "refs/heads/",
        "refs/heads/../../config",
        "refs/heads/a..b",
        "refs/heads/.a",
        "refs/heads/a/.b",
        "refs/heads/a.lock",
        "refs/heads/a.lock/b",
        "refs/heads/a.",
        "refs/heads/a/",
        "refs/heads/a//b",
        "refs/heads/-a",
        "refs/heads/a b",
        "refs/heads/a\nb",
        "refs/heads/a\0",
        "refs/heads/a~1",
        "refs/heads/a^",
        "refs/heads/a:b",
        "refs/heads/a?",
        "refs/heads/a*",
        "refs/heads/a[",
        "refs/heads/a\\b",
        "refs/heads/@{x}",
        "refs/heads/a\n",
        "refs/heads/\ud800",
        "refs/tags/v1",
        "refs/heads/" + "a" * 2000,
        "",
        7,
    ],
)
def test_what_is_no_branch_is_refused(ref):
    """Names that git refuses, that lead elsewhere, or are no branch, are none here."""
    with pytest.raises(InputError, match="full name of a branch"):
        inside.check_ref(ref)


@pytest.mark.parametrize("ref", ["a", "a/b", "feature/x-1", "ä", "a.b", "a@b", "@", "a\u00a0b", "lock", "a.lockx"])
def test_what_is_a_branch_is_taken_by_us_and_by_git(tmp_path, ref):
    """The twin: git agrees on each."""
    inside.check_ref(f"refs/heads/{ref}")

    git(tmp_path, "check-ref-format", f"refs/heads/{ref}")


@pytest.mark.parametrize(
    ("commit", "object_format"),
    [("1" * 39, "sha1"), ("1" * 64, "sha1"), ("1" * 40, "sha256"), ("A" * 40, "sha1"), (7, "sha1"), ("1" * 40, "md5")],
)
def test_what_is_no_commit_is_refused(tmp_path, commit, object_format):
    """A name of the wrong length, letters or kind writes nothing."""
    with pytest.raises(InputError):
        inside.write_git(tmp_path, commit, None, object_format, shallow=False)

    assert list(tmp_path.iterdir()) == []
