"""The attacks on sandboxes once more, under a uid that is nobody's: what root may do must not be what stops them."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.test_as_an_ordinary_user import ENTER, closed_above
from tipstaff.isolation import uids

ORDINARY = uids.FIRST + uids.COUNT + 3
FILES = ("test_escapes.py", "test_isolation.py", "test_left_behind.py", "test_prepared_folders.py")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that anybody may enter, with one inside that belongs to the ordinary user."""
    folder = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="tipstaff-attack-"))
    folder.chmod(0o755)
    (folder / "own").mkdir()
    os.chown(folder / "own", ORDINARY, ORDINARY)
    yield folder
    shutil.rmtree(folder)
    for left in (Path(f"/tmp/tipstaff-{ORDINARY}"), Path(f"/var/tmp/tipstaff-{ORDINARY}")):  # noqa: S108 - as `places` names them
        shutil.rmtree(left, ignore_errors=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="the tests already run as an ordinary user")
@pytest.mark.timeout(200)
def test_no_attack_by_an_ordinary_users_command_gets_through(root, place):
    """Every attack on a sandbox of a user with no rights but those of any user ends as it does for root."""
    paths = [root, Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()]
    closed = sorted({folder for path in paths if (folder := closed_above(path))})
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(place / "own"), "PYTHONPATH": str(root / "src")}
    suite = [
        *(sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={place}/own/tmp"),
        *(f"tests/attacks/{name}" for name in FILES),
        *("-k", "not written_is_counted and not without_content"),  # slow, and the same for everybody
    ]
    words = [str(place), *map(str, paths), "--", *closed, "--", str(ORDINARY), *suite]

    ended = subprocess.run(
        ["/usr/bin/unshare", "--mount", "bash", "-c", ENTER, "bash", *words],
        env=environ, cwd=root, capture_output=True, timeout=180, check=False,
    )  # fmt: skip

    assert ended.returncode == 0, ended.stdout.decode()[-8000:] + ended.stderr.decode()[-2000:]
