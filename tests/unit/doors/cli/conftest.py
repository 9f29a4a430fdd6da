"""Toy commands for the frame: modules that exist only for the time of a test."""

import argparse
import sys
from collections.abc import Callable
from types import ModuleType

import pytest

from tipstaff.doors.cli.commands import Commands
from tipstaff.doors.cli.output import emit_json, say

Run = Callable[[argparse.Namespace], int]


def greet(args: argparse.Namespace) -> int:
    """Greet somebody, as text or as JSON."""
    if args.json:
        emit_json({"hello": args.name})
    else:
        say(f"hello {args.name}")
    return 3


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Run], Commands]:
    """Make a table whose one command, `act`, runs the function given."""

    def table(run: Run) -> Commands:
        module = ModuleType("toy_act", "Act.\n\nExample:\n    tipstaff act somebody\n\nNot part of it.")
        vars(module).update(run=run, configure=lambda parser: parser.add_argument("name", nargs="?"))
        monkeypatch.setitem(sys.modules, "toy_act", module)
        return {"act": ("toy_act", "act on somebody")}

    return table


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> Commands:
    """Make a table with a command `greet NAME` and a group `party` that has it too."""
    module = ModuleType("toy_greet", "Greet.\n\nExample:\n    tipstaff greet somebody\n\nNot part of it.")
    vars(module).update(run=greet, configure=lambda parser: parser.add_argument("name"))
    group = ModuleType("toy_party")
    vars(group)["COMMANDS"] = {"greet": ("toy_greet", "greet a guest")}
    monkeypatch.setitem(sys.modules, "toy_greet", module)
    monkeypatch.setitem(sys.modules, "toy_party", group)
    return {"greet": ("toy_greet", "greet somebody"), "party": ("toy_party", "greet many")}
