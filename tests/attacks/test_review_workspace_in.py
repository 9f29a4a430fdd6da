"""What a prepared folder, a manifest or a second process does to whoever captures; each attack has its twin."""

import os
import shutil
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from tests.acceptance.repositories import commit, git, grow
from tests.unit.workspace.shelf import Shelf
from tipstaff.canonical import digest
from tipstaff.errors import InputError, TipstaffError, UsageError
from tipstaff.model.request import parse_request
from tipstaff.plane.contract import EMPTY_TREE, check_workspace
from tipstaff.session.plan import is_captured
from tipstaff.workspace import listing
from tipstaff.workspace.capture.capturing import Captured, Form, Wish, capture
from tipstaff.workspace.capture.denied import Denied
from tipstaff.workspace.capture.repository import Started
from tipstaff.workspace.depot import Depot, remove
from tipstaff.workspace.git import Git, GitError
from tipstaff.workspace.materialise import packing
from tipstaff.workspace.materialise.making import materialise

PRIVATE = "what nobody asked for"
NOBODY = 65534
is_root = pytest.mark.only_if(os.geteuid() == 0, "gives files to somebody else")


class Desk:
    """Where folders are captured to."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.depot = Depot(top / "workspaces")
        self.blobs = Shelf()

    def capture(self, folder: Path, form: Form = "auto") -> Captured:
        """Capture a folder."""
        return capture(folder, Wish(form), self.depot, self.blobs, environ={})

    def base(self, captured: Captured) -> Path:
        """Give the folder that came of it."""
        found = self.depot.known(digest(captured.manifest))
        assert found is not None
        return found

    def kept(self) -> bytes:
        """Read all that was kept."""
        files = [path for path in self.top.rglob("workspaces/**/*") if path.is_file() and not path.is_symlink()]
        return b"".join([*(path.read_bytes() for path in files), *self.blobs.kept.values()])


@pytest.fixture
def desk(tmp_path) -> Desk:
    """An empty depot."""
    return Desk(tmp_path)


@pytest.fixture
def private(tmp_path) -> Path:
    """A repository of the person's, which nobody asked for."""
    return grow(tmp_path / "private", {"secret.txt": PRIVATE})


def ignore(folder: Path, text: str) -> None:
    """Write the list of what only this clone ignores."""
    (folder / ".git/info").mkdir(exist_ok=True)
    (folder / ".git/info/exclude").write_text(text)


# --- what the deny patterns leave out stays out


@pytest.mark.parametrize("has_git", [False, True])
@pytest.mark.parametrize("others", [{}, {"file": "text\n"}])
def test_a_folder_of_which_nothing_is_taken_is_empty_inside(outing, tmp_path, has_git, others):
    """Where only a denied file lies, the run finds nothing; with a file beside it, it finds that file."""
    folder = tmp_path / "folder"
    folder.mkdir()
    if has_git:
        git(folder, "init", "--quiet")
        git(folder, "commit", "--quiet", "--allow-empty", "--message", "one")
    for name, text in {**others, ".env": PRIVATE}.items():
        (folder / name).write_text(text)

    went = outing.go("--agent", "command", "--workspace", folder, "ls -A; cat .env; echo new > made")

    assert [name for name in went.text.split() if name != ".git"] == list(others)
    assert PRIVATE not in went.text
    assert [event["path"] for event in went.events if event["type"] == "file.changed"] == ["made"]
    assert not (folder / "made").exists()


@pytest.mark.parametrize(
    ("contract", "captured"),
    [
        ({"workspace": EMPTY_TREE}, False),
        ({"workspace": EMPTY_TREE, "files": {"workspace": "/srv/work"}}, False),
        ({"workspace": EMPTY_TREE, "files": {"workspace": "/srv/work", "captured": True}}, True),
        ({"workspace": EMPTY_TREE | {"git": {"commit": "a" * 40, "packHash": "a" * 64}}}, True),
        ({"workspace": EMPTY_TREE | {"kind": None, "bundleHash": "a" * 64}}, True),
        ({"workspace": EMPTY_TREE | {"treeHash": "a" * 64}}, True),
    ],
)
def test_only_a_run_without_a_workspace_has_none(contract, captured):
    """An empty tree is no workspace only where nobody captured it, and no commit comes with it."""
    assert is_captured(contract) is captured


@pytest.mark.parametrize("pattern", ["a[]", "[z-a]", "./secrets", "../secrets", "a//b", "/", "", "a/./b"])
def test_a_pattern_that_would_deny_nothing_is_refused(pattern):
    """A pattern that matches no name is told to whoever wrote it, and does not pass in silence."""
    with pytest.raises(UsageError):
        Denied([pattern])


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("a[b]", b"ab"),
        ("[a-z]", b"q"),
        ("/secrets", b"secrets/x"),
        ("secrets/", b"deep/secrets/x"),
        ("**/token.txt", b"token.txt"),
        ("**/token.txt", b"a/b/token.txt"),
        ("a/**/b", b"a/b"),
        ("a/**/b", b"a/x/y/b"),
    ],
)
def test_a_pattern_denies_what_it_looks_like(pattern, name):
    """The twin: these deny, also where `**/` stands for no folder at all."""
    assert Denied([pattern]).matches(name)
    assert not Denied([pattern]).matches(b"other/name")


# --- a prepared repository names nothing of its reader's


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_folder_does_not_share_the_repository_of_its_reader(desk, private, tmp_path, kind):
    """A `.git` whose `commondir` names a private repository is refused, and nothing of that one is kept."""
    folder = tmp_path / "folder"
    own = folder / (".git" if kind == "folder" else "fake")
    own.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/main\n")
    (own / "commondir").write_text(str(private / ".git"))
    if kind == "file":
        (folder / ".git").write_text("gitdir: fake\n")
        (own / "gitdir").write_text(str(folder / ".git"))

    with pytest.raises(InputError, match="none of its worktrees"):
        desk.capture(folder)

    assert PRIVATE.encode() not in desk.kept()


def test_a_worktree_shares_its_repository(desk, private, tmp_path):
    """The twin: a worktree that git made is captured with its commit."""
    git(private, "worktree", "add", "--quiet", str(tmp_path / "folder"))

    captured = desk.capture(tmp_path / "folder")

    assert captured.form == "lean"
    assert git(desk.base(captured), "-c", "safe.directory=*", "show", "HEAD:secret.txt") == PRIVATE


@pytest.mark.parametrize("file", ["gitdir", "commondir", "config"])
def test_a_nul_in_what_points_back_is_a_sentence(desk, tmp_path, file):
    """A name that no path can have, where a repository says whose it is, is an InputError like any other."""
    own = tmp_path / "folder" / "own"
    (own / "objects").mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/main\n")
    (own / file).write_bytes(b"[core]\nworktree = a\0b\n" if file == "config" else b"a\0b\n")
    (tmp_path / "folder" / ".git").write_text("gitdir: own\n")

    with pytest.raises(InputError):
        desk.capture(tmp_path / "folder")


@pytest.mark.parametrize("made", [lambda path, goal: path.symlink_to(goal), lambda path, _: os.mkfifo(path)])
@pytest.mark.parametrize(
    "name", ["HEAD", "config", "index", "commondir", "info/exclude", "objects/info/alternates", "sharedindex.1"]
)
def test_no_file_of_a_repository_is_a_link_or_a_pipe(desk, tmp_path, name, made):
    """What git would read through a link, or wait for at a pipe, is refused at once, and its goal is not read."""
    folder = grow(tmp_path / "folder")
    (tmp_path / "goal").write_text(PRIVATE)
    path = folder / ".git" / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    made(path, tmp_path / "goal")

    with pytest.raises(InputError):
        desk.capture(folder)

    assert PRIVATE.encode() not in desk.kept()


def test_a_folder_of_a_repository_is_no_link_either(desk, private, tmp_path):
    """An `info` that is a link to another repository's brings nothing of that one's list; a real one is taken."""
    folder = grow(tmp_path / "folder")
    ignore(private, f"{PRIVATE}\n")
    shutil.rmtree(folder / ".git/info", ignore_errors=True)
    (folder / ".git/info").symlink_to(private / ".git/info")
    assert "exclude" not in desk.capture(folder).manifest["git"]

    (folder / ".git/info").unlink()
    shutil.copytree(private / ".git/info", folder / ".git/info")
    assert desk.capture(folder).manifest["git"]["exclude"] == f"{PRIVATE}\n"


def test_a_pack_that_is_a_link_is_not_copied(desk, tmp_path):
    """A pack that is a link to a private file, with a list of the right objects beside it, brings nothing of that."""
    folder = grow(tmp_path / "folder")
    (tmp_path / "goal").write_text(PRIVATE)
    loose = tmp_path / "loose"
    shutil.copytree(folder / ".git/objects", loose)
    git(folder, "repack", "-a", "-d", "--quiet")
    shutil.copytree(loose, folder / ".git/objects", dirs_exist_ok=True)
    for pack in (folder / ".git/objects/pack").glob("*.pack"):
        pack.unlink()
        pack.symlink_to(tmp_path / "goal")

    captured = desk.capture(folder)

    assert PRIVATE.encode() not in desk.kept()
    assert git(desk.base(captured), "-c", "safe.directory=*", "show", "HEAD:README.md") == "# Notes"


@is_root
@pytest.mark.parametrize("is_own", [False, True])
@pytest.mark.parametrize("by", ["list", "link"])
def test_somebody_elses_repository_borrows_nothing_of_its_readers(desk, private, tmp_path, by, is_own):
    """Where a repository is not ours, the objects that it names elsewhere must be of the same owner."""
    folder = grow(tmp_path / "folder")
    objects = folder / ".git/objects"
    (folder / ".git/HEAD").write_text(git(private, "rev-parse", "HEAD") + "\n")
    if by == "list":
        (objects / "info").mkdir(exist_ok=True)
        (objects / "info/alternates").write_text(f"{private}/.git/objects\n")
    else:
        shutil.rmtree(objects)
        objects.symlink_to(private / ".git/objects")
    for path in [folder / ".git", *([private / ".git/objects"] if is_own else [])]:
        os.chown(path, NOBODY, NOBODY)

    if is_own:
        assert any("come from elsewhere" in notice for notice in desk.capture(folder).notices)
        return
    with pytest.raises(InputError, match="another's objects"):
        desk.capture(folder)
    assert PRIVATE.encode() not in desk.kept()


def test_what_a_repository_borrows_is_said(desk, private, tmp_path):
    """Our own repository may borrow our own objects, and says so; one that borrows nothing says nothing."""
    git(tmp_path, "clone", "--quiet", "--shared", str(private), "folder")

    assert any(str(private) in notice for notice in desk.capture(tmp_path / "folder").notices)
    assert not desk.capture(private).notices


def test_git_is_not_waited_for_without_end(tmp_path):
    """A command that waits at a pipe ends with a sentence; one that reads a file prints what it has to say."""
    git_directory = Git.make(tmp_path / "ours")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("x")
    waiting = Started(git_directory, "hash-object", str(tmp_path / "pipe"), seconds=0.2)
    reading = Started(git_directory, "hash-object", str(tmp_path / "file"))

    with pytest.raises(GitError, match="took longer"):
        waiting.printed()
    assert len(reading.printed().strip()) == 40

    for one in (waiting, reading):
        one.stop()


# --- links


def test_a_link_that_leads_out_by_way_of_another_is_left_out(desk, tmp_path):
    """Where `s/up` leads to the top, `s/up/../outside` is left out and named; links that stay inside are taken."""
    folder = tmp_path / "folder"
    (folder / "s").mkdir(parents=True)
    for name, target in {"s/up": "..", "out": "s/up/../outside", "in": "s/up/s", "round": "s/../in"}.items():
        (folder / name).symlink_to(target)

    captured = desk.capture(folder)

    assert [left["path"] for left in captured.manifest["leftOut"]] == ["out"]
    assert sorted(path.name for path in desk.base(captured).iterdir()) == ["in", "round", "s"]


# --- manifests


def test_a_manifest_is_never_worked_on_in_place():
    """A request with a manifest that asks to work in place is refused, because a base is many runs'."""
    asked = {
        "requestedBy": {"kind": "human", "id": "anna"},
        "door": "cli",
        "execution": {"kind": "argv", "command": "true"},
        "workspace": EMPTY_TREE | {"treeHash": "a" * 64, "baseRef": "a" * 64},
    }

    with pytest.raises(InputError, match="in place"):
        check_workspace(parse_request(asked | {"files": {"inPlace": True}}))
    check_workspace(parse_request(asked | {"files": {}}))


def test_what_a_clone_alone_ignores_is_ignored_elsewhere_too(desk, tmp_path):
    """A base that is made from blobs has the same `info/exclude` as the one that was captured."""
    folder = grow(tmp_path / "folder")
    ignore(folder, "# mine\nnotes/\n")
    captured = desk.capture(folder)
    base, target = desk.base(captured), tmp_path / "target"
    target.mkdir()
    packs = packing.pack(base, listing.decode(desk.blobs.get(captured.manifest["treeHash"])), desk.blobs)
    packing.keep_git_pack(base, captured.manifest["git"]["packHash"], desk.blobs)

    materialise(captured.manifest | {"packs": packs}, desk.blobs, target)

    assert (target / ".git/info/exclude").read_bytes() == (base / ".git/info/exclude").read_bytes() == b"notes/\n"


@pytest.mark.parametrize(("allowed", "code"), [("/srv/**", 126), ("/**", 0)])
def test_a_captured_folder_is_judged_like_any_other(outing, tmp_path, allowed, code):
    """A folder that the policy does not let runs see is not seen by capturing it first."""
    folder = grow(tmp_path / "folder")
    policy = outing.policy(files={"workspaces": [allowed]})

    ended = outing.run("run", "--policy", policy, "--agent", "command", "--workspace", folder, "cat README.md")

    assert ended.returncode == code, ended.stderr
    assert (b"# Notes" in ended.stdout) is (code == 0)


# --- several at once


def capture_often(top: Path) -> list[str]:
    """Capture two folders again and again, and tidy up; gives what went wrong."""
    wrong = []
    for turn in range(12):
        try:
            desk = Desk(top)
            desk.capture(top / f"folder-{turn % 2}", "lean" if turn % 3 else "tree")
            desk.depot.tidy(30.0)
        except (TipstaffError, OSError) as error:
            wrong.append(repr(error))
    return wrong


def test_captures_at_once_do_not_disturb_each_other(tmp_path):
    """Who captures and tidies beside others never takes away what they make, nor trips over what they remove."""
    for number in range(2):
        commit(grow(tmp_path / f"folder-{number}"), {"a/b/c/d": "deep", "e/f": "less"})

    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as workers:
        wrong = list(workers.map(capture_often, [tmp_path] * 4))

    assert wrong == [[], [], [], []]
    assert list((Depot(tmp_path / "workspaces").root / "making").iterdir()) == []


def test_a_base_is_not_tidied_away_between_its_capture_and_its_run(desk, tmp_path):
    """A state that was captured long ago, and just now again, stays; one that nobody came back to goes."""
    folder = tmp_path / "folder"
    folder.mkdir()
    states = {}
    for text in ("one", "two", "three", "four"):
        (folder / "file").write_text(text)
        states[text] = desk.capture(folder)
    for number, captured in enumerate(states.values()):
        then = time.time() - 500.0 + number
        os.utime(desk.base(captured).parent, (then, then))
    (folder / "file").write_text("one")

    assert desk.capture(folder).manifest == states["one"].manifest
    desk.depot.tidy(100.0)

    left = [text for text, captured in states.items() if desk.depot.known(digest(captured.manifest))]
    assert left == ["one", "four"]


def test_what_is_removed_touches_nothing_beside_it(tmp_path):
    """A folder is taken apart within itself, whatever its folders are called: what others make beside it stays."""
    room, others = tmp_path / "room", tmp_path / "room-1"
    others.mkdir()
    for name in ("0/1/2/3", "1/0/0", "a/0/1"):
        (room / name).mkdir(parents=True)
        (room / name / "file").write_text("x")

    remove(room)

    assert list(tmp_path.iterdir()) == [others]
