"""Attacks from inside a sandbox, in every tier: on our keys and variables, our processes, the host's services."""

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.conftest import Run
from tipstaff.isolation import watch

PROBE = "import os, sys\ntry:\n    {}\nexcept OSError as error:\n    sys.exit(f'{{error.strerror}}')\nprint('reached')"


async def tried(run: Run, line: str, **options: object) -> bool:
    """Whether one line of Python gets through in a sandbox."""
    outcome = await run("python3", "-c", PROBE.format(line), **options)
    assert outcome.ended.ending == "exited"
    return outcome.text == "reached"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """A file like a signing key: ours, and nobody else's to read."""
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    (folder / "key").write_text("yellow-bird")
    (folder / "key").chmod(0o600)
    return folder


@pytest.mark.parametrize("granted", [False, True])
async def test_our_keys_cannot_be_read(run, keys, granted):
    """A key below our home is out of reach, by its name and through any process's root; a grant shows it."""
    path = str(keys / "key")

    direct = await tried(run, f"open({path!r}).read()", readable=(keys,) if granted else ())
    through = await tried(run, f"open('/proc/{os.getpid()}/root{path}').read()")
    own_root = await tried(run, f"open('/proc/self/root{path}').read()")

    assert (direct, through, own_root) == (granted, False, False)


@pytest.mark.parametrize("what", ["environ", "maps", "mem", "fd/0", "cwd", "cmdline"])
async def test_our_processes_cannot_be_looked_into(run, tier, what):
    """Nothing of our own process or of the spawner's can be read; the same file of our own can be read by us."""
    for process in (os.getpid(), tier.workshop._link.process):
        assert not await tried(run, f"open('/proc/{process}/{what}', 'rb').read(1)")
    assert os.access("/proc/self/environ", os.R_OK)


async def test_our_processes_cannot_be_signalled(run, tier):
    """No signal reaches our process or the spawner's, not even one that only asks; a command's own child gets it."""
    for process in (os.getpid(), tier.workshop._link.process):
        assert not await tried(run, f"os.kill({process}, 0)")
    assert await tried(run, "os.kill(os.getpid(), 0)")


async def test_our_limits_cannot_be_changed(run, tier):
    """A command can lower its own limits, and not those of the process that built its sandbox."""
    change = "import resource; resource.prlimit({}, resource.RLIMIT_NOFILE, (64, 64))"

    assert not await tried(run, change.format(tier.workshop._link.process))
    assert await tried(run, change.format(0))


async def test_the_hosts_services_are_out_of_reach(run, tmp_path, monkeypatch):
    """A host's socket that everybody may use (a container engine's, say) cannot be connected to by its path."""
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as friend:
        listener.bind("s")
        (tmp_path / "s").chmod(0o777)
        listener.listen()
        friend.connect("s")
        path = str(tmp_path / "s")

        assert not await tried(run, f"import socket; socket.socket(socket.AF_UNIX).connect({path[-100:]!r})")


@pytest.mark.parametrize(
    "change", ["os.chmod({!r}, 0o777)", "os.utime({!r})", "os.truncate({!r}, 0)", "os.unlink({!r})"]
)
async def test_what_is_not_granted_cannot_be_changed(run, keys, workspace, change):
    """Rights, times, contents and names of a file outside stay as they are; in the workspace they can be changed."""
    before = (keys / "key").stat()

    assert not await tried(run, change.format(str(keys / "key")))
    assert await tried(run, change.format("file"), workspace=workspace)
    after = (keys / "key").stat()
    assert (after.st_mode, after.st_size, after.st_mtime_ns) == (before.st_mode, before.st_size, before.st_mtime_ns)


CALL = "import ctypes; ctypes.CDLL(None).{} and exec('raise OSError(1)')"


@pytest.mark.parametrize(
    "line",
    [
        "os.setuid(0)",
        "os.chroot('/')",
        CALL.format("unshare(0x10000000)"),
        CALL.format("ptrace(16, os.getppid(), 0, 0)"),
        "open('/proc/sys/kernel/core_pattern', 'a').write('')",
        "open('/proc/sysrq-trigger', 'a')",
        "os.mknod('disk', 0o60600, 2048)",
        "os.symlink('/', 'root'); os.listdir('root/root')",
    ],
    ids=["setuid", "chroot", "namespace", "ptrace", "core_pattern", "sysrq", "device", "link"],
)
async def test_ways_to_more_rights_are_closed(run, line):
    """Uid 0, other roots, namespaces, tracing, the kernel's settings and devices are refused; plain work is not."""
    assert not await tried(run, line)
    assert await tried(run, "os.getuid() or exec('raise OSError(1)')")


async def test_a_program_that_gives_rights_gives_none(run):
    """A set-uid program runs without the rights of its owner."""
    outcome = await run("sh", "-c", "for p in su mount passwd; do command -v $p; done; grep NoNewPrivs /proc/$$/status")

    assert outcome.ended.ending == "exited"
    assert "NoNewPrivs:\t0" not in outcome.text


async def test_the_command_does_not_hold_our_sockets(run):
    """Among a command's descriptors is no socket: what says ready and release is closed before it runs."""
    listing = "[print(os.readlink(f'/proc/self/fd/{n}')) for n in os.listdir('/proc/self/fd') if n in '0123456789']"
    outcome = await run("python3", "-c", f"import os\n{listing}")

    assert "socket:" not in outcome.text
    assert "memfd" not in outcome.text


async def test_two_runs_cannot_reach_each_other(run, workspace):
    """A command sees neither the processes nor the scratch files of another one that runs beside it."""
    stop = asyncio.Event()
    other = asyncio.create_task(run("sh", "-c", "echo secret > /tmp/other; sleep 30", cancel=stop))
    await asyncio.sleep(1)

    found = await run("sh", "-c", "cat /tmp/other; kill -9 -1 2>/dev/null; true", workspace=workspace)
    assert not other.done()
    stop.set()

    assert (await other).told == ("cancelled", 130)
    assert "secret" not in found.text


def sleepers(spawner: int) -> set[int]:
    """The uids of the processes below a spawner that sleep."""
    found = [Path(f"/proc/{process}") for process in watch.tree(spawner)]
    return {process.stat().st_uid for process in found if b"sleep" in (process / "cmdline").read_bytes()}


@pytest.mark.only_if(os.geteuid() == 0, "only root gives a uid of its own")
async def test_no_command_is_ever_the_hosts_root(run, tier):
    """As root, every process below the spawner but its own has a uid that nobody else has."""
    stop = asyncio.Event()
    other = asyncio.create_task(run("sh", "-c", "sleep 30; true", cancel=stop))
    await asyncio.sleep(1)
    owners = sleepers(tier.workshop._link.process)
    stop.set()
    await other

    assert owners
    assert 0 not in owners


def test_the_probe_itself_works():
    """Outside of a sandbox the same lines get through, so that a refusal above means something."""
    command = [sys.executable, "-c", PROBE.format(f"os.kill({os.getpid()}, 0)")]

    assert subprocess.run(command, capture_output=True, timeout=30, check=True).stdout == b"reached\n"
