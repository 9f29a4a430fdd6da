"""The filter on system calls, built by hand as classic BPF: what the kernel will not do for a sandboxed program.

1. A call made for another architecture (`int 0x80` on x86_64) kills the process: its numbers mean other things.
2. Numbers beyond the last that we know, which all of x32 is, do not exist (ENOSYS).
3. clone3, openat2 and io_uring do not exist (ENOSYS): a filter cannot look into their arguments, and programs do
   without.
4. What reaches into other processes, the kernel, mounts, namespaces, keys or clocks is refused (EPERM).
5. clone may not make namespaces; ioctl may not type into a terminal (CVE-2017-5226), compared on the low 32 bits,
   because the kernel looks at no others (CVE-2019-10063); personality may not switch address randomisation off.
6. Sockets are AF_UNIX, AF_INET, AF_INET6 and NETLINK_ROUTE, never raw: a network namespace does not hold AF_VSOCK.
7. No file gets a set-uid or set-gid bit: whoever ran it on the host would have the rights of the sandbox's user.
8. Without namespaces no socket can be made at all (AF_UNIX reaches the host's services), pairs excepted; only a
   process's own limits can be changed, and nothing is shared by number (System V, POSIX queues).
9. Where nobody counts memory that is not mapped, there is none: no nameless files, nothing shared by number.
10. Where nothing can be mounted, rights, owners and times are changed by descriptor only: Landlock lets a path through.

Pure. Bubblewrap loads the result; a filter is the second wall, behind namespaces and an ordinary uid.
"""

import errno
import struct
from typing import Final, NamedTuple

from tipstaff.isolation.syscalls import ARCHITECTURES, LAST_KNOWN, Architecture

ALLOW: Final = 0x7FFF0000
KILL: Final = 0x80000000
ERRNO: Final = 0x00050000

LOAD: Final = 0x20  # the word at k, into A
AND: Final = 0x54  # A &= k
EQUAL: Final = 0x15  # A == k
GREATER: Final = 0x25  # A > k
ANY: Final = 0x45  # A & k
RETURN: Final = 0x06

NUMBER: Final = 0  # offsets in struct seccomp_data
AUDIT: Final = 4
FIRST_ARGUMENT: Final = 16

DENIED: Final = (
    "ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd", "process_madvise", "process_mrelease",
    "keyctl", "add_key", "request_key",
    "bpf", "userfaultfd", "perf_event_open", "syslog", "lookup_dcookie", "move_pages", "migrate_pages",
    "mount", "umount2", "pivot_root", "chroot", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "open_tree",
    "open_tree_attr", "mount_setattr", "unshare", "setns", "open_by_handle_at", "name_to_handle_at", "fanotify_init",
    "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot",
    "swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "vhangup",
    "settimeofday", "clock_settime", "clock_adjtime",
    "iopl", "ioperm", "modify_ldt", "uselib", "ustat", "sysfs",
)  # fmt: skip
ABSENT: Final = ("io_uring_setup", "io_uring_enter", "io_uring_register", "clone3", "openat2")

UNCOUNTED: Final = ("memfd_create", "shmget")
BY_PATH: Final = (
    "chmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchownat", "utime", "utimes", "futimesat",
    "setxattr", "lsetxattr", "setxattrat", "removexattr", "lremovexattr", "removexattrat",
)  # fmt: skip
SHARED_BY_NUMBER: Final = ("shmget", "shmat", "semget", "msgget", "mq_open")

SET_ID: Final = 0o6000
CREATES: Final = 0o20000100  # O_CREAT and O_TMPFILE: only with these an open has a mode
MODES: Final = {  # which argument is the mode of a file
    "chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1, "mknod": 1, "mknodat": 2,
}  # fmt: skip
OPENS: Final = {"open": 1, "openat": 2}  # which argument has the flags; the next one is the mode

NAMESPACES: Final = 0x7E020000  # every CLONE_NEW* that clone takes
TERMINAL_INPUT: Final = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
PERSONALITIES: Final = (0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)  # Linux, uname26, 32 bits, both, and "which one?"
IPPROTO_TCP: Final = 6
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
NETLINK_ROUTE: Final = 0
SOCKET_KIND: Final = 0xF  # the rest of the argument is SOCK_CLOEXEC and SOCK_NONBLOCK
SOCK_STREAM: Final = 1
SOCK_RAW: Final = 3
SOCK_PACKET: Final = 10


class Instruction(NamedTuple):
    """One instruction: what, how far to jump when it is so and when not, and the number it works with."""

    code: int
    yes: int
    no: int
    k: int


class Circumstances(NamedTuple):
    """What else holds a command, which decides what the filter has to."""

    namespaces: bool = True  # it has namespaces of its own
    counted: bool = True  # its memory is counted by a control group
    mounts: bool = True  # what it does not own is mounted read-only, or not at all
    tcp: bool = False  # without namespaces: connections by TCP can be made, and no other socket


USUAL: Final = Circumstances()


def program(machine: str, where: Circumstances = USUAL) -> bytes:
    """Spell the filter for `machine` (as `os.uname` names it) as the kernel and bubblewrap's --seccomp read it."""
    return b"".join(struct.pack("=HBBI", *step) for step in instructions(ARCHITECTURES[machine], where))


def instructions(architecture: Architecture, where: Circumstances = USUAL) -> list[Instruction]:
    """List the filter's instructions. Every block either returns or leaves the call's number in A."""
    numbers = architecture.numbers
    shared = [] if where.namespaces else _shared(numbers, _tcp() if where.tcp else _fail(errno.EACCES))
    denied = DENIED if where.mounts else (*DENIED, *BY_PATH)
    gone = ABSENT if where.counted else (*ABSENT, *UNCOUNTED)
    refused = [step for name in denied if name in numbers for step in _when(numbers[name], _fail(errno.EPERM))]
    absent = [step for name in gone for step in _when(numbers[name], _fail(errno.ENOSYS))]
    times = [] if where.mounts else _when(numbers["utimensat"], _without_path())
    return [
        *_architecture(architecture.audit),
        *absent,
        *refused,
        *shared,
        *times,
        *(step for name, place in MODES.items() if name in numbers for step in _when(numbers[name], _mode(place))),
        *(step for name, place in OPENS.items() if name in numbers for step in _when(numbers[name], _open(place))),
        *_when(numbers["clone"], _clone()),
        *_when(numbers["ioctl"], _ioctl()),
        *_when(numbers["personality"], _personality()),
        *_when(numbers["socket"], _socket()),
        *_when(numbers["socketpair"], _socket()),
        _return(ALLOW),
    ]


def _shared(numbers: dict[str, int], socket: list[Instruction]) -> list[Instruction]:
    """Close what namespaces would: networks, other processes' limits, memory and messages shared by number."""
    alike = [step for name in SHARED_BY_NUMBER for step in _when(numbers[name], _fail(errno.ENOSYS))]
    own = [_argument(0), Instruction(EQUAL, 0, 1, 0), _return(ALLOW), *_fail(errno.EPERM)]
    return [*_when(numbers["socket"], socket), *_when(numbers["prlimit64"], own), *alike]


def _tcp() -> list[Instruction]:
    """Let streams of both internets be made, by TCP and nothing else (MPTCP and SCTP are streams, too)."""
    protocol = [_argument(2), *_one_of((0, IPPROTO_TCP), [_return(ALLOW)]), *_fail(errno.EACCES)]
    refused = _fail(errno.EACCES)
    stream = [_argument(1), Instruction(AND, 0, 0, SOCKET_KIND), *_when(SOCK_STREAM, protocol), *refused]
    return [_argument(0), *_one_of((AF_INET, AF_INET6), stream), *refused]


def _architecture(audit: int) -> list[Instruction]:
    return [
        _load(AUDIT),
        Instruction(EQUAL, 1, 0, audit),
        _return(KILL),
        _load(NUMBER),
        Instruction(GREATER, 0, 1, LAST_KNOWN),
        *_fail(errno.ENOSYS),
    ]


def _when(number: int, block: list[Instruction]) -> list[Instruction]:
    """Run `block`, which must return, for one system call."""
    return [Instruction(EQUAL, 0, len(block), number), *block]


def _mode(place: int) -> list[Instruction]:
    return [_argument(place), Instruction(ANY, 0, 1, SET_ID), *_fail(errno.EPERM), _return(ALLOW)]


def _open(place: int) -> list[Instruction]:
    return [_argument(place), Instruction(ANY, 1, 0, CREATES), _return(ALLOW), *_mode(place + 1)]


def _without_path() -> list[Instruction]:
    """Let a call through whose path is nowhere: then it means the descriptor."""
    high = Instruction(LOAD, 0, 0, FIRST_ARGUMENT + 8 + 4)
    return [
        _argument(1),
        Instruction(EQUAL, 0, 3, 0),
        high,
        Instruction(EQUAL, 0, 1, 0),
        _return(ALLOW),
        *_fail(errno.EPERM),
    ]


def _clone() -> list[Instruction]:
    return [_argument(0), Instruction(ANY, 0, 1, NAMESPACES), *_fail(errno.EPERM), _return(ALLOW)]


def _ioctl() -> list[Instruction]:
    return [_argument(1), *_one_of(TERMINAL_INPUT, _fail(errno.EPERM)), _return(ALLOW)]


def _personality() -> list[Instruction]:
    return [_argument(0), *_one_of(PERSONALITIES, [_return(ALLOW)]), *_fail(errno.EPERM)]


def _socket() -> list[Instruction]:
    # Routes are asked for on raw netlink sockets, so the family comes before the kind.
    route = [_argument(2), Instruction(EQUAL, 0, 1, NETLINK_ROUTE), _return(ALLOW), *_fail(errno.EAFNOSUPPORT)]
    kind = [
        _argument(1),
        Instruction(AND, 0, 0, SOCKET_KIND),
        *_one_of((SOCK_RAW, SOCK_PACKET), _fail(errno.EPERM)),
        _return(ALLOW),
    ]
    return [
        _argument(0),
        *_when(AF_NETLINK, route),
        *_one_of((AF_UNIX, AF_INET, AF_INET6), kind),
        *_fail(errno.EAFNOSUPPORT),
    ]


def _one_of(values: tuple[int, ...], block: list[Instruction]) -> list[Instruction]:
    """Run `block`, which must return, when A is any of `values`."""
    ahead = [Instruction(EQUAL, len(values) - 1 - place, 0, value) for place, value in enumerate(values[:-1])]
    return [*ahead, *_when(values[-1], block)]


def _load(offset: int) -> Instruction:
    return Instruction(LOAD, 0, 0, offset)


def _argument(place: int) -> Instruction:
    """Load the low 32 bits of an argument: both architectures are little endian."""
    return _load(FIRST_ARGUMENT + 8 * place)


def _return(value: int) -> Instruction:
    return Instruction(RETURN, 0, 0, value)


def _fail(number: int) -> list[Instruction]:
    return [_return(ERRNO | number)]
