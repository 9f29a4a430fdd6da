"""The host's resolver is asked away from the loop, and nobody waits for it who need not."""

import asyncio
import subprocess
import sys

import pytest

from tipstaff.egress.resolve import Resolver


async def test_a_name_is_resolved():
    """A name that the host knows has its addresses, each once."""
    found = await Resolver()("localhost", 80)

    assert set(found) <= {"127.0.0.1", "::1"}
    assert len(found) == len(set(found)) > 0


async def test_a_name_that_nobody_knows_is_an_error():
    """A name that cannot exist is an OSError, also one that is too long to be asked for."""
    for name in ("nobody.invalid", "a" * 300):
        with pytest.raises(OSError, match=r".+"):
            async with asyncio.timeout(20):
                await Resolver()(name, 80)


def test_hanging_resolvers_are_bounded():
    """However many names are asked for and given up, only so many threads hang."""
    program = """
import asyncio, socket, threading, time
socket.getaddrinfo = lambda *_, **__: time.sleep(60)
from tipstaff.egress.resolve import Resolver, AT_ONCE
async def main():
    resolve = Resolver()
    await asyncio.gather(*(asyncio.wait_for(resolve("a.test", 80), 0.05) for _ in range(100)), return_exceptions=True)
    print(threading.active_count() - 1 == AT_ONCE)
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=30, check=True)

    assert done.stdout == b"True\n"


def test_a_hanging_resolver_does_not_keep_the_process():
    """A program ends while a resolver still hangs."""
    program = """
import asyncio, socket, time
socket.getaddrinfo = lambda *_, **__: time.sleep(60)
from tipstaff.egress.resolve import Resolver
async def main():
    try:
        await asyncio.wait_for(Resolver()("a.test", 80), 0.05)
    except TimeoutError:
        print("gave up")
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=30, check=True)

    assert done.stdout == b"gave up\n"
