"""A plane's home, opened to serve others: its store, the plane's key, its policy and its secrets.

There is no runner here and no runner's key: whoever holds this home decides and signs, and runs nothing. Its runs
belong to no process, so any number of processes may open it at once. `make_plane` makes the key; opening never does.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from tipstaff.errors import NotFoundError
from tipstaff.home import Home
from tipstaff.keys import PrivateKey
from tipstaff.keys.files import SUFFIX, load, save
from tipstaff.keys.known import KnownKey, read_known_keys, update_known_keys
from tipstaff.local.opening import read_secret
from tipstaff.local.policies import refuse_others
from tipstaff.plane import Authority, Plane, SteadyClock, most_home_bytes
from tipstaff.policy import Policy, load_policy
from tipstaff.store import Store

PLANE: Final = "plane"
LEASE_MS: Final = 60_000
Wake = Callable[[str], None]


def make_plane(home: Home) -> PrivateKey:
    """Make a plane's key in a home that has none; the home then trusts what that key signs."""
    key = PrivateKey.generate()
    save(key, home.keys, PLANE)
    own = KnownKey(public_key_pem=key.public.pem, role="plane", name="this plane")
    update_known_keys(home.known_keys, lambda keys: keys.trust(own))
    return key


def plane_policy(home: Home) -> Policy:
    """Load the policy of a plane's home. There is no default: a plane says itself what it allows."""
    found = load_policy(home.policy)
    refuse_others(home.policy)
    return found


def is_plane(home: Home) -> bool:
    """Say whether a plane was made here."""
    return (home.keys / (PLANE + SUFFIX)).exists()


def _nobody(_topic: str) -> None:
    """Wake nobody."""


@contextmanager
def open_serving(home: Home, policy: Policy, *, lease_ms: int = LEASE_MS, wake: Wake = _nobody) -> Iterator[Plane]:
    """Open a plane's home."""
    if not is_plane(home):
        raise NotFoundError(f"there is no plane in {home.root}", hint="make one with: tipstaff plane init")
    home.make()
    key, known = load(home.keys / (PLANE + SUFFIX)), read_known_keys(home.known_keys)
    store = Store(home.root)
    try:
        yield Plane(
            Authority(
                store=store,
                key=key,
                policy=policy,
                clock=SteadyClock(),
                random=os.urandom,
                known=known,
                read_secret=partial(read_secret, home),
                most_home_bytes=most_home_bytes(os.environ),
                shared=True,
                lease_ms=lease_ms,
                wake=wake,
            )
        )
    finally:
        store.close()
