"""Is this folder fit for a database? One on a network file system is not.

SQLite's write-ahead log is shared memory between processes of one machine, and locks over a network are not what they
say: two machines on one home would damage it in silence. The answer is read from the kernel's own table of mounts.
"""

import os
import re
from pathlib import Path
from typing import Final

from tipstaff.errors import StoreError

MOUNTS: Final = Path("/proc/self/mountinfo")
NETWORKED: Final = frozenset(
    {
        "9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "gfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs",
        "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "smbfs", "vboxsf", "vmhgfs",
        "fuse.ceph", "fuse.ceph-fuse", "fuse.gcsfuse", "fuse.glusterfs", "fuse.goofys", "fuse.juicefs",
        "fuse.mount-s3", "fuse.rclone", "fuse.s3fs", "fuse.seaweedfs", "fuse.sshfs", "fuse.vmhgfs-fuse",
    }
)  # fmt: skip
_octal = re.compile(r"\\([0-7]{3})")


def refuse_network(folder: Path, mounts: Path = MOUNTS) -> None:
    """Refuse a folder that lies on a network file system, or of which that cannot be told."""
    try:
        table = mounts.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise StoreError(f"{mounts} cannot be read, so what holds {folder} is unknown: {error.strerror}") from error
    kind = file_system(Path(os.path.realpath(folder)), table)
    if kind in NETWORKED:
        raise StoreError(
            f"{folder} lies on a network file system ({kind}), where a database would be damaged",
            hint="set TIPSTAFF_HOME to a folder on a local disk",
        )


def file_system(path: Path, table: str) -> str:
    """Name the type of the file system that holds `path`: of the mounts above it the nearest, of those the latest."""
    best, kind = -1, ""
    for line in table.splitlines():
        fields, _, rest = line.partition(" - ")
        point = Path(_octal.sub(lambda found: chr(int(found[1], 8)), fields.split(" ")[4]))
        if len(point.parts) >= best and path.is_relative_to(point):
            best, kind = len(point.parts), rest.partition(" ")[0]
    return kind
