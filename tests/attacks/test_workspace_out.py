"""What a hostile run leaves in its workspace does nothing to the host, hides nothing, and takes nothing out."""

import base64
import os
import subprocess
import time
from hashlib import sha256
from pathlib import Path

import pytest

from tests.unit.workspace.overlaid import FORMS, copied, git, overlaid, repository, taken
from tipstaff.model.changes import FILE, Side
from tipstaff.workspace.collect.collecting import Bounds, View
from tipstaff.workspace.collect.layers import own_marks

ROOT = os.geteuid() == 0
SECRET = b"hunter2-hunter2-hunter2"
NOTHING = Side(FILE, sha256(b"").hexdigest(), 0)
FILES = {".gitignore": "*.log\n", "a.txt": "one\n", "folder/b.txt": "two\n"}
each_form = pytest.mark.parametrize("form", FORMS)


@pytest.fixture
def base(tmp_path) -> Path:
    """A repository with a few files."""
    return repository(tmp_path / "base", FILES)


def mask(content: bytes) -> bytes:
    """Mask the one secret."""
    return content.replace(SECRET, b"[REDACTED:token]")


# --- git as a way to execute something on the host


@each_form
def test_a_planted_git_executes_nothing(base, tmp_path, form):
    """Hooks, fsmonitor, filters, external diffs and text conversions that a run plants are never executed."""
    canary, evil = tmp_path / "canary", tmp_path / "evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch {canary}\ncat\n")
    evil.chmod(0o755)
    keys = ["core.fsmonitor", "core.hooksPath", "diff.external", "filter.evil.clean", "filter.evil.smudge"]
    keys += ["filter.evil.process", "diff.evil.textconv", "diff.evil.command", "core.pager", "core.sshCommand"]
    configured = "; ".join(f"git config {key} {evil}" for key in keys)
    hooks = "; ".join(
        f"mkdir -p .git/hooks; cp {evil} .git/hooks/{name}" for name in ("post-checkout", "post-index-change")
    )
    attributes = "echo '* filter=evil diff=evil' > .gitattributes; cp .gitattributes .git/info/attributes"
    script = f"mkdir -p .git/info; {configured}; {hooks}; {attributes}; echo more >> a.txt"

    found = taken(FORMS[form](base, tmp_path / "place", script))

    assert not canary.exists()
    withheld = {change.name: change.withheld for change in found.collected.changes if change.withheld}
    assert withheld.keys() == {
        b".git/config",
        b".git/hooks/post-checkout",
        b".git/hooks/post-index-change",
        b".git/info/attributes",
    }
    assert "core.fsmonitor" in withheld[b".git/config"]
    assert found.told[".gitattributes"] == "added"
    assert str(evil).encode() not in found.contents


def test_the_plant_would_have_worked(base, tmp_path):
    """The twin of the above: git, run on what the run left, does execute what was planted."""
    canary = tmp_path / "canary"
    copy = copied(base, tmp_path / "place", f"git config core.fsmonitor 'touch {canary}'").copy
    assert copy is not None

    git(copy, "status")

    assert canary.exists()


@each_form
def test_an_honest_commit_is_only_counted(base, tmp_path, form):
    """What git writes when a run commits is counted and not named; the committed change itself is brought back."""
    who = "git -c user.name=a -c user.email=a@b.c"
    script = f"echo more >> a.txt; {who} commit -q -a -m second"

    found = taken(FORMS[form](base, tmp_path / "place", script))

    assert found.told == {"a.txt": "changed"}
    assert found.collected.summary["git"]["named"] == 0
    assert found.collected.summary["git"]["files"] > 3


PLANTED = {
    "a file in its place": ("rm -rf .git; echo 'gitdir: /x' > .git", b".git", "in place of the repository"),
    "a link in its place": ("rm -rf .git; ln -s /x .git", b".git", "a link"),
    "gone": ("rm -rf .git", b".git", "it was removed"),
    "another case": ("mkdir -p d/.GIT/hooks; echo x > d/.GIT/hooks/update", b"d/.GIT/hooks/update", "a hook"),
    "a file elsewhere": ("mkdir x; echo 'gitdir: /y' > x/.git", b"x/.git", "in place of the repository"),
    "a short name": ("mkdir 'git~1'; echo x > 'git~1/config'", b"git~1/config", "configuration was changed"),
    "a link in it": ("ln -s /x .git/objects/pack/out", b".git/objects/pack/out", "a link"),
    "objects elsewhere": (
        "echo /x > .git/objects/info/alternates",
        b".git/objects/info/alternates",
        "objects elsewhere",
    ),
}


@each_form
@pytest.mark.parametrize("case", PLANTED)
def test_git_never_comes_back(base, tmp_path, form, case):
    """Whatever is done to a `.git`, or to what a file system could take for one, is named and never kept."""
    script, name, told = PLANTED[case]

    found = taken(FORMS[form](base, tmp_path / "place", script))

    assert [change.name for change in found.collected.changes] == [name]
    change = found.by_name[name]
    assert change.withheld.startswith("inside .git, never brought back: ")
    assert told in change.withheld
    assert (change.kept, found.collected.contents, found.collected.diff) == (False, None, None)


# --- hiding


def test_a_runs_own_gitignore_hides_nothing(base, tmp_path):
    """A pattern that the run added has no say over what is shown; one of the base has."""
    script = "echo '*' > .gitignore; mkdir x; echo '*' > x/.gitignore; echo x > x/hidden; echo x > x.log"
    script += "; mkdir -p .git/info; echo '*' > .git/info/exclude"

    ignored = {
        change.name: change.ignored for change in taken(overlaid(base, tmp_path / "p", script)).collected.changes
    }

    assert ignored == {b".gitignore": False, b"x/.gitignore": False, b"x/hidden": False, b"x.log": True}


def test_a_replaced_link_does_not_stop_the_question(base, tmp_path):
    """A folder in place of a link of the base, which git refuses to look behind, leaves the rest sorted."""
    (base / "link").symlink_to("folder")

    found = taken(overlaid(base, tmp_path / "place", "rm link; mkdir link; echo x > link/x.log; echo x > y.log"))

    assert {change.name: change.ignored for change in found.collected.changes} == {
        b"link": False,
        b"link/x.log": False,
        b"y.log": True,
    }


@pytest.mark.only_if(ROOT, "an ordinary user's overlay keeps these marks to itself")
def test_a_command_cannot_make_a_folder_opaque(base, tmp_path):
    """Marks that a command sets itself delete nothing; a folder that it replaced is replaced."""
    forged = 'python3 -c \'import os; os.setxattr("folder", "user.overlay.opaque", b"y")\''

    assert taken(overlaid(base, tmp_path / "forged", forged)).told == {}
    replaced = taken(overlaid(base, tmp_path / "replaced", "rm -r folder; mkdir folder"))
    assert replaced.told == {"folder/b.txt": "deleted"}


@pytest.mark.only_if(ROOT, "only root makes devices")
def test_a_device_in_a_copy_is_no_removal(base, tmp_path):
    """A device 0/0 means a removal in a layer only; in a copy it is a device like any other."""
    found = taken(copied(base, tmp_path / "place", "rm a.txt; mknod a.txt c 0 0"))

    assert found.by_name[b"a.txt"].withheld == "it is a device, which is never brought back"


# --- what is no file


@each_form
@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ("mkfifo thing", "a pipe"),
        ("python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"thing\")'", "a socket"),
        pytest.param("mknod thing b 7 200", "a device", marks=pytest.mark.only_if(ROOT, "only root makes devices")),
    ],
)
def test_what_is_no_file_is_named(base, tmp_path, form, script, kind):
    """Pipes, sockets and devices are named, never opened and never brought back; a file beside them is."""
    started = time.monotonic()
    found = taken(FORMS[form](base, tmp_path / "place", f"{script}; echo x > file"))

    assert time.monotonic() - started < 30
    thing = found.by_name[b"thing"]
    assert (thing.withheld, thing.after) == (f"it is {kind}, which is never brought back", NOTHING)
    assert found.by_name[b"file"].kept


def test_a_pipe_in_place_of_a_file_is_not_waited_for(base, tmp_path):
    """A file that became a pipe is a change that is withheld."""
    found = taken(overlaid(base, tmp_path / "place", "rm a.txt; mkfifo a.txt"))

    assert found.by_name[b"a.txt"].withheld == "it is a pipe, which is never brought back"


@each_form
def test_links_are_not_followed(base, tmp_path, form):
    """A link out of the workspace brings back its target's name, and not a byte of what is there."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "private").write_text("the host's own")
    script = f"ln -s {outside}/private file; ln -s {outside} out; rm -r folder; ln -s {outside} folder"

    found = taken(FORMS[form](base, tmp_path / "place", script))

    assert found.told == {"file": "added", "out": "added", "folder": "added", "folder/b.txt": "deleted"}
    assert found.contents == f"{outside}/private{outside}{outside}".encode()
    assert b"the host's own" not in found.diff


def test_links_above_the_base_are_not_followed_either(base, tmp_path):
    """A folder of the run in place of a link of the base is compared with nothing, not with where the link led."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("the host's own")
    (base / "link").symlink_to(outside)

    found = taken(overlaid(base, tmp_path / "place", "rm link; mkdir link; echo mine > link/file"))

    assert found.told == {"link": "deleted", "link/file": "added"}
    assert b"the host's own" not in found.diff


@each_form
def test_rights_hide_nothing(base, tmp_path, form):
    """Files and folders that nobody may read are read all the same; their rights are told as they were left."""
    script = "mkdir closed; echo x > closed/file; chmod 000 closed/file closed; chmod 000 a.txt; chmod 100 ."

    found = taken(FORMS[form](base, tmp_path / "place", script))

    assert found.told == {"a.txt": "mode", "closed/file": "added"}
    assert found.by_name[b"closed/file"].after == Side(FILE, sha256(b"x\n").hexdigest(), 2)


@each_form
def test_set_uid_bits_are_named_and_left_behind(base, tmp_path, form):
    """A file with a set-uid bit comes back without it and is named, also when nothing else was changed."""
    script = "echo x > tool; chmod 4755 tool; echo y > plain; chmod 755 plain; chmod 2644 a.txt"

    found = taken(FORMS[form](base, tmp_path / "place", script))

    assert found.collected.summary["setuid"] == [{"path": "a.txt"}, {"path": "tool"}]
    assert {name: change.after and change.after.mode for name, change in found.by_name.items()} == {
        b"plain": 0o100755,
        b"tool": 0o100755,
    }


# --- bombs


@each_form
def test_a_deep_tree_is_cut(base, tmp_path, form):
    """A tree of ten thousand levels is told by one name, and what is beside it comes back."""
    dig = "import os\nfor _ in range(10000):\n os.mkdir(b'd'); os.chdir(b'd')\nopen('end', 'w')"
    view = FORMS[form](base, tmp_path / "place", f'python3 -c "{dig}"; echo x > file')

    try:
        found = taken(view)
    finally:
        remove(view)

    deep = [change for change in found.collected.changes if change.name != b"file"]
    assert [len(change.name) for change in deep] == [199]
    assert "more than 100 folders deep" in deep[0].withheld
    assert found.by_name[b"file"].kept


def remove(view: View) -> None:
    """Remove a deep tree, which not every program can."""
    subprocess.run(["rm", "-rf", str(view.upper or view.copy)], check=True, timeout=60)  # noqa: S607 - whichever rm there is


@each_form
def test_a_hollow_giant_is_not_read(base, tmp_path, form):
    """A file of a tebibyte, none of which is on disk, ends the collection by its size, at once."""
    view = FORMS[form](base, tmp_path / "place", "truncate -s 1T giant; echo x > file")
    started = time.monotonic()

    found = taken(view)

    assert time.monotonic() - started < 10
    assert "1 099 511 627 778 bytes" in found.collected.problem
    assert not any(change.kept for change in found.collected.changes)


def test_many_files_are_counted_not_listed(base, tmp_path):
    """A run that made more files than are brought back is told so by number; the names stay within the bound."""
    view = overlaid(base, tmp_path / "place", "mkdir m; cd m; seq 5000 | xargs touch")

    found = taken(view, Bounds(files=100)).collected

    assert found.problem == "it changed 5 000 files (at most 100 are brought back)"
    assert len(found.changes) == 100


# --- secrets


@each_form
@pytest.mark.parametrize("secret", [True, False])
def test_a_content_with_a_secret_is_never_kept(base, tmp_path, form, secret):
    """A file with a secret is shown masked and not kept; one without is kept as it is."""
    value = SECRET.decode() if secret else "nothing"
    view = FORMS[form](base, tmp_path / "place", f"echo token={value} > a.txt")

    found = taken(view, mask=mask)

    change = found.by_name[b"a.txt"]
    assert (change.redacted, change.kept) == (secret, not secret)
    shown = b"token=[REDACTED:token]\n" if secret else b"token=nothing\n"
    assert b"+" + shown in found.diff
    assert change.after is not None
    assert change.after.digest == sha256(shown).hexdigest()
    assert not leaked(found.shelf.kept)


def leaked(blobs: dict[str, bytes]) -> bool:
    """Say whether the secret is in anything that was kept."""
    return any(SECRET in content for content in blobs.values())


def test_a_removed_secret_is_masked_too(base, tmp_path):
    """A secret that was in the base and is gone is not told by the lines that were removed."""
    (base / "a.txt").write_bytes(b"token=" + SECRET + b"\n")

    found = taken(overlaid(base, tmp_path / "place", "echo clean > a.txt"), mask=mask)

    assert found.by_name[b"a.txt"].redacted
    assert b"-token=[REDACTED:token]" in found.diff
    assert not leaked(found.shelf.kept)


def test_a_link_and_a_name_tell_no_secret(base, tmp_path):
    """A link's target is masked; a name with a secret is told by another, and nothing of it is kept."""
    value = SECRET.decode()
    script = (
        f"ln -s /x/{value} link; mkdir {value}; echo 1 > {value}/1; echo 2 > {value}; echo 3 > 3-{value}; echo 3 > 3-x"
    )

    found = taken(overlaid(base, tmp_path / "place", script.replace(f"echo 2 > {value}; ", "")), mask=mask)

    told = {change.name: (change.redacted, change.withheld, change.kept) for change in found.collected.changes}
    assert told == {
        b"3-[REDACTED:token]": (True, "a secret is in its name", False),
        b"3-x": (False, "", True),
        b"[REDACTED:token]/1": (True, "a secret is in its name", False),
        b"link": (True, "", False),
    }
    assert not leaked(found.shelf.kept)
    assert SECRET not in repr(found.collected).encode()


def test_masked_names_stay_apart(base, tmp_path):
    """Two names that look the same when masked, or like a third that is really there, are told apart."""
    names = (SECRET.decode(), "other-secret", "[REDACTED:token]")
    script = "; ".join(f"echo x > '{name}'" for name in names)

    found = taken(
        overlaid(base, tmp_path / "place", script),
        mask=lambda data: mask(data).replace(b"other-secret", b"[REDACTED:token]"),
    )

    kept = {change.name: change.kept for change in found.collected.changes}
    assert kept == {b"[REDACTED:token]": True, b"[REDACTED:token]~2": False, b"[REDACTED:token]~3": False}
    assert found.contents == b"x\n"


@pytest.mark.parametrize("place", [0, 4 * 2**20 - 10, 9 * 2**20])
def test_a_secret_in_a_large_file_is_found(tmp_path, place):
    """A secret is found wherever it lies in a file too large to hold, also across two pieces of it."""
    base, upper = tmp_path / "base", tmp_path / "upper"
    base.mkdir()
    upper.mkdir()
    for name, content in (("clean", b""), ("large", SECRET)):
        with (upper / name).open("wb") as file:
            file.truncate(10 * 2**20)
            file.seek(place)
            file.write(content)

    found = taken(View(base, upper=upper, marks=own_marks()), mask=mask)

    assert {change.name: (change.redacted, change.kept) for change in found.collected.changes} == {
        b"clean": (False, True),
        b"large": (True, False),
    }
    assert not leaked(found.shelf.kept)


def test_a_planted_configuration_tells_no_secret(base, tmp_path):
    """The sentence about a configuration is masked: a run could write a secret into the name of a key."""
    script = f"git config filter.{SECRET.decode()}.clean x"

    found = taken(overlaid(base, tmp_path / "place", script), mask=mask)

    assert "sets filter.[REDACTED:token].clean" in found.by_name[b".git/config"].withheld
    assert SECRET not in repr(found.collected).encode()


def test_names_of_any_bytes_are_told_exactly(base, tmp_path):
    """A name that is no text is spelled for people and kept by its bytes."""
    view = overlaid(base, tmp_path / "place", "echo x > $'\\xff\\n\\e[31m'; chmod 4755 $'\\xff\\n\\e[31m'")

    summary = taken(view).collected.summary

    assert summary["setuid"] == [{"path": "\\xff\n\x1b[31m", "pathBytes": base64.b64encode(b"\xff\n\x1b[31m").decode()}]
