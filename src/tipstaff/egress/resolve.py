"""The host's own resolver, asked once per connection, away from the loop.

The threads are daemons of our own: a resolver that hangs delays neither other work of the loop nor the end of the
process. How many may hang at once is bounded, also when nobody waits for them any more.
Resolves as the host itself would: its hosts file and its search domains are the owner's business.
"""

import asyncio
import contextlib
import socket
import threading
from typing import Final

AT_ONCE: Final = 32


class Resolver:
    """Asks the host for addresses."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(AT_ONCE)

    async def __call__(self, host: str, port: int) -> list[str]:
        """List the addresses of a name, in the host's order; OSError when it has none."""
        await self._places.acquire()
        loop = asyncio.get_running_loop()
        found: asyncio.Future[list[str]] = loop.create_future()
        threading.Thread(target=self._ask, args=(loop, found, host, port), daemon=True).start()
        return await found

    def _ask(self, loop: asyncio.AbstractEventLoop, found: "asyncio.Future[list[str]]", host: str, port: int) -> None:
        addresses: list[str] | OSError
        try:
            known = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
            addresses = list(dict.fromkeys(str(place[0]) for *_, place in known))
        except (OSError, UnicodeError) as fault:
            addresses = fault if isinstance(fault, OSError) else OSError(str(fault))
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(self._settle, found, addresses)

    def _settle(self, found: "asyncio.Future[list[str]]", addresses: list[str] | OSError) -> None:
        self._places.release()
        if found.done():
            return
        if isinstance(addresses, OSError):
            found.set_exception(addresses)
        else:
            found.set_result(addresses)
