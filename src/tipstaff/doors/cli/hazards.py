"""How a person is asked about what the host would execute later, and what happens where nobody can be asked."""

import sys
from collections.abc import Sequence

from tipstaff.doors.cli.answering import confirmed
from tipstaff.doors.cli.output import complain
from tipstaff.doors.cli.quoting import quoted
from tipstaff.errors import RefusedError
from tipstaff.model import names
from tipstaff.workspace.apply.choosing import within
from tipstaff.workspace.apply.hazards import Hazard


def ask_about(hazards: Sequence[Hazard], accepted: Sequence[bytes], what: str = "brought") -> None:
    """Ask for each name that was not accepted; RefusedError on the first no, and where there is no terminal.

    `what` says what would be done with it: it is `brought`, or `put back`.
    """
    reasons: dict[bytes, list[Hazard]] = {}
    for hazard in hazards:
        if not within(hazard.name, accepted):
            reasons.setdefault(hazard.name, []).append(hazard)
    asking = _is_terminal()
    for name, found in reasons.items():
        for hazard in found:
            complain(f"tipstaff: {quoted(names.shown(name))}: {hazard.kind}: {hazard.why}")
        if asking and not confirmed("Bring it? [y/N]" if what == "brought" else "Put it back? [y/N]"):
            raise RefusedError(
                f"{quoted(names.shown(name))} was not agreed to: nothing was {what}",
                hint="take the others with --only" if what == "brought" else "",
            )
    if reasons and not asking:
        count = "1 file" if len(reasons) == 1 else f"{len(reasons)} files"
        raise RefusedError(
            f"the host would execute or obey {count} later, and there is no terminal to ask on: nothing was {what}",
            hint="look at them with `tipstaff diff`, then name each with --accept PATH",
        )


def _is_terminal() -> bool:
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))
