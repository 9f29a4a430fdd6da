"""Programs that run other programs, and patterns over command lines.

An argv pattern can say which arguments a program gets. It cannot say what a launcher then does with them: `bash -c`,
`env`, `find -exec` and `python3 -c` run whatever their arguments say, in more spellings than a pattern can list. A
rule that constrains their arguments would look like protection and be none, so it is refused at load; a rule on the
whole launcher (`[bash, "..."]`) is fine. The list holds what runs code given in its arguments as its ordinary work.
"""

from collections.abc import Callable
from typing import Final

from tipstaff.policy.patterns import any_of, is_literal, overlaps, tokens

REST: Final = "..."
SYSTEM: Final = ("/usr/bin/", "/bin/")  # where a bare name is found inside the sandbox

SHELLS: Final = (
    "sh", "bash", "dash", "ash", "zsh", "ksh*", "mksh", "lksh", "yash", "posh", "fish", "csh", "tcsh", "rbash", "xonsh",
    "nu", "elvish", "busybox*", "toybox", "pwsh",
)  # fmt: skip
WRAPPERS: Final = (  # run the command that stands in their arguments
    "env", "xargs", "sudo", "su", "doas", "runuser", "pkexec", "nice", "ionice", "chrt", "taskset", "nohup",
    "timeout", "setsid", "time", "watch", "stdbuf", "script", "parallel", "strace", "ltrace", "gdb", "chroot",
    "unshare", "nsenter", "setpriv", "capsh", "bwrap", "firejail", "flock", "start-stop-daemon", "systemd-run",
    "ssh", "tmux", "screen", "expect", "socat", "faketime", "fakeroot", "ld.so", "ld-linux-*", "ld-musl-*", "prlimit",
    "setarch", "linux32", "linux64", "cpulimit", "unbuffer", "rlwrap", "entr", "find", "fd", "fdfind", "valgrind",
    "perf", "hyperfine", "xvfb-run", "dbus-run-session", "sg", "at", "batch", "run-parts", "gosu", "su-exec", "tini",
    "dumb-init", "numactl", "eatmydata", "proxychains*", "torsocks", "aa-exec", "runcon", "sshpass",
)  # fmt: skip
INTERPRETERS: Final = (  # run code that stands in their arguments, or in a file that the run itself can write
    "python*", "pypy*", "perl*", "ruby*", "irb", "node", "nodejs", "deno", "bun", "php*", "lua*", "tclsh*", "wish*",
    "awk", "gawk", "mawk", "nawk", "sed", "ed", "ex", "vi", "vim", "nvim", "emacs*", "make", "gmake", "cmake",
    "ninja", "npx", "pipx", "uv", "uvx", "Rscript", "R", "java", "julia", "guile*", "sqlite3", "psql", "m4",
    "jshell", "groovy", "scala", "elixir", "erl", "ghc", "runghc", "osascript",
)  # fmt: skip
LAUNCHERS: Final = SHELLS + WRAPPERS + INTERPRETERS

is_launcher: Final = any_of(LAUNCHERS)

Alternatives = tuple[str, ...]
Tokens = Callable[[str], bool]


def basename(command: str) -> str:
    """Name the program of `command`: what follows its last slash."""
    return command.rpartition("/")[2]


def alternatives(token: str | tuple[str, ...]) -> Alternatives:
    """Give a token of a pattern as the list of its alternatives."""
    return (token,) if isinstance(token, str) else token


class ArgvPattern:
    """One command line pattern, compiled both ways: strictly for what permits, broadly for what forbids."""

    __slots__ = ("_broad", "_middle", "_open", "_strict", "programs")

    def __init__(self, pattern: tuple[str | tuple[str, ...], ...]) -> None:
        self._open = pattern[-1] == REST
        program, *middle = pattern[:-1] if self._open else pattern
        names = alternatives(program)
        self._strict = any_of(spelling for name in names for spelling in _spellings(name))
        self._broad = any_of(basename(name) for name in names)
        self._middle = tuple(any_of(alternatives(token)) for token in middle)
        # None when one program is a glob: then no table can find this pattern by name.
        literal = all(is_literal(name) for name in names)
        self.programs: frozenset[str] | None = frozenset(tokens(basename(name)) for name in names) if literal else None

    def matches(self, command: str, args: tuple[str, ...], *, broad: bool) -> bool:
        """Say whether the command line fits; `broad` knows the program by its name, at any path."""
        count = len(self._middle)
        if len(args) < count or (len(args) > count and not self._open):
            return False
        if not (self._broad(basename(command)) if broad else self._strict(command) and ".." not in command.split("/")):
            return False
        return all(token(argument) for token, argument in zip(self._middle, args, strict=False))


def _spellings(name: str) -> tuple[str, ...]:
    """List the paths by which a strict match knows a program: a bare name is also found where the system has it."""
    return (name,) if "/" in name else (name, *(f"{folder}{name}" for folder in SYSTEM))


def launcher_fault(pattern: tuple[str | tuple[str, ...], ...]) -> str | None:
    """Say which launcher's arguments `pattern` pretends to constrain, or None when it constrains none."""
    if len(pattern) == 2 and pattern[1] == REST:  # noqa: PLR2004 - the program and any arguments: nothing is constrained
        return None
    for name in alternatives(pattern[0]):
        program = basename(name)
        if is_literal(program) and is_launcher(tokens(program)):
            return tokens(program)
        if not is_literal(program) and (example := _launcher_within(program)):
            return example
    return None


def _launcher_within(program: str) -> str | None:
    return next((launcher for launcher in LAUNCHERS if overlaps(program, launcher)), None)
