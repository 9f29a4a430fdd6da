"""A runner of its own for each test: a served plane, a tier that obeys, and a directory."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.plane.embedded import PLANE, RUNNER, Embedded
from tests.unit.policy.conftest import open_policy
from tests.unit.runner.serving import Served, served
from tests.unit.session.conftest import Obedient
from tipstaff.evidence import verify
from tipstaff.isolation.tier import Ended, Passage, Plan
from tipstaff.plane.clock import SteadyClock
from tipstaff.runner.address import address_of
from tipstaff.runner.carrying import Means
from tipstaff.runner.client import Claim
from tipstaff.runner.contracts import Place
from tipstaff.runner.http import OverHttp
from tipstaff.runner.nothing import NoBlobs
from tipstaff.runner.seen import Seen
from tipstaff.runner.sending import Sender
from tipstaff.runner.service import Service, Settings
from tipstaff.runner.spool import Spool
from tipstaff.session import Host

Json = dict[str, Any]
LONG = b"0123456789abcdef" * 8192  # bytes: twice what goes with a receipt
SECONDS = 20.0  # longer than anything here takes, on whatever machine


class Lasting(Obedient):
    """A tier whose command lasts until the test lets it go, or somebody stops it."""

    def __init__(self) -> None:
        super().__init__()
        self.began = asyncio.Event()
        self.go = asyncio.Event()

    async def run(self, plan: Plan, passage: Passage) -> Ended:
        self.plans.append(plan)
        problem = await passage.gate(self.verdicts) if passage.gate else ""
        assert not problem
        for stream, content in self.prints:
            getattr(passage, stream)(content)
        self.began.set()
        waits = [asyncio.ensure_future(event.wait()) for event in (self.go, passage.cancel)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        return Ended(ending="cancelled", exit_code=130) if passage.cancel.is_set() else self.ended


class Bench:
    """One plane, one runner's directory, and what a test makes of them."""

    def __init__(self, folder: Path, plane: Served) -> None:
        self.data = folder / "runner"
        self.data.mkdir(mode=0o700)
        self.plane = plane
        self.said: list[str] = []
        self.tier: Obedient = Obedient()
        self.clients: list[OverHttp] = []
        self.proves = True  # whether the plane said at enrolment that it signs for claims

    @property
    def site(self) -> Embedded:
        """The plane behind the server."""
        return self.plane.site

    def client(self, url: str = "") -> OverHttp:
        """A way to the plane."""
        made = OverHttp(address_of(url or self.plane.url), self.site.token, "default")
        self.clients.append(made)
        return made

    def means(self, **changes: Any) -> Means:
        """What a service works with."""
        client = changes.pop("client", None) or self.client()
        host = Host(
            tiers={"bwrap": self.tier},
            blobs=NoBlobs(),
            environ={},
            clock=changes.pop("clock", None) or SteadyClock(),
            facts={"kernel": "test"},
        )
        runner_id = self.site.plane.enroll(RUNNER.public.pem, "default")["runnerId"]
        place = Place(
            plane_key=PLANE.public,
            runner_id=runner_id,
            runner_key_id=RUNNER.public.key_id,
            pool="default",
            proves=self.proves,
        )
        return Means(
            client=client,
            host=host,
            key=RUNNER,
            place=place,
            spool=Spool(self.data),
            seen=Seen(self.data, host.clock()),
            data=self.data,
            sender=Sender(client, place, float, self.said.append),
            chance=float,
            **changes,
        )

    def service(self, means: Means | None = None, **settings: Any) -> Service:
        """A runner at work, quick to look again and to give up."""
        settings = {"wait_ms": 50, "poll_seconds": 0.05, "last_try_seconds": 0.2, **settings}
        return Service(means or self.means(), Settings(**settings), self.said.append)

    async def once(self, **settings: Any) -> Service:
        """Carry out one run."""
        service = self.service(once=True, **settings)
        await asyncio.wait_for(service.run(), SECONDS)
        return service

    def kept(self) -> list[Path]:
        """List what is in the spool."""
        return list((self.data / "spool").glob("*.ndjson"))


MakeBench = Callable[..., Bench]


@pytest.fixture
async def make_bench(tmp_path: Path) -> AsyncIterator[MakeBench]:
    """Make a bench with sections of the policy replaced, and whatever else the plane has to be."""
    undo: list[Any] = []
    benches: list[Bench] = []

    def make(policy: Json | None = None, **means: Any) -> Bench:
        (tmp_path / "plane").mkdir()
        means = {"clock": SteadyClock(), "random": os.urandom, "shared": True, **means}
        site = Embedded(tmp_path / "plane", policy=open_policy(**(policy or {})), **means)
        context = served(site)
        undo.extend([(context.__exit__, (None, None, None)), (site.close, ())])
        benches.append(Bench(tmp_path, context.__enter__()))
        return benches[-1]

    yield make
    for bench in benches:
        for client in bench.clients:
            await client.close()
    for step, arguments in undo:
        step(*arguments)


@pytest.fixture
def bench(make_bench: MakeBench) -> Bench:
    """One plane whose policy allows everything, and one runner."""
    return make_bench()


async def until(condition: Callable[[], Any]) -> None:
    """Wait until something holds; fail when it takes too long."""
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110 - what is waited for is in another thread or process
            await asyncio.sleep(0.01)


def last_event(bench: Bench, run_id: str) -> Json:
    """Give the last event of a run, whose bundle has to verify."""
    bundle = bench.site.plane.bundle(run_id)
    assert verify(bundle, [PLANE.public]).verdict == "valid"
    event: Json = bundle["events"][-1]["event"]
    return event


async def claimed(means: Means) -> Claim:
    """Claim a run as the service does."""
    claim = await means.client.claim(["bwrap"], {"nonce": "0" * 32})
    assert claim is not None
    return claim


async def drained(bench: Bench) -> None:
    """Be a runner's next process, until nothing is left in its spool."""
    service = bench.service()
    working = asyncio.create_task(service.run())
    await until(lambda: not bench.kept())
    service.stop()
    await working


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Embedded]:
    """A plane that serves several, by itself."""
    made = Embedded(tmp_path, shared=True)
    yield made
    made.close()
