"""Which plane a command line means: before the command, after it, by the environment, or none."""

import argparse
import sys
from types import ModuleType

import pytest

from tests.unit.remote.scripted import json_reply, scripted
from tipstaff.doors.cli import main
from tipstaff.doors.cli.output import say
from tipstaff.doors.cli.planes import chosen, program

URL = "https://plane.example.com"


@pytest.fixture
def table(monkeypatch):
    """A command that works with a plane elsewhere, and one that does not."""

    def tell(args: argparse.Namespace) -> int:
        say(f"{chosen(args)} {program(args)}")
        return 0

    for name, remote in (("toy_remote", True), ("toy_here", False)):
        module = ModuleType(name, "Toy.")
        vars(module).update(run=tell, configure=lambda _: None, REMOTE=remote)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delenv("TIPSTAFF_PLANE", raising=False)
    return {"ask": ("toy_remote", "ask"), "look": ("toy_here", "look")}


@pytest.mark.parametrize(
    "argv", [["--plane", URL, "ask"], [f"--plane={URL}", "ask"], ["ask", "--plane", URL], ["ask", f"--plane={URL}"]]
)
def test_a_plane_is_named_before_or_after_the_command(table, capsys, argv):
    """All spellings mean the same, and advice begins with the plane that was named."""
    assert main(argv, table) == 0
    assert capsys.readouterr().out == f"{URL} tipstaff --plane {URL}\n"


@pytest.mark.parametrize(("argv", "meant"), [(["ask"], URL), (["ask", "--plane", ""], "None")])
def test_the_environment_names_a_plane_unless_this_home_is_meant(table, capsys, monkeypatch, argv, meant):
    """TIPSTAFF_PLANE is taken where nothing is said, and an empty name means this home."""
    monkeypatch.setenv("TIPSTAFF_PLANE", URL)

    assert main(argv, table) == 0
    assert capsys.readouterr().out == f"{meant} tipstaff\n"


@pytest.mark.parametrize("argv", [["--plane", URL, "look"], ["look", "--plane", URL]])
def test_a_command_about_this_machine_takes_no_plane(table, capsys, argv):
    """A command that makes sense only here says so; without the option it runs, whatever the environment says."""
    assert main(argv, table) == 64
    assert "this is about this machine, and takes no --plane" in capsys.readouterr().err
    assert main(["look"], table) == 0


@pytest.mark.parametrize("argv", [["--plane"], ["ask", "--plane"]])
def test_a_plane_without_an_address_is_a_mistake(table, capsys, argv):
    """The option without its value is a mistake on the command line."""
    assert main(argv, table) == 64
    assert "--plane" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["prune", "doctor", "verify", "secrets list", "keys list", "policy check"])
def test_commands_of_this_machine_refuse_a_plane(capsys, command):
    """What is about this machine's own things is not asked of a plane elsewhere."""
    assert main(["--plane", URL, *command.split()]) == 64
    assert "takes no --plane" in capsys.readouterr().err


@pytest.mark.parametrize("with_token", [True, False])
def test_a_command_needs_a_token(capsys, monkeypatch, tmp_path, with_token):
    """Without a token nothing is asked, and the error says where one goes; with one the plane is asked."""
    monkeypatch.setenv("TIPSTAFF_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TIPSTAFF_TOKEN", raising=False)
    if with_token:
        monkeypatch.setenv("TIPSTAFF_TOKEN", "tip_x")
    with scripted(lambda _: json_reply({"runs": []})) as plane:
        code = main(["--plane", plane.url, "history"])

    assert (code, len(plane.asked)) == ((0, 1) if with_token else (66, 0))
    assert with_token or "set TIPSTAFF_TOKEN" in capsys.readouterr().err


def test_advice_speaks_to_the_same_plane(capsys, monkeypatch, tmp_path):
    """What to do next is told with the plane that was named."""
    monkeypatch.setenv("TIPSTAFF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TIPSTAFF_TOKEN", "tip_x")
    with scripted(lambda _: json_reply({"names": []})) as plane:
        assert main(["--plane", plane.url, "show", "run_zzz"]) == 66

    assert f"see: tipstaff --plane {plane.url} history" in capsys.readouterr().err
