"""`tipstaff plane init`: make a plane: its signing key, its policy, its settings, and the first admin.

The admin's token is the only line on stdout, and is shown this once. A home that holds a plane is left as it is; a home
that could not be made whole is not made at all.

Example:
  tipstaff plane init --home /srv/tipstaff --host 127.0.0.1 --port 7172
"""

import argparse
import os
import shlex
import shutil
from pathlib import Path
from typing import Final

from tipstaff.doors.cli.output import complain, emit_json, say
from tipstaff.doors.cli.plane.place import add_home, plane_home, settings_file
from tipstaff.errors import StoreError, UsageError
from tipstaff.home import Home, locate
from tipstaff.local.serving import make_plane, open_serving, plane_policy

ADMIN: Final = "admin"
MOST_PORT: Final = 65535
_SETTINGS: Final = """\
# How this plane serves. `tipstaff plane start` reads it; options of the command line win for that start.
host: {host}
port: {port}

# TLS, which every address but loopback needs (or `plain_http: true`, where something in front does TLS):
# tls:
#   certificate: /etc/ssl/plane.pem
#   key: /etc/ssl/plane.key

# How long a runner may be silent before its run is given to another or closed.
# lease_seconds: 60

# Blobs of claimed runs for old runners, which show no token when they fetch them.
# open_blobs: false

# The address of a proxy whose X-Forwarded-For says where a request comes from.
# trusted_proxy: 127.0.0.1

# most_blob_bytes: 4294967296
# limits: {{principal_per_second: 200, principal_burst: 1000, runner_per_second: 1000, runner_burst: 5000,
#   address_per_second: 2000, address_burst: 10000, failures: 20, failures_seconds: 60, connections: 128}}
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_home(parser)
    parser.add_argument("--policy", metavar="FILE", help="the policy to begin with (a shipped one, for a team)")
    parser.add_argument("--host", default="127.0.0.1", metavar="H", help="the address to listen at (127.0.0.1)")
    parser.add_argument("--port", default=7172, type=int, metavar="N", help="the port to listen at (7172)")


def run(args: argparse.Namespace) -> int:
    """Make the plane and say what to do next."""
    home = plane_home(args)
    if os.path.lexists(home.root) and any(home.root.iterdir()):
        raise UsageError(f"{home.root} is not empty", hint="nothing is overwritten: name another folder with --home")
    texts = {home.policy: _policy_text(args), settings_file(home): _settings_text(args)}
    fresh = not os.path.lexists(home.root)
    if not args.home:
        locate(os.environ).make()  # the folder above it is a home too, and as private
    try:
        token = _made(home, texts)
    except BaseException:
        _unmade(home, fresh=fresh)
        raise
    _tell(args, home, token)
    return 0


def _policy_text(args: argparse.Namespace) -> str:
    from tipstaff.policy import load_policy  # noqa: PLC0415 - help needs no policy
    from tipstaff.policy.shipped import text_of  # noqa: PLC0415 - as above

    if args.policy is None:
        return text_of("plane")
    load_policy(Path(args.policy))
    return Path(args.policy).read_text(encoding="utf-8")


def _settings_text(args: argparse.Namespace) -> str:
    from tipstaff.doors.http.settings import parse_settings  # noqa: PLC0415 - help needs no reader

    if not 0 <= args.port <= MOST_PORT:
        raise UsageError(f"{args.port} is not a port", hint=f"a port is a number from 0 to {MOST_PORT}")
    text = _SETTINGS.format(
        host=f'"{args.host}"' if not args.host.replace(".", "").isalnum() else args.host, port=args.port
    )
    parse_settings(text, "plane.yaml")
    return text


def _made(home: Home, texts: dict[Path, str]) -> str:
    home.make()
    for path, text in texts.items():
        _write(path, text)
    make_plane(home)
    with open_serving(home, plane_policy(home)) as plane:
        token: str = plane.people.issue(ADMIN, "admin", "human")["token"]
    return token


def _write(path: Path, text: str) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}") from error


def _unmade(home: Home, *, fresh: bool) -> None:
    """Take away what was made: half a plane would stand in the way of the next try."""
    if fresh:
        shutil.rmtree(home.root, ignore_errors=True)
        return
    for path in list(home.root.iterdir()) if home.root.is_dir() else []:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _tell(args: argparse.Namespace, home: Home, token: str) -> None:
    if args.json:
        emit_json({"home": str(home.root), "admin": ADMIN, "token": token, "policy": str(home.policy)})
        return
    option = f" --home {shlex.quote(str(home.root))}" if args.home else ""
    for line in (
        f"tipstaff: a plane is made in {home.root}; its policy is {home.policy}",
        f"  serve it:        tipstaff plane start{option}",
        f"  enrol a runner:  tipstaff plane enroll-token{option}",
        f"  let people in:   tipstaff plane token alice --role requester{option}",
        "tipstaff: the token of `admin` is on the next line; it is not shown again",
    ):
        complain(line)
    say(token)
