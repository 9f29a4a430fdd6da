"""The options of `tipstaff run`, and what they ask for."""

import argparse
import sys
from pathlib import Path
from typing import Any, Final

from tipstaff.doors.amounts import duration_ms
from tipstaff.doors.asking import LONGEST_SOURCE, Asked
from tipstaff.errors import InputError, NotFoundError, UsageError

LIMITS: Final = (
    ("--timeout", "T", "end it after this long: 90 (seconds), 1.5, 2m"),
    ("--memory", "SIZE", "how much memory it may use: 64M, 1.5GiB"),
    ("--cpus", "N", "how many cores it may use: 0.5, 2"),
    ("--pids", "N", "how many processes it may have at once"),
    ("--disk", "SIZE", "how much it may write"),
    ("--max-output", "SIZE", "how much of each stream is kept; what passes through is never cut"),
    ("--kill-output", "SIZE", "end it when it has printed more than this"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _what(parser)
    _where(parser)
    limits = parser.add_argument_group("limits, which the policy may narrow")
    for name, metavar, text in LIMITS:
        limits.add_argument(name, metavar=metavar, help=text)
    _how(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD …", help="the command and its arguments")


def _what(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--shell", metavar="SCRIPT", help="run a script with sh instead of a command")
    parser.add_argument("--python", metavar="FILE", help="run a Python file instead of a command; - for stdin")
    parser.add_argument("--agent", metavar="KIND", help="run an agent on a prompt: mock, command; - for stdin")
    parser.add_argument("--as", dest="principal", metavar="WHO", help="who asks: NAME, agent:NAME or service:NAME")
    parser.add_argument("--purpose", metavar="TEXT", default="", help="why, for the receipt")
    parser.add_argument("--policy", metavar="FILE", help="the policy that decides")
    parser.add_argument("--tier", metavar="TIER", help="the sandbox to use, such as bwrap")


def _where(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workspace", metavar="DIR", help="show it at /workspace; nothing in it changes on the host")
    parser.add_argument(
        "--capture",
        metavar="FORM",
        help="work on a captured copy: auto (as --agent does), git, lean, tree; none: look at the folder itself",
    )
    parser.add_argument(
        "--deny", metavar="PATTERN", action="append", default=[], help="never capture such names, nor .env, *.pem …"
    )
    parser.add_argument("--in-place", action="store_true", help="let the workspace itself be changed")
    parser.add_argument("--read", metavar="PATH", action="append", default=[], help="a file or folder it may read")
    parser.add_argument("--env", metavar="K[=V]", action="append", default=[], help="a variable; K alone: from here")
    parser.add_argument(
        "--allow-host",
        metavar="HOST[:PORT]",
        action="append",
        default=[],
        help="a host it may reach, at 443 and 80 if no port is named; more, such as ,inspect: docs/network.md",
    )
    parser.add_argument("--secret", metavar="NAME", action="append", default=[], help="a secret it may have")


def _how(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--bundle", metavar="FILE", help="write the receipt, or the signed refusal, with its proof")
    parser.add_argument("--quiet", action="store_true", help="say nothing of our own, except refusals")
    parser.add_argument("--raw", action="store_true", help="let every control sequence reach the terminal")
    parser.add_argument("--dry-run", action="store_true", help="say what would run, and what would leave; run nothing")
    parser.add_argument("--pool", metavar="NAME", help="which runners of a plane elsewhere")
    parser.add_argument("--no-stdin", action="store_true", help="give it no input; none goes to a plane elsewhere")
    parser.add_argument("--approval-timeout", metavar="S", default="10m", help="how long to wait for people (10m)")


def asked_for(args: argparse.Namespace) -> Asked:
    """Read the options as a wish."""
    variables, inherited = _environment(args.env)
    words = tuple(args.command[1:] if args.command[:1] == ["--"] else args.command)
    return Asked(
        argv=words if args.agent is None else (),
        agent=args.agent,
        prompt=None if args.agent is None else _prompt(words),
        capture=args.capture,
        deny=tuple(args.deny),
        shell=args.shell,
        python=None if args.python is None else _source(args.python, "--python"),
        workspace=args.workspace,
        in_place=args.in_place,
        read=tuple(args.read),
        env=variables,
        inherit=inherited,
        principal=args.principal,
        tier=args.tier,
        purpose=args.purpose,
        allow_hosts=tuple(args.allow_host),
        secrets=tuple(args.secret),
        pool=args.pool,
        **_limits(args),
    )


def _prompt(words: tuple[str, ...]) -> str:
    """Read what an agent is asked: one word of the command line, or stdin."""
    if len(words) > 1:
        raise UsageError(f"the prompt is {len(words)} arguments", hint='put it into quotes: --agent mock "add a note"')
    return _source("-", "the prompt") if words == ("-",) else "".join(words)


def approval_seconds(args: argparse.Namespace) -> float:
    """Read how long to wait for people."""
    return duration_ms(args.approval_timeout, "--approval-timeout") / 1000


def _limits(args: argparse.Namespace) -> dict[str, Any]:
    names = [name.removeprefix("--").replace("-", "_") for name, _, _ in LIMITS]
    return {name: getattr(args, name) for name in names}


def _environment(settings: list[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    pairs = [setting.partition("=") for setting in settings]
    for name, _, _ in pairs:
        if not name:
            raise UsageError("--env: a variable needs a name", hint="write --env NAME=VALUE, or --env NAME")
    return {name: value for name, sign, value in pairs if sign}, tuple(name for name, sign, _ in pairs if not sign)


def _source(name: str, option: str) -> str:
    try:
        if name == "-":
            if sys.stdin is None:
                raise NotFoundError(f"{option} -: stdin is closed")
            data = sys.stdin.buffer.read(LONGEST_SOURCE + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(LONGEST_SOURCE + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise NotFoundError(f"{option}: {name} cannot be read: {reason}", hint="name a Python file") from error
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{option}: {name} is not UTF-8 text (byte {error.start})") from None
