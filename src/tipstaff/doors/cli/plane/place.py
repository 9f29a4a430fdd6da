"""Where a plane lives: `--home`, else the folder `plane` in this user's own home; and how it is opened by commands.

The commands work on the plane's home directly, also while it serves: any number of processes share its store.
"""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tipstaff.errors import NotFoundError
from tipstaff.home import Home, locate
from tipstaff.local.serving import is_plane, open_serving, plane_policy
from tipstaff.plane import Plane

SETTINGS: Final = "plane.yaml"


def add_home(parser: argparse.ArgumentParser) -> None:
    """Declare the option that names the plane's home."""
    parser.add_argument("--home", metavar="DIR", help="the plane's home ($TIPSTAFF_HOME/plane)")


def plane_home(args: argparse.Namespace) -> Home:
    """Name the plane's home; makes nothing."""
    return Home(Path(args.home).absolute()) if args.home else Home(locate(os.environ).root / "plane")


def settings_file(home: Home) -> Path:
    """Name the file of settings."""
    return home.root / SETTINGS


@contextmanager
def opened(args: argparse.Namespace) -> Iterator[Plane]:
    """Open the plane's home to look or to change who may ask."""
    home = plane_home(args)
    if not is_plane(home):
        raise NotFoundError(f"there is no plane in {home.root}", hint="make one with: tipstaff plane init")
    with open_serving(home, plane_policy(home)) as plane:
        yield plane
