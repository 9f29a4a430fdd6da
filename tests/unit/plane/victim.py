"""A process that is to be killed: it takes runs through all their steps until somebody stops it.

`kill HOME SEED COUNT` forks COUNT children, one after the other, and kills each with SIGKILL at a random moment, or at
a step chosen at random; `claim HOME NAME` claims whatever waits and prints it. A program of its own, because a child
forked from a test would carry the test's threads and locks.
"""

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.unit.plane.embedded import ASKING, BORIS, REQUEST, Counter, Embedded, carry_out
from tests.unit.policy.conftest import open_policy
from tipstaff.plane import Refused, SteadyClock

DENYING: dict[str, Any] = {"rules": [{"id": "no", "effect": "deny", "when": "any"}]}
POLICIES: tuple[dict[str, Any], ...] = ({}, ASKING, DENYING)
LONGEST_SECONDS = 0.12
PRUNED_SHARE = 0.1


def work(home: Path, seed: str, die_at: int) -> None:
    """Start as a process does, closing what the one before left; then take runs, and die at step `die_at`."""
    chance = random.Random(seed)  # noqa: S311 - where to die is no secret
    steps = 0

    def step(_name: str) -> None:
        nonlocal steps
        steps += 1
        if steps == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    sites = [
        Embedded(
            home,
            policy=open_policy(**sections),
            owner=f"own_{seed}_{number}",
            clock=SteadyClock(),
            random=Counter(f"{seed} {number}"),
        )
        for number, sections in enumerate(POLICIES)
    ]
    sites[0].plane.close_lost()
    while True:
        take(chance.choice(sites), step)
        if chance.random() < PRUNED_SHARE:
            step("prune")
            sites[0].plane.prune(older_than_ms=chance.choice([0, 50]))
            step("pruned")


def take(site: Embedded, step: Callable[[str], None]) -> None:
    """Take one run through all its steps."""
    step("submit")
    outcome = site.plane.submit(REQUEST)
    step("submitted")
    if not isinstance(outcome, Refused):
        if outcome.decision.effect == "ask":
            site.plane.approve(outcome.run_id, {"actor": BORIS})
            step("approved")
        claim = site.claim()
        step("claimed")
        carry_out(site, claim, step)
    site.store.blobs.put(os.urandom(1000) * 100)
    step("kept")


def kill(home: Path, seed: int, count: int) -> None:
    """Start and kill `count` children."""
    chance = random.Random(seed)  # noqa: S311 - when to kill is no secret
    for number in range(count):
        by_step = chance.random() < 0.5
        child = os.fork()
        if child == 0:
            work(home, f"{seed}-{number}", chance.randint(1, 30) if by_step else 0)
        if not by_step:
            time.sleep(0.005 + chance.random() * LONGEST_SECONDS)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WTERMSIG(status) != signal.SIGKILL:
            sys.exit(f"child {number} ended by itself: {status}")


def claim(home: Path, name: str) -> None:
    """Claim and carry out whatever waits, together with others; print what was claimed."""
    site = Embedded(home, clock=SteadyClock(), random=Counter(name))
    sys.stdin.readline()
    while "runId" in (taken := site.claim()):
        sys.stdout.write(f"{taken['runId']}\n")
        carry_out(site, taken)
    site.close()


if __name__ == "__main__":
    if sys.argv[1] == "kill":
        kill(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    else:
        claim(Path(sys.argv[2]), sys.argv[3])
