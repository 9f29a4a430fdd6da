"""A runner's process: its sandbox tiers, its signals, and what it says on stderr."""

import argparse
import asyncio
import gc
import os
import random
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from tipstaff.doors.cli.output import emit_json, flush, say
from tipstaff.doors.cli.runner.options import TOKEN, address_for, ca_of, made_data, surroundings, tell, wish_of
from tipstaff.errors import UsageError
from tipstaff.isolation.tier import Tier
from tipstaff.local.host import host_facts
from tipstaff.plane import SteadyClock
from tipstaff.runner.address import Address
from tipstaff.runner.carrying import Means
from tipstaff.runner.contracts import Place
from tipstaff.runner.enrolling import identity_of
from tipstaff.runner.http import OverHttp
from tipstaff.runner.identity import Identity
from tipstaff.runner.lock import DRAIN, only_one
from tipstaff.runner.nothing import NoBlobs
from tipstaff.runner.seen import Seen
from tipstaff.runner.sending import Sender
from tipstaff.runner.service import Service, Settings
from tipstaff.runner.spool import Spool
from tipstaff.session import Host

_STOPPING = (signal.SIGTERM, signal.SIGINT)


def work(args: argparse.Namespace) -> int:
    """Be a runner until somebody stops it."""
    if args.concurrency < 1:
        raise UsageError(f"--concurrency is {args.concurrency}, and must be at least 1", hint="leave it out for one")
    data = made_data(args, surroundings())
    with only_one(data):
        return asyncio.run(_work(args, data))


async def _work(args: argparse.Namespace, data: Path) -> int:
    environ, is_drained = surroundings(), asyncio.Event()
    # From here on: unheeded, this signal would kill. Whoever drains a runner that is not ready yet has it take nothing.
    asyncio.get_running_loop().add_signal_handler(DRAIN, is_drained.set)
    identity, _ = await identity_of(data, wish_of(args, data, environ), tell)
    os.environ.pop(TOKEN, None)  # it has served; nothing that is started from here on need know it
    address = address_for(args, data, environ)
    settings = Settings(concurrency=1 if args.once else args.concurrency, once=args.once, labels=tuple(args.label))
    client = OverHttp(address, identity.record.runner_token, identity.record.pool, ca=ca_of(args, environ))
    try:
        async with _tiers(args.tier) as tiers:
            service = Service(_means(client, identity, data, tiers), settings, tell)
            _heed(service)
            gc.freeze()  # what was imported stays to the end: no collection need look at it
            _ready(args, identity, address, tiers)
            if is_drained.is_set():
                service.drain()
            await service.run()
    finally:
        await client.close()
    return _ended(args, service)


def _ended(args: argparse.Namespace, service: Service) -> int:
    if args.once and args.json:
        emit_json({"runs": service.done})
    elif args.once:
        for run_id in service.done:
            say(run_id)
    return 0


def _means(client: OverHttp, identity: Identity, data: Path, tiers: Mapping[str, Tier]) -> Means:
    record, clock = identity.record, SteadyClock()
    place = Place(
        plane_key=identity.plane_key,
        runner_id=record.runner_id,
        runner_key_id=identity.key.public.key_id,
        pool=record.pool,
        proves=record.plane_proves,
    )
    return Means(
        client=client,
        host=Host(tiers=tiers, blobs=NoBlobs(), environ=os.environ, clock=clock, facts=host_facts()),
        key=identity.key,
        place=place,
        spool=Spool(data),
        seen=Seen(data, clock()),
        data=data,
        sender=Sender(client, place, random.random, tell),
        chance=random.random,
    )


@asynccontextmanager
async def _tiers(more: list[str]) -> AsyncIterator[Mapping[str, Tier]]:
    """Have one spawner for all runs; only tiers that this host can keep are offered."""
    from tipstaff.isolation.bwrap import Bubblewrap  # noqa: PLC0415 - few commands need a sandbox
    from tipstaff.isolation.process import Process  # noqa: PLC0415 - as above

    own = Bubblewrap()
    asked: dict[str, Tier] = {"bwrap": own, **({"process": Process(workshop=own.workshop)} if more else {})}
    try:
        reports = {name: await tier.promise() for name, tier in asked.items()}
        for name, report in reports.items():
            if not report.available:
                tell(f"the tier {name} cannot be had here: {report.missing}")
        tiers = {name: tier for name, tier in asked.items() if reports[name].available}
        if not tiers:
            raise UsageError("this host has no tier to run anything in", hint="see: tipstaff doctor")
        yield tiers
    finally:
        await own.close()


def _heed(service: Service) -> None:
    """Take the polite signals as a wish to stop, and one of them as a wish to take no more."""
    for number in _STOPPING:
        asyncio.get_running_loop().add_signal_handler(number, service.stop)
    asyncio.get_running_loop().add_signal_handler(DRAIN, service.drain)


def _ready(args: argparse.Namespace, identity: Identity, address: Address, tiers: Mapping[str, Tier]) -> None:
    record = identity.record
    tell(f"runner {record.runner_id} ready: pool {record.pool}, plane {address.url}, tiers {', '.join(tiers)}")
    if args.json and not args.once:
        said = {"runnerId": record.runner_id, "pool": record.pool, "plane": address.url}
        emit_json({**said, "tiers": list(tiers), "pid": os.getpid()})
        flush()
