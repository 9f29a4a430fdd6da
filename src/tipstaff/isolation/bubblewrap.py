"""What bubblewrap is told: one sandbox as its list of arguments.

The root is built from nothing: what is not listed does not exist inside. Everything but /tmp, /home, /dev/shm and the
workspace is read-only, also the root itself, /dev and /proc/sys. No namespaces can be made inside, no capability is
left, and the host's environment is not passed on. The workspace comes last and nothing is mounted below it, because
what lies there may have been written by an earlier command (CVE-2026-87766).
Pure: a test can read every grant. Who runs it, and as whom, is the spawner's business (never kuid 0).
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from tipstaff.isolation import places

WORKSPACE: Final = "/workspace"
HOME: Final = "/home"
INSIDE_ID: Final = 1000

# The descriptors that bubblewrap inherits; 3 to 7 are the stub's.
ARGUMENTS: Final = 8
FILTER: Final = 9
STATUS: Final = 10
FIRST_FILE: Final = 11

_OWN_FOLDERS: Final = ("/proc", "/dev", WORKSPACE)


class System(NamedTuple):
    """What every sandbox of this host is made of: programs and libraries, and no user data."""

    folders: tuple[str, ...]  # bound as they are
    links: tuple[tuple[str, str], ...]  # (target, name)
    files: tuple[str, ...]  # their contents come as descriptors, in this order
    masked: tuple[str, ...]  # files of /proc that say something about the host


class Room(NamedTuple):
    """One sandbox: what is to be seen in it beside the system."""

    workspace: str
    readable: tuple[tuple[str, str], ...] = ()  # (where it lies now, where it is to be seen)
    replaced: tuple[tuple[str, str], ...] = ()  # folders of the system that are taken from elsewhere
    scratch_bytes: int = 1 << 26
    shared_bytes: int = 1 << 26
    root: str = ""  # a root that stands ready, with everything of the system in it
    terminals: str = ""  # this sandbox's own file system of terminals, where the root stands ready
    held: tuple[str, ...] = ()  # what is bound by descriptor; these follow the system's files, in this order


def arguments(room: Room, system: System) -> list[str]:
    """Spell a sandbox as bubblewrap's arguments."""
    return [
        *("--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session"),
        *("--uid", str(INSIDE_ID), "--gid", str(INSIDE_ID), "--hostname", "sandbox", "--cap-drop", "ALL", "--clearenv"),
        *(_ready_root(system, room) if room.root else _built_root(system, room)),
        *_bind("--bind", room.workspace, WORKSPACE, room, system),
        *("--chdir", WORKSPACE),
        *("--seccomp", str(FILTER), "--json-status-fd", str(STATUS)),
    ]


def _ready_root(system: System, room: Room) -> list[str]:
    """Take the root that stands ready, which is read-only; devices work in it where it has them."""
    return [
        *("--dev-bind", room.root, "/"),
        *_processes(system),
        *("--dev-bind", room.terminals, "/dev/pts"),
        *_sized("/dev/shm", room.shared_bytes, "1777"),  # noqa: S108 - a place inside the sandbox
        *_sized("/tmp", room.scratch_bytes, "1777"),  # noqa: S108 - a place inside the sandbox
        *_sized(HOME, room.scratch_bytes, "0755"),
    ]


def _built_root(system: System, room: Room) -> list[str]:
    return [
        *_system(system, dict(room.replaced)),
        *_kernel_folders(system, room),
        *_scratch(room),
        *(part for source, place in room.readable for part in _bind("--ro-bind", source, place, room, system)),
        # After every mount that needs a new folder in the root.
        *("--dir", WORKSPACE, "--remount-ro", "/"),
    ]


def _bind(how: str, source: str, place: str, room: Room, system: System) -> tuple[str, str, str]:
    """Show a folder by its name; by its descriptor where it is held, and bubblewrap makes sure that it is the same."""
    if source not in room.held:
        return how, source, place
    return f"{how}-fd", str(FIRST_FILE + len(system.files) + room.held.index(source)), place


def _sized(place: str, size: int, rights: str) -> list[str]:
    return ["--size", str(size), "--perms", rights, "--tmpfs", place]


def command(stub: str, shell: str, owner: str) -> list[str]:
    """Spell bubblewrap's own command line, which the sandbox can read: it names no path of the host."""
    # The shell's own name in its complaints, which it has where a program cannot be started; and whose this is, so
    # that a sweeper finds a bubblewrap that lost its parent before it could ask to die with it.
    return [places.BUBBLEWRAP, "--args", str(ARGUMENTS), "--", shell, "-c", stub, "spawn error", owner]


def encoded(words: Iterable[str]) -> bytes:
    """Spell arguments as --args reads them."""
    return b"".join(word.encode(errors="surrogateescape") + b"\0" for word in words)


def grants(readable: Iterable[str]) -> tuple[str, ...]:
    """Reduce readable paths to the outermost ones; ValueError for one that would cover the sandbox's own folders."""
    kept: list[str] = []
    for path in sorted(set(readable), key=lambda path: (path.count("/"), path)):
        if not path.startswith("/") or ".." in path.split("/") or path.rstrip("/") in {"", "/usr", "/tmp", HOME}:  # noqa: S108 - names to compare
            raise ValueError(f"'{path}' cannot be granted for reading")
        if any(path == own or path.startswith(f"{own}/") for own in _OWN_FOLDERS):
            raise ValueError(f"'{path}' cannot be granted for reading: the sandbox has a folder of its own there")
        if not any(path.startswith(f"{outer}/") for outer in kept):
            kept.append(path)
    return tuple(kept)


def _system(system: System, replaced: dict[str, str]) -> list[str]:
    folders = [part for path in system.folders for part in ("--ro-bind", replaced.get(path, path), path)]
    links = [part for target, name in system.links for part in ("--symlink", target, name)]
    # Copied into the root, which costs no mount; the root is read-only in the end.
    files = [
        part
        for place, name in enumerate(system.files)
        for part in ("--perms", "0444", "--file", str(FIRST_FILE + place), name)
    ]
    # Folders that bubblewrap makes on the way to a file would be closed to the command.
    return ["--dir", "/etc", "--dir", "/var", *folders, *links, *files]


def _processes(system: System) -> list[str]:
    # /proc/sys again, read-only: a sandbox whose kuid were 0 could write core_pattern there, which is the host's root.
    masks = [part for name in system.masked for part in ("--ro-bind", "/dev/null", name)]
    return ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", *masks]


def _kernel_folders(system: System, room: Room) -> list[str]:
    return [
        *_processes(system),
        *("--dev", "/dev", *_sized("/dev/shm", room.shared_bytes, "1777")),  # noqa: S108 - a place inside the sandbox
        *("--remount-ro", "/dev"),
    ]


def _scratch(room: Room) -> list[str]:
    granted_there = any(place.startswith("/var/tmp") for _, place in room.readable)  # noqa: S108 - a name to compare
    return [
        *_sized("/tmp", room.scratch_bytes, "1777"),  # noqa: S108 - a folder inside
        # A link would lead a grant below it astray.
        *(() if granted_there else ("--symlink", "/tmp", "/var/tmp")),  # noqa: S108 - a folder inside
        *_sized(HOME, room.scratch_bytes, "0755"),
    ]
