"""Control groups: where they can be made, what is written, and what a real one says, where we may make one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tipstaff.isolation import cgroup
from tipstaff.isolation.cgroup import Bounds, Parents

BOUNDS = Bounds(1 << 26, 10, 1500)


def hierarchy(folder, names):
    """Make folders and files as a cgroup file system would show them."""
    for name, text in names.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_version_1_groups_lie_below_our_own(tmp_path):
    """Each controller has its own mount; a group is made below the group that we are in."""
    (tmp_path / "memory" / "ours").mkdir(parents=True)
    (tmp_path / "cpu,cpuacct").mkdir()
    mounts = (
        f"30 1 0:26 / {tmp_path}/memory rw - cgroup cgroup rw,memory\n"
        f"31 1 0:27 / {tmp_path}/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        f"32 1 0:28 / {tmp_path}/gone rw - cgroup cgroup rw,pids\n"
        "33 1 8:1 / / rw - ext4 /dev/vda rw\n"
    )
    own = "4:memory:/ours\n3:cpu,cpuacct:/\n2:pids:/\n0::/\n"

    assert cgroup.find(mounts, own) == Parents(
        1, {"memory": f"{tmp_path}/memory/ours", "cpu": f"{tmp_path}/cpu,cpuacct"}
    )


def test_version_1_in_a_container_is_found(tmp_path):
    """A mount that shows a part of the hierarchy is taken from that part on."""
    (tmp_path / "memory" / "inner").mkdir(parents=True)
    mounts = f"30 1 0:26 /docker/abc {tmp_path}/memory rw - cgroup cgroup rw,memory\n"

    assert cgroup.find(mounts, "4:memory:/docker/abc/inner\n").folders == {"memory": f"{tmp_path}/memory/inner"}


def test_version_2_climbs_to_where_controllers_work(tmp_path):
    """A group that lacks a controller cannot be a parent; the nearest one above that has all of them is."""
    hierarchy(
        tmp_path,
        {
            "cgroup.controllers": "cpu memory pids",
            "cgroup.subtree_control": "",
            "slice/cgroup.controllers": "cpu io memory pids",
            "slice/cgroup.subtree_control": "",
            "slice/scope/cgroup.controllers": "memory pids",
        },
    )
    mounts = f"30 1 0:26 / {tmp_path} rw - cgroup2 cgroup2 rw\n"

    assert cgroup.find(mounts, "0::/slice/scope\n") == Parents(
        2, dict.fromkeys(cgroup.CONTROLLERS, f"{tmp_path}/slice"), (f"{tmp_path}/slice/scope",)
    )
    assert (tmp_path / "slice" / "cgroup.subtree_control").read_text() == "+memory +pids +cpu"


def test_without_controllers_there_are_no_groups(tmp_path):
    """A bare version 2 hierarchy, as beside version 1, gives nothing, and nothing is said about it."""
    hierarchy(tmp_path, {"cgroup.controllers": "hugetlb"})

    assert cgroup.find(f"30 1 0:26 / {tmp_path} rw - cgroup2 cgroup2 rw\n", "0::/\n").folders == {}
    assert cgroup.find("", "").folders == {}


def test_what_is_written():
    """Limits are spelled as each version wants them; the sandbox's own two processes come on top."""
    assert cgroup.settings(1, BOUNDS) == [
        ("memory", "memory.limit_in_bytes", "67108864"),
        ("memory", "memory.memsw.limit_in_bytes", "67108864"),
        ("pids", "pids.max", "12"),
        ("cpu", "cpu.cfs_period_us", "100000"),
        ("cpu", "cpu.cfs_quota_us", "150000"),
    ]
    assert {file: value for _, file, value in cgroup.settings(2, BOUNDS)} == {
        "memory.max": "67108864",
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "pids.max": "12",
        "cpu.max": "150000 100000",
    }


def test_version_2_is_read_back(tmp_path):
    """What the files say is what holds: a limit that is not there is not claimed."""
    group = cgroup.Group.__new__(cgroup.Group)
    group.version = 2
    group.folders = dict.fromkeys(cgroup.CONTROLLERS, str(tmp_path))
    hierarchy(tmp_path, {"memory.max": "67108864\n", "pids.max": "max\n", "cpu.max": "150000 100000\n"})
    hierarchy(tmp_path, {"memory.events": "low 0\noom 1\noom_kill 1\noom_group_kill 1\n", "memory.peak": "4096\n"})

    assert group.bounds() == {"memory": 67108864, "cpu": 1500}
    assert (group.out_of_memory(), group.peak_bytes()) == (True, 4096)


@pytest.fixture
def parents() -> Parents:
    """Where this process may make groups."""
    with open("/proc/self/mountinfo") as mounts, open("/proc/self/cgroup") as own:  # noqa: PTH123 - files of the kernel
        return cgroup.find(mounts.read(), own.read())


@pytest.mark.only_if(os.geteuid() == 0, "an ordinary user may often make none; the conformance suite tests that too")
def test_a_real_group_bounds_its_members(parents):
    """A process that joins is in it, the kernel's numbers are ours, and the group can be removed afterwards."""
    group = cgroup.Group(parents, f"test-{os.getpid()}")
    try:
        group.bound(BOUNDS)
        code = "import os, sys; sys.stdin.read()"
        with subprocess.Popen([sys.executable, "-I", "-c", code], stdin=subprocess.PIPE) as outside:
            assert not group.holds(Path(f"/proc/{outside.pid}/cgroup").read_text())
            outside.communicate(b"")
        child = os.fork()
        if child == 0:
            group.join()
            os._exit(0 if group.holds(Path("/proc/self/cgroup").read_text()) else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert group.bounds() == {name: value for name, value in zip(("memory", "pids", "cpu"), BOUNDS, strict=True)
                                  if name in parents.folders}  # fmt: skip
        assert not group.out_of_memory()
    finally:
        group.remove()
    assert cgroup.leftovers(parents.folders.values(), f"test-{os.getpid()}") == []
