"""Our own streams, relayed without ever holding up the event loop."""

import asyncio
import os
import time
from collections.abc import Iterator

import pytest

from tipstaff.doors.cli.run.streams import Outlet, inlet

LARGE = b"x" * 1_000_000


def unexpected(error: OSError) -> None:
    """Be told of a fault that should not be."""
    raise AssertionError(error)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe; what a test has not closed is closed for it."""
    reading, writing = os.pipe()
    yield reading, writing
    for descriptor in (reading, writing):
        try:
            os.close(descriptor)
        except OSError:
            continue


async def test_output_waits_for_its_reader_and_the_loop_does_not(pipe):
    """A chunk that nobody takes yet is still being written while everything else goes on; then it arrives whole."""
    reading, writing = pipe
    faults: list[OSError] = []
    outlet = Outlet(writing, faults.append)

    passing = asyncio.create_task(outlet(LARGE))
    await asyncio.sleep(0.05)
    assert not passing.done()
    taken = await asyncio.to_thread(whole, reading, len(LARGE))
    await passing

    assert (taken, faults) == (LARGE, [])


def whole(descriptor: int, length: int) -> bytes:
    """Read so much."""
    taken = b""
    while len(taken) < length:
        taken += os.read(descriptor, length - len(taken))
    return taken


async def test_an_abandoned_output_is_waited_for_no_longer(pipe):
    """Once nobody waits for the reader, what is being written is given up at once, and nothing more is written."""
    _, writing = pipe
    outlet = Outlet(writing, unexpected)
    passing = asyncio.create_task(outlet(LARGE))
    await asyncio.sleep(0.05)

    began = time.monotonic()
    outlet.abandon()
    await passing
    await outlet(LARGE)

    assert outlet.is_stuck
    assert time.monotonic() - began < 1


async def test_a_reader_that_left_is_told_once(pipe):
    """A broken pipe is reported once, and what comes after is dropped."""
    reading, writing = pipe
    faults: list[OSError] = []
    outlet = Outlet(writing, faults.append)
    os.close(reading)

    for chunk in (b"small", LARGE, b"small"):
        await outlet(chunk)

    assert [type(fault) for fault in faults] == [BrokenPipeError]


@pytest.mark.parametrize("raw", [True, False])
async def test_only_a_terminal_is_protected(pipe, raw):
    """To a pipe every byte passes, with --raw or without."""
    reading, writing = pipe
    outlet = Outlet(writing, unexpected, raw=raw)

    await outlet(b"\x1b]0;title\x07\xff")
    await outlet.finish()

    assert os.read(reading, 100) == b"\x1b]0;title\x07\xff"


async def test_input_is_read_when_it_is_wanted(pipe):
    """Nothing is taken from a pipe before somebody asks for it; its end is nothing."""
    reading, writing = pipe
    source = inlet(reading)
    assert source is not None
    os.write(writing, b"hello")

    assert await source.read(2) == b"he"
    assert os.read(reading, 100) == b"llo"
    os.close(writing)
    assert await source.read(10) == b""


def test_there_may_be_no_input(tmp_path):
    """The null device, a folder and a closed descriptor are no input; a file is."""
    (tmp_path / "file").write_text("x")
    closed = os.open(tmp_path, os.O_RDONLY)
    opened = [os.open(path, os.O_RDONLY) for path in (os.devnull, tmp_path, tmp_path / "file")]
    os.close(closed)

    assert [inlet(number) is None for number in (closed, *opened)] == [True, True, True, False]
    for descriptor in opened:
        os.close(descriptor)
