"""From a command line to the module that carries it out.

A group (the program itself, `tipstaff keys`) takes only `--help`, `--json`, `--plane URL` and, at the top, `--version`,
then the name of a command; it needs no parser, so its help is as fast as Python starts. A command gets an argparse
parser, which the frame gives `--json`, `--help` and the example from the module's docstring. Every mistake on the
command line is a `UsageError`: one sentence that ends with what to try. A command that has a `begin(argv)` is told
before anything takes time.
"""

from tipstaff import __version__
from tipstaff.doors.cli.commands import Commands
from tipstaff.doors.cli.failure import mistake
from tipstaff.doors.cli.output import say

TYPE_CHECKING = False  # as in tipstaff/__init__.py: type checkers take it as true
if TYPE_CHECKING:
    from types import ModuleType

_HELP = ("-h", "--help")
_OPTIONS = {"--json": 1, "--plane": 2}  # before a command, with how many words each is
_HEADLINE = "Executes what AI agents ask for: by policy, in a sandbox, with signed receipts."
_FOOTER = "Every command takes --json, and --help to say more."


def dispatch(argv: list[str], commands: Commands, path: str = "tipstaff", about: str = _HEADLINE) -> int:
    """Find the command that `argv` names in `commands`, run it, and return its exit code."""
    name, rest, options = _split(argv, path)
    if name in _HELP:
        say(group_help(commands, path, about), newlines=True)
        return 0
    if name == "--version":
        say(f"tipstaff {__version__}")
        return 0
    module, line = _find(name, commands, path)
    inner = getattr(module, "COMMANDS", None)
    rest = [*options, *rest]
    if inner is not None:
        return dispatch(rest, inner, f"{path} {name}", line)
    return _run(module, rest, f"{path} {name}", line)


def group_help(commands: Commands, path: str, about: str) -> str:
    """Write the help of a group: usage, what it is for, its commands."""
    width = max(map(len, commands), default=0)
    version = " [--version]" if " " not in path else ""
    plane = " [--plane URL]" if " " not in path else ""
    lines = [f"usage: {path} [--help]{version}{plane} COMMAND …", "", about, "", "commands:"]
    lines += [f"  {name:<{width}}  {line}" for name, (_, line) in commands.items()]
    return "\n".join([*lines, "", _FOOTER])


def help_texts(commands: Commands, path: str = "tipstaff", about: str = _HEADLINE) -> list[tuple[str, str]]:
    """Collect the help of a group and of every command in it, for the reference: (command line, text)."""
    texts = [(path, group_help(commands, path, about))]
    for name, (_, line) in commands.items():
        module, _ = _find(name, commands, path)
        inner = getattr(module, "COMMANDS", None)
        if inner is not None:
            texts += help_texts(inner, f"{path} {name}", line)
        else:
            from tipstaff.doors.cli.parser import parser_of  # noqa: PLC0415 - argparse, as in _run

            texts.append((f"{path} {name}", parser_of(module, f"{path} {name}", line).format_help().rstrip()))
    return texts


def _split(argv: list[str], path: str) -> tuple[str, list[str], list[str]]:
    """Take the group's own options off the front: the command (or the option that ends it all), the rest, those."""
    options: list[str] = []
    at = 0
    while at < len(argv) and (argv[at] in _OPTIONS or argv[at].startswith("--plane=")):
        width = _OPTIONS.get(argv[at], 1)
        if at + width > len(argv):
            raise mistake(path, "--plane names no plane")
        options += argv[at : at + width]
        at += width
    if at >= len(argv):
        raise mistake(path, "no command was given")
    name = argv[at]
    if name.startswith("-") and name not in _HELP and not (name == "--version" and " " not in path):
        raise mistake(path, f"there is no option '{name}' before the command")
    return name, argv[at + 1 :], options


def _find(name: str, commands: Commands, path: str) -> tuple["ModuleType", str]:
    """Import the module of the command `name`; also return its line of help."""
    if name not in commands:
        raise mistake(path, f"there is no command '{name}'{_suggestion(name, commands)}")
    from importlib import import_module  # noqa: PLC0415 - help and version import no command

    module, line = commands[name]
    return import_module(module), line


def _suggestion(name: str, commands: Commands) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - slow to import, and needed only after a slip

    close = get_close_matches(name, commands, n=1)
    return f" (did you mean '{close[0]}'?)" if close else ""


def _run(module: "ModuleType", argv: list[str], path: str, line: str) -> int:
    if (begin := getattr(module, "begin", None)) is not None:  # what a command does before anything takes time
        begin(argv)
    from tipstaff.doors.cli.parser import parser_of  # noqa: PLC0415 - argparse is half of the time of a start

    parser = parser_of(module, path, line)
    parse = parser.parse_intermixed_args if getattr(module, "MIXED", False) else parser.parse_args
    code: int = module.run(parse(argv))
    return code
