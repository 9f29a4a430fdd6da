"""What a run could leave on the host, show to others, or take without being counted.

Each of these was open once.
"""

import os
import secrets
import subprocess
import threading

import pytest

from tests.conformance.conftest import plan
from tipstaff.isolation.bwrap import Bubblewrap
from tipstaff.isolation.process import Process
from tipstaff.isolation.tier import Passage

NOBODY = 65534


@pytest.fixture
def canary() -> str:
    """A text that is nowhere else on this machine."""
    return f"canary-{secrets.token_hex(8)}"


SET_ID = "import os; os.close(os.open('made', os.O_WRONLY | os.O_CREAT, 0o6755))"


@pytest.mark.parametrize("bits", ["4755", "2755", "6755"])
async def test_no_program_is_left_that_gives_its_owners_rights(run, workspace, bits):
    """No set-uid or set-gid file can be made in place: whoever ran it would have our rights; plain programs can be."""
    script = f'cp /usr/bin/id plain; cp /usr/bin/id given; chmod 755 plain; chmod {bits} given; python3 -c "$1"'

    await run("sh", "-c", script, "sh", SET_ID, workspace=workspace, mode="in-place")

    assert (workspace / "plain").stat().st_mode & 0o7777 == 0o755
    assert [path.name for path in workspace.iterdir() if path.stat().st_mode & 0o6000] == []


LOOK = """
import os, sys
for process in filter(str.isdigit, os.listdir("/proc")):
    try:
        lines = open(f"/proc/{process}/mountinfo").read()
    except OSError:
        continue
    for word in lines.replace(",", " ").split():
        for path in (word, word.partition("=")[2]):
            if "tipstaff-" in path and os.path.exists(f"{path}/spoken"):
                print(open(f"{path}/spoken").read())
"""


@pytest.mark.only_if(os.geteuid() == 0, "only root can look as somebody else")
@pytest.mark.parametrize("granted", [True, False])
async def test_other_users_cannot_look_into_a_run(workspace, canary, granted):
    """What a command writes in its view is for nobody else on the machine while it runs; it sees it itself."""
    seen = bytearray()
    async with Bubblewrap() as tier:  # with the folders that it has on any host
        said = threading.Event()
        looked: list[bytes] = []

        def heard(chunk: bytes) -> None:
            seen.extend(chunk)
            said.set()

        def look() -> None:
            said.wait(20)
            done = subprocess.run(
                ["/usr/bin/python3", "-c", LOOK],
                user=NOBODY,
                group=NOBODY,
                extra_groups=[],
                capture_output=True,
                check=False,
            )
            looked.append(done.stdout + done.stderr)

        looker = threading.Thread(target=look)
        looker.start()
        script = f"echo {canary} > spoken; cat spoken; sleep 2"
        await tier.run(plan("sh", "-c", script, workspace=workspace if granted else None), Passage(stdout=heard))
        looker.join()

    assert canary.encode() in seen
    assert canary.encode() not in looked[0]


HIDE = {
    "unlinked": "path = f'f{number}'; file = open(path, 'wb'); os.unlink(path)",
    "too-deep": "file = open(f'f{number}', 'wb')",
}


@pytest.mark.parametrize("way", sorted(HIDE))
async def test_what_is_written_is_counted_without_a_name(run, way):
    """Files that have no name any more, or one too long to be spoken, count towards the limit on disk."""
    script = (
        "import os, sys, time\n"
        "if sys.argv[1] == 'too-deep':\n"
        "    for _ in range(30): os.mkdir('d' * 200); os.chdir('d' * 200)\n"
        "kept = []\n"
        "for number in range(int(sys.argv[2])):\n"
        f"    {HIDE[way]}; file.write(bytes(4 << 20)); file.flush(); kept.append(file)\n"
        "time.sleep(1); print('done')\n"
    )

    little = await run("python3", "-c", script, way, "1", disk_bytes=32 << 20)
    much = await run("python3", "-c", script, way, "32", disk_bytes=32 << 20)

    assert little.text == "done"
    assert much.told == ("disk-limit", 153)


async def test_files_without_content_are_counted(run):
    """Names cost something too: with a small limit on disk nobody makes so many files that others can make none."""
    make = (
        "import os, sys, time\nfor n in range(int(sys.argv[1])): os.close(os.open(f'{n}', os.O_CREAT))\ntime.sleep(1)"
    )

    few = await run("python3", "-c", make, "20", disk_bytes=2 << 20)
    many = await run("python3", "-c", make, "30000", disk_bytes=2 << 20)

    assert few.told == ("exited", 0)
    assert many.told == ("disk-limit", 153)


MEMORY = {
    "nameless": "file = os.memfd_create('x'); [os.write(file, bytes(1 << 20)) for _ in range(16)]; kept.append(file)",
    "by-number": "one = libc.shmget(0, ctypes.c_size_t(16 << 20), 0o1600); at = libc.shmat(one, None, 0);"
    " ctypes.memset(at, 1, 16 << 20); libc.shmdt(ctypes.c_void_p(at))",
}


@pytest.mark.parametrize("way", sorted(MEMORY))
async def test_memory_that_is_not_mapped_is_counted(run, way):
    """Memory in nameless files and in numbered segments counts like any other, or cannot be had at all."""
    script = (
        "import ctypes, os, sys, time\nlibc = ctypes.CDLL(None); libc.shmat.restype = ctypes.c_void_p\nkept = []\n"
        f"for number in range(int(sys.argv[1])):\n    {MEMORY[way]}\ntime.sleep(1); print('done')\n"
    )

    little = await run("python3", "-c", script, "1", memory_bytes=96 << 20)
    much = await run("python3", "-c", script, "24", memory_bytes=96 << 20)

    # Where nobody would count it, it does not exist: Python says so, or falls over a segment that is not there.
    absent = b"not implemented" in little.stderr or little.ended.exit_code == 139
    assert absent or little.text == "done"
    assert much.told == (little.told if absent else ("out-of-memory", 137))


@pytest.mark.only_if(os.geteuid() != 0, "root can always mount")
async def test_rights_outside_cannot_be_changed_without_mounts(tmp_path):
    """In the process tier of a user who cannot mount, the rights of our keys stay as they are; a file inside obeys."""
    key = tmp_path / "key"
    key.write_text("key")
    key.chmod(0o600)
    async with Process(scratch=tmp_path / "scratch", mounts=False) as tier:
        ended = await tier.run(plan("sh", "-c", f"touch own && chmod 600 own; chmod 666 {key}"), Passage())

    assert ended.ending == "exited"
    assert key.stat().st_mode & 0o777 == 0o600


async def test_a_masked_program_is_nowhere(run):
    """A name that is masked, and said to be enforced, is not there in any folder; its neighbours are."""
    outcome = await run("sh", "-c", "ls /usr/lib/git-core/git; ls /usr/bin/env", masked=("git",))
    said = {verdict.clause: verdict.strength for verdict in outcome.ended.verdicts}

    assert outcome.text == "/usr/bin/env" or said["restricted"] != "enforced"


async def test_a_folder_named_like_a_habit_is_a_folder(run, workspace):
    """A working folder that is called `-` is that folder, and where there is none nothing runs."""
    assert (await run("pwd", cwd="-", workspace=workspace)).told == ("setup-failed", 125)
    (workspace / "-").mkdir()
    assert (await run("sh", "-c", "basename $PWD", cwd="-", workspace=workspace)).text == "-"
