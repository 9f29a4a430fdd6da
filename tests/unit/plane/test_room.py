"""A run that could not be kept is refused before anything is signed; one that can is not."""

import os
import subprocess
import sys

import pytest

from tests.unit.plane.embedded import REQUEST
from tipstaff.errors import StoreError, UsageError
from tipstaff.plane import most_home_bytes

# Run in a mount namespace of its own: an empty disk of the size asked for, with a home on it.
SMALL_DISK = ["unshare", "--mount", "--map-root-user", "--propagation", "private", "sh", "-c"]
TRY = """
import sys
from pathlib import Path
from tests.unit.plane.embedded import REQUEST, Embedded, carry_out
from tipstaff.errors import StoreError, TipstaffError
try:
    site = Embedded(Path(sys.argv[1]))
    if sys.argv[2:] == ["fill"]:
        site.submit()
        claim = site.claim()
        with open(Path(sys.argv[1]) / "ballast", "wb", buffering=0) as file:
            try:
                while file.write(b"x" * 4096):
                    continue
            except OSError:
                pass
        try:
            carry_out(site, claim)
        except TipstaffError as error:
            print("full:", error)
        site.clock.now += 10**9
        print(*(one["how"] for one in site.plane.close_lost()))
        (Path(sys.argv[1]) / "ballast").unlink()
        print(*(one["how"] for one in site.plane.close_lost()))
    site.submit()
    print(carry_out(site, site.claim())["status"], site.store.database.faults())
except StoreError as error:
    print("refused:", error)
"""


def on_disk(root, home, size, *arguments, options=""):
    """Try a run on a small disk; gives what was printed."""
    mount = f'mount -t tmpfs -o size={size} none {home} && {options or "true"} && exec "$@"'
    command = [*SMALL_DISK, mount, "sh", sys.executable, "-c", TRY, str(home), *arguments]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root), *sys.path])}
    done = subprocess.run(command, cwd=root, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert "unshare" not in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(("size", "begins"), [("10m", "refused: the disk of "), ("64m", "completed []")])
def test_a_disk_without_room_for_the_receipt_refuses_the_run(root, tmp_path, size, begins):
    """On a disk that is too small nothing is signed and the sentence says what is missing; on a larger one it runs."""
    said = on_disk(root, tmp_path, size)

    assert said.startswith(begins)
    assert ("make room, for example with: tipstaff prune" in said) is ("refused" in said)


def test_a_disk_that_fills_up_meanwhile_damages_nothing(root, tmp_path):
    """A disk that is full at the end of a run is a sentence; when there is room again the store is sound."""
    said = on_disk(root, tmp_path, "64m", "fill").splitlines()

    assert said[0].startswith("full: the database ")
    assert "disk" in said[0]
    assert said[1].startswith("kept: the database ")
    assert said[2:] == ["lost", "completed []"]


def test_a_home_that_cannot_be_written_is_a_sentence(root, tmp_path):
    """A home on a disk that is mounted read-only is refused with what to check."""
    said = on_disk(root, tmp_path, "64m", options=f"mount -o remount,ro none {tmp_path}")

    assert said.startswith("refused: the database ")
    assert "Read-only file system; check that its folder is there and that you may write in it" in said


def test_the_output_that_may_be_kept_counts(make_site):
    """A run that may print more than the disk holds is refused, and leaves nothing; one with a smaller wish runs."""
    site = make_site({"limits": {"output": {"default": "1MiB", "max": "4000TiB"}}})
    with pytest.raises(StoreError, match="for its output and its receipt"):
        site.plane.submit({**REQUEST, "limits": {"outputBytes": 2**51}})
    assert site.plane.journal() is None
    assert site.submit().startswith("run_")


@pytest.mark.parametrize(
    ("text", "expected"), [(None, 7), ("", 7), ("1000", 1000), ("20GiB", 20 * 2**30), ("1 MB", 10**6)]
)
def test_the_cap_is_a_setting(text, expected):
    """The cap on a home is bytes or a size with its unit; without one it is the default."""
    environ = {} if text is None else {"TIPSTAFF_HOME_MAX_BYTES": text}

    assert most_home_bytes(environ, 7) == expected


@pytest.mark.parametrize("text", ["much", "-1", "10XB", "1e9", "٣"])
def test_a_cap_that_is_none_is_an_error(text):
    """A cap that cannot be read is refused, never taken as none."""
    with pytest.raises(UsageError, match="TIPSTAFF_HOME_MAX_BYTES is"):
        most_home_bytes({"TIPSTAFF_HOME_MAX_BYTES": text}, 7)
