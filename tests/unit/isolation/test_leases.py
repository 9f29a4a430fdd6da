"""Uids and owners: what is locked belongs to the living, what is not is swept."""

import fcntl
import json
import os
import subprocess
import sys

import pytest

from tipstaff.isolation import owners, uids
from tipstaff.isolation.cgroup import Parents

NOWHERE = Parents(1, {})
SPARE = uids.FIRST + uids.COUNT + 1000  # no sandbox has these, so none is ended by what is tried here


def test_two_leases_are_two_numbers(tmp_path):
    """A number that is held is not given twice; one that was given back is the first again."""
    first, second = uids.lease(str(tmp_path), SPARE), uids.lease(str(tmp_path), SPARE)
    assert (first.number, second.number) == (SPARE, SPARE + 1)

    first.close()
    again = uids.lease(str(tmp_path), SPARE)

    assert again.number == SPARE
    again.close()
    second.close()


def test_a_dead_holders_number_is_free(tmp_path):
    """A lease ends with the process that holds it, and can be taken even if it was never given back."""
    script = (
        "import sys, os; from tipstaff.isolation import uids; uids.lease(sys.argv[1], int(sys.argv[2])); os._exit(0)"
    )
    subprocess.run(
        [sys.executable, "-c", script, str(tmp_path), str(SPARE)], env={**os.environ}, check=True, timeout=30
    )
    assert (tmp_path / str(SPARE)).read_bytes() == b"busy"

    lease = uids.lease(str(tmp_path), SPARE)

    assert lease.number == SPARE
    lease.close()
    assert (tmp_path / str(SPARE)).read_bytes() == b""


@pytest.mark.only_if(os.geteuid() == 0, "only root leases uids, and only root can be asked to end them")
def test_what_a_dead_holder_left_is_ended(tmp_path):
    """A process that still runs under a number that nobody holds is killed before the number is given again."""
    (tmp_path / str(SPARE)).write_bytes(b"busy")
    number = SPARE + 7
    with subprocess.Popen(["/usr/bin/sleep", "60"], user=number, group=number, extra_groups=[]) as left:
        assert uids.processes(number) == [left.pid]
        script = "import sys; from tipstaff.isolation import uids; print(uids.end_all(int(sys.argv[1])))"
        killer = subprocess.Popen([sys.executable, "-c", script, str(number)], stdout=subprocess.PIPE)
        assert left.wait(10) == -9
        assert killer.communicate(timeout=10)[0] == b"True\n"


def test_an_owners_word_goes_with_it(tmp_path):
    """A living owner has a locked file and a folder; one that closes leaves neither."""
    (tmp_path / "scratch").mkdir()
    owner = owners.Owner(str(tmp_path), str(tmp_path / "scratch"), NOWHERE)
    file = tmp_path / "owners" / owner.name
    assert json.loads(file.read_bytes()) == {"scratch": owner.scratch, "groups": []}

    owner.close()

    assert not file.exists()
    assert list((tmp_path / "scratch").iterdir()) == []


def test_the_dead_are_swept_and_the_living_are_not(tmp_path):
    """A file that can be locked is its owner's last word: what it names is removed; a locked one is left alone."""
    (tmp_path / "scratch").mkdir()
    living = owners.Owner(str(tmp_path), str(tmp_path / "scratch"), NOWHERE)
    dead = tmp_path / "scratch" / "0123456789abcdef"
    (dead / "inner").mkdir(parents=True)
    (tmp_path / "owners" / dead.name).write_text(json.dumps({"scratch": str(dead), "groups": []}))

    assert owners.sweep(str(tmp_path)) == [dead.name]

    assert not dead.exists()
    assert os.path.isdir(living.scratch)  # noqa: PTH112 - it is text
    assert owners.sweep(str(tmp_path)) == []
    living.close()


def test_only_an_owners_own_folder_is_removed(tmp_path):
    """A word that names a folder which is not called like its owner removes nothing of it."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (tmp_path / "owners").mkdir(mode=0o700)
    (tmp_path / "owners" / "0123456789abcdef").write_text(json.dumps({"scratch": str(precious), "groups": []}))

    owners.sweep(str(tmp_path))

    assert precious.is_dir()


def test_a_damaged_word_stops_nobody(tmp_path):
    """A file that is no JSON is left, and the rest is swept."""
    (tmp_path / "owners").mkdir(mode=0o700)
    (tmp_path / "owners" / "aaaa").write_text("{")
    (tmp_path / "owners" / "bbbb").write_text(json.dumps({"scratch": str(tmp_path / "bbbb"), "groups": []}))

    assert owners.sweep(str(tmp_path)) == ["bbbb"]


@pytest.mark.parametrize("kind", ["writable by others", "a link", "a file", "our own"])
def test_a_folder_must_be_ours_alone(tmp_path, kind):
    """A folder that others can write, a link or a file in its place is refused; our own is taken."""
    place = tmp_path / "place"
    if kind == "writable by others":
        place.mkdir()
        place.chmod(0o777)
    elif kind == "a link":
        place.symlink_to(tmp_path)
    elif kind == "a file":
        place.write_text("")

    if kind == "our own":
        owners.own_folder(str(place))
        owners.own_folder(str(place))
        assert place.stat().st_mode & 0o777 == 0o700
    else:
        with pytest.raises(PermissionError, match="not a folder"):
            owners.own_folder(str(place))


def test_locks_are_seen_between_processes(tmp_path):
    """What one process holds, another cannot take."""
    lease = uids.lease(str(tmp_path), SPARE)
    script = "import fcntl, os, sys; fcntl.flock(os.open(sys.argv[1], os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    path = str(tmp_path / str(lease.number))

    held = subprocess.run([sys.executable, "-c", script, path], capture_output=True, timeout=30, check=False)
    lease.close()
    free = subprocess.run([sys.executable, "-c", script, path], capture_output=True, timeout=30, check=False)

    assert (held.returncode, free.returncode) == (1, 0)
    assert fcntl.LOCK_EX
