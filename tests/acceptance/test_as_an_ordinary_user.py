"""What matters most once more, under a uid that is nobody's: what root may do must not be what makes it pass.

Here, too, run the tests that can hold for an ordinary user only (`only_if`), and none may skip.
"""

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tipstaff.isolation import places, uids

pytestmark = pytest.mark.only_if(os.geteuid() == 0, "only root can be somebody else")
# Each suite has a uid of its own, since they may run at the same time.
SUITES = {
    "conformance": ["tests/conformance"],
    "attacks": [
        f"tests/attacks/test_{name}.py" for name in ("escapes", "isolation", "left_behind", "prepared_folders")
    ],
    "runs": [f"tests/acceptance/test_{name}.py" for name in ("run", "run_input", "run_streams", "run_python")],
    "around": [*(f"tests/acceptance/test_{name}.py" for name in ("embedded", "desk")), "tests/unit/store"],
    "network": [
        *(f"tests/acceptance/test_{name}.py" for name in ("network", "secrets", "secrets_command")),
        *(f"tests/attacks/test_{name}.py" for name in ("egress", "egress_faults", "leaks")),
        "tests/unit/secrets",
    ],
    "workspaces": [
        *(f"tests/acceptance/test_{name}.py" for name in ("agents", "workspaces", "edited_meanwhile")),
        *(f"tests/attacks/test_{name}.py" for name in ("apply", "workspace_in", "workspace_out")),
        *(f"tests/attacks/test_review_workspace_{way}.py" for way in ("in", "out")),
        "tests/unit/workspace",
        "tests/workspaces",
    ],
    "wire": [
        f"tests/wire/test_{name}.py"
        for name in ("walkthrough", "cut", "full_disk", "clock_skew", "old_plane", "workspaces_elsewhere")
    ],
}
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


@pytest.fixture(params=SUITES)
def suite(request: pytest.FixtureRequest) -> str:
    """Every suite in turn."""
    name: str = request.param
    return name


@pytest.fixture
def ordinary(suite) -> int:
    """A uid that no person and no sandbox has."""
    return uids.FIRST + uids.COUNT + 1 + list(SUITES).index(suite)


@pytest.fixture
def place(ordinary) -> Iterator[Path]:
    """A folder that anybody may enter, with one inside that belongs to the ordinary user."""
    folder = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="tipstaff-suite-"))
    folder.chmod(0o755)
    (folder / "own").mkdir()
    os.chown(folder / "own", ordinary, ordinary)
    yield folder
    shutil.rmtree(folder)
    for left in (Path("/tmp"), Path(places.scratch_folder()).parent):  # noqa: S108 - where `places` keeps a user's
        shutil.rmtree(left / f"tipstaff-{ordinary}", ignore_errors=True)


def closed_above(path: Path) -> str:
    """The outermost folder above `path` that others may not enter, or nothing."""
    return next((str(folder) for folder in reversed(path.parents) if not folder.stat().st_mode & stat.S_IXOTH), "")


@pytest.mark.timeout(600)
def test_it_holds_for_an_ordinary_user(root, suite, ordinary, place):
    """Every test of the suite passes for a user with no rights but those of any user, and none is skipped."""
    paths = [root, Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()]
    closed = sorted({folder for path in paths if (folder := closed_above(path))})
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(place / "own"), "PYTHONPATH": str(root / "src")}
    tests = [
        *(sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={place}/own/tmp"),
        *("--no-skips", "--require-tier", "bwrap", "--require-tier", "process", *SUITES[suite]),
    ]
    words = [str(place), *map(str, paths), "--", *closed, "--", str(ordinary), *tests]

    ended = subprocess.run(
        ["/usr/bin/unshare", "--mount", "bash", "-c", ENTER, "bash", *words],
        env=environ, cwd=root, capture_output=True, timeout=580, check=False,
    )  # fmt: skip

    assert ended.returncode == 0, ended.stdout.decode()[-8000:] + ended.stderr.decode()[-2000:]


def test_every_test_for_ordinary_users_is_in_a_suite(root):
    """No file holds a test for ordinary users only that nobody runs as one."""
    listed = [path for paths in SUITES.values() for path in paths]
    holding = [
        str(path.relative_to(root))
        for path in (root / "tests").rglob("test_*.py")
        if re.search(r"only_if\(os\.geteuid\(\) != 0", path.read_text())
    ]

    assert len(holding) >= 4
    assert [path for path in holding if not path.startswith(tuple(listed))] == []
