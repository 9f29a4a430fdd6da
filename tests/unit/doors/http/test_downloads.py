"""Downloads: few at once for one peer, on threads of their own, and none for who has left."""

import asyncio
import threading
from io import BytesIO

import pytest

from tipstaff.doors.http.downloads import SEATS, THREADS, Downloads
from tipstaff.doors.http.replies import DoorError
from tipstaff.errors import StoreError

SECONDS = 20


async def staying():
    """Never leave."""
    await asyncio.Event().wait()


class Leaving:
    """A client that leaves when it is told to."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    async def __call__(self):
        await self.event.wait()
        return {"type": "http.disconnect"}


async def bounded(awaitable):
    """Wait, but not for ever."""
    async with asyncio.timeout(SECONDS):
        return await awaitable


async def waited_for(claim):
    """Wait until something is true."""
    async with asyncio.timeout(SECONDS):
        while not claim():  # noqa: ASYNC110 - what is waited for rings no bell
            await asyncio.sleep(0.01)


def run(test):
    """Run a test with downloads of its own."""

    async def around():
        downloads = Downloads()
        try:
            await test(downloads)
        finally:
            downloads.close()

    asyncio.run(around())


def test_a_peer_waits_for_a_seat_and_another_does_not():
    """With all its seats taken a peer waits until one is left; another peer is served meanwhile."""

    async def test(downloads):
        given = [await bounded(downloads.open("a", staying, lambda _: BytesIO(b"x"))) for _ in range(SEATS)]
        waiting = asyncio.ensure_future(downloads.open("a", staying, lambda _: BytesIO(b"y")))
        other = await bounded(downloads.open("b", staying, lambda _: BytesIO(b"z")))
        assert other.file.read() == b"z"
        assert not waiting.done()
        given[0].close()
        given[0].close()
        late = await bounded(waiting)
        assert late.file.read() == b"y"
        for one in (*given, other, late):
            one.close()
        assert len(downloads) == 0

    run(test)


def test_nothing_is_done_for_who_has_left():
    """A client that leaves while it waits is forgotten, and its blob never opened; one that stays is given it."""

    async def test(downloads):
        given = [await bounded(downloads.open("a", staying, lambda _: BytesIO(b"x"))) for _ in range(SEATS)]
        opened, leaving = threading.Event(), Leaving()

        def open_late(_still):
            opened.set()
            return BytesIO()

        waiting = asyncio.ensure_future(downloads.open("a", leaving, open_late))
        await asyncio.sleep(0.05)
        leaving.event.set()
        with pytest.raises(DoorError, match="left"):
            await bounded(waiting)
        for one in given:
            one.close()
        (await bounded(downloads.open("a", staying, lambda _: BytesIO(b"y")))).close()
        assert not opened.is_set()
        assert len(downloads) == 0

    run(test)


def test_hashing_ends_when_its_client_has_left():
    """What is at work is told that nobody waits; its seat is free when it has ended, and what it opened is closed."""

    async def test(downloads):
        begun, file, leaving = threading.Event(), BytesIO(b"x"), Leaving()

        def opened(still):
            begun.set()
            while still():
                pass
            return file

        waiting = asyncio.ensure_future(downloads.open("a", leaving, opened))
        assert await asyncio.to_thread(begun.wait, SECONDS)
        leaving.event.set()
        with pytest.raises(DoorError, match="left"):
            await bounded(waiting)
        await waited_for(lambda: len(downloads) == 0)
        assert file.closed

    run(test)


def test_a_blob_that_cannot_be_opened_leaves_its_seat():
    """An error is the asker's to hear, and takes no seat with it."""

    async def test(downloads):
        def opened(_still):
            raise StoreError("damaged")

        for _ in range(SEATS + THREADS + 1):
            with pytest.raises(StoreError, match="damaged"):
                await bounded(downloads.open("a", staying, opened))
        await waited_for(lambda: len(downloads) == 0)

    run(test)
