"""Limits: how much one peer may ask, and that counting it costs no more than so much memory."""

from hypothesis import given
from hypothesis import strategies as st

from tipstaff.doors.http.limits import Buckets, Failures, Held, Seats


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_passes_and_the_next_waits():
    """A full bucket gives its burst, then says how long until the next."""
    clock = Clock()
    buckets = Buckets(2, 3, clock)
    assert [buckets.wait_seconds("a") for _ in range(4)] == [0, 0, 0, 0.5]
    clock.now += 0.5
    assert buckets.wait_seconds("a") == 0
    assert buckets.wait_seconds("a") == 0.5


def test_one_peer_does_not_pay_for_another():
    """Each peer has a bucket of its own."""
    buckets = Buckets(1, 1, Clock())
    assert buckets.wait_seconds("a") == 0
    assert buckets.wait_seconds("a") > 0
    assert buckets.wait_seconds("b") == 0


@given(st.lists(st.integers(min_value=0, max_value=50), max_size=200))
def test_the_rate_holds_however_the_time_passes(waits):
    """Over any time no more pass than the burst and what came in meanwhile."""
    clock = Clock()
    buckets = Buckets(2, 5, clock)
    started, passed = clock.now, 0
    for wait in waits:
        clock.now += wait / 10
        passed += buckets.wait_seconds("a") == 0
    assert passed <= 5 + 2 * (clock.now - started) + 1e-6


def test_seats_are_taken_and_left():
    """A peer has so many seats; one that is left can be taken again, and nothing is kept of who has none."""
    seats = Seats(2)
    assert [seats.take("a") for _ in range(3)] == [True, True, False]
    assert seats.take("b")
    seats.leave("a")
    assert seats.take("a")
    for peer in ("a", "a", "b"):
        seats.leave(peer)
    assert len(seats) == 0


def test_seats_are_counted_together_and_may_be_more_for_one():
    """All seats have a sum, and a peer that speaks for many may be given more of them."""
    seats = Seats(1)
    assert [seats.take("proxy", 3) for _ in range(4)] == [True, True, True, False]
    assert [seats.take("a"), seats.take("a")] == [True, False]
    assert seats.total == 4
    seats.leave("proxy")
    assert seats.total == 3


def test_one_peer_holds_its_share_and_all_hold_what_there_is():
    """Beyond its share a peer has no room, nor has anybody beyond the whole; what is let go can be held again."""
    held = Held(100, 60)
    assert held.take("a", 60)
    assert not held.take("a", 1)
    assert held.take("b", 39)
    assert not held.take("c", 1)
    for peer, size in (("a", 61), ("b", 39), ("c", 1)):
        held.leave(peer, size)
    assert (len(held), held.total_bytes) == (0, 0)
    assert held.take("c", 60)


def test_peers_are_forgotten_before_they_fill_the_memory():
    """However many peers come, only so many are remembered, the latest of them."""
    buckets, failures = Buckets(1, 1, Clock(), most=10), Failures(1, 60, Clock(), most_peers=10)
    for number in range(1000):
        buckets.wait_seconds(str(number))
        failures.count(str(number))
    assert len(buckets) == len(failures) == 10
    assert buckets.wait_seconds("999") > 0
    assert failures.wait_seconds("999") > 0


def test_failures_make_an_address_wait_for_a_while():
    """Up to the limit nothing happens; then the address waits until the window is over."""
    clock = Clock()
    failures = Failures(3, 60, clock)
    for _ in range(2):
        failures.count("a")
    assert failures.wait_seconds("a") == 0
    failures.count("a")
    assert failures.wait_seconds("a") == 60
    assert failures.wait_seconds("b") == 0
    clock.now += 60
    assert failures.wait_seconds("a") == 0
    failures.count("a")
    assert failures.wait_seconds("a") == 0
