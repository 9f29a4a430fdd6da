"""The frame finds commands, in groups too, and says what is wrong with a command line in one sentence."""

import json
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tipstaff import __version__
from tipstaff.doors.cli import main
from tipstaff.doors.cli.dispatch import help_texts

WORDS = st.sampled_from(["greet", "party", "--json", "--help", "-h", "--version", "--", "-", "", "@x", "--json=1"])
ANY_ARGUMENTS = st.lists(WORDS | st.text(st.characters(codec=None, exclude_categories=[])), max_size=5)


@pytest.mark.parametrize("argv", [["greet", "you"], ["party", "greet", "you"], ["greet", "--", "you"]])
def test_a_command_runs_and_its_code_is_the_exit_code(toys, capsys, argv):
    """A command gets its arguments, in a group or not, and its result is the exit code."""
    assert main(argv, toys) == 3
    assert capsys.readouterr() == ("hello you\n", "")


@pytest.mark.parametrize(
    "argv", [["greet", "you", "--json"], ["--json", "greet", "you"], ["party", "--json", "greet", "you"]]
)
def test_json_is_accepted_everywhere(toys, capsys, argv):
    """The frame gives every command `--json`, before or after its name."""
    assert main(argv, toys) == 3
    assert json.loads(capsys.readouterr().out) == {"hello": "you"}


def test_the_arguments_come_from_the_command_line():
    """Without arguments given, `main` reads those of the program, and ends it when all is said."""
    program = "from tipstaff.doors.cli import main; main(); print('never')"

    ended = subprocess.run([sys.executable, "-c", program, "--version"], capture_output=True, timeout=30, check=False)

    assert (ended.returncode, ended.stdout) == (0, f"tipstaff {__version__}\n".encode())


def test_the_version_is_printed(toys, capsys):
    """The program says its name and version."""
    assert main(["--version"], toys) == 0
    assert capsys.readouterr().out == f"tipstaff {__version__}\n"


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_the_help_of_a_group_lists_its_commands_without_importing_them(capsys, option):
    """Help comes from the table alone: a module that cannot be imported is still listed."""
    assert main([option], {"absent": ("no.such.module", "do nothing at all")}) == 0
    assert "  absent  do nothing at all\n" in capsys.readouterr().out


def test_the_help_of_a_command_has_its_example(toys, capsys):
    """A command's help shows what it takes, `--json`, and the example of its docstring, without what follows it."""
    assert main(["party", "greet", "--help"], toys) == 0

    text = capsys.readouterr().out
    assert text.startswith("usage: tipstaff party greet [-h] [--json] name\n\ngreet a guest\n")
    assert text.endswith("\nexample:\n    tipstaff greet somebody\n")


def test_help_texts_cover_every_command(toys):
    """The reference gets the help of the program, of each group and of each command."""
    names = [name for name, _ in help_texts(toys)]

    assert names == ["tipstaff", "tipstaff greet", "tipstaff party", "tipstaff party greet"]


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        ([], "no command was given; try: tipstaff --help"),
        (["--json"], None),
        (["gret"], "there is no command 'gret' (did you mean 'greet'?); try: tipstaff --help"),
        (["xyzzy"], "there is no command 'xyzzy'; try: tipstaff --help"),
        ([""], "there is no command ''; try: tipstaff --help"),
        (["--wat", "greet"], "there is no option '--wat' before the command; try: tipstaff --help"),
        (["party"], "party: no command was given; try: tipstaff party --help"),
        (
            ["party", "--version"],
            "party: there is no option '--version' before the command; try: tipstaff party --help",
        ),
        (["party", "gret"], "party: there is no command 'gret' (did you mean 'greet'?); try: tipstaff party --help"),
        (["greet"], "greet: the following arguments are required: name; try: tipstaff greet --help"),
        (["greet", "you", "--js"], "greet: unrecognized arguments: --js; try: tipstaff greet --help"),
    ],
)
def test_a_wrong_command_line_is_one_sentence(toys, capsys, argv, sentence):
    """A mistake on the command line exits 64 and says what is wrong and what to try; with `--json`, as an object."""
    assert main(argv, toys) == 64

    out, err = capsys.readouterr()
    if sentence is None:
        assert json.loads(out)["error"]["message"] == "no command was given"
    else:
        assert (out, err) == ("", f"tipstaff: {sentence}\n")


@given(ANY_ARGUMENTS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # the table is only read
def test_any_arguments_are_run_or_refused(toys, argv):
    """No command line, however odd, ends in anything but success, the command's own code, or a usage error."""
    assert main(argv, toys) in {0, 3, 64}
