"""`tipstaff run` once more, under a uid that is nobody's: what root may do must not be what makes it pass."""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tipstaff.isolation import uids

ORDINARY = uids.FIRST + uids.COUNT + 2
FILES = ("test_run.py", "test_run_input.py", "test_run_streams.py", "test_run_python.py")
# In a mount namespace of its own: what lies below a closed folder (an interpreter in root's home, say) is shown at its
# place to a user who could not pass. $1 is a folder for that; then come paths, "--", closed folders, "--", the command.
ENTER = """
place=$1; shift
paths=(); while [ "$1" != -- ]; do paths+=("$1"); shift; done; shift
for i in "${!paths[@]}"; do mkdir "$place/$i" && mount --bind "${paths[i]}" "$place/$i" || exit 99; done
while [ "$1" != -- ]; do mount -t tmpfs -o mode=0755 tmpfs "$1" || exit 99; shift; done; shift
for i in "${!paths[@]}"; do
    [ -e "${paths[i]}" ] || { mkdir -p "${paths[i]}" && mount --bind "$place/$i" "${paths[i]}" || exit 99; }
done
exec setpriv --reuid "$1" --regid "$1" --clear-groups --inh-caps=-all -- "${@:2}"
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that anybody may enter, with one inside that belongs to the ordinary user."""
    folder = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="tipstaff-suite-"))
    folder.chmod(0o755)
    (folder / "own").mkdir()
    os.chown(folder / "own", ORDINARY, ORDINARY)
    yield folder
    shutil.rmtree(folder)
    for left in (Path(f"/tmp/tipstaff-{ORDINARY}"), Path(f"/var/tmp/tipstaff-{ORDINARY}")):  # noqa: S108 - as places names them
        shutil.rmtree(left, ignore_errors=True)


def closed_above(path: Path) -> str:
    """The outermost folder above `path` that others may not enter, or nothing."""
    return next((str(folder) for folder in reversed(path.parents) if not folder.stat().st_mode & stat.S_IXOTH), "")


@pytest.mark.skipif(os.geteuid() != 0, reason="the tests already run as an ordinary user")
@pytest.mark.timeout(400)
def test_it_all_holds_for_an_ordinary_user(root, place):
    """Every test of `tipstaff run` passes, and none is skipped, for a user with no rights but those of any user."""
    paths = [root, Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()]
    closed = sorted({folder for path in paths if (folder := closed_above(path))})
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(place / "own"), "PYTHONPATH": str(root / "src")}
    suite = [
        *(sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={place}/own/tmp"),
        *(f"tests/acceptance/{name}" for name in FILES),
    ]
    words = [str(place), *map(str, paths), "--", *closed, "--", str(ORDINARY), *suite]

    ended = subprocess.run(
        ["/usr/bin/unshare", "--mount", "bash", "-c", ENTER, "bash", *words],
        env=environ, cwd=root, capture_output=True, timeout=380, check=False,
    )  # fmt: skip

    assert ended.returncode == 0, ended.stdout.decode()[-8000:] + ended.stderr.decode()[-2000:]
    assert b"skipped" not in ended.stdout
