"""Checkpoints: the plane's signed word on how far it has seen a chain, which the runner puts into its receipt.

With them neither can tell the past differently alone: the runner cannot take back an event that the plane has signed
for, and the plane cannot deny one. Check 31. A receipt without checkpoints is one that nobody signed for on the way.
"""

from typing import Any, Final

from tipstaff.errors import InputError
from tipstaff.evidence.chain import Chain
from tipstaff.evidence.reading import typed
from tipstaff.evidence.report import Findings
from tipstaff.evidence.seal import Seal
from tipstaff.keys import PublicKey
from tipstaff.model.noun import VERSION_CHECKPOINT
from tipstaff.model.records import Checkpoint

MOST: Final = 128  # each costs whoever verifies a signature


def check_checkpoints(
    values: Any, about: tuple[Any, str], chain: Chain, plane: PublicKey | None, findings: Findings
) -> None:
    """Check every checkpoint of a receipt; `about` is the contract's run and hash."""
    if type(values) is not list:
        findings.add(31, "this is not a list", "receipt.checkpoints")
        return
    if len(values) > MOST:
        findings.add(31, f"there are {len(values)}, and at most {MOST} are looked at", "receipt.checkpoints")
        return
    seen_before = 0
    for index, value in enumerate(values):
        place = f"receipt.checkpoints[{index}]"
        try:
            seen = typed(value, Checkpoint)
        except InputError as error:
            findings.add(31, f"this is not a checkpoint: {error.message}", place)
            continue
        Seal(value, place, ("plane",), findings).check(31, "plane", plane)
        if seen.version != VERSION_CHECKPOINT:
            findings.add(1, f"the version is not {VERSION_CHECKPOINT}", place)
        if (seen.run_id, seen.contract_hash) != about:
            findings.add(31, "this is a checkpoint of another run", place)
        elif chain.hash_after(seen.event_count) != seen.events_head:
            findings.add(31, f"the plane has seen another chain of {seen.event_count} events", place)
        if seen.event_count <= seen_before:
            findings.add(31, "the one before it covers as many events, or more", place)
        seen_before = seen.event_count
