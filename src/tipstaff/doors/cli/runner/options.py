"""What the commands of `tipstaff runner` share: the directory, and the plane that a runner belongs to."""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tipstaff.doors.cli.output import complain
from tipstaff.errors import UsageError
from tipstaff.home import Home, locate, shown_inside
from tipstaff.runner.address import Address, address_of, plain_is_meant
from tipstaff.runner.enrolling import Wish
from tipstaff.runner.identity import enrolled

TOKEN: Final = "TIPSTAFF_ENROLL_TOKEN"  # noqa: S105 - the name of a variable


def add_data(parser: argparse.ArgumentParser) -> None:
    """Declare where the runner's key, token and spool are."""
    parser.add_argument("--data", type=Path, metavar="DIR", help="the runner's own folder (default: HOME/runner)")


def add_plane(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Declare which plane, and how it is spoken to."""
    parser.add_argument("--plane", metavar="URL", required=required, help="the address of the plane")
    parser.add_argument("--pool", metavar="NAME", help="the pool to take runs from (default: default)")
    parser.add_argument(
        "--enroll-token", metavar="TOKEN", help=f"from `tipstaff plane enroll-token`; better in ${TOKEN}"
    )
    parser.add_argument("--plane-key", type=Path, metavar="FILE", help="the plane's public key, to be sure of it")
    parser.add_argument("--ca", type=Path, metavar="FILE", help="certificates that vouch for the plane's own (PEM)")
    parser.add_argument("--plain-http", action="store_true", help="speak http without TLS beyond this machine too")
    parser.add_argument(
        "--label", action="append", default=[], metavar="TEXT", help="what the plane may know of this runner"
    )


def data_of(args: argparse.Namespace, environ: Mapping[str, str]) -> Path:
    """Give the runner's folder, which must be one that no sandbox shows."""
    data: Path = (args.data or locate(environ).root / "runner").absolute()
    if folder := shown_inside(data):
        raise UsageError(
            f"the runner's folder {data} lies in {folder}, which every sandbox shows: a command could read its key",
            hint="name another with --data",
        )
    return data


def made_data(args: argparse.Namespace, environ: Mapping[str, str]) -> Path:
    """Give the runner's folder, made if it was not there."""
    data = data_of(args, environ)
    if args.data is None:
        locate(environ).make()
    Home(data).make()
    return data


def wish_of(args: argparse.Namespace, data: Path, environ: Mapping[str, str]) -> Wish:
    """Read what the operator says of the plane."""
    return Wish(
        address=_address(args, data, environ),
        token=args.enroll_token or environ.get(TOKEN, ""),
        pool=args.pool,
        plane_key=args.plane_key,
        ca=ca_of(args, environ),
        labels=tuple(args.label),
    )


def ca_of(args: argparse.Namespace, environ: Mapping[str, str]) -> Path | None:
    """Give the file of certificates that count, where one is named."""
    named = args.ca or environ.get("TIPSTAFF_CA_FILE")
    return Path(named) if named else None


def plain_http(args: argparse.Namespace, environ: Mapping[str, str]) -> bool:
    """Say whether plain http was asked for."""
    return bool(getattr(args, "plain_http", False)) or plain_is_meant(environ)


def _address(args: argparse.Namespace, data: Path, environ: Mapping[str, str]) -> Address | None:
    named = args.plane or (environ.get("TIPSTAFF_PLANE") if enrolled_at(data) is None else None)
    return address_of(named, plain_http=plain_http(args, environ)) if named else None


def enrolled_at(data: Path) -> str | None:
    """Give the address that a runner was enrolled at; None where it was not, or nobody wrote that down."""
    record = enrolled(data) if data.is_dir() else None
    return (record.plane_url or None) if record is not None else None


def address_for(args: argparse.Namespace, data: Path, environ: Mapping[str, str]) -> Address:
    """Give the plane's address of a runner that is enrolled: the one that is named, else its own."""
    named = args.plane or enrolled_at(data) or environ.get("TIPSTAFF_PLANE")
    if not named:
        raise UsageError("nobody says where the plane is", hint="say --plane URL")
    return address_of(named, plain_http=plain_http(args, environ))


def surroundings() -> Mapping[str, str]:
    """Give the variables of this process."""
    return os.environ


def tell(text: str) -> None:
    """Say a sentence on stderr."""
    complain(f"tipstaff: {text}")
