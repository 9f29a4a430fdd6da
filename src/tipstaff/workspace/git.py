"""Git, run on a directory that is ours alone: nobody else's configuration, hooks, filters or helpers take part.

A repository's own `.git` is never a GIT_DIR here. Who needs its objects names them by `objects`; who needs its index
works on a copy. The environment is empty but for what is set below, so that git finds no configuration but the one that
`make` wrote; the options on every command line switch off what a configuration could start.
"""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final

from tipstaff.errors import InputError, NotFoundError

PROGRAM: Final = "git"
PATH: Final = "/usr/local/bin:/usr/bin:/bin"
SECONDS: Final = 600.0
MOST_COMPLAINT: Final = 300
_ENVIRON: Final = {
    "PATH": PATH,
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",  # for git that knows it; older ones find no remote in a directory of ours
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_EDITOR": "false",
    "GIT_PAGER": "cat",
    "GIT_AUTHOR_NAME": "tipstaff",
    "GIT_AUTHOR_EMAIL": "tipstaff@localhost",
    "GIT_COMMITTER_NAME": "tipstaff",
    "GIT_COMMITTER_EMAIL": "tipstaff@localhost",
}
_OPTIONS: Final = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.quotePath=false",
    "core.symlinks=true",
    "core.fileMode=true",
    "core.ignoreCase=false",
    "core.autocrlf=false",
    "core.safecrlf=false",
    "core.commitGraph=false",  # not needed, and one more file of a repository's that would be opened
    "core.multiPackIndex=false",  # as above
    "core.bigFileThreshold=16m",  # larger ones are passed on in parts, not held in memory
    "protocol.allow=never",
    "gc.auto=0",
    "maintenance.auto=false",
    "fetch.fsckObjects=true",
)


class GitError(InputError):
    """Git said no; the message is what it said, in one line."""


class Git:
    """One git directory of ours; `objects` are another's, to be read, `index` and `work_tree` where they lie."""

    def __init__(
        self,
        directory: Path,
        *,
        objects: Path | None = None,
        index: Path | None = None,
        work_tree: Path | None = None,
        excludes: Path | None = None,
    ) -> None:
        self.directory = directory
        self._environ = {**_ENVIRON, "GIT_DIR": str(directory)}
        given = {"GIT_OBJECT_DIRECTORY": objects, "GIT_INDEX_FILE": index, "GIT_WORK_TREE": work_tree}
        self._environ |= {name: str(path) for name, path in given.items() if path is not None}
        options = (*_OPTIONS, f"core.excludesFile={excludes}") if excludes is not None else _OPTIONS
        self._words = [_program(), *(word for option in options for word in ("-c", option))]

    @classmethod
    def make(cls, directory: Path, *, object_format: str = "sha1") -> "Git":
        """Make a bare git directory by hand: no template, nothing but what git needs to take it for one."""
        for name in ("objects/info", "objects/pack", "refs/heads", "info"):
            (directory / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        (directory / "HEAD").write_text("ref: refs/heads/main\n")
        version, extension = (1, "[extensions]\n\tobjectFormat = sha256\n") if object_format == "sha256" else (0, "")
        core = f"[core]\n\trepositoryFormatVersion = {version}\n\tbare = true\n"
        (directory / "config").write_text(core + extension)
        return cls(directory)

    def run(self, *words: str, stdin: bytes = b"", environ: Mapping[str, str] | None = None) -> bytes:
        """Run a command to its end and give what it printed; GitError when it fails."""
        try:
            done = subprocess.run(  # noqa: S603 - git itself, its words are a list
                [*self._words, *words],
                env={**self._environ, **(environ or {})},
                input=stdin,
                capture_output=True,
                timeout=SECONDS,
                check=False,
                cwd=self.directory,
            )
        except subprocess.TimeoutExpired as error:
            raise GitError(f"git {words[0]} took longer than {SECONDS:.0f} seconds") from error
        if done.returncode != 0:
            raise GitError(f"git {words[0]}: {complaint(done.stderr)}")
        return done.stdout

    def start(
        self,
        *words: str,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        stdout: int | IO[bytes] = subprocess.PIPE,
        environ: Mapping[str, str] | None = None,
    ) -> "subprocess.Popen[bytes]":
        """Start a command whose streams somebody reads and writes; what it complains of comes on its stderr."""
        return subprocess.Popen(  # noqa: S603 - as above
            [*self._words, *words],
            env={**self._environ, **(environ or {})},
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            cwd=self.directory,
        )


def complaint(said: bytes) -> str:
    """Give the first thing that git complained of."""
    lines = [line for line in said.decode(errors="replace").splitlines() if line.strip()]
    told = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[0] if lines else "it failed")
    return told.removeprefix("fatal: ").removeprefix("error: ")[:MOST_COMPLAINT]


def split(listed: bytes) -> list[bytes]:
    """Split what a command printed with -z."""
    return listed.split(b"\0")[:-1] if listed else []


def _program() -> str:
    found = shutil.which(PROGRAM, path=PATH)
    if found is None:
        raise NotFoundError("git is not installed", hint="install it, for example: apt-get install git")
    return found


def is_there() -> bool:
    """Say whether there is a git at all."""
    return shutil.which(PROGRAM, path=PATH) is not None
