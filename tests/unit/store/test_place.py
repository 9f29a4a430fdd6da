"""A database lies on a local disk or nowhere."""

from pathlib import Path

import pytest

from tipstaff.errors import StoreError
from tipstaff.store.place import file_system, refuse_network

TABLE = r"""
22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
30 22 0:40 / /home rw - nfs4 server:/home rw,vers=4.2
31 30 8:2 / /home/anna/local rw - xfs /dev/sdb1 rw
32 22 0:41 / /mnt/with\040space rw - fuse.sshfs host: rw
33 22 0:42 / /twice rw - cifs //host/share rw
34 33 8:3 / /twice rw shared:7 master:2 - btrfs /dev/sdc1 rw
""".lstrip()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib", "ext4"),
        ("/home/anna", "nfs4"),
        ("/home/anna/local/home", "xfs"),
        ("/homeless", "ext4"),
        ("/mnt/with space/home", "fuse.sshfs"),
        ("/twice/home", "btrfs"),
    ],
)
def test_the_nearest_and_latest_mount_holds_a_path(path, kind):
    """What holds a path is the nearest mount above it, and of two at one place the later."""
    assert file_system(Path(path), TABLE) == kind


@pytest.mark.parametrize(("kind", "refused"), [("nfs4", True), ("9p", True), ("fuse.sshfs", True), ("ext4", False)])
def test_a_network_file_system_is_refused(tmp_path, kind, refused):
    """A home on a network file system is refused by name; one on a local disk is not."""
    table = tmp_path / "mountinfo"
    table.write_text(f"22 1 8:1 / / rw,relatime - {kind} somewhere rw\n")

    if refused:
        with pytest.raises(StoreError, match=rf"network file system \({kind}\).*set TIPSTAFF_HOME"):
            refuse_network(tmp_path, table)
    else:
        refuse_network(tmp_path, table)


def test_a_link_is_judged_by_where_it_leads(tmp_path):
    """A link on a local disk into a network file system does not help."""
    (tmp_path / "far").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "far")
    table = tmp_path / "mountinfo"
    table.write_text(f"1 0 8:1 / / rw - ext4 d rw\n2 1 0:4 / {tmp_path}/far rw - nfs s rw\n")

    refuse_network(tmp_path, table)
    with pytest.raises(StoreError, match="network file system"):
        refuse_network(tmp_path / "link", table)


def test_what_cannot_be_told_is_refused(tmp_path):
    """Without a table of mounts nobody knows, so the answer is no."""
    with pytest.raises(StoreError, match="cannot be read"):
        refuse_network(tmp_path, tmp_path / "missing")
