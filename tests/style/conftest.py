"""What the style tests look at: every file that is, or is about to be, part of the project."""

import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def project(root) -> dict[str, Path]:
    """Every file that git tracks or would track, by its path in the repository."""
    # The setting is for a checkout that another user owns, as in some build machines; nothing is run from it.
    listing = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=root, capture_output=True, check=True, timeout=30).stdout.decode().split("\0")
    return {name: root / name for name in names if name and (root / name).is_file()}


@pytest.fixture(scope="session")
def texts(project) -> dict[str, str]:
    """The text of every file of the project that is text."""
    contents = {name: path.read_bytes() for name, path in project.items()}
    return {name: content.decode(errors="replace") for name, content in contents.items() if b"\0" not in content}


@pytest.fixture(scope="session")
def python(texts) -> dict[str, str]:
    """The text of every Python file of the project."""
    return {name: text for name, text in texts.items() if name.endswith(".py")}
