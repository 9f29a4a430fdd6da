"""How a command enters a sandbox: a shell that waits inside, and the job that it is given as a memory file.

The stub bounds the processes of its own user namespace, says that it is ready, and reads one byte. End of file means
that whoever built the sandbox is gone: it exits 125, and nothing has run. Bubblewrap's own --block-fd goes on then.
Only after the byte does it read the job: any bytes in any number of arguments, standard input untouched. Its last word
before it becomes the command is "going", so that a failure to set up is told from a command that fails. The command's
streams wait on descriptors of their own until then: what bubblewrap complains of is not the command's output.
Pure; runs nothing.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

JOB: Final = 3  # one digit each: dash knows no others
GATE: Final = 4
STREAMS: Final = (5, 6, 7)  # the command's own standard streams
READY: Final = b"r"
RELEASE: Final = b"\n"
GOING: Final = b"g"
SETUP_FAILED: Final = 125
OPEN_FILES: Final = 8192
_BLOCK: Final = 512  # what dash counts files in; bash counts in twice that

# Until here the streams were the null device and a pipe for complaints about the set-up.
_TAKE_OVER: Final = (
    " ".join(["exec", *(f"{place}<&{stream}" for place, stream in enumerate(STREAMS))])
    + " "
    + " ".join(f"{stream}<&-" for stream in (JOB, GATE, *STREAMS))
)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# Names that mean something to the shell itself; a program that is given one of these gets it through `env`.
_SPECIAL: Final = {
    "ENV", "FUNCNAME", "HISTSIZE", "IFS", "LINENO", "MAIL", "MAILCHECK", "MAILPATH", "OPTARG", "OPTIND", "PPID",
    "PS1", "PS2", "PS4", "RANDOM", "SHELLOPTS", "BASHOPTS", "SHLVL", "UID", "EUID", "_",
}  # fmt: skip


def stub(processes: int, file_bytes: int = 1 << 40, shell: str = "dash") -> str:
    """Spell the waiting shell; the command may have `processes`, the sandbox's own first process comes on top."""
    # dash says -p where bash says -u. Counted in the sandbox's own user namespace, whatever else the uid runs.
    limit = processes + 1
    blocks = max(1, file_bytes // (_BLOCK if shell.endswith("dash") else 2 * _BLOCK))
    return (
        f"ulimit -n {OPEN_FILES} 2>/dev/null; ulimit -f {blocks} || exit {SETUP_FAILED}; "
        f"ulimit -p {limit} 2>/dev/null || ulimit -u {limit} || exit {SETUP_FAILED}; "
        # When the host runs out of memory, a sandbox goes before its host's services.
        "{ printf 500 >/proc/self/oom_score_adj; } 2>/dev/null; "
        f"printf {READY.decode()} >&{GATE}; read -r _ <&{GATE} || exit {SETUP_FAILED}; . /proc/self/fd/{JOB}"
    )


def job(argv: Sequence[str], environ: Mapping[str, str], cwd: str, shell: str = "dash") -> bytes:
    """Spell one command as the script that the stub, which is `shell`, becomes; ValueError for what none can have."""
    _check(argv, environ, cwd)
    plain = {name: value for name, value in environ.items() if _NAME.match(name) and name not in _SPECIAL}
    lines = [f"cd -P -- {quoted(f'./{cwd}')} || exit {SETUP_FAILED}"] if cwd not in {"", "."} else []
    through = ["exec", *map(quoted, argv)]
    # bash counts its levels in SHLVL again when it becomes a program, so only dash can pass variables on by itself.
    if shell.endswith("dash") and len(plain) == len(environ) and not argv[0].startswith("-"):
        # A shell makes up PWD and hands on what it has; the command gets what was decided and nothing else.
        lines += ["unset PWD OLDPWD SHLVL", *(f"export {name}={quoted(value)}" for name, value in plain.items())]
    else:
        given = [quoted(f"{name}={value}") for name, value in environ.items()]
        through = ["exec", "/usr/bin/env", "-i", "--", *given, *map(quoted, argv)]
        if "=" in argv[0]:
            raise ValueError(f"the command '{argv[0]}' cannot be told from a variable")
    lines += [f"printf {GOING.decode()} >&{GATE}", _TAKE_OVER, " ".join(through)]
    return "\n".join([*lines, ""]).encode(errors="surrogateescape")


def documents(files: Sequence[tuple[str, str]]) -> bytes:
    """Spell files that the command finds, to stand before its job: what no argument is long enough for."""
    return b"".join(_document(path, content.encode(errors="surrogateescape")) for path, content in files)


def _document(path: str, content: bytes) -> bytes:
    if b"\0" in content:
        raise ValueError(f"the content of {path} holds a NUL byte, which no script can have")
    end = b"end"
    while end in content:
        end += b"-"
    write = f"/usr/bin/cat >{quoted(path)} <<'{end.decode()}' || exit {SETUP_FAILED}\n".encode()
    return write + content + b"\n" + end + b"\n"


def quoted(text: str) -> str:
    """Quote any text for a shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def _check(argv: Sequence[str], environ: Mapping[str, str], cwd: str) -> None:
    if not argv or not argv[0]:
        raise ValueError("there is no command: the first argument is missing or empty")
    if any("\0" in text for text in (*argv, *environ, *environ.values(), cwd)):
        raise ValueError("an argument, a variable or the folder holds a NUL byte, which no program can be given")
    if any(not name or "=" in name for name in environ):
        raise ValueError("the name of a variable is empty or holds an equals sign")
    if cwd.startswith("/") or ".." in cwd.split("/"):
        raise ValueError(f"the folder '{cwd}' is not inside the workspace")
