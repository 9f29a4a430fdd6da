"""How the plane is asked: at once where it can answer at once, and never so that others wait for it."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.unit.doors.http.served import Served

HELD_SECONDS = 2.0


@contextmanager
def busy(served: Served) -> Iterator[None]:
    """Keep the store busy for a while, from another thread."""
    begun = threading.Event()

    def hold() -> None:
        with served.plane._store.database.transaction():
            begun.set()
            time.sleep(HELD_SECONDS)

    thread = threading.Thread(target=hold)
    thread.start()
    assert begun.wait(20)
    yield
    thread.join(20)


def test_a_busy_store_keeps_nobody_waiting_who_does_not_need_it(served):
    """While somebody writes, health is answered at once, and what needs the store is answered when it is free."""
    started = time.monotonic()
    answers: list[int] = []
    with busy(served):
        asking = [
            threading.Thread(target=lambda: answers.append(served.ask("GET", "/v1/runs").status_code)) for _ in range(4)
        ]
        for thread in asking:
            thread.start()
        time.sleep(0.1)
        for _ in range(5):
            assert served.ask("GET", "/v1/health", None).status_code == 200
        assert time.monotonic() - started < HELD_SECONDS
        for thread in asking:
            thread.join(20)
    assert answers == [200] * 4
    assert time.monotonic() - started >= HELD_SECONDS


def test_a_claim_behind_a_busy_store_is_answered_too(served):
    """A runner's request waits for the store and is then answered as ever."""
    token = served.enroll("idle")
    with busy(served):
        assert served.claim(token)["empty"] is True
