"""The filter on system calls, instruction by instruction, in a small interpreter of classic BPF."""

import errno
import os
import platform
import re
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tipstaff.isolation import seccomp
from tipstaff.isolation.seccomp import ALLOW, ERRNO, KILL
from tipstaff.isolation.syscalls import ARCHITECTURES, LAST_KNOWN, SHARED

MACHINES = sorted(ARCHITECTURES)
EPERM, ENOSYS, NO_FAMILY = (ERRNO | number for number in (errno.EPERM, errno.ENOSYS, errno.EAFNOSUPPORT))
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
JUMPS = {
    seccomp.EQUAL: lambda value, k: value == k,
    seccomp.GREATER: lambda value, k: value > k,
    seccomp.ANY: lambda value, k: bool(value & k),
}


def interpret(code: bytes, data: bytes) -> int:
    """Run a filter on one struct seccomp_data, as the kernel would."""
    steps = list(struct.iter_unpack("=HBBI", code))
    value = place = 0
    while True:
        operation, yes, no, k = steps[place]
        place += 1
        if operation == seccomp.RETURN:
            return int(k)
        if operation == seccomp.LOAD:
            value = struct.unpack_from("<I", data, k)[0]
        elif operation == seccomp.AND:
            value &= k
        else:
            place += yes if JUMPS[operation](value, k) else no


def verdict(machine: str, call: str | int, *arguments: int, audit: int | None = None, **where: bool) -> int:
    """Ask the filter of `machine` about one call; `where` says what else holds the command."""
    architecture = ARCHITECTURES[machine]
    number = architecture.numbers[call] if isinstance(call, str) else call
    padded = [argument % 2**64 for argument in (*arguments, *[0] * 6)][:6]
    data = struct.pack("<IIQ6Q", number, audit or architecture.audit, 0x7F00_0000_1234, *padded)
    return interpret(seccomp.program(machine, seccomp.Circumstances(**where)), data)


@pytest.mark.parametrize("machine", MACHINES)
def test_every_jump_lands_inside_and_every_path_returns(machine):
    """No jump leaves the program, the last instruction returns, and the kernel's limit of length holds."""
    steps = seccomp.instructions(ARCHITECTURES[machine])

    assert len(steps) <= 4096
    assert steps[-1].code == seccomp.RETURN
    assert all(place + 1 + max(step.yes, step.no) < len(steps) for place, step in enumerate(steps[:-1]))


@pytest.mark.parametrize("machine", MACHINES)
def test_denied_calls_are_refused(machine):
    """Every call of the deny list that the architecture has gives EPERM."""
    named = [name for name in seccomp.DENIED if name in ARCHITECTURES[machine].numbers]

    assert len(named) >= 48
    assert {name: verdict(machine, name) for name in named} == dict.fromkeys(named, EPERM)


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_that_a_filter_cannot_read_do_not_exist(machine):
    """Programs fall back to clone and to plain reads when clone3 and io_uring give ENOSYS."""
    assert {verdict(machine, name) for name in seccomp.ABSENT} == {ENOSYS}


@pytest.mark.parametrize("machine", MACHINES)
def test_everything_else_is_allowed(machine):
    """A call that is on no list is allowed: the deny list is exactly as long as it says."""
    numbers = ARCHITECTURES[machine].numbers
    listed = {numbers[name] for name in (*seccomp.DENIED, *seccomp.ABSENT) if name in numbers}
    judged = {numbers[name] for name in ("clone", "ioctl", "personality", "socket", "socketpair")}

    others = set(range(LAST_KNOWN + 1)) - listed - judged

    assert {verdict(machine, number) for number in others} == {ALLOW}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("number", [LAST_KNOWN + 1, 512, 1000, 0x4000_0000, 0x4000_0000 + 101, 0xFFFF_FFFF])
def test_unknown_numbers_and_x32_do_not_exist(machine, number):
    """A number after the last known one, with or without the x32 bit, gives ENOSYS; the last known one is allowed."""
    assert verdict(machine, number) == ENOSYS
    assert verdict(machine, LAST_KNOWN) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("audit", [0x4000_0003, 0xC000_003D, 0x1])
def test_other_architectures_kill(machine, audit):
    """A call made for another architecture kills the process, whatever its number means there."""
    assert verdict(machine, 20, audit=audit) == KILL
    assert verdict(machine, 20) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("flag", [0x20000, *(1 << bit for bit in range(25, 31))])
def test_clone_makes_no_namespace(machine, flag):
    """Each namespace flag is refused, alone and among others; threads and forks are allowed."""
    threads, fork = 0x3D0F00, 0x11

    assert verdict(machine, "clone", flag) == EPERM
    assert verdict(machine, "clone", flag | threads) == EPERM
    assert verdict(machine, "clone", threads) == ALLOW
    assert verdict(machine, "clone", fork) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("request_number", [0x5412, 0x541C])
def test_nothing_is_typed_into_a_terminal(machine, request_number):
    """TIOCSTI and TIOCLINUX are refused also with garbage in the upper half; their neighbours are allowed."""
    assert verdict(machine, "ioctl", 0, request_number) == EPERM
    assert verdict(machine, "ioctl", 0, request_number | 1 << 32) == EPERM
    assert verdict(machine, "ioctl", request_number, request_number + 1) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_address_randomisation_stays_on(machine):
    """ADDR_NO_RANDOMIZE is refused; asking for the personality is allowed."""
    assert verdict(machine, "personality", 0x0040000) == EPERM
    assert verdict(machine, "personality", 0xFFFF_FFFF) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("call", ["socket", "socketpair"])
def test_only_four_families_exist(machine, call):
    """Every family but AF_UNIX, AF_INET, AF_INET6 and NETLINK_ROUTE gives EAFNOSUPPORT."""
    stream = socket.SOCK_STREAM
    answers = {family: verdict(machine, call, family, stream) for family in range(64)}

    assert {family for family, answer in answers.items() if answer == ALLOW} == {1, 2, 10, 16}
    assert {answer for family, answer in answers.items() if family not in {1, 2, 10, 16}} == {NO_FAMILY}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("flags", [0, socket.SOCK_CLOEXEC, socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK])
def test_no_raw_sockets(machine, flags):
    """Raw and packet sockets are refused with any flags; streams and datagrams are allowed."""
    kinds = {kind: verdict(machine, "socket", 2, kind | flags) for kind in (1, 2, 3, 10)}

    assert kinds == {1: ALLOW, 2: ALLOW, 3: EPERM, 10: EPERM}


@pytest.mark.parametrize("machine", MACHINES)
def test_netlink_is_for_routes(machine):
    """Raw netlink sockets are allowed for routes, which getifaddrs needs, and for no other protocol."""
    answers = [verdict(machine, "socket", 16, 3 | socket.SOCK_CLOEXEC, protocol) for protocol in range(25)]

    assert answers == [ALLOW, *[NO_FAMILY] * 24]


@pytest.mark.parametrize("machine", sorted({"aarch64", platform.machine()}))  # every machine has the generic ones
def test_the_numbers_are_the_kernels(machine):
    """The tables agree with the kernel's headers."""
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", HEADERS[machine].read_text())
    known = {name: int(number) for name, number in found}
    ours = ARCHITECTURES[machine].numbers

    assert {name: number for name, number in ours.items() if known.get(name, number) != number} == {}
    assert set(ours) - set(known) <= set(SHARED), "only calls younger than the headers may be missing there"


# Each line is one attack and its permitted twin, tried by a real program that has loaded the real filter.
LOADED = """
import ctypes, os, socket, struct, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
code = bytes.fromhex(sys.argv[1])
held = ctypes.create_string_buffer(code, len(code))
libc.prctl(38, 1, 0, 0, 0)
header = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(held)))
assert libc.prctl(22, 2, header) == 0
def call(number, *arguments):
    ctypes.set_errno(0)
    return libc.syscall(ctypes.c_long(number), *map(ctypes.c_ulong, arguments)), ctypes.get_errno()
def family(*arguments):
    try:
        socket.socket(*arguments).close()
    except OSError as error:
        return error.errno
    return 0
print(*eval(sys.argv[2]))
"""


def loaded(expression: str) -> list[str]:
    """Evaluate `expression` in a program that has loaded the filter of this machine."""
    code = seccomp.program(platform.machine()).hex()
    command = [sys.executable, "-I", "-S", "-c", LOADED, code, expression]
    ended = subprocess.run(command, capture_output=True, timeout=30, check=True)
    return ended.stdout.decode().split()


@pytest.mark.parametrize("name", ["unshare", "setns", "mount", "bpf", "keyctl", "ptrace", "open_tree"])
def test_the_kernel_agrees_on_denied_calls(name):
    """A real program under the real filter gets EPERM for what it may not call, and an answer for getppid."""
    number = ARCHITECTURES[platform.machine()].numbers[name]

    assert loaded(f"(*call({number}, 0, 0, 0, 0, 0), os.getppid() > 0)") == ["-1", str(errno.EPERM), "True"]


def test_the_kernel_agrees_on_sockets():
    """A real program gets AF_INET, AF_UNIX and routes, but no AF_VSOCK, AF_ALG, raw sockets or other netlink."""
    tried = (
        "family(2, 1), family(1, 1), family(16, 3, 0), family(40, 1), family(38, 5), family(2, 3, 1), family(16, 3, 9)"
    )

    assert [int(found) for found in loaded(tried)] == [0, 0, 0, 97, 97, 1, 97]


def test_threads_and_forks_still_work():
    """With clone3 gone, glibc makes threads and processes by clone."""
    tried = "[threading.Thread(target=int).start() or 1, os.waitpid(os.fork() or os._exit(7), 0)[1] >> 8]"

    assert loaded(tried) == ["1", "7"]


@pytest.mark.only_if(platform.machine() == "x86_64", "int 0x80 is an instruction of x86")
def test_the_other_door_of_the_kernel_kills(tmp_path):
    """A 32-bit call by int 0x80 ends the program with SIGSYS; the same machine code without it returns."""
    # mov eax, 20 (getpid); int 0x80 or two nops; ret
    script = (
        "import ctypes, mmap\n"
        "page = mmap.mmap(-1, 4096, prot=7)\n"
        "page.write(bytes.fromhex('b814000000{}c3'))\n"
        "ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()\n"
    )
    code = seccomp.program("x86_64").hex()

    def status(instruction: str) -> int:
        body = LOADED.replace("print(*eval(sys.argv[2]))", script.format(instruction))
        command = [sys.executable, "-I", "-S", "-c", body, code]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=30, check=False).returncode

    assert (status("cd80"), status("9090")) == (-31, 0)
    assert os.uname().machine == "x86_64"


@pytest.mark.parametrize("machine", MACHINES)
def test_without_namespaces_no_socket_can_be_made(machine):
    """Where no namespace holds the network, every family is refused, AF_UNIX too; pairs, and with one, sockets are."""
    refused = ERRNO | errno.EACCES

    assert {verdict(machine, "socket", family, 1, namespaces=False) for family in range(46)} == {refused}
    assert verdict(machine, "socketpair", seccomp.AF_UNIX, 1, namespaces=False) == ALLOW
    assert verdict(machine, "socket", seccomp.AF_UNIX, 1) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_without_namespaces_others_limits_and_memory_are_closed(machine):
    """A process may change its own limits, not another's; what is shared by number does not exist."""
    assert verdict(machine, "prlimit64", 0, 7, namespaces=False) == ALLOW
    assert verdict(machine, "prlimit64", 4711, 7, namespaces=False) == EPERM
    assert {verdict(machine, name, namespaces=False) for name in seccomp.SHARED_BY_NUMBER} == {ENOSYS}
    assert {verdict(machine, name) for name in ("prlimit64", *seccomp.SHARED_BY_NUMBER)} == {ALLOW}


@pytest.mark.parametrize("machine", MACHINES)
def test_no_file_gets_another_users_rights(machine):
    """A mode with a set-uid or set-gid bit is refused wherever a call takes one; the same call without it is not."""
    numbers = ARCHITECTURES[machine].numbers
    for name, place in seccomp.MODES.items():
        if name in numbers:
            for mode in (0o4755, 0o2755, 0o6000):
                assert verdict(machine, name, *[0] * place, mode) == EPERM
            assert verdict(machine, name, *[0] * place, 0o1777) == ALLOW
    for name, place in seccomp.OPENS.items():
        if name in numbers:
            assert verdict(machine, name, *[0] * place, os.O_CREAT, 0o4755) == EPERM
            assert verdict(machine, name, *[0] * place, os.O_TMPFILE, 0o4755) == EPERM
            assert verdict(machine, name, *[0] * place, os.O_CREAT, 0o755) == ALLOW
            assert verdict(machine, name, *[0] * place, os.O_RDONLY, 0o4755) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_memory_that_nobody_counts_does_not_exist(machine):
    """Nameless files and numbered segments exist where a control group counts them, and only there."""
    assert {verdict(machine, name, counted=False) for name in seccomp.UNCOUNTED} == {ENOSYS}
    assert {verdict(machine, name) for name in seccomp.UNCOUNTED} == {ALLOW}


@pytest.mark.parametrize("machine", MACHINES)
def test_rights_are_changed_by_descriptor_where_nothing_can_be_mounted(machine):
    """Without mounts no path's rights, owner, times or attributes can be changed; a descriptor's can."""
    named = [name for name in seccomp.BY_PATH if name in ARCHITECTURES[machine].numbers]

    assert {verdict(machine, name, mounts=False) for name in named} == {EPERM}
    assert {verdict(machine, name) for name in named} == {ALLOW}
    assert verdict(machine, "fchmod", 3, 0o755, mounts=False) == ALLOW
    assert verdict(machine, "utimensat", 3, 0, mounts=False) == ALLOW
    assert {verdict(machine, "utimensat", 3, path, mounts=False) for path in (1, 1 << 32, 0x7FFF_0000)} == {EPERM}


@pytest.mark.parametrize("machine", MACHINES)
def test_on_trust_only_tcp_can_be_made(machine):
    """Streams of both internets by TCP pass, with any flags; datagrams, other streams and other families do not."""

    def made(*arguments: int, tcp: bool = True) -> bool:
        return verdict(machine, "socket", *arguments, namespaces=False, tcp=tcp) == ALLOW

    flags = socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    assert made(2, 1 | flags, 0)
    assert made(10, 1, 6)
    assert not made(2, 1, 0, tcp=False)
    assert not any(
        made(*one) for one in [(2, 2, 0), (2, 3, 1), (2, 1, 262), (2, 1, 132), (1, 1, 0), (16, 3, 0), (40, 1, 0)]
    )
