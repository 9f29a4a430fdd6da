"""What a command prints reaches whoever follows it in small lots, and never makes the command wait."""

import asyncio
from base64 import b64decode

from tests.unit.runner.conftest import until
from tipstaff.errors import PlaneError
from tipstaff.runner.live import FAILURES, LOT_BYTES, MOST_BYTES, LiveOutput


class Taker:
    """A plane that keeps what it is told, when it is let."""

    def __init__(self):
        self.lots = []
        self.open = asyncio.Event()
        self.open.set()
        self.error = None

    async def __call__(self, said):
        await self.open.wait()
        if self.error is not None:
            raise self.error
        self.lots.append((said["stream"], said["offset"], b64decode(said["data"])))


async def test_chunks_that_come_together_go_together():
    """What is printed within a moment is one lot for each stream."""
    taker = Taker()
    live = LiveOutput(taker)
    out, err = live.sink("stdout"), live.sink("stderr")
    out(b"one ")
    err(b"oh")
    out(b"two")
    await until(lambda: len(taker.lots) == 2)
    out(b"!")
    await until(lambda: len(taker.lots) == 3)
    await live.close()

    assert taker.lots == [("stdout", 0, b"one two"), ("stderr", 0, b"oh"), ("stdout", 7, b"!")]


async def test_a_slow_plane_gets_the_beginning_and_then_a_gap():
    """What comes on top of the bound is left out, memory stays flat, and the next offset says what is missing."""
    taker = Taker()
    taker.open.clear()
    live = LiveOutput(taker)
    sink = live.sink("stdout")
    printed = b"".join(bytes([index]) * LOT_BYTES for index in range(200))
    for begin in range(0, len(printed), 1000):
        sink(printed[begin : begin + 1000])
        if begin == 0:
            await asyncio.sleep(0.1)  # the first lot is on its way, and hangs
    assert len(live._streams["stdout"].waiting) == MOST_BYTES
    taker.open.set()
    await until(lambda: not live._streams["stdout"].waiting)
    sink(b"the end")
    await until(lambda: taker.lots[-1][2] == b"the end")
    await live.close()

    *before, (_, last, _) = taker.lots
    shown = b"".join(data for _, _, data in before)
    ends = [offset + len(data) for _, offset, data in before]
    assert [offset for _, offset, _ in before] == [0, *ends[:-1]]
    assert printed.startswith(shown)
    assert MOST_BYTES <= len(shown) < last == len(printed)


async def test_a_plane_that_keeps_up_gets_everything():
    """Below the bound nothing is left out, whatever the sizes of what is printed."""
    taker = Taker()
    live = LiveOutput(taker)
    sink = live.sink("stdout")
    printed = bytes(range(256)) * 1024
    for begin in range(0, len(printed), 4999):
        sink(printed[begin : begin + 4999])
    await until(lambda: sum(len(data) for _, _, data in taker.lots) == len(printed))
    await live.close()

    assert b"".join(data for _, _, data in taker.lots) == printed


async def test_a_plane_that_takes_nothing_is_soon_left_alone():
    """After a few failures in a row nothing more is sent, and the command is not held up."""
    taker = Taker()
    taker.error = PlaneError("no", status=500)
    live = LiveOutput(taker)
    sink = live.sink("stdout")
    for _ in range(FAILURES):
        sink(b"x")
        await until(lambda: live._sending is not None and live._sending.done())
    sink(b"x")
    await live.close()

    assert live._failed == FAILURES
    assert not live._streams["stdout"].waiting


async def test_closing_waits_for_nobody():
    """A lot that hangs is given up within a moment, and what waits is left to the receipt."""
    taker = Taker()
    taker.open.clear()
    live = LiveOutput(taker)
    live.sink("stdout")(b"x" * LOT_BYTES)
    await asyncio.sleep(0.05)
    await asyncio.wait_for(live.close(), 5)
    live.sink("stdout")(b"late")
    await asyncio.sleep(0.05)

    assert taker.lots == []
