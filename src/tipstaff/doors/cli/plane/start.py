"""`tipstaff plane start`: serve the plane over HTTP until SIGTERM or SIGINT.

Says on stderr where it listens, once it does; then one line of JSON for each request. With --json the place is one JSON
object on stdout instead. Plain HTTP is for this machine only, unless --plain-http says that something in front does
TLS.

Example:
  tipstaff plane start --host 0.0.0.0 --tls-cert plane.pem --tls-key plane.key
"""

import argparse
import gc
import os
import sys
from typing import Any, Final

import msgspec

from tipstaff.doors.cli.output import complain, emit_json, flush
from tipstaff.doors.cli.plane.place import add_home, plane_home, settings_file
from tipstaff.errors import NotFoundError, UsageError
from tipstaff.local.serving import is_plane, open_serving, plane_policy

TYPE_CHECKING = False  # as in tipstaff/__init__.py: type checkers take it as true
if TYPE_CHECKING:
    from tipstaff.doors.http.settings import Settings


COLLECTED_AFTER: Final = 10_000  # objects


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_home(parser)
    parser.add_argument("--host", metavar="H", help="the address to listen at (plane.yaml)")
    parser.add_argument("--port", type=int, metavar="N", help="the port to listen at, 0 for a free one (plane.yaml)")
    parser.add_argument("--tls-cert", metavar="F", help="the certificate with its chain, PEM")
    parser.add_argument("--tls-key", metavar="F", help="the certificate's key, PEM")
    parser.add_argument("--plain-http", action="store_true", help="serve without TLS beyond this machine")
    parser.add_argument("--open-blobs", action="store_true", help="give blobs of claimed runs to peers without a token")


def run(args: argparse.Namespace) -> int:
    """Serve."""
    home = plane_home(args)
    if not is_plane(home):
        raise NotFoundError(f"there is no plane in {home.root}", hint="make one with: tipstaff plane init")
    settings, policy = _settings(args), plane_policy(home)
    serving, waking, logbook = _parts()
    serving.refuse_plain(settings)
    bell = waking.Bell()
    logbook.to_stderr()
    with open_serving(home, policy, lease_ms=settings.lease_seconds * 1000, wake=bell.ring) as plane:
        serving.serve(plane, settings, bell, lambda url: _ready(args, url))
    return 0


def _settle() -> None:
    """Have no collection look at what was imported, and fewer of them: what a request makes goes by itself."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECTED_AFTER, 20, 20)


def _parts() -> Any:
    try:
        from tipstaff.doors.http import logbook, serving, waking  # noqa: PLC0415 - heavy, and only for those who serve
    except ModuleNotFoundError as error:
        raise UsageError(
            f"a plane needs {error.name}, which is not installed", hint="install tipstaff[plane]"
        ) from error
    return serving, waking, logbook


def _settings(args: argparse.Namespace) -> "Settings":
    from tipstaff.doors.http.settings import Settings, Tls, read_settings  # noqa: PLC0415 - help needs no reader

    if (args.tls_cert is None) != (args.tls_key is None):
        raise UsageError("--tls-cert and --tls-key belong together", hint="give both")
    settings = read_settings(settings_file(plane_home(args)))
    said: dict[str, Any] = {name: getattr(args, name) for name in ("host", "port") if getattr(args, name) is not None}
    said |= {"tls": Tls(args.tls_cert, args.tls_key)} if args.tls_cert else {}
    said |= {name: True for name in ("plain_http", "open_blobs") if getattr(args, name)}
    try:
        return msgspec.convert(msgspec.structs.asdict(msgspec.structs.replace(settings, **said)), Settings)
    except msgspec.ValidationError as error:
        raise UsageError(f"the settings cannot be used: {error}") from error


def _ready(args: argparse.Namespace, url: str) -> None:
    _settle()
    if args.json:
        emit_json({"url": url, "pid": os.getpid()})
        flush()
    else:
        complain(f"tipstaff: plane ready at {url}")
        sys.stderr.flush()
