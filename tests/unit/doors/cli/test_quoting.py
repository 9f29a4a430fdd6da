"""A command as a person sees it before saying yes."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipstaff.doors.cli.output import printable
from tipstaff.doors.cli.quoting import command_line, quoted, spelled

ANY = st.text(st.characters(codec="utf-8"))


@pytest.mark.parametrize(
    ("argument", "shown"),
    [
        ("plain-1.2/x", "plain-1.2/x"),
        ("", "''"),
        ("a b", "'a b'"),
        ("it's", "'it'\"'\"'s'"),
        ("a\\nb", "'a\\nb'"),
        ("a\nb", "$'a\\nb'"),
        ("a\n\\n'", "$'a\\n\\\\n\\''"),
        ("\u202etxt.exe", "$'\\u202etxt.exe'"),
        ("~", "'~'"),
        ("日本", "'日本'"),
    ],
)
def test_an_argument_is_quoted_so_that_it_cannot_mislead(argument, shown):
    """What a shell would take apart is quoted, and what an eye would miss is escaped."""
    assert quoted(argument) == shown


@given(ANY, ANY)
def test_no_two_commands_look_the_same(one, other):
    """Different arguments are shown differently, and nothing shown can play tricks with a terminal."""
    assert (quoted(one) == quoted(other)) is (one == other)
    assert printable(quoted(one)) == quoted(one)


def test_a_shell_reads_back_what_is_shown():
    """A command without hidden characters can be copied into a shell and means the same there."""
    argv = ["printf", "%s|", "a b", "it's", "$HOME", "`id`", "\\", "*", "!", ""]

    ended = subprocess.run(["/bin/bash", "-c", command_line(argv)], capture_output=True, check=True, timeout=30)

    assert ended.stdout.decode() == "".join(f"{one}|" for one in argv[2:])


def test_a_script_is_shown_whole():
    """Every line of a script is shown as it is; one that hides something is marked, and its backslashes doubled."""
    script = "a \\n b\nrm\x1b[2K \\ x\n"

    assert spelled({"kind": "shell", "script": script}) == [
        "sh script:",
        "| a \\n b",
        "! rm\\x1b[2K \\\\ x",
        "| ",
    ]
    assert spelled({"kind": "python", "source": "x", "args": ["a b"]}) == ["Python program 'a b':", "| x"]
    assert spelled({"kind": "argv", "command": "ls", "args": ["-l"]}) == ["ls -l"]
