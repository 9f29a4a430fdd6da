"""What a file system's own quota bounds. For hosts that have one: root, and any mount with the option `prjquota`.

To have one: `mkfs.ext4 -O project,quota -E quotatype=prjquota FILE`, then `mount -o loop,prjquota FILE FOLDER`, on a
kernel with CONFIG_QFMT_V2. What needs no such host is in tests/unit/isolation/test_quota.py.
"""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.conformance.conftest import Outcome, plan
from tests.conformance.test_kept import Looked, kept
from tests.conformance.test_nothing_is_left import emptied
from tipstaff.isolation import quota, uids
from tipstaff.isolation.bwrap import Bubblewrap
from tipstaff.isolation.process import Process
from tipstaff.isolation.tier import Passage

MIB = 1 << 20
NOTHING = quota.Use(quota.Bound(0, 0), quota.Bound(0, 0))


def offering() -> Path | None:
    """A mounted file system that bounds projects, if this host has one and we are root."""
    lines = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    folders = [line[1] for line in lines if "prjquota" in line[3].split(",") and "rw" in line[3].split(",")]
    return next((Path(folder) for folder in folders if quota.Quota(folder).offered), None)


pytestmark = pytest.mark.only_if(offering() is not None, "for root on a host with a mount that has `prjquota`")


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder on the file system that has quotas, which others may pass through."""
    folder = Path(tempfile.mkdtemp(dir=offering()))
    folder.chmod(0o755)
    yield folder / "scratch"
    shutil.rmtree(folder)


@pytest.fixture
async def bounded(scratch: Path) -> AsyncIterator[Bubblewrap]:
    """The tier, with its scratch folder where quotas hold."""
    async with Bubblewrap(scratch=scratch) as tier:
        yield tier


async def run(tier: Bubblewrap | Process, script: str, **options: object) -> Outcome:
    """Run a script of Python's to its end."""
    stdout, stderr = bytearray(), bytearray()
    passage = Passage(stdout=stdout.extend, stderr=stderr.extend)
    ended = await tier.run(plan("python3", "-c", script, **options), passage)
    return Outcome(ended, bytes(stdout), bytes(stderr))


def said(outcome: Outcome) -> tuple[str, str]:
    """The verdict on disk."""
    return next((verdict.strength, verdict.by) for verdict in outcome.ended.verdicts if verdict.clause == "disk")


FILL = """
written = 0
try:
    for number in range(1000):
        with open(f"f{number}", "wb", buffering=0) as file:
            for _ in range(256):
                written += file.write(bytes(4096))
except OSError as error:
    print(written, error.errno)
    raise SystemExit(1)
print(written)
"""
FILES = """
import os
made = 0
try:
    while made < 100_000:
        os.close(os.open(str(made), os.O_CREAT | os.O_EXCL))
        made += 1
except OSError as error:
    print(made, error.errno)
    raise SystemExit(1)
"""


@pytest.mark.parametrize("viewed", [True, False])
async def test_all_bytes_together_are_bounded(bounded, workspace, viewed):
    """Not one byte beyond the limit is written, in a view or an empty folder, and the ending is `disk-limit`."""
    outcome = await run(bounded, FILL, workspace=workspace if viewed else None, disk_bytes=16 * MIB)

    assert outcome.told == ("disk-limit", 153), outcome
    assert 15 * MIB < int(outcome.text.split()[0]) <= 16 * MIB
    assert outcome.text.split()[1] in {"28", "122"}  # no space, or over quota
    assert said(outcome) == ("enforced", f"project quota of the file system: {16 * MIB} bytes, 4096 files")


@pytest.mark.parametrize("viewed", [True, False])
async def test_the_number_of_files_is_bounded(bounded, workspace, viewed):
    """Empty files have an end as well."""
    outcome = await run(bounded, FILES, workspace=workspace if viewed else None, disk_bytes=4 * MIB)

    assert outcome.told == ("disk-limit", 153), outcome
    assert 900 < int(outcome.text.split()[0]) <= 1024


async def test_what_fits_is_left_alone(bounded, workspace):
    """A command that stays below its limits exits as it likes, and so does one that failed for another reason."""
    write = "open('f', 'wb').write(bytes(1 << 20)); raise SystemExit({})"

    assert (await run(bounded, write.format(0), workspace=workspace, disk_bytes=16 * MIB)).told == ("exited", 0)
    assert (await run(bounded, write.format(3), workspace=workspace, disk_bytes=16 * MIB)).told == ("exited", 3)


async def test_a_copy_counts_like_what_is_written(bounded, workspace):
    """Files that are copied up from the base, and those that have no name any more, are all counted."""
    (workspace / "large").write_bytes(bytes(12 * MIB))
    script = (
        "import os\nos.chmod('large', 0o600)\nnameless = os.open('gone', os.O_CREAT | os.O_RDWR)\nos.unlink('gone')\n"
        "try:\n    os.posix_fallocate(nameless, 0, 8 << 20)\nexcept OSError as error:\n    print(error.errno)"
    )

    outcome = await run(bounded, script, workspace=workspace, disk_bytes=16 * MIB)

    assert outcome.text in {"28", "122"}, outcome


async def test_files_cannot_leave_their_project(bounded, workspace):
    """From inside, neither the number of a folder's project nor that it is passed on can be changed."""
    script = (
        "import fcntl, os, struct\nos.mkdir('d')\n"
        "for place in ('.', 'd'):\n"
        "    for change in ((0, 0), (0x200, 7)):\n"
        "        folder = os.open(place, os.O_RDONLY)\n"
        "        try:\n"
        "            fcntl.ioctl(folder, 0x401C5820, struct.pack('=5I8x', change[0], 0, 0, change[1], 0))\n"
        "            print('left')\n"
        "        except OSError: pass\n" + FILL
    )

    outcome = await run(bounded, script, workspace=workspace, disk_bytes=16 * MIB)

    assert outcome.told == ("disk-limit", 153), outcome
    assert int(outcome.text.split()[-2]) <= 16 * MIB


async def test_each_run_has_its_own(bounded, workspace):
    """Runs at the same time do not take from each other, and one after another starts at nothing."""
    fitting = "open('f', 'wb').write(bytes(10 << 20))"
    for _ in range(3):
        outcomes = await asyncio.gather(
            *[run(bounded, fitting, workspace=workspace, disk_bytes=16 * MIB) for _ in range(3)]
        )

        assert [(outcome.told, said(outcome)[0]) for outcome in outcomes] == [(("exited", 0), "enforced")] * 3


async def test_everything_is_given_back(bounded, scratch):
    """After runs small and large, no project of ours has a file or a limit left."""
    await run(bounded, FILES, disk_bytes=4 * MIB)
    await run(bounded, "open('f', 'w').write('x')")

    assert emptied(scratch)
    found = {quota.Quota(str(scratch)).read(uids.FIRST + number) for number in range(64)}
    for _ in range(100):  # nobody waits for it
        if found == {NOTHING}:
            break
        await asyncio.sleep(0.05)
        found = {quota.Quota(str(scratch)).read(uids.FIRST + number) for number in range(64)}
    assert found == {NOTHING}


async def test_what_is_kept_is_bounded_until_it_is_removed(bounded, workspace, scratch):
    """A full sandbox can be looked at like any other."""
    looked = Looked()

    outcome = await kept(bounded, looked, "python3", "-c", FILL, workspace=workspace, disk_bytes=8 * MIB)

    assert outcome.told == ("disk-limit", 153), outcome
    assert 7 * MIB < sum(map(len, looked.contents.values())) <= 8 * MIB
    assert emptied(scratch)


async def test_a_folder_in_place_is_not_said_to_be_bounded(bounded, workspace):
    """In place, the files are not in our project, and the verdict says so."""
    assert said(await run(bounded, "", workspace=workspace, mode="in-place"))[0] == "weaker"


async def test_a_command_that_could_leave_its_project_has_no_quota(scratch, workspace):
    """The tier without namespaces could take its files out, so that a quota would be an empty word."""
    async with Process(scratch=scratch) as tier:
        outcome = await run(tier, "", workspace=workspace)

    assert outcome.told == ("exited", 0), outcome
    assert said(outcome)[0] == "weaker"


async def test_the_promise_says_it(bounded):
    """A host with quotas promises that the disk is bounded."""
    promised = await bounded.promise()

    assert ("disk", "enforced") in {(verdict.clause, verdict.strength) for verdict in promised.verdicts}
