"""A home, opened: its store, its keys and its plane, and what a dead process left closed.

`open_plane` is for whoever only looks, approves or tidies up: it imports no sandbox and no event loop.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from tipstaff.home import Home
from tipstaff.local.identity import Identity, identity_of
from tipstaff.plane import Authority, Plane, SteadyClock, most_home_bytes
from tipstaff.policy import Policy
from tipstaff.store import Owner, Store

_OWNER_BYTES: Final = 8
Opened = tuple[Plane, Store, Identity]


def read_secret(home: Home, name: str) -> str | None:
    """Read a secret of the home's, when it is to be released."""
    from tipstaff.secrets.sources import Sources  # noqa: PLC0415 - most runs have no secret

    return Sources(home.root, os.environ).read(name)


@contextmanager
def open_plane(home: Home, policy: Policy | None = None) -> Iterator[Plane]:
    """Open a home to look, approve or tidy up."""
    from tipstaff.policy.shipped import shipped  # noqa: PLC0415 - parsing it is for those who do not bring one

    with opened(home, policy or shipped("local"), owned=False) as (plane, _, _):
        yield plane


@contextmanager
def opened(home: Home, policy: Policy, *, owned: bool) -> Iterator[Opened]:
    """Open a home; `owned` says that its runs are this process's."""
    home.make()
    identity = identity_of(home)
    store = Store(home.root)
    owner: Owner | None = None
    try:
        owner = store.owners.take(os.urandom(_OWNER_BYTES).hex()) if owned else None
        plane = Plane(
            Authority(
                store=store,
                key=identity.plane,
                policy=policy,
                clock=SteadyClock(),
                random=os.urandom,
                owner=owner,
                known=identity.known,
                read_secret=partial(read_secret, home),
                most_home_bytes=most_home_bytes(os.environ),
            )
        )
        plane.close_lost()
        yield plane, store, identity
    finally:
        store.close()
        if owner is not None:
            owner.release()
