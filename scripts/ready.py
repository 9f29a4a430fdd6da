"""Writes the shipped policies that are kept as plain values beside their files.

`make docs` runs it; a test compares.
"""

from pathlib import Path

import tipstaff
from tipstaff.policy.shipped import READY, ready_form, text_of

FOLDER = Path(tipstaff.__file__).parent / "policies"

for name in READY:
    (FOLDER / f"{name}.json").write_text(ready_form(text_of(name)), encoding="utf-8")
