"""A repository on its way into a session and back: against `git clone --local` and `git diff` of the same repository.

In is everything from the folder to the one that a sandbox is shown: looked at, hashed, written, with a `.git` that
works. Cold means that nothing is known of it; warm, that it was captured before and has not changed since. Back is from
what a command left to the change set with its diff. Each round has folders of its own and removes nothing in between: a
file system that has just removed thousands of files is slow to make new ones.
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from statistics import median

from bench.figure import Figure, seconds
from tipstaff.home import Home
from tipstaff.local.workspaces import LocalWorkspaces
from tipstaff.store import Store
from tipstaff.workspace.capture.capturing import Wish
from tipstaff.workspace.collect.collecting import Bounds, View, collect

FILES = 5000
CHANGED = 20
COMMITS = 10
ROUNDS = 7
ROOM = 2 << 30
MIB = 1 << 20
LARGE_FILES = 16
LARGE_BYTES = 64 * MIB
MEMORY = """
import resource, sys
from pathlib import Path
from bench.workspace import workspaces_of
from tipstaff.workspace.capture.capturing import Wish
found = workspaces_of(Path(sys.argv[1]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with found.base(found.capture(Path(sys.argv[2]), Wish("tree")).manifest):
    pass
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


def figures() -> Iterator[Figure]:
    """Measure the ways in and out."""
    with tempfile.TemporaryDirectory(dir=_memory_folder()) as folder:
        place = Path(folder)
        repository = _repository(place / "repository")
        yield from _inward(place, repository)
        yield _outward(place, repository)
    with tempfile.TemporaryDirectory() as folder:
        yield _memory(Path(folder))


def workspaces_of(root: Path) -> LocalWorkspaces:
    """Make the workspaces of a home that nothing is known of."""
    home = Home(root)
    home.make()
    return LocalWorkspaces(home, Store(home.root).blobs)


def _inward(place: Path, repository: Path) -> Iterator[Figure]:
    numbers = count()
    known = workspaces_of(place / "known")
    _through(known, repository)
    cold, warm, clone = [], [], []
    for _ in range(ROUNDS):
        fresh = workspaces_of(place / f"home-{next(numbers)}")
        clone.append(seconds(_cloned, repository, place / f"clone-{next(numbers)}"))
        cold.append(seconds(_through, fresh, repository))
        warm.append(seconds(_through, known, repository))
    bare = median(clone)
    detail = {"clone_ms": round(bare * 1000, 1), "ours_ms": round(median(cold) * 1000, 1), "files": FILES}
    yield Figure("materialise_ratio", median(cold) / bare, "of git clone --local", at_most=1.0, detail=detail)
    detail = {"clone_ms": round(bare * 1000, 1), "ours_ms": round(median(warm) * 1000, 1), "files": FILES}
    yield Figure("materialise_warm_ratio", median(warm) / bare, "of git clone --local", at_most=0.3, detail=detail)


def _outward(place: Path, repository: Path) -> Figure:
    found = workspaces_of(place / "out")
    blobs = Store(place / "out").blobs
    manifest = found.capture(repository, Wish("lean")).manifest
    upper = place / "upper"
    names = sorted(path.relative_to(repository) for path in repository.glob("folder-*/*.txt"))[:: FILES // CHANGED]
    for name in names:
        (upper / name).parent.mkdir(parents=True, exist_ok=True)
        for folder in (repository, upper):
            changed = (repository / name).read_text() + "changed\n"
            (folder / name).write_text(changed)
    with found.base(manifest) as base:
        view = View(base, upper, None)
        seen = len(collect(view, Bounds(), None, blobs).changes)
        if seen != len(names):
            raise AssertionError(f"{seen} of {len(names)} changes were found")
        ours, bare = [], []
        for _ in range(3 * ROUNDS):
            bare.append(seconds(_git, repository, "diff", "--binary"))
            ours.append(seconds(collect, view, Bounds(), None, blobs))
    detail = {"git_diff_ms": round(median(bare) * 1000, 1), "ratio": round(median(ours) / median(bare), 2)}
    return Figure(
        "collect_ms", median(ours) * 1000, "ms", at_most=3 * median(bare) * 1000, is_gate=False, detail=detail
    )


def _memory(place: Path) -> Figure:
    """Capture a gibibyte in a process of its own, and say how much that grew."""
    folder = place / "large"
    folder.mkdir()
    chance = random.Random(5)  # noqa: S311 - the same input every time; nobody's secret
    part = chance.randbytes(MIB)
    for number in range(LARGE_FILES):
        with (folder / f"{number}.bin").open("wb") as file:
            for place_in_file in range(LARGE_BYTES // MIB):
                file.write(place_in_file.to_bytes(8, "big") + part[8:])
    words = [sys.executable, "-c", MEMORY, str(place / "home"), str(folder)]
    told = subprocess.run(words, check=True, capture_output=True, cwd=Path(__file__).parent.parent)  # noqa: S603 - a program of ours
    detail = {"bytes": LARGE_FILES * LARGE_BYTES}
    return Figure("workspace_rss_mib", float(told.stdout), "MiB more", at_most=32, is_gate=False, detail=detail)


def _through(found: LocalWorkspaces, repository: Path) -> None:
    """Take a repository to where a session shows it."""
    with found.base(found.capture(repository, Wish("auto")).manifest):
        pass


def _repository(folder: Path) -> Path:
    """Make a repository of many small files, packed as one that was cloned is."""
    chance = random.Random(3)  # noqa: S311 - as above
    for number in range(FILES):
        path = folder / f"folder-{number % 50}" / f"file-{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{chance.randbytes(16).hex()}\n" for _ in range(chance.choice((20, 60, 120, 200)))))
    _git(folder, "init", "--quiet")
    _git(folder, "add", "--all")
    _git(folder, "commit", "--quiet", "--message", "everything")
    for number in range(COMMITS):  # a history, which a clone takes along and a session does without
        for path in sorted(folder.glob(f"folder-{number}/*.txt")):
            path.write_text(path.read_text() + f"changed {number}\n")
        _git(folder, "commit", "--quiet", "--all", "--message", f"change {number}")
    _git(folder, "gc", "--quiet")
    return folder


def _cloned(repository: Path, target: Path) -> None:
    _git(repository, "clone", "--quiet", "--local", str(repository), str(target))


def _git(folder: Path, *words: str) -> None:
    names = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
    environ = {**os.environ, **dict.fromkeys(names, "bench"), "GIT_CONFIG_GLOBAL": "/dev/null"}
    subprocess.run(["git", "-C", str(folder), *words], check=True, stdout=subprocess.DEVNULL, env=environ)  # noqa: S603, S607 - git, from where it is installed


def _memory_folder() -> str | None:
    """Give a folder in memory with room enough, so that git and we are measured and not a disk."""
    folder = "/dev/shm"  # noqa: S108 - where Linux has it
    room = Path(folder).is_dir() and os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > ROOM
    return folder if room else None
