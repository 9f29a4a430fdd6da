"""Landlock's sets of rules: what each version of it is asked for."""

import struct
from itertools import pairwise

import pytest

from tipstaff.isolation import landlock, narrow
from tipstaff.isolation.landlock import READ_FILE, READ_FOLDER, WRITE_FILE


@pytest.mark.parametrize(("version", "size"), [(1, 8), (2, 8), (3, 8), (4, 16), (5, 16), (6, 24), (7, 24), (99, 24)])
def test_each_version_is_asked_for_all_that_it_has(version, size):
    """An older kernel is not given what it does not know, a newer one all that we know."""
    wanted = landlock.attributes(version)
    files, network, scopes = struct.unpack("=QQQ", wanted.ljust(24, b"\0"))

    assert len(wanted) == size
    assert files == landlock.everything(version)
    assert (bool(network), bool(scopes)) == (version >= 4, version >= 6)


def test_rights_only_grow():
    """What a version can take away, every later one can."""
    known = [landlock.everything(version) for version in range(1, 9)]

    assert all(earlier & later == earlier for earlier, later in pairwise(known))


@pytest.mark.parametrize("stage", ["", "/run/stage"])
def test_only_the_workspace_and_own_folders_can_be_written(stage):
    """Nothing but devices, the workspace and folders that are mounted for it alone can be written; /proc is its own."""
    wanted = narrow.Narrowing("/w", (("/staged", "/data"),), (), 1 << 20, b"", stage, 1000, 0, {})

    rules = {rule.path: rule.rights for rule in narrow.rules(wanted, "/w", 4711)}
    written = {path for path, rights in rules.items() if rights & WRITE_FILE and not path.startswith("/dev/")}

    assert written == {"/w", *(path for path in narrow.SCRATCH if stage and not path.startswith("/dev/"))}
    assert rules["/data"] & (READ_FILE | READ_FOLDER | WRITE_FILE) == READ_FILE | READ_FOLDER
    assert "/proc/4711" in rules
    assert not {"/", "/proc", "/root", "/home/workspace", "/etc"} & set(rules)


def test_this_kernels_version_is_a_number():
    """Asking the kernel changes nothing, and gives 0 where there is no Landlock."""
    assert landlock.version() >= 0
    assert landlock.version() == landlock.version()
