"""The whole examination: every tier and clause, the abilities of this host, versions, the home.

A tier that reports nothing, breaks or hangs is one that does not work: the examination goes on and says so. The host is
fit when its default tier works and the home can be used.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from tipstaff.doctor.house import HomeFinding, look_at
from tipstaff.doctor.versions import versions
from tipstaff.home import Home
from tipstaff.model.noun import Noun
from tipstaff.model.tiers import CLAUSES, OURS, TierReport, Verdict

DEFAULT_TIER: Final = "bwrap"
PATIENCE_SECONDS: Final = 90.0
NOT_BUILT: Final = "not built yet"


class Examined(Protocol):
    """A tier, as far as the examination needs one."""

    name: str

    async def report(self) -> TierReport:
        """Say what this host enforces."""
        ...

    async def close(self) -> None:
        """End what it started."""
        ...


class Ability(Protocol):
    """One ability, as it was probed."""

    @property
    def name(self) -> str:
        """What it is."""

    @property
    def works(self) -> bool:
        """Whether this host has it."""

    @property
    def cause(self) -> str:
        """Why not."""

    @property
    def remedy(self) -> str:
        """The command that mends it."""


Probe = Callable[[], Awaitable[Sequence[Ability]]]


class TierFinding(Noun):
    """One tier on this host."""

    name: str
    works: bool
    default: bool = False
    missing: str = ""
    verdicts: tuple[Verdict, ...] = ()


class AbilityFinding(Noun):
    """One thing that the kernel lets us do here, or not."""

    name: str
    works: bool
    cause: str = ""
    remedy: str = ""


class Examination(Noun):
    """Everything that was found."""

    fit: bool
    tiers: tuple[TierFinding, ...]
    abilities: tuple[AbilityFinding, ...]
    versions: dict[str, str]
    home: HomeFinding


async def examine(home: Home, tiers: Sequence[Examined], probe: Probe) -> Examination:
    """Look at this host by its `tiers` and abilities, and at the home."""
    built = {tier.name: await _tier(tier) for tier in tiers}
    found = tuple(built.get(name) or _absent(name) for name in _ordered())
    house = look_at(home)
    return Examination(
        fit=house.usable and any(tier.works for tier in found if tier.default),
        tiers=found,
        abilities=await _abilities(probe),
        versions=versions(),
        home=house,
    )


def _ordered() -> list[str]:
    """Name all tiers, the default one first."""
    return [DEFAULT_TIER, *(name for name in OURS if name != DEFAULT_TIER)]


def _absent(name: str) -> TierFinding:
    return TierFinding(name=name, works=False, default=name == DEFAULT_TIER, missing=NOT_BUILT)


async def _tier(tier: Examined) -> TierFinding:
    is_default = tier.name == DEFAULT_TIER
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            report = await tier.report()
    except Exception as error:  # noqa: BLE001 - whatever breaks in a tier is what the examination is to tell
        return TierFinding(name=tier.name, works=False, default=is_default, missing=_broke(error))
    finally:
        await tier.close()
    verdicts = tuple(sorted(report.verdicts, key=lambda one: CLAUSES.index(one.clause)))
    return TierFinding(
        name=tier.name, works=report.available, default=is_default, missing=report.missing, verdicts=verdicts
    )


async def _abilities(probe: Probe) -> tuple[AbilityFinding, ...]:
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            found = await probe()
    except Exception as error:  # noqa: BLE001 - as above
        return (AbilityFinding(name="probing", works=False, cause=_broke(error)),)
    return tuple(AbilityFinding(name=one.name, works=one.works, cause=one.cause, remedy=one.remedy) for one in found)


def _broke(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"it did not answer within {PATIENCE_SECONDS:g} s"
    return f"looking at it failed: {type(error).__name__}: {error}"
