"""`tipstaff apply` onto a disk that is full for real: a small file system in a mount namespace of the test's own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.doors.cli.left import leave
from tests.unit.workspace.bringing import WAS, Thing, fill

pytestmark = pytest.mark.only_if(os.geteuid() == 0, "only root mounts a file system")
BIG = Thing(b"x" * 3_000_000)
# $1 is the folder, $2 its size, $3 what lies in it, then comes the command.
ONTO = """
mount -t tmpfs -o "size=$2" tmpfs "$1" && cp -a "$3/." "$1" || exit 99
folder=$1; shift 3
"$@"; code=$?
cd "$folder" && find . | sort && sha256sum a b c/d
exit $code
"""


@pytest.mark.parametrize(("size", "code"), [("1m", 74), ("16m", 0)])
def test_a_full_disk_leaves_everything_as_it_was(tmp_path, size, code):
    """What has no room is told, and the folder is as it was, to the last name; where there is room, it is brought."""
    full, before = fill(tmp_path / "full", {}), fill(tmp_path / "before", WAS)
    leave(tmp_path / "home", full, WAS, {**WAS, b"a": Thing(b"is a\n"), b"big": BIG, b"n/e/w": Thing(b"x")})
    program = [str(Path(sys.executable).with_name("tipstaff")), "apply", "last"]
    words = ["unshare", "--mount", "sh", "-c", ONTO, "sh", str(full), size, str(before), *program]

    done = subprocess.run(
        words, env={**os.environ, "TIPSTAFF_HOME": str(tmp_path / "home")}, capture_output=True, timeout=60, check=False
    )

    assert done.returncode == code, done.stderr
    listed = subprocess.run(
        ["/bin/sh", "-c", "find . | sort && sha256sum a b c/d"], cwd=before, capture_output=True, check=True, timeout=10
    )
    assert (done.stdout == listed.stdout) is (code != 0)
    assert (b"No space left on device: nothing was changed" in done.stderr) is (code != 0)
    assert list(tmp_path.glob("home/applied/*/*/record.json")) == [] or code == 0
