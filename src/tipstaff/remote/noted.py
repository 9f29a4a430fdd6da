"""Which folder of this machine a run elsewhere was started for: the plane is not told, and `apply` wants to know."""

import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from tipstaff.errors import StoreError
from tipstaff.home import Home

FOLDER: Final = "elsewhere"
KEPT_SECONDS: Final = 90 * 86_400
_RUN: Final = re.compile(r"run_[0-9a-f-]{1,64}\Z")


def note_folder(home: Home, run_id: str, folder: str) -> None:
    """Note the folder of a run, and forget those of long ago."""
    place = _place(home, run_id)
    if place is None:
        return
    home.make()
    try:
        place.parent.mkdir(mode=0o700, exist_ok=True)
        place.write_text(folder, encoding="utf-8")
    except OSError as error:
        raise StoreError(f"{place} cannot be written: {error.strerror}", hint="check the disk") from error
    _forget(place.parent, time.time() - KEPT_SECONDS)


def noted_folder(home: Home, run_id: str) -> str | None:
    """Give the folder that a run was started for from here; None where that is not known, or it is gone."""
    place = _place(home, run_id)
    if place is None or not place.is_file():
        return None
    folder = place.read_text(encoding="utf-8", errors="replace")
    return folder if Path(folder).is_dir() else None


def _place(home: Home, run_id: str) -> Path | None:
    """Name the file of a run; a plane may call a run anything, also something that is no file's name."""
    return home.root / FOLDER / run_id if _RUN.match(run_id) else None


def _forget(folder: Path, before: float) -> None:
    for place in folder.iterdir():
        with suppress(OSError):
            if place.stat().st_mtime < before:
                place.unlink()
