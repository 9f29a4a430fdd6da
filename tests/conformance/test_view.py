"""The copy-on-write view: a command may do anything in it, its base stays as it is, and what it did can be read."""

import hashlib
import os
import stat
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.conformance.conftest import TIERS, scratch_folder
from tests.conformance.test_kept import Looked, kept, written
from tipstaff.isolation.bwrap import Bubblewrap
from tipstaff.isolation.kernel import told
from tipstaff.isolation.process import Process
from tipstaff.isolation.tier import Leaving

# Everything that could reach through a view to what lies below it. Each is tried, whatever becomes of the others.
HOSTILE = """
import ctypes, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
tried = []

def attempt(act):
    try:
        act()
        tried.append(act.__name__)
    except OSError:
        pass

def chmod(): os.chmod("mode", 0o777)
def chmod_folder(): os.chmod("inner", 0o777)
def chown(): os.chown("owner", os.getuid(), os.getgid())
def attribute(): os.setxattr("attribute", "user.note", b"x")
def attribute_of_a_folder(): os.setxattr("inner", "user.note", b"x")
def truncate(): os.truncate("truncated", 0)
def rename(): os.rename("renamed", "elsewhere")
def exchange(): os.replace("replaced", "file")
def link(): os.link("linked", "second name")
def append_by_a_link(): open("second name", "ab").write(b"more")
def both_names(): open("one", "ab").write(b"more")
def times(): os.utime("times", (1, 1))
def remove(): os.unlink("removed")
def write_by_proc(): open(f"/proc/self/fd/{os.open('by-descriptor', os.O_RDONLY)}", "wb").write(b"x")

def mapped():
    with open("mapped", "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[:4] = b"MAPS"

def mapped_privately_and_then_shared():
    with open("inner/deep", "r+b") as file:
        mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED)[0:1] = b"M"

def nameless():
    descriptor = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o644)
    os.write(descriptor, b"x")
    here = os.open(".", os.O_RDONLY)  # given, so that the link is followed
    os.link(f"/proc/self/fd/{descriptor}", "named", src_dir_fd=here, follow_symlinks=True)

def allocate():
    descriptor = os.open("allocated", os.O_RDWR)
    if libc.fallocate(descriptor, 3, ctypes.c_long(0), ctypes.c_long(4096)):  # a hole, and the size stays
        raise OSError(ctypes.get_errno(), "fallocate")

def copy_range():
    source, target = os.open("file", os.O_RDONLY), os.open("ranged", os.O_RDWR)
    os.copy_file_range(source, target, 4)

for act in (chmod, chmod_folder, chown, attribute, attribute_of_a_folder, truncate, rename, exchange, link,
            append_by_a_link, both_names, times, remove, write_by_proc, mapped, mapped_privately_and_then_shared,
            nameless, allocate, copy_range):
    attempt(act)
print(" ".join(tried))
"""
NAMES = ("mode", "owner", "attribute", "truncated", "renamed", "replaced", "linked", "times", "removed", "mapped",
         "by-descriptor", "allocated", "ranged", "one")  # fmt: skip


def state(folder: Path) -> dict[str, tuple[object, ...]]:
    """Everything about a tree that a write could change: contents, links, owners, rights, attributes and times."""
    return {str(path.relative_to(folder)): tuple(_facts(path)) for path in [folder, *sorted(folder.rglob("*"))]}


def _facts(path: Path) -> Iterator[object]:
    found = path.lstat()
    yield found.st_mode, found.st_ino, found.st_nlink, found.st_uid, found.st_gid, found.st_size, found.st_blocks
    yield found.st_mtime_ns, found.st_ctime_ns
    if not path.is_symlink():
        yield [(name, os.getxattr(path, name)) for name in sorted(os.listxattr(path))]
    if path.is_file():
        yield hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(params=[*sorted(TIERS), "plain"])
async def any_tier(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bubblewrap | Process]:
    """Every tier, and the one that copies where nobody may mount; as root that is the same as with mounts."""
    scratch = scratch_folder(tmp_path)
    tier = Bubblewrap(scratch=scratch, mounts=False) if request.param == "plain" else TIERS[request.param](scratch)
    async with tier:
        yield tier


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A base as it lies in a closed home: odd rights, and a file that it shares with another base."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    folder = home / "base"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "deep").write_text("deep\n")
    for name in ("file", *NAMES):
        (folder / name).write_bytes(name.encode() * 5000)
    (folder / "two").hardlink_to(folder / "one")
    (home / "another").mkdir()
    (home / "another" / "file").hardlink_to(folder / "file")
    (folder / "link").symlink_to("file")
    return folder


async def test_nothing_reaches_the_base(any_tier, base):
    """Whatever a command does to its view, contents, owners, rights, attributes and times of the base stay."""
    before = state(base.parent)

    outcome = await kept(any_tier, Looked(), "python3", "-c", HOSTILE, workspace=base)

    assert {"chmod", "truncate", "rename", "link", "times", "mapped"} <= set(outcome.text.split())
    assert state(base.parent) == before


async def test_a_base_can_be_removed_in_the_view(any_tier, base):
    """Removing everything in the view removes nothing of the base."""
    before = state(base.parent)

    outcome = await kept(any_tier, Looked(), "sh", "-c", "chmod 700 inner; rm -rf *; ls -A", workspace=base)

    assert (outcome.told, outcome.text) == (("exited", 0), "")
    assert state(base.parent) == before


async def test_a_change_of_rights_copies_the_whole_file(any_tier, base):
    """What is handed over holds the file itself, not a reference to the base, also when only its rights changed."""
    looked = Looked()

    await kept(any_tier, looked, "sh", "-c", "chmod 751 mode; touch times; chmod 700 inner", workspace=base)

    assert looked.contents["mode"] == b"mode" * 5000
    assert looked.contents["times"] == b"times" * 5000


async def test_folders_can_be_renamed(any_tier, base):
    """Moving a folder of the base works for programs, and what is handed over has everything in its new place."""
    looked = Looked()

    outcome = await kept(any_tier, looked, "sh", "-c", "mv inner moved && cat moved/deep; ls inner", workspace=base)

    assert outcome.text == "deep"
    assert looked.contents["moved/deep"] == b"deep\n"


async def test_an_owner_may_open_what_is_closed(any_tier, base):
    """A folder of 0500 and a file of 0400 look like that inside, and their owner there can open and change them."""
    (base / "inner" / "deep").chmod(0o400)
    (base / "inner").chmod(0o500)
    looked = Looked()
    script = (
        "stat -c %a inner inner/deep; chmod 700 inner; chmod 600 inner/deep; echo x >> inner/deep; echo y > inner/new"
    )

    outcome = await kept(any_tier, looked, "sh", "-c", script, workspace=base)

    assert (outcome.told, outcome.text.split()) == (("exited", 0), ["500", "400"])
    assert (looked.contents["inner/deep"], looked.contents["inner/new"]) == (b"deep\nx\n", b"y\n")
    assert stat.S_IMODE((base / "inner").stat().st_mode) == 0o500
    (base / "inner").chmod(0o700)


@pytest.mark.parametrize("rights", [0o664, 0o775, 0o606, 0o444])
async def test_rights_look_the_same_inside(any_tier, base, rights):
    """Rights that our own umask would take away are there in the view, so that none looks changed."""
    (base / "mode").chmod(rights)
    (base / "inner").chmod(rights | 0o500)

    outcome = await kept(any_tier, Looked(), "stat", "-c", "%a", "mode", "inner", workspace=base)

    assert outcome.text.split() == [f"{rights:o}", f"{rights | 0o500:o}"]


async def test_names_of_one_file_are_told_apart(any_tier, base):
    """A file that has two names in the base, or shares its bytes with another base, is changed under one name only."""
    looked = Looked()

    outcome = await kept(any_tier, looked, "sh", "-c", "echo x > one; head -c 3 two; echo y > file", workspace=base)

    assert outcome.text == "one"
    assert (looked.contents["one"], looked.contents["file"]) == (b"x\n", b"y\n")
    assert (base.parent / "another" / "file").read_bytes() == b"file" * 5000


async def test_a_few_changes_in_many_files_are_few(tier, tmp_path):
    """Of five thousand files an upper layer holds exactly those that were changed."""
    base = tmp_path / "many"
    for folder in range(50):
        (base / str(folder)).mkdir(parents=True)
        for file in range(100):
            (base / str(folder) / str(file)).write_text(f"{folder} {file}")
    looked = Looked()

    outcome = await kept(tier, looked, "sh", "-c", "for i in 1 2 3; do echo x > $i/7; done; cat 49/99", workspace=base)

    assert outcome.text == "49 99"
    assert looked.contents == {"1/7": b"x\n", "2/7": b"x\n", "3/7": b"x\n"}
    assert looked.names == ["1", "1/7", "2", "2/7", "3", "3/7"]


async def test_the_overlays_marks_cannot_be_forged(tier, base):
    """A command that sets an overlay's attribute by itself marks nothing; one that replaces a folder does."""
    found: dict[str, list[str]] = {}
    script = (
        "import os, shutil\n"
        "for name in ('user.overlay.opaque', 'trusted.overlay.opaque', 'user.overlay.redirect'):\n"
        "    try: os.setxattr('inner', name, b'y')\n"
        "    except OSError: pass\n"
        "os.mkdir('other'); shutil.rmtree('replaced') if os.path.isdir('replaced') else os.unlink('replaced')\n"
        "os.mkdir('replaced')"
    )

    async def left(leaving: Leaving) -> None:
        for name in ("inner", "replaced"):
            listed = os.listxattr(written(leaving) / name)
            found[name] = [
                mark for mark in listed if mark in {f"{leaving.marks}{end}" for end in ("opaque", "redirect")}
            ]

    outcome = await kept(tier, left, "python3", "-c", script, workspace=base)

    assert outcome.told == ("exited", 0)
    assert found["inner"] == []
    assert [mark.rpartition(".")[2] for mark in found["replaced"]] == ["opaque"]


async def test_the_layers_are_mounted_as_they_must_be(tier, base):
    """The base is read-only by its mount, and its view refers to nothing: read from the spawner's table of mounts."""
    lines: list[str] = []

    async def left(_: Leaving) -> None:
        lines.extend(told(f"/proc/{tier.workshop._link.process}/mountinfo").splitlines())

    await kept(tier, left, "true", workspace=base)

    (lower,) = [line.split() for line in lines if line.split()[4].endswith("/lower")]
    (view,) = [line.split() for line in lines if line.split()[4].endswith("/workspace")]
    assert "ro" in lower[5].split(",")
    assert {"nosuid", "nodev"} <= set(view[5].split(","))
    assert not {"metacopy=on", "redirect_dir=on", "redirect_dir=follow", "index=on"} & set(view[-1].split(","))
    follows = told("/sys/module/overlay/parameters/redirect_always_follow").strip() == "Y"
    assert ("redirect_dir=nofollow" in view[-1].split(",")) or not follows  # told only where it is not the default
