"""`tipstaff completion`: print a script with which your shell completes commands, options and their values.

It is written from the parsers themselves, so it knows what the program knows. It holds words and nothing to run:
completing a line that somebody pasted never starts anything.

Example:
  source <(tipstaff completion bash)
  tipstaff completion zsh > ~/.zfunc/_tipstaff
  tipstaff completion fish > ~/.config/fish/completions/tipstaff.fish
"""

import argparse
from collections.abc import Iterator
from importlib import import_module

from tipstaff.doors.cli import commands
from tipstaff.doors.cli.output import emit_json, say
from tipstaff.doors.cli.parser import parser_of
from tipstaff.doors.cli.shells import SCRIPTS, Place

GROUP_OPTIONS = ("--help", "--json")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("shell", choices=sorted(SCRIPTS), help="the shell that shall complete")


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    script = SCRIPTS[args.shell](list(places(commands.COMMANDS)))
    if args.json:
        emit_json({"shell": args.shell, "script": script})
    else:
        say(script.rstrip(), newlines=True)
    return 0


def places(table: commands.Commands, path: str = "tipstaff") -> Iterator[Place]:
    """Walk the tables and the parsers."""
    options = GROUP_OPTIONS if " " in path else (*GROUP_OPTIONS, "--plane", "--version")
    yield Place(path, tuple(table), options, {})
    for name, (location, line) in table.items():
        module = import_module(location)
        if hasattr(module, "COMMANDS"):
            yield from places(module.COMMANDS, f"{path} {name}")
        else:
            yield _place(parser_of(module, f"{path} {name}", line))


def _place(parser: argparse.ArgumentParser) -> Place:
    actions = [action for action in parser._actions if action.help != argparse.SUPPRESS]  # noqa: SLF001 - argparse has no public list of them
    options = tuple(sorted(option for action in actions for option in action.option_strings))
    positionals = [action for action in actions if not action.option_strings]
    choices = tuple(choice for action in positionals for choice in _choices(action))
    values = {option: _choices(action) for action in actions for option in action.option_strings if action.nargs != 0}
    return Place(parser.prog, choices if positionals else options, options, values)


def _choices(action: argparse.Action) -> tuple[str, ...]:
    return tuple(map(str, action.choices or ()))
