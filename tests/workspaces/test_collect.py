"""What a run changed is found, kept and shown, in an overlay and in a whole copy alike."""

import os
import tracemalloc
from hashlib import sha256
from pathlib import Path

import pytest

from tests.unit.workspace.overlaid import FORMS, copied, git, overlaid, repository, taken
from tipstaff.errors import InputError, UsageError
from tipstaff.model import changes as records
from tipstaff.workspace.apply.contents import Contents
from tipstaff.workspace.collect.collecting import Bounds, View, collect

FILES = {
    ".gitignore": "*.log\n!kept.log\nbuild/\n",
    "a.txt": "one\ntwo\nthree\n",
    "b.txt": "b\n",
    "folder/c.txt": "c\n",
    "folder/d.txt": "d\n",
    "folder/deep/e.txt": "e\n",
    "other/f.txt": "f\n",
}
# What a script does, and what it is told as.
CASES = {
    "nothing": ("true", {}),
    "added": ("echo new > new.txt", {"new.txt": "added"}),
    "added in a new folder": ("mkdir -p x/y && echo new > x/y/new.txt", {"x/y/new.txt": "added"}),
    "changed": ("echo more >> a.txt", {"a.txt": "changed"}),
    "changed to the same size": ("echo c > b.txt", {"b.txt": "changed"}),
    "deleted": ("rm b.txt", {"b.txt": "deleted"}),
    "touched": ("touch a.txt folder/c.txt", {}),
    "rewritten as it was": ("cat a.txt > t && cat t > a.txt && rm t", {}),
    "mode": ("chmod 755 a.txt", {"a.txt": "mode"}),
    "mode of a folder": ("chmod 700 folder", {}),
    "an empty folder": ("mkdir empty", {}),
    "a folder deleted": (
        "rm -r folder",
        {"folder/c.txt": "deleted", "folder/d.txt": "deleted", "folder/deep/e.txt": "deleted"},
    ),
    "a folder replaced": (
        "rm -r folder && mkdir folder && echo c > folder/c.txt && echo g > folder/g.txt",
        {"folder/d.txt": "deleted", "folder/deep/e.txt": "deleted", "folder/g.txt": "added"},
    ),
    "a folder replaced, with folders in it": (
        "rm -r folder && mkdir -p folder/deep && echo h > folder/deep/h.txt",
        {
            "folder/c.txt": "deleted",
            "folder/d.txt": "deleted",
            "folder/deep/e.txt": "deleted",
            "folder/deep/h.txt": "added",
        },
    ),
    "a file becomes a folder": (
        "rm b.txt && mkdir b.txt && echo x > b.txt/x",
        {"b.txt": "deleted", "b.txt/x": "added"},
    ),
    "a folder becomes a file": ("rm -r other && echo x > other", {"other": "added", "other/f.txt": "deleted"}),
    "a folder becomes a link": ("rm -r other && ln -s folder other", {"other": "added", "other/f.txt": "deleted"}),
    "a file becomes a link": ("rm b.txt && ln -s a.txt b.txt", {"b.txt": "changed"}),
    "a link to outside": ("ln -s /etc/passwd out", {"out": "added"}),
    "a link to nowhere": ("ln -s nowhere out", {"out": "added"}),
    "moved": ("mv a.txt folder/moved.txt", {"a.txt": "deleted", "folder/moved.txt": "added"}),
    "odd names": (
        "echo 1 > $'new\\nline' && echo 2 > $'\\xff\\xfe' && echo 3 > ' ' && echo 4 > $'tab\\t\"quote' && echo 5 > :x",
        {"new\nline": "added", "\udcff\udcfe": "added", " ": "added", 'tab\t"quote': "added", ":x": "added"},
    ),
    "hard links": ("echo x > one && ln one two", {"one": "added", "two": "added"}),
    "names that differ in case": ("echo x > A.TXT", {"A.TXT": "added"}),
}


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    """A repository with a few files, which no test changes."""
    return repository(tmp_path_factory.mktemp("collect") / "base", FILES)


@pytest.fixture
def live(tmp_path) -> Path:
    """A repository of a test's own."""
    return repository(tmp_path / "live", FILES)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", CASES)
def test_every_change_is_told_and_shown(base, tmp_path, form, case):
    """What is done to a file is told of its name and no other; the diff, applied by git, gives what the run left."""
    script, expected = CASES[case]

    found = taken(FORMS[form](base, tmp_path / "place", script))

    assert found.told == expected
    wanted = copied(base, tmp_path / "wanted", script).copy
    target = copied(base, tmp_path / "target", "true").copy
    if found.diff:
        git(target or tmp_path, "apply", "-p1", stdin=found.diff)
    assert listing(target) == listing(wanted)


def listing(folder: Path | None) -> dict[bytes, tuple[bool, bytes]]:
    """Every file and link below a folder but in .git: whether it can be executed, and its content."""
    assert folder is not None
    found = {}
    for place, folders, files in os.walk(os.fsencode(folder)):
        if b".git" in folders:
            folders.remove(b".git")
        for name in [*files, *(one for one in folders if (Path(os.fsdecode(place)) / os.fsdecode(one)).is_symlink())]:
            path = Path(os.fsdecode(os.path.join(place, name)))  # noqa: PTH118 - bytes, which pathlib does not take
            is_link = path.is_symlink()
            content = os.fsencode(path.readlink()) if is_link else path.read_bytes()
            found[os.fsencode(path.relative_to(folder))] = (not is_link and bool(path.stat().st_mode & 0o100), content)
    return found


@pytest.mark.parametrize("form", FORMS)
def test_contents_lie_in_the_order_of_changes(base, tmp_path, form):
    """The contents can be cut out by the changes alone, each with the digest that its change has."""
    script = "echo z > z.txt; echo more >> a.txt; rm b.txt; ln -s a.txt link; chmod 755 folder/c.txt; : > empty"
    found = taken(FORMS[form](base, tmp_path / "place", script))

    content = Contents(found.collected.changes, found.contents)

    kept = [change.name for change in found.collected.changes if change.kept]
    assert {name: bytes(content(name)) for name in kept} == {
        b"a.txt": b"one\ntwo\nthree\nmore\n",
        b"empty": b"",
        b"folder/c.txt": b"c\n",
        b"link": b"a.txt",
        b"z.txt": b"z\n",
    }


def test_both_sides_are_told(base, tmp_path):
    """A change names the digest, size and rights of what was there and of what is there."""
    found = taken(overlaid(base, tmp_path / "place", "printf new > a.txt && chmod 750 a.txt"))

    change = found.by_name[b"a.txt"]

    was = FILES["a.txt"].encode()
    assert change.base == records.Side(0o100644, sha256(was).hexdigest(), len(was))
    assert change.after == records.Side(0o100750, sha256(b"new").hexdigest(), 3)


def test_changes_survive_their_events(base, tmp_path):
    """What is written as events and read again is the same."""
    script = "echo z > $'\\xff'; mv a.txt z.txt; rm b.txt; mkfifo pipe; chmod 700 folder/c.txt"
    changes = taken(overlaid(base, tmp_path / "place", script)).collected.changes

    events = [{"type": "file.changed", **records.to_event(change)} for change in changes]

    assert tuple(records.from_events(events)) == changes


def test_a_moved_file_says_where_it_was(base, tmp_path):
    """A file whose content was that of a deleted one has its origin; one with a content of its own has none."""
    found = taken(overlaid(base, tmp_path / "place", "mv a.txt z.txt; mv folder/c.txt other/c.txt; echo x > x"))

    origins = {change.name: change.origin for change in found.collected.changes}

    assert origins[b"z.txt"] == b"a.txt"
    assert origins[b"other/c.txt"] == b"folder/c.txt"
    assert origins[b"x"] is None
    assert b"rename from a.txt" in found.diff


@pytest.mark.parametrize("form", FORMS)
def test_ignored_output_is_apart(base, tmp_path, form):
    """What the base's .gitignore covers is flagged, kept and not in the diff; what it excepts is an ordinary change."""
    script = "echo x > x.log; echo x > kept.log; mkdir build; echo o > build/o; echo x > x.txt"
    found = taken(FORMS[form](base, tmp_path / "place", script))

    assert {change.name: (change.ignored, change.kept) for change in found.collected.changes} == {
        b"build/o": (True, True),
        b"kept.log": (False, True),
        b"x.log": (True, True),
        b"x.txt": (False, True),
    }
    assert found.collected.summary["ignored"] == {"files": 2, "bytes": 4, "kept": True}
    assert b"x.log" not in found.diff


def test_ignored_output_beyond_its_bounds_is_counted(base, tmp_path):
    """Too much ignored output is counted and nothing of it kept; the change itself comes back all the same."""
    view = overlaid(base, tmp_path / "place", "mkdir build; for i in 1 2 3; do echo o > build/$i; done; echo x > x.txt")

    found = taken(view, Bounds(ignored_files=2))

    assert found.told == {"x.txt": "added"}
    assert found.collected.summary["ignored"] == {"files": 3, "bytes": 6, "kept": False}


def test_a_tracked_file_is_not_ignored(tmp_path):
    """A name that git tracks is an ordinary change although a pattern covers it; an untracked one is ignored."""
    base = repository(tmp_path / "base", {"tracked.log": "x\n"})
    (base / ".gitignore").write_text("*.log\n")
    (base / "untracked.log").write_text("x\n")

    found = taken(overlaid(base, tmp_path / "place", "echo y > tracked.log; echo y > untracked.log"))

    assert {change.name: change.ignored for change in found.collected.changes} == {
        b"tracked.log": False,
        b"untracked.log": True,
    }


def test_the_repositorys_own_excludes_count(live, tmp_path):
    """What .git/info/exclude of the base covers is ignored, too."""
    (live / ".git/info").mkdir(exist_ok=True)
    (live / ".git/info/exclude").write_text("*.private\n")

    found = taken(overlaid(live, tmp_path / "place", "echo x > x.private; echo x > x.public"))

    assert {change.name: change.ignored for change in found.collected.changes} == {
        b"x.private": True,
        b"x.public": False,
    }


def test_a_folder_without_git_ignores_nothing(tmp_path):
    """A .gitignore in a folder that is no repository has no meaning."""
    base = tmp_path / "base"
    base.mkdir()
    (base / ".gitignore").write_text("*\n")

    assert [change.ignored for change in taken(overlaid(base, tmp_path / "p", "echo x > x")).collected.changes] == [
        False
    ]


def test_more_names_than_a_pipe_holds_are_asked_for(base, tmp_path):
    """A change with thousands of long names is sorted whole."""
    script = "for i in $(seq 1500); do : > $(printf %0200d $i); : > $(printf %0200d $i).log; done"

    summary = taken(overlaid(base, tmp_path / "place", script)).collected.summary

    assert (summary["files"], summary["ignored"]["files"]) == (1500, 1500)


@pytest.mark.parametrize(("most", "within"), [(3, True), (2, False)])
def test_too_many_files_are_an_ending(base, tmp_path, most, within):
    """Up to the bound a change comes back; beyond, a sentence says both numbers, and nothing is kept."""
    view = overlaid(base, tmp_path / "place", "for i in 1 2 3; do echo $i > new$i; done")

    found = taken(view, Bounds(files=most)).collected

    expected = "" if within else "it changed 3 files (at most 2 are brought back)"
    assert (found.problem, found.summary.get("problem", "")) == (expected, expected)
    assert (found.contents is not None, found.diff is not None) == (within, within)
    assert len(found.changes) == most
    assert all(change.kept is within and bool(change.withheld) is not within for change in found.changes)


@pytest.mark.parametrize(("most", "within"), [(20, True), (19, False)])
def test_too_many_bytes_are_an_ending(base, tmp_path, most, within):
    """The contents of a change are kept up to the bound; beyond, none of them is."""
    view = overlaid(base, tmp_path / "place", "printf 0123456789 > one; printf 0123456789 > two")

    found = taken(view, Bounds(bytes=most)).collected

    assert found.problem == ("" if within else "it changed files of 20 bytes (at most 19 are brought back)")
    assert (found.contents is not None) is within


def test_large_numbers_can_be_read(tmp_path):
    """Numbers of many digits are written in groups."""
    base = tmp_path / "base"
    base.mkdir()

    found = taken(overlaid(base, tmp_path / "place", "truncate -s 1T sparse")).collected

    assert found.problem == "it changed files of 1 099 511 627 776 bytes (at most 536 870 912 are brought back)"


def test_a_large_file_is_kept_and_not_shown(base, tmp_path):
    """A content too large for the diff lies with the contents and is named in the summary."""
    view = overlaid(base, tmp_path / "place", "head -c 3000 /dev/zero > large; echo x > small")

    found = taken(view, Bounds(file_in_diff_bytes=2000))

    assert found.collected.summary["large"] == [{"path": "large"}]
    assert found.contents == bytes(3000) + b"x\n"
    assert b"large" not in found.diff
    assert b"small" in found.diff


def test_a_diff_beyond_its_bound_is_left_out(base, tmp_path):
    """A diff that is too large is not kept, which the summary says; the contents are."""
    view = overlaid(base, tmp_path / "place", "seq 1000 > numbers")

    found = taken(view, Bounds(diff_bytes=1000))

    assert found.collected.diff is None
    assert found.collected.summary["diffProblem"] == "the diff is larger than 1000 bytes"
    assert found.contents.endswith(b"\n1000\n")


def test_memory_stays_flat(tmp_path):
    """A file of a quarter of a gibibyte is brought back in a few mebibytes of memory."""
    base = tmp_path / "base"
    base.mkdir()
    view = overlaid(base, tmp_path / "place", "truncate -s 256M large")

    tracemalloc.start()
    collected = collect(view, Bounds(), None, Sink())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert [change.kept for change in collected.changes] == [True]
    assert peak < 16 << 20


class Sink:
    """Takes blobs and keeps nothing of them but their digests."""

    def __init__(self) -> None:
        self._digest = sha256()

    def put(self, content: bytes) -> str:
        return sha256(content).hexdigest()

    def get(self, wanted: str) -> bytes:
        raise NotImplementedError(wanted)

    def writer(self) -> "Sink":
        return Sink()

    def write(self, chunk: bytes) -> None:
        self._digest.update(chunk)

    def finish(self) -> str:
        return self._digest.hexdigest()

    def discard(self) -> None:
        """There is nothing to forget."""


def test_without_blobs_there_are_digests_only(base, tmp_path):
    """Where no content may leave, changes have digests, and there is neither a diff nor a content."""
    found = collect(overlaid(base, tmp_path / "place", "printf x > x"), Bounds(), None, None)

    assert (found.diff, found.contents) == (None, None)
    assert [(change.kept, change.after and change.after.digest) for change in found.changes] == [
        (False, sha256(b"x").hexdigest())
    ]


def test_a_base_that_was_edited_meanwhile_is_named(live, tmp_path):
    """A file of a live folder that was changed after the run began is named, if the run changed it as well."""
    view = overlaid(live, tmp_path / "place", "echo x > a.txt; echo x > b.txt")
    started = max(path.stat().st_ctime_ns for path in live.iterdir())
    (live / "a.txt").write_text("edited by a person\n")

    summary = taken(view._replace(started_ns=started)).collected.summary

    assert summary["edited"] == [{"path": "a.txt"}]


def test_nothing_is_left_behind(base, tmp_path, monkeypatch):
    """Collecting leaves no file, and does not write to the base."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    view = overlaid(base, tmp_path / "place", "echo x > a.txt; rm -r folder")
    before = {path: path.lstat().st_ctime_ns for path in base.rglob("*")}

    taken(view)

    assert list(scratch.iterdir()) == []
    assert {path: path.lstat().st_ctime_ns for path in base.rglob("*")} == before


def test_a_view_of_nothing_is_refused(tmp_path):
    """A view without a layer and without a copy cannot be meant."""
    with pytest.raises(UsageError, match="an upper layer or a whole copy"):
        collect(View(tmp_path), Bounds(), None, None)


def test_a_layer_that_is_gone_is_an_error(base, tmp_path):
    """A layer that cannot be read is an error of ours, never an empty change."""
    with pytest.raises(InputError, match="cannot be collected: No such file"):
        collect(View(base, upper=tmp_path / "gone"), Bounds(), None, None)
