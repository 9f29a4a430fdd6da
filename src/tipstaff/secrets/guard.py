"""What a process that holds values does first: it leaves no memory behind, and lets nobody look into it.

Not for a process that goes on to fork (without exec) a child that makes a user namespace: such a child inherits the
guard, and its own `/proc/self/uid_map` then belongs to root. What is started by exec is as open as ever.
"""

from typing import Final

_SET_DUMPABLE: Final = 4


def no_dumps() -> None:
    """Write no core dump from now on, and close our `/proc/PID/environ`, `mem` and `maps` to the same user's others."""
    import ctypes  # noqa: PLC0415 - slow to import, and only those who hold values need it
    import os  # noqa: PLC0415 - as above
    import resource  # noqa: PLC0415 - as above

    libc = ctypes.CDLL(None, use_errno=True)
    # A limit of zero does not stop a kernel that pipes dumps to a program (core(5)); this does, for either.
    if libc.prctl(_SET_DUMPABLE, *map(ctypes.c_ulong, (0, 0, 0, 0))) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "prctl(PR_SET_DUMPABLE)")
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
