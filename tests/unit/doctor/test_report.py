"""The examination tells what holds, and goes on where something breaks."""

import asyncio
from typing import NamedTuple

import pytest

from tipstaff.doctor import examine
from tipstaff.doctor.versions import versions
from tipstaff.doors.cli.doctor import tell
from tipstaff.home import Home
from tipstaff.model.noun import to_wire
from tipstaff.model.tiers import OURS, TierReport, at_best


class Tier:
    """A tier that reports what it is told to, and says when it was closed."""

    def __init__(self, name="bwrap", report=None):
        self.name = name
        self._report = report
        self.closed = False

    async def report(self):
        """Report, or break."""
        if isinstance(self._report, Exception):
            raise self._report
        return self._report or at_best(self.name)

    async def close(self):
        """Remember it."""
        self.closed = True


class Ability(NamedTuple):
    """What a probe found."""

    name: str
    works: bool
    cause: str = ""
    remedy: str = ""


async def probed():
    """Find one ability, and one that is missing."""
    return (
        Ability("own user namespace", works=True),
        Ability("control groups", works=False, cause="no delegation", remedy="systemctl edit"),
    )


def examined(tmp_path, *tiers, probe=probed):
    """Examine a host of these tiers."""
    return asyncio.run(examine(Home(tmp_path / "home"), tiers, probe))


def test_a_host_with_its_default_tier_is_fit(tmp_path):
    """Where bwrap works the host is fit, each clause has a verdict, and tiers that are not built are named so."""
    tier = Tier()
    found = examined(tmp_path, tier)

    assert found.fit
    assert tier.closed
    assert sorted(one.name for one in found.tiers) == sorted(OURS)
    default, *others = found.tiers
    assert (default.name, default.works, default.default, len(default.verdicts)) == ("bwrap", True, True, 11)
    assert {one.missing for one in others} == {"not built yet"}


@pytest.mark.parametrize(
    ("report", "missing"),
    [
        (TierReport(name="bwrap", available=False, missing="no bubblewrap"), "no bubblewrap"),
        (RuntimeError("boom"), "looking at it failed: RuntimeError: boom"),
        (TimeoutError(), "it did not answer within 90 s"),
    ],
)
def test_a_host_without_its_default_tier_is_not_fit(tmp_path, report, missing):
    """A default tier that is not available, breaks or hangs makes the host unfit, and its word is kept."""
    tier = Tier(report=report)
    found = examined(tmp_path, tier, Tier("process"))

    assert not found.fit
    assert tier.closed
    assert (found.tiers[0].works, found.tiers[0].missing) == (False, missing)
    assert next(one for one in found.tiers if one.name == "process").works


def test_another_tier_may_be_missing(tmp_path):
    """A tier that is not the default takes nothing from the host's fitness."""
    assert examined(tmp_path, Tier(), Tier("process", OSError("no"))).fit


def test_a_home_that_cannot_be_used_makes_a_host_unfit(tmp_path):
    """A sandbox is no use where its receipts cannot be kept."""
    (tmp_path / "home").write_text("a file")

    assert not examined(tmp_path, Tier()).fit


def test_a_probe_that_breaks_is_told(tmp_path):
    """Where the abilities cannot be probed, that is what is said about them."""

    async def broken():
        raise OSError("no /proc")

    (ability,) = examined(tmp_path, Tier(), probe=broken).abilities

    assert (ability.works, ability.cause) == (False, "looking at it failed: OSError: no /proc")


def test_everything_is_told_in_words(tmp_path, capsys):
    """The text names the verdict first, then every tier, clause, ability with its remedy, version and the home."""
    found = examined(tmp_path, Tier(), Tier("process", OSError("no")))

    tell(found)

    told = capsys.readouterr().out
    assert told.startswith("the default tier, bwrap, works here\n")
    assert all(tier in told for tier in OURS)
    assert "    network     enforced" in told
    assert "no   control groups: no delegation\n       to mend it: systemctl edit" in told
    assert f"home: {tmp_path / 'home'} will be made by the first run" in told
    assert to_wire(found)["tiers"][0]["verdicts"][0]["clause"] == "network"


@pytest.mark.parametrize(
    ("spoiled", "sentence"),
    [
        (False, "the default tier, bwrap, does not work here: no bubblewrap"),
        (True, "the default tier, bwrap, works here, but the home cannot be used: see below"),
    ],
)
def test_the_first_line_says_what_is_wrong(tmp_path, capsys, spoiled, sentence):
    """A person who reads one line knows whether it works and what does not."""
    if spoiled:
        (tmp_path / "home").write_text("a file")
    report = None if spoiled else TierReport(name="bwrap", available=False, missing="no bubblewrap")

    tell(examined(tmp_path, Tier(report=report)))

    assert capsys.readouterr().out.splitlines()[0] == sentence


def test_versions_name_what_we_stand_on():
    """Ours, the kernel's, the distribution's, and those of bubblewrap, Python and SQLite are all there."""
    found = versions()

    assert list(found) == ["tipstaff", "kernel", "distribution", "bubblewrap", "python", "sqlite"]
    assert all(found.values())
