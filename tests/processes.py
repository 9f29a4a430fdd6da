"""Processes of this machine, found by their command lines: for tests that look into sandboxes from outside."""

import os
from pathlib import Path


def running(text: str) -> list[int]:
    """Find the processes whose command line holds a text."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and text in (entry / "cmdline").read_bytes().decode(errors="replace"):
                found.append(int(entry.name))
        except OSError:
            continue
    return [number for number in found if number != os.getpid()]
