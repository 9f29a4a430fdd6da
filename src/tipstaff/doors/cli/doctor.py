"""`tipstaff doctor`: say for each tier and clause whether this host enforces it, and how to mend what it does not.

Exit code 0: the default tier works and the home can be used. 1: not. Nothing is changed; a sandbox is built for each
tier, and what the kernel says of it is read back.

Example:
  tipstaff doctor
  tipstaff doctor --json
"""

import argparse
import asyncio
import os

from tipstaff.doctor.house import HomeFinding
from tipstaff.doctor.report import AbilityFinding, Examination, TierFinding, examine
from tipstaff.doors.cli.output import emit_json, say
from tipstaff.doors.cli.wording import size
from tipstaff.home import locate
from tipstaff.model.noun import to_wire


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments: there are none beside the frame's."""
    del parser


def run(args: argparse.Namespace) -> int:
    """Examine this host and tell."""
    from tipstaff.isolation.abilities import abilities  # noqa: PLC0415 - help and completion need no tiers
    from tipstaff.isolation.bwrap import Bubblewrap  # noqa: PLC0415 - as above
    from tipstaff.isolation.process import Process  # noqa: PLC0415 - as above

    found = asyncio.run(examine(locate(os.environ), (Bubblewrap(), Process()), abilities))
    if args.json:
        emit_json(to_wire(found))
    else:
        tell(found)
    return 0 if found.fit else 1


def tell(found: Examination) -> None:
    """Say what was found: the verdict, then tiers, abilities, versions and the home."""
    say(_verdict(found))
    say()
    say("tiers:")
    for tier in found.tiers:
        _tell_tier(tier)
    say()
    say("abilities of this host:")
    for ability in found.abilities:
        _tell_ability(ability)
    say()
    say("versions:")
    for name, version in found.versions.items():
        say(f"  {name:<13} {version}")
    say()
    _tell_home(found.home)


def _verdict(found: Examination) -> str:
    default = next(tier for tier in found.tiers if tier.default)
    if not default.works:
        return f"the default tier, {default.name}, does not work here: {default.missing}"
    if not found.home.usable:
        return f"the default tier, {default.name}, works here, but the home cannot be used: see below"
    return f"the default tier, {default.name}, works here"


def _tell_tier(tier: TierFinding) -> None:
    say(f"  {tier.name:<10} {'works' if tier.works else tier.missing}{' (the default)' if tier.default else ''}")
    for verdict in tier.verdicts:
        say(f"    {verdict.clause:<11} {verdict.strength:<14} {verdict.by}".rstrip())


def _tell_ability(ability: AbilityFinding) -> None:
    about = f": {ability.cause}" if ability.cause else ""
    say(f"  {'yes' if ability.works else 'no ':<3}  {ability.name}{about}")
    if ability.remedy:
        say(f"       to mend it: {ability.remedy}")


def _tell_home(home: HomeFinding) -> None:
    there = "is there" if home.there else "will be made by the first run"
    say(f"home: {home.path} {there}, on {home.file_system or 'an unknown file system'}, {size(home.free_bytes)} free")
    for trouble, remedy in home.troubles:
        say(f"  {trouble}")
        say(f"       to mend it: {remedy}")
    for key in home.keys:
        say(f"  {key.mode} {key.path}{f': {key.trouble}' if key.trouble else ''}")
        if key.remedy:
            say(f"       to mend it: {key.remedy}")
