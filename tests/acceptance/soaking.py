"""A worker of the soak: opens a home, asks for runs of every kind, a few at once, until it is done or killed.

Run as `python -m tests.acceptance.soaking HOME COUNT SEED`. Says "open" when its spawner stands.
"""

import asyncio
import random
import sys
from pathlib import Path

from tipstaff.home import Home
from tipstaff.local.embedded import Local, open_local
from tipstaff.local.policies import choose_policy

AT_ONCE = 6
COMMANDS = (
    "true",
    "exit 3",
    "echo $$; sleep 0.05",
    "setsid sleep 777.25 & exit 0",
    "(setsid setsid sleep 777.25 &) ; sleep 0.1",
    "kill -SEGV $$",
    "head -c 300000 /dev/zero",
    "echo x > file; mkdir -p a/b; echo y > a/b/c; sleep 0.02",
)


async def main(home: Home, count: int, seed: int) -> None:
    """Ask for `count` runs."""
    chance = random.Random(seed)  # noqa: S311 - a soak that can be repeated
    places = asyncio.Semaphore(AT_ONCE)
    async with open_local(home, choose_policy(home, None, {})) as local:
        await local.facts()
        print("open", flush=True)  # noqa: T201 - what the parent waits for
        await asyncio.gather(*(one(local, places, chance.choice(COMMANDS)) for _ in range(count)))


async def one(local: Local, places: asyncio.Semaphore, script: str) -> None:
    """Ask for one run; whatever becomes of it, the store must know."""
    request = {"requestedBy": {"kind": "service", "id": "soak"}, "execution": {"kind": "shell", "script": script}}
    async with places:
        await local.run(request)


if __name__ == "__main__":
    asyncio.run(main(Home(Path(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])))
