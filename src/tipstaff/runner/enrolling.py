"""Enrolment: a runner with a key of its own becomes known to its plane, once.

Tried again for a minute where the plane cannot be reached, since both may just have been started, and said once; what
the plane says no to, or a certificate that nobody vouches for, is not tried again. What it answered is kept before
anything else is done with it.
"""

import asyncio
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from tipstaff.errors import PlaneError, SigningKeyError, UsageError
from tipstaff.runner.address import Address
from tipstaff.runner.client import BUSY, UnreachableError, unreadable
from tipstaff.runner.http import OverHttp
from tipstaff.runner.identity import (
    Identity,
    Record,
    enrolled,
    keep,
    open_directory,
    pin,
    refuse_other_pool,
    runner_key,
)

Json = dict[str, Any]
Tell = Callable[[str], None]
TRY_SECONDS: Final = 60.0
PAUSE_SECONDS: Final = 2.0
DEFAULT_POOL: Final = "default"


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator says when a runner is enrolled or started."""

    address: Address | None = None  # None: the one that the runner was enrolled at
    token: str = ""
    pool: str | None = None
    plane_key: Path | None = None
    ca: Path | None = None
    labels: tuple[str, ...] = ()
    try_seconds: float = TRY_SECONDS
    pause_seconds: float = PAUSE_SECONDS


class _Enrolled(msgspec.Struct, frozen=True, rename="camel"):
    """What a plane answers; older ones do not tell their key."""

    runner_id: str
    runner_token: str
    plane_public_key_pem: str | None = None


def _nobody(_text: str) -> None:
    """Tell nobody."""


async def identity_of(data: Path, wish: Wish, tell: Tell = _nobody) -> tuple[Identity, bool]:
    """Give the runner of a directory, enrolled now if it was not; says whether it was enrolled now.

    `tell` hears why it takes longer.
    """
    open_directory(data)
    key = runner_key(data)
    record = enrolled(data)
    if record is not None:
        refuse_other_pool(record, wish.pool, data)
        _refuse_other_plane(record, wish.address)
        return Identity(record, key, pin(data, None, wish.plane_key)), False
    if wish.address is None:
        raise UsageError("this runner is not enrolled, and no plane was named", hint="say --plane URL")
    if not wish.token:
        raise UsageError(
            "this runner is not enrolled, and there is no token to do so with",
            hint="make one with: tipstaff plane enroll-token, and put it into TIPSTAFF_ENROLL_TOKEN",
        )
    pool = wish.pool or DEFAULT_POOL
    reply = await _answer(wish, {"enrollToken": wish.token, "publicKeyPem": key.public.pem, "pool": pool}, tell)
    proves = bool(reply.plane_public_key_pem)
    record = Record(reply.runner_id, reply.runner_token, pool, wish.address.url, proves)
    # The key first: what is kept as enrolled must be able to tell its plane's contracts from others'.
    try:
        plane_key = pin(data, reply.plane_public_key_pem, wish.plane_key)
    except SigningKeyError as error:
        raise unreadable("its own key", error.message) from error
    keep(data, record)
    return Identity(record, key, plane_key), True


async def _answer(wish: Wish, body: Json, tell: Tell) -> _Enrolled:
    if wish.labels:
        body = {**body, "labels": list(wish.labels)}
    reply = await _patiently(wish, body, tell)
    try:
        return msgspec.convert(reply, _Enrolled)
    except msgspec.ValidationError as error:
        raise unreadable("an enrolment", str(error)) from error


async def _patiently(wish: Wish, body: Json, tell: Tell) -> Json:
    """Ask until the plane answers, or the time for that is over."""
    if wish.address is None:
        raise ValueError("there is nobody to ask")
    end = time.monotonic() + wish.try_seconds
    client = OverHttp(wish.address, ca=wish.ca)
    try:
        while True:
            try:
                return await client.enroll(body)
            except UnreachableError as error:
                _refuse_certificate(wish.address, error)
                if error.code != "unreachable" or time.monotonic() + wish.pause_seconds > end:
                    raise
                tell(f"{error.message}; trying for {wish.try_seconds:g} s")
                tell = _nobody  # the same again says nothing new
            await asyncio.sleep(wish.pause_seconds)
    finally:
        await client.close()


def _refuse_certificate(address: Address, error: UnreachableError) -> None:
    """Refuse a plane whose certificate does not hold: to ask again would not mend it."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    if cause is not None:
        why = getattr(cause, "verify_message", "") or str(cause)
        raise PlaneError(
            f"the certificate of the plane at {address.url} is not trusted: {why}",
            status=BUSY,
            code="certificate",
            reasons=("if somebody of yours vouches for it, name their certificates with --ca FILE",),
        ) from error


def _refuse_other_plane(record: Record, address: Address | None) -> None:
    if address is not None and record.plane_url and address.url != record.plane_url:
        raise UsageError(
            f"this runner was enrolled at {record.plane_url}, not at {address.url}",
            hint="leave --plane out, or enroll another runner with another --data",
        )
