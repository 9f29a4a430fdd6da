"""Repositories of a person's for the tests of workspaces, made with the real git, and folders as values to compare.

Git runs here without the configuration of whoever runs the tests. Nothing of the program under test takes part.
"""

import os
import stat
import subprocess
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

Picture = dict[bytes, tuple[int, str]]  # a name, its mode, and the digest of its content or its target
SMALL: Mapping[str, str] = {"README.md": "# Notes\n", "src/main.c": "int main;\n", ".gitignore": "build/\n"}
ODD = (b"not\xfftext", b"new\nline", b"Case", b"case", b"l" * 255, b" space ", b'quo"te\\', b"-dash", b"caf\xc3\xa9")
_SETTINGS = {
    "PATH": "/usr/bin:/bin",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    **{f"GIT_{who}_NAME": "Anna" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "anna@example.com" for who in ("AUTHOR", "COMMITTER")},
}


def git(folder: Path, *words: str | bytes, check: bool = True) -> str:
    """Run git in a folder, as its owner would; gives what it printed."""
    ended = subprocess.run(
        ["/usr/bin/git", *words], cwd=folder, env=_SETTINGS, capture_output=True, timeout=30, check=False
    )
    assert ended.returncode == 0 or not check, ended.stderr
    return ended.stdout.decode(errors="replace").strip()


def grow(folder: Path, files: Mapping[str, str] = SMALL) -> Path:
    """Make a repository with one commit of these files."""
    folder.mkdir()
    git(folder, "init", "--quiet", "--template=", "--initial-branch", "main")
    commit(folder, files)
    return folder


def fill(folder: Path, files: Mapping[str, str] = SMALL) -> Path:
    """Write files into a folder, which is made."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def commit(folder: Path, files: Mapping[str, str]) -> str:
    """Write files and commit everything; gives the commit."""
    fill(folder, files)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "more")
    return git(folder, "rev-parse", "HEAD")


def picture(folder: Path, *, but: bytes = b"") -> Picture:
    """Take down everything in a folder, its `.git` too, by mode and digest; `but` is a name at the top to leave out."""
    found: Picture = {}
    waiting = [os.fsencode(folder)]
    while waiting:
        for entry in os.scandir(waiting.pop()):
            if entry.path == os.fsencode(folder / os.fsdecode(but)):
                continue
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                waiting.append(entry.path)
            found[os.path.relpath(entry.path, os.fsencode(folder))] = (mode, _content(entry.path, mode))
    return found


def _content(path: bytes, mode: int) -> str:
    if stat.S_ISLNK(mode):
        return str(Path(os.fsdecode(path)).readlink())
    return sha256(Path(os.fsdecode(path)).read_bytes()).hexdigest() if stat.S_ISREG(mode) else ""


def holding(folder: Path, text: bytes) -> list[str]:
    """Name the files beneath a folder that hold a text, in their content or their name."""
    paths = [Path(place, name) for place, _, names in os.walk(folder) for name in names]
    return [str(path.relative_to(folder)) for path in paths if text in os.fsencode(path) or text in _bytes(path)]


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() and not path.is_symlink() else b""
