"""Bounds on one run, in integers with their unit in the name. `None` means: not asked, or not given."""

from typing import Annotated

import msgspec

from tipstaff.model.noun import Noun

Amount = Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]


class Limits(Noun):
    """What a run may use."""

    time_ms: Amount | None = None
    memory_bytes: Amount | None = None
    cpu_millis: Amount | None = None  # thousandths of one core
    pids: Amount | None = None
    disk_bytes: Amount | None = None
    output_bytes: Amount | None = None  # the stored copy of each stream; what passes through is never cut


class Reply(Noun):
    """What a door returns in memory; the marker says how much was cut."""

    bytes: Amount | None = None
    lines: Amount | None = None
    characters: Amount | None = None


class Budget(Noun):
    """The protocol's own words for money and time."""

    max_spend_usd: float | int | None = None
    max_duration_min: float | int | None = None
