"""Which plane a command speaks to: the one of this home, or one elsewhere that `--plane` or $TIPSTAFF_PLANE names.

`--plane ''` means this home, whatever the environment says. A command that makes sense only here refuses the option,
and does not look at the environment. The token comes from the environment or a file, never from the command line.
"""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NoReturn

from tipstaff.doors.cli.failure import mistake
from tipstaff.errors import InputError, NotFoundError, TipstaffError, UsageError

if TYPE_CHECKING:
    from tipstaff.remote.address import Address
    from tipstaff.remote.plane import RemotePlane

OPTION: Final = "--plane"
VARIABLE: Final = "TIPSTAFF_PLANE"


class _Here(argparse.Action):
    """The option of a command that makes sense only on this machine."""

    def __call__(
        self, parser: argparse.ArgumentParser, _space: argparse.Namespace, _value: Any, _option: str | None = None
    ) -> NoReturn:
        """Refuse it."""
        raise mistake(parser.prog, "this is about this machine, and takes no --plane")


def add_plane(parser: argparse.ArgumentParser, *, remote: bool) -> None:
    """Declare the options that name a plane, or, for a command that takes none, one that says so."""
    if OPTION in parser._option_string_actions:  # noqa: SLF001 - the command's own meaning of it comes first
        return
    if not remote:
        parser.add_argument(OPTION, action=_Here, help=argparse.SUPPRESS)
        return
    group = parser.add_argument_group("a plane elsewhere, which knows you by the token in $TIPSTAFF_TOKEN")
    group.add_argument(OPTION, metavar="URL", help="ask this plane, and not this home ($TIPSTAFF_PLANE)")
    group.add_argument("--token-file", metavar="FILE", help="the file with the token ($TIPSTAFF_TOKEN_FILE)")
    group.add_argument("--ca", metavar="FILE", help="certificates that vouch for the plane's ($TIPSTAFF_CA_FILE)")
    group.add_argument("--plane-key", metavar="FILE", help="the plane's public key, pinned from now on")
    group.add_argument(
        "--plain-http", action="store_true", help="let the token go in the clear, also to other machines"
    )


def chosen(args: argparse.Namespace) -> str | None:
    """Give the address of the plane that is meant; None for the one of this home."""
    named = getattr(args, "plane", None)
    return (os.environ.get(VARIABLE) if named is None else named) or None


def program(args: argparse.Namespace) -> str:
    """Give the beginning of a command line that speaks to the same plane."""
    named = getattr(args, "plane", None)
    return "tipstaff" if not named else f"tipstaff --plane {named}"


def address(args: argparse.Namespace) -> "Address":
    """Read where the plane is, and the token."""
    from tipstaff.remote.address import address_of, find_token  # noqa: PLC0415 - only for a plane
    from tipstaff.runner.address import plain_is_meant  # noqa: PLC0415 - as above

    environ = os.environ
    return address_of(
        chosen(args) or "",
        find_token(environ, args.token_file),
        args.ca or environ.get("TIPSTAFF_CA_FILE") or None,
        plain=args.plain_http or plain_is_meant(environ),
    )


@contextmanager
def legible(args: argparse.Namespace) -> Iterator[None]:
    """Take what a plane elsewhere tells in an odd form for its fault, and not for ours."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if chosen(args) is None:
            raise
        raise InputError(
            f"the plane {chosen(args)} tells of it in a form that cannot be shown: {type(error).__name__}",
            hint="see all of it with --json",
        ) from error


@contextmanager
def reached(args: argparse.Namespace) -> Iterator["RemotePlane"]:
    """Open the plane that is meant; what fails is told with advice that speaks to the same plane."""
    from tipstaff.home import locate  # noqa: PLC0415 - as above

    try:
        from tipstaff.remote.plane import opened  # noqa: PLC0415 - as above
    except ImportError as error:
        raise UsageError(
            f"speaking to a plane needs a package that is not installed: {error.name}",
            hint="install tipstaff[remote]",
        ) from error
    where = address(args)
    if where.token is None:
        raise NotFoundError(f"there is no token for the plane {where.url}", hint="set TIPSTAFF_TOKEN or --token-file")
    try:
        with opened(where, locate(os.environ), args.plane_key) as plane:
            yield plane
    except TipstaffError as error:
        error.hint = error.hint.replace("tipstaff ", f"{program(args)} ").replace(
            f"{program(args)} --plane ", "tipstaff --plane "
        )
        raise
