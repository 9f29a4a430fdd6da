"""Whatever ends a command becomes an exit code and at most one sentence."""

import json

import pytest

from tipstaff.doors.cli import main
from tipstaff.errors import NotFoundError, PolicyError, TipstaffError


def raising(error):
    """Make a command that ends with `error`."""

    def run(_):
        raise error

    return run


ENDINGS = [
    (TipstaffError("it failed"), 1, "it failed"),
    (NotFoundError("there is no a.json", hint="name another"), 66, "there is no a.json; name another"),
    (PolicyError("unknown key 'x'", source="p.yaml", line=3, column=7), 65, "p.yaml:3:7: unknown key 'x'"),
    (KeyboardInterrupt(), 130, "interrupted"),
    (MemoryError(), 71, "there is not enough memory to finish"),
    (PermissionError(13, "Permission denied", "a.json"), 74, "a.json: Permission denied"),
    (OSError(5, "Input/output error"), 74, "Input/output error"),
    (OSError(), 74, "OSError"),
]


@pytest.mark.parametrize(("error", "code", "sentence"), ENDINGS)
def test_an_expected_failure_is_one_sentence(command, capsys, error, code, sentence):
    """An error has an exit code by its kind, and its sentence goes to stderr."""
    assert main(["act"], command(raising(error))) == code
    assert capsys.readouterr() == ("", f"tipstaff: {sentence}\n")


@pytest.mark.parametrize("error", [ValueError("oh"), RecursionError("oh"), AssertionError("oh")])
def test_an_unexpected_failure_asks_for_a_report(command, capsys, error):
    """A fault of ours exits 70, names itself, and shows no traceback."""
    assert main(["act"], command(raising(error))) == 70
    assert capsys.readouterr().err == (
        f"tipstaff: internal error: {type(error).__name__}: oh; "
        "set TIPSTAFF_DEBUG=1 to see the traceback, and please report it\n"
    )


def test_a_failure_can_be_json(command, capsys):
    """With `--json` a failure is one object on stdout, and stderr stays empty."""
    error = NotFoundError("there is no a.json", hint="name another")

    assert main(["act", "--json"], command(raising(error))) == 66

    out, err = capsys.readouterr()
    expected = {"kind": "NotFoundError", "message": "there is no a.json", "hint": "name another"}
    assert (json.loads(out), err) == ({"error": expected}, "")


def test_json_after_two_dashes_is_not_ours(command, capsys):
    """A `--json` that belongs to the command being run does not change how we speak."""
    assert main(["act", "--", "--json"], command(raising(TipstaffError("it failed")))) == 1
    assert capsys.readouterr() == ("", "tipstaff: it failed\n")


@pytest.mark.parametrize(("value", "shown"), [("1", True), ("0", False), ("", False)])
def test_the_traceback_is_shown_only_for_debugging(command, capsys, monkeypatch, value, shown):
    """TIPSTAFF_DEBUG=1, and nothing else, shows the traceback."""
    monkeypatch.setenv("TIPSTAFF_DEBUG", value)

    main(["act"], command(raising(ValueError("oh"))))

    assert ("Traceback (most recent call last):" in capsys.readouterr().err) is shown


@pytest.mark.parametrize(("given", "code"), [(None, 0), (0, 0), (5, 5), ("a sentence", 1)])
def test_a_command_may_exit(command, given, code):
    """A command that calls sys.exit ends with that code."""
    assert main(["act"], command(raising(SystemExit(given)))) == code


def test_messages_cannot_forge_lines(command, capsys):
    """Control characters in a message are shown as escapes: one error stays one line."""
    main(["act"], command(raising(TipstaffError("a\ntipstaff: all is well\x1b[2K"))))

    assert capsys.readouterr().err == "tipstaff: a\\ntipstaff: all is well\\x1b[2K\n"
