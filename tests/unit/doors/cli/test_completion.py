"""The completion scripts know what the program knows, and run nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from tipstaff.doors.cli.commands import COMMANDS
from tipstaff.doors.cli.completion import places
from tipstaff.doors.cli.shells import SCRIPTS

TIPSTAFF = str(Path(sys.executable).with_name("tipstaff"))
COMPLETE = """
source <("$0" completion bash)
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_tipstaff
printf '%s\\n' "${COMPREPLY[@]}"
"""


def completed(*words, cwd=None):
    """Complete the last of the words, in a real bash."""
    ended = subprocess.run(
        ["/bin/bash", "--norc", "-c", COMPLETE, TIPSTAFF, *words],
        capture_output=True,
        timeout=30,
        check=True,
        text=True,
        cwd=cwd,
    )
    assert ended.stderr == ""
    return ended.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["tipstaff", "ver"], ["verify"]),
        (["tipstaff", "keys", ""], ["show", "new", "list", "trust", "revoke"]),
        (["tipstaff", "keys", "trust", "--role", "p"], ["plane"]),
        (["tipstaff", "keys", "trust", "--na"], ["--name"]),
        (["tipstaff", "--json", "keys", "li"], ["list"]),
        (["tipstaff", "completion", ""], ["bash", "fish", "zsh"]),
        (["tipstaff", "keys", "list", "--a"], ["--agent"]),
        (["tipstaff", "verify", "--key", ""], []),
        (["tipstaff", "verify", ""], []),
        (["tipstaff", "run", "--", "ver"], []),
        (["tipstaff", "nothing", "--key", "x"], []),
    ],
)
def test_bash_completes_commands_options_and_values(words, expected):
    """Behind a command its words are offered, behind an option its values; for files bash is left to itself."""
    assert completed(*words) == expected


def test_every_command_is_offered():
    """All commands of the program are offered after its name."""
    assert completed("tipstaff", "") == list(COMMANDS)


def test_completing_runs_nothing_of_the_line(tmp_path):
    """A substitution in the line that is completed is a word like any other: it is not run."""
    trap = "$(touch owned)`touch owned`"
    for words in (
        ["tipstaff", trap],
        ["tipstaff", trap, ""],
        ["tipstaff", f"a[{trap}]", "--k"],
        ["tipstaff", "keys", trap],
    ):
        completed(*words, cwd=tmp_path)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shell", SCRIPTS)
def test_every_shell_has_every_command_and_option(shell):
    """The scripts of all shells name every command path, and every long option."""
    found = list(places(COMMANDS))
    script = SCRIPTS[shell](found)

    assert all(place.path in script for place in found)
    assert all(option.lstrip("-") in script for place in found for option in place.options)
