"""Honest runs are valid: whatever may happen in a run's life, told truly by two clocks, gives no problem."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vectors.story import (
    ALLOWED,
    ASKED,
    BLOCKED,
    CANCELLED,
    CHANGED,
    CLAIMED,
    CLAIMED_2,
    COMPLETED,
    CONTRACT,
    CREATED,
    DIFF_KEPT,
    DIFF_SENT,
    EXECUTED,
    FAILED,
    LOG_KEPT,
    LOST,
    MODEL,
    ONLINE,
    PLANE,
    REQUESTED,
    REQUEUED,
    RUNNER,
    RUNNER_2,
    RUNNER_2_ID,
    RUNNER_ID,
    SECRET,
    Run,
    altered,
    at,
    granted,
    materialized,
)
from tipstaff.canonical import digest
from tipstaff.evidence import verify
from tipstaff.evidence.chain import chained

WORK = [EXECUTED, CHANGED, DIFF_KEPT, DIFF_SENT, LOG_KEPT, ONLINE, BLOCKED, MODEL]
WORK += [{"type": "checkpoint.created", "checkpointId": "c1", "tier": "cold"}]
CONSENTS = [granted(), altered(granted(), publicKeyPem=None), {"type": "consent.granted", "actor": CANCELLED["actor"]}]
MINUTE = 60_000


@dataclass
class Life:
    """The life of one run, as a plane and its runners go through it; each has its own clock."""

    draw: Any
    events: list[Any] = field(default_factory=list)
    times: dict[int, int] = field(default_factory=dict)
    plane_clock: int = 100
    runner_clock: int = 0

    def plane(self, event: Any) -> None:
        """The plane writes."""
        self.plane_clock += self.draw(st.integers(0, 2000))
        self.times[len(self.events)] = self.plane_clock
        self.events.append(event)

    def runner(self, event: Any) -> None:
        """The runner writes, by its own clock."""
        self.runner_clock += self.draw(st.integers(0, 2000))
        self.times[len(self.events)] = self.runner_clock
        self.events.append(event)

    def claim(self, event: Any) -> None:
        """A runner claims; its clock may be an hour behind or ahead."""
        self.plane(event)
        self.runner_clock = self.plane_clock + 60 * MINUTE + self.draw(st.integers(-60, 60)) * MINUTE
        for _ in range(self.draw(st.integers(0, 2))):
            self.plane(SECRET)


def permitted(life: Life) -> None:
    """From the request to where a runner may claim."""
    life.plane(CREATED)
    if life.draw(st.booleans()):
        life.plane(ASKED)
        life.plane(REQUESTED)
        for consent in life.draw(st.lists(st.sampled_from(CONSENTS), min_size=1, max_size=3)):
            life.plane(consent)
    else:
        life.plane(ALLOWED)


@given(data=st.data())
def test_an_honest_run_is_valid(data):
    """Asked or allowed, requeued or not, with any work, ended in any way, by clocks an hour apart: no problem."""
    life = Life(data.draw)
    permitted(life)
    for _ in range(data.draw(st.integers(0, 2))):
        life.claim(CLAIMED_2)
        if data.draw(st.booleans()):
            life.runner(materialized(CONTRACT))
        life.plane(REQUEUED)
    life.claim(CLAIMED)
    if data.draw(st.booleans()):
        life.runner(materialized(CONTRACT))
    for event in data.draw(st.lists(st.sampled_from(WORK), max_size=6)):
        life.runner(event)
    ending = data.draw(st.sampled_from([COMPLETED, FAILED, CANCELLED, LOST]))
    lost = ending is LOST
    (life.plane if lost or (ending is CANCELLED and data.draw(st.booleans())) else life.runner)(ending)
    receipt = {"endedAt": at(life.plane_clock if lost else life.runner_clock)}
    granted_hosts = {"defaultDeny": True, "allowHosts": ["example.com"]}
    contract = {"secrets": [{"name": "TOKEN", "scope": "session"}], "network": granted_hosts}
    run = Run(contract, tuple(life.events), life.times, receipt, lost=lost)

    report = verify(run.bundle(), [PLANE.public])

    assert report.problems == ()


@pytest.mark.parametrize(
    ("runner", "runner_id", "accepted"), [(RUNNER_2, RUNNER_2_ID, True), (RUNNER, RUNNER_ID, False)]
)
def test_only_the_last_claim_delivers(runner, runner_id, accepted):
    """After a requeue the second runner's receipt counts, and the first one's does not."""
    events = (CREATED, ALLOWED, CLAIMED, REQUEUED, CLAIMED_2, EXECUTED, COMPLETED)
    report = verify(Run(events=events, runner=runner, runner_id=runner_id).bundle(), [PLANE.public])

    assert (report.verdict == "valid") is accepted


def test_a_link_is_what_the_protocol_says():
    """An event in the chain has six fields, and its hash covers the number, the time, the event before and itself."""
    link = chained(3, at(5), "ab" * 32, COMPLETED)

    assert link == {
        "version": "warrant.event.v1",
        "seq": 3,
        "ts": at(5),
        "prev": "ab" * 32,
        "event": COMPLETED,
        "hash": digest({"seq": 3, "ts": at(5), "prev": "ab" * 32, "event": COMPLETED}),
    }
