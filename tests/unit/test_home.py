"""The home is where the environment says, and only its user can write there."""

import os
from pathlib import Path

import pytest

from tipstaff.errors import UsageError
from tipstaff.home import Home, locate


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"TIPSTAFF_HOME": "/a", "XDG_DATA_HOME": "/b", "HOME": "/c"}, "/a"),
        ({"XDG_DATA_HOME": "/b", "HOME": "/c"}, "/b/tipstaff"),
        ({"HOME": "/c"}, "/c/.local/share/tipstaff"),
        ({"TIPSTAFF_HOME": "", "XDG_DATA_HOME": "", "HOME": "/c"}, "/c/.local/share/tipstaff"),
    ],
)
def test_the_most_specific_variable_wins(environ, expected):
    """The home is TIPSTAFF_HOME, else below XDG_DATA_HOME, else below HOME; an empty variable is an unset one."""
    assert locate(environ).root == Path(expected)


@pytest.mark.parametrize("variable", ["TIPSTAFF_HOME", "XDG_DATA_HOME", "HOME"])
@pytest.mark.parametrize("path", ["state", "./state", "~/state"])
def test_a_relative_home_is_refused(variable, path):
    """A relative path is refused, with the variable that has it."""
    with pytest.raises(UsageError, match=variable):
        locate({variable: path})


def test_no_home_at_all_is_refused():
    """Without any of the variables there is no home, and the error says what to set."""
    with pytest.raises(UsageError, match="set TIPSTAFF_HOME"):
        locate({})


def test_finding_the_home_makes_nothing(tmp_path):
    """Where the home is can be asked without a trace on the disk."""
    locate({"HOME": str(tmp_path)})

    assert list(tmp_path.iterdir()) == []


def test_the_files_have_fixed_names():
    """Every part of Tipstaff finds the same files."""
    home = Home(Path("/a"))

    assert [home.keys, home.known_keys, home.policy] == [
        Path("/a/keys"),
        Path("/a/known-keys.json"),
        Path("/a/policy.yaml"),
    ]


def test_the_home_is_private(tmp_path):
    """The home is made 0700 whatever the umask, and making it again changes nothing."""
    home = Home(tmp_path / "not" / "yet" / "there")
    before = os.umask(0)
    try:
        home.make()
        home.make()
    finally:
        os.umask(before)

    assert home.root.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o770, 0o702])
def test_a_home_that_others_may_write_is_refused(tmp_path, mode):
    """A folder that others can write holds no keys, and the error says how to mend it."""
    tmp_path.chmod(mode)

    with pytest.raises(UsageError, match="chmod 700"):
        Home(tmp_path).make()


@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_a_home_that_others_may_only_read_is_accepted(tmp_path, mode):
    """Who may look into an existing home is its user's choice, and is left alone."""
    tmp_path.chmod(mode)

    Home(tmp_path).make()

    assert tmp_path.stat().st_mode & 0o777 == mode


def test_a_home_that_cannot_be_made_is_told(tmp_path):
    """A file in the way is an error that says what to do, not a traceback."""
    (tmp_path / "file").touch()

    with pytest.raises(UsageError, match="cannot be made: File exists; set TIPSTAFF_HOME"):
        Home(tmp_path / "file" / "home").make()
