"""The bell: who waits hears of what they wait for, from any thread, and nothing is kept of who has left."""

import asyncio
import threading

import pytest

from tipstaff.doors.http.waking import Bell, heard

LONG = 20.0
SHORT = 0.05


@pytest.mark.parametrize(("topic", "rung"), [("run:a", "run:a"), ("queue:gpu", "queue:gpu"), ("queue:", "queue:gpu")])
async def test_a_ring_from_another_thread_wakes_who_waits(topic, rung):
    """Whoever waits for a topic, or for every queue, is woken from any thread."""
    bell = Bell()
    bell.attach()
    with bell.listening(topic) as event:
        thread = threading.Thread(target=bell.ring, args=(rung,))
        thread.start()
        assert await heard(event, LONG)
        thread.join(LONG)


async def test_a_ring_for_others_wakes_nobody():
    """A ring of another topic is not heard."""
    bell = Bell()
    bell.attach()
    with bell.listening("run:a") as event:
        bell.ring("run:b")
        assert not await heard(event, SHORT)


async def test_a_ring_is_heard_once():
    """One ring ends one wait, and not the next."""
    bell = Bell()
    bell.attach()
    with bell.listening("run:a") as event:
        bell.ring("run:a")
        assert await heard(event, LONG)
        assert not await heard(event, SHORT)


async def test_closing_wakes_everybody_and_those_who_come_later():
    """A closed bell keeps nobody waiting."""
    bell = Bell()
    bell.attach()
    with bell.listening("run:a") as early:
        bell.close()
        assert await heard(early, LONG)
    with bell.listening("run:b") as late:
        assert await heard(late, LONG)


async def test_who_has_left_is_forgotten():
    """Nothing is kept of topics that nobody waits for, and ringing them is no error."""
    bell = Bell()
    bell.attach()
    with bell.listening("run:a"), bell.listening("run:a"):
        pass
    bell.ring("run:a")
    assert not bell._waiting


def test_a_ring_before_or_after_the_loop_is_lost_in_silence():
    """A plane that is changed while nobody serves it rings into the void."""
    bell = Bell()
    bell.ring("run:a")

    async def attach() -> None:
        bell.attach()

    asyncio.run(attach())
    thread = threading.Thread(target=bell.ring, args=("run:a",))
    thread.start()
    thread.join(LONG)
    assert not thread.is_alive()
