"""Ways out of a sandbox that are known from other tools, tried in every tier, each beside what must still work."""

import asyncio
import ctypes
import json
import os
import re
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conformance.conftest import Run
from tipstaff.isolation.syscalls import ARCHITECTURES

NUMBERS = ARCHITECTURES[os.uname().machine].numbers
NOBODY = 65534
# Runs each line of a table on its own, and prints what came of it: "ok", or the name of the error.
TABLE = """
import ctypes, errno, json, os, resource, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    if libc.syscall(ctypes.c_long(number), *(ctypes.c_long(one) for one in arguments)) < 0:
        raise OSError(ctypes.get_errno(), "")
def outcome(line):
    try:
        exec(line)
    except (OSError, ValueError) as error:
        return errno.errorcode.get(getattr(error, "errno", None), type(error).__name__)
    return "ok"
print(json.dumps({name: outcome(line) for name, line in json.loads(sys.argv[1]).items()}))
"""
# Looks for a text, which comes on standard input so that no command line holds it, in all that a command might read.
SEARCH = """
import glob, os, sys
wanted = sys.stdin.buffer.read().strip()
def files():
    for name in ("environ", "cmdline", "fd/*", "task/*/environ", "mountinfo"):
        yield from glob.glob(f"/proc/*/{name}")
    for top in (*sys.argv[1:], "/tmp", "/var/tmp", "/home", "/root", "/run", "/dev/shm", "/etc", "."):
        if os.path.isfile(top):
            yield top
        for folder, _, names in os.walk(top):
            yield from (f"{folder}/{name}" for name in names)
for path in files():
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        found = wanted in os.read(number, 1 << 20)
        os.close(number)
    except OSError:
        continue
    if found:
        print(path)
"""


async def table(run: Run, lines: dict[str, str], **options: object) -> dict[str, str]:
    """Try every line of Python in one sandbox; gives "ok" or the error for each."""
    outcome = await run("python3", "-c", TABLE, json.dumps(lines), **options)
    assert outcome.ended.ending == "exited", outcome.stderr
    found: dict[str, str] = json.loads(outcome.stdout)
    return found


@pytest.fixture
def canary() -> str:
    """A text that is nowhere else on this machine."""
    return f"canary-{secrets.token_hex(8)}"


@pytest.fixture
def crowded_folders() -> Iterator[list[Path]]:
    """New files in the folders that everybody shares."""
    made = []
    for folder in ("/tmp", "/var/tmp", "/dev/shm"):  # noqa: S108 - the host's own, to be found or not
        descriptor, name = tempfile.mkstemp(dir=folder)
        os.close(descriptor)
        made.append(Path(name))
    yield made
    for path in made:
        path.unlink()


async def test_planted_secrets_are_not_found(run, canary, crowded_folders, tmp_path, monkeypatch):
    """A text in our variables, shared folders, home and open descriptors is found by a search only where granted."""
    for name in ("CANARY", "BASH_ENV", "ENV", "LD_PRELOAD", "PYTHONPATH", "GIT_SSH_COMMAND", "SSH_AUTH_SOCK"):
        monkeypatch.setenv(name, canary)
    home, granted = tmp_path / "home", tmp_path / "granted"
    for folder in (home, granted):
        folder.mkdir(mode=0o700)
        (folder / "plane.key.pem").write_text(canary)
    for path in crowded_folders:
        path.write_text(canary)
        path.chmod(0o644)
    with (home / "plane.key.pem").open("rb") as file:
        folder_too = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
        os.set_inheritable(file.fileno(), True)  # noqa: FBT003 - the name of the function says it
        os.set_inheritable(folder_too, True)  # noqa: FBT003 - as above
        places = [str(home), str(granted), *map(str, crowded_folders)]

        hidden = await run("python3", "-c", SEARCH, *places, stdin=canary.encode())
        shown = await run("python3", "-c", SEARCH, *places, stdin=canary.encode(), readable=(granted,))
        os.close(folder_too)

    assert (hidden.ended.exit_code, hidden.text) == (0, "")
    # By more than one name: inside, /var/tmp is /tmp.
    assert {path.removeprefix("/var") for path in shown.text.split()} == {
        str(granted / "plane.key.pem").removeprefix("/var")
    }


KERNEL = {
    "ptrace": (16, 1, 0, 0),
    "process_vm_readv": (1, 0, 0, 0, 0, 0),
    "kcmp": (1, 1, 0, 0, 0),
    "pidfd_getfd": (0, 0, 0),
    "keyctl": (0, -3, 1),
    "add_key": (0, 0, 0, 0, -3),
    "bpf": (0, 0, 0),
    "userfaultfd": (0,),
    "perf_event_open": (0, 0, -1, -1, 0),
    "mount": (0, 0, 0, 0, 0),
    "umount2": (0, 0),
    "pivot_root": (0, 0),
    "chroot": (0,),
    "open_tree": (-100, 0, 1),
    "fsopen": (0, 0),
    "mount_setattr": (-100, 0, 0, 0, 0),
    "unshare": (0x10000000,),
    "setns": (0, 0x40000000),
    "clone": (0x10000000 | 17, 0, 0, 0, 0),
    "open_by_handle_at": (-100, 0, 0),
    "fanotify_init": (0, 0),
    "init_module": (0, 0, 0),
    "kexec_load": (0, 0, 0, 0),
    "reboot": (0, 0, 0, 0),
    "swapon": (0, 0),
    "clock_settime": (0, 0),
    "syslog": (10, 0, 0),
    "personality": (0x0040000,),
}
ABSENT = {"io_uring_setup": (8, 0), "io_uring_enter": (0, 0, 0, 0, 0, 0), "clone3": (0, 88)}


async def test_the_kernels_dangerous_calls_are_refused(run):
    """Calls that reach into other processes, mounts, namespaces, keys or the kernel are refused; work goes on."""
    lines = {
        name: f"call({NUMBERS[name]}, {', '.join(map(str, values))})" for name, values in (KERNEL | ABSENT).items()
    }
    harmless = {
        "getppid": "os.getppid()",
        "pipe": "os.pipe()",
        "fork": "os.fork() or os._exit(0)",
    }

    found = await table(run, lines | harmless)

    assert {name: found[name] for name in KERNEL} == dict.fromkeys(KERNEL, "EPERM")
    assert {name: found[name] for name in ABSENT} == dict.fromkeys(ABSENT, "ENOSYS")
    assert {name: found[name] for name in harmless} == dict.fromkeys(harmless, "ok")


async def test_sockets_that_reach_the_host_cannot_be_made(run):
    """Sockets to a hypervisor, to the kernel and to the wire are refused; a pair of one's own is not."""
    families = {
        "vsock": "socket.socket(40, socket.SOCK_STREAM)",
        "raw": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
        "raw6": "socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58)",
        "packet": "socket.socket(17, socket.SOCK_RAW)",
        "old-packet": "socket.socket(socket.AF_INET, 10)",
        "alg": "socket.socket(38, socket.SOCK_SEQPACKET)",
        "bluetooth": "socket.socket(31, socket.SOCK_RAW)",
        "audit": "socket.socket(16, socket.SOCK_RAW, 9)",
        "uevent": "socket.socket(16, socket.SOCK_RAW, 15)",
        "netfilter": "socket.socket(16, socket.SOCK_RAW, 12)",
    }

    found = await table(run, {**families, "pair": "socket.socketpair()"})

    assert found.pop("pair") == "ok"
    assert set(found.values()) <= {"EAFNOSUPPORT", "EPERM", "EACCES"}
    assert found.keys() == families.keys()


@pytest.mark.parametrize("request_number", [0x5412, 0x541C], ids=["TIOCSTI", "TIOCLINUX"])
async def test_nothing_is_typed_into_a_terminal(run, request_number):
    """Typing into a terminal is refused with any bits in the upper half; asking for its size only finds no terminal."""
    tries = {
        str(upper): f"call({NUMBERS['ioctl']}, 0, {request_number | upper}, 0)"
        for upper in (0, 1 << 32, 1 << 63, 7 << 40)
    }

    found = await table(run, {**tries, "size": f"call({NUMBERS['ioctl']}, 0, 0x5413, 0)"})

    assert found.pop("size") in {"ENOTTY", "EINVAL"}
    assert set(found.values()) == {"EPERM"}


CODE = """
import ctypes, mmap, sys
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex(sys.argv[1]) + b"\\xc3")
run = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
print(run(), flush=True)
"""


@pytest.mark.only_if(os.uname().machine == "x86_64", "other processors have one way to call the kernel")
async def test_other_ways_into_the_kernel_are_closed(run):
    """A 32-bit call kills the program, an x32 call does not exist; the same call the usual way gives an answer."""
    usual = await run("python3", "-c", CODE, "b8270000000f05")  # mov eax, 39 (getpid); syscall
    old = await run("python3", "-c", CODE, "b814000000cd80")  # mov eax, 20 (getpid); int 0x80
    narrow = await run("python3", "-c", CODE, "b8270000400f05")  # mov eax, 0x40000027 (getpid of x32); syscall

    assert int(usual.text) > 0
    assert old.told == ("signalled", 159)
    assert narrow.text == "-38"


async def test_limits_only_go_down(run):
    """No limit, priority or standing towards the out-of-memory killer can be raised; each can be given up."""
    up = {
        "processes": "resource.setrlimit(resource.RLIMIT_NPROC, (1 << 20, 1 << 20))",
        "file-size": "resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))",
        "open-files": "resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 20, 1 << 20))",
        "core": "resource.setrlimit(resource.RLIMIT_CORE, (2, 2))",
        "nice": "os.setpriority(os.PRIO_PROCESS, 0, -5)",
        "real-time": "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))",
        "oom": "os.write(os.open('/proc/self/oom_score_adj', os.O_WRONLY), b'-900')",
    }
    down = {
        "processes": "resource.setrlimit(resource.RLIMIT_NPROC, (32, 32))",
        "open-files": "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))",
        "nice": "os.setpriority(os.PRIO_PROCESS, 0, 5)",
    }

    raised, lowered = await table(run, up), await table(run, down)

    assert "ok" not in raised.values()
    assert set(lowered.values()) == {"ok"}
    core = await run("python3", "-c", "import resource; print(resource.getrlimit(resource.RLIMIT_CORE))")
    assert core.text in {"(1, 1)", "(0, 0)"}  # of 1 byte no dump is piped to a program either


async def test_the_hosts_own_files_cannot_be_written_by_another_name(run):
    """Neither the running program nor a process's root, folder or group leads to something that can be written."""
    tries = {
        "own-program": "os.open('/proc/self/exe', os.O_WRONLY)",
        "first-program": "os.open('/proc/1/exe', os.O_WRONLY)",
        "own-root": "os.open('/proc/self/root/etc/x', os.O_WRONLY | os.O_CREAT)",
        "first-root": "os.open('/proc/1/root/etc/x', os.O_WRONLY | os.O_CREAT)",
        "first-folder": "os.open('/proc/1/cwd/x', os.O_WRONLY | os.O_CREAT) if os.getcwd() != '/workspace' else 1 / 0",
        "thread-root": "os.open('/proc/thread-self/root/usr/x', os.O_WRONLY | os.O_CREAT)",
        "shell": "os.open('/usr/bin/dash', os.O_WRONLY)",
        "group": "os.open('/sys/fs/cgroup/cgroup.procs', os.O_WRONLY)",
        "old-group": "os.open('/sys/fs/cgroup/memory/tasks', os.O_WRONLY)",
        "kernel": "os.open('/sys/kernel/uevent_helper', os.O_WRONLY)",
        "random": "os.chmod('/dev/null', 0o600)",
    }
    tries["first-folder"] = tries["first-folder"].replace("1 / 0", "os.open('/', os.O_WRONLY)")

    found = await table(run, {**tries, "own": "os.open('/proc/self/cwd/x', os.O_WRONLY | os.O_CREAT)"})

    assert found.pop("own") in {"ok", "EACCES"}  # a tier may close /proc altogether
    assert [name for name, outcome in found.items() if outcome == "ok"] == []


@contextmanager
def shared_memory(key: int) -> Iterator[int]:
    """Memory of the host's that everybody may use, by its number."""
    libc = ctypes.CDLL(None, use_errno=True)
    made = libc.shmget(key, ctypes.c_size_t(4096), 0o1666)
    assert made >= 0
    try:
        yield made
    finally:
        libc.shmctl(made, 0, None)


async def test_memory_is_not_shared_by_number(run):
    """A piece of System V memory that everybody may use is found on the host by its key, and not inside."""
    key = secrets.randbits(30) | 1
    find = f"import ctypes; print(ctypes.CDLL(None).shmget({key}, ctypes.c_size_t(4096), 0o666))"
    with shared_memory(key) as made:
        command = [sys.executable, "-c", find]
        outside = await asyncio.to_thread(subprocess.run, command, capture_output=True, timeout=30, check=True)
        inside = await run("python3", "-c", find)

    assert (int(outside.stdout), inside.text) == (made, "-1")


@contextmanager
def neighbouring() -> Iterator["subprocess.Popen[bytes]"]:
    """A process of ours that has nothing to do with any sandbox."""
    with subprocess.Popen(["/usr/bin/sleep", "60"]) as process:
        yield process
        process.kill()


async def test_killing_everybody_kills_nobody_else(run):
    """A command that kills all it can see, with every kind of call, ends itself at most; our own child lives on."""
    script = "import os\nfor target in (-1, os.getppid(), 1):\n    try: os.kill(target, 9)\n    except OSError: pass\n"
    with neighbouring() as neighbour:
        outcome = await run("sh", "-c", 'sleep 60 & exec python3 -c "$1"', "sh", script, time_ms=5000)
        alive = neighbour.poll() is None

    assert alive
    assert outcome.ended.ending in {"exited", "signalled", "timed-out"}


async def test_sandboxes_cannot_talk_to_each_other(run, tier):
    """What one command listens on, by an abstract name or a port, another one beside it does not reach; itself does."""
    listen = (
        "import socket, sys, time\n"
        "name = socket.socket(socket.AF_UNIX); name.bind('\\0tipstaff-meeting'); name.listen()\n"
        "port = socket.create_server(('127.0.0.1', 45871))\n"
        "if len(sys.argv) > 1: time.sleep(3)\n"
    )
    connect = (
        "import socket\n"
        "for way in (lambda: socket.socket(socket.AF_UNIX).connect('\\0tipstaff-meeting'),"
        " lambda: socket.create_connection(('127.0.0.1', 45871), 2)):\n"
        "    try: way(); print('met')\n"
        "    except OSError: print('nobody')\n"
    )

    listening = asyncio.create_task(run("python3", "-c", listen, "stay"))
    await asyncio.sleep(1)
    alone = await run("python3", "-c", connect)
    met = await run("python3", "-c", listen + connect)
    await listening

    assert alone.text.split() == ["nobody", "nobody"]
    assert met.text.split() == (["met", "met"] if tier.name == "bwrap" else [])  # the other tier makes no sockets


async def test_a_command_does_not_learn_where_its_workspace_lies(run, workspace):
    """What a command can learn of its sandbox by its own processes' files names neither our home nor the workspace."""
    outcome = await run(
        "sh", "-c", "cat /proc/self/mountinfo /proc/1/cmdline /proc/self/cgroup 2>/dev/null", workspace=workspace
    )

    assert not re.search(re.escape(str(workspace)), outcome.text)


async def test_a_socket_of_the_hosts_is_unreachable_by_descriptor(run, tmp_path, monkeypatch):
    """A listening socket of ours that is open, and even inheritable, is not among a command's descriptors."""
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("s")
        listener.listen()
        listener.set_inheritable(True)

        outcome = await run(
            "python3",
            "-c",
            "import os\nfor n in range(3, 300):\n    try: os.fstat(n); print(n)\n    except OSError: pass",
        )

    assert (outcome.ended.exit_code, outcome.text) == (0, "")
