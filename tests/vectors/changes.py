"""What the vectors share: usual events, and changes that somebody without a key can make to a signed document."""

import json
from collections.abc import Callable
from typing import Any

from tests.vectors.story import (
    ASKED,
    CLAIMED,
    COMPLETED,
    CONTRACT,
    CREATED,
    DIFF,
    DIFF_HASH,
    EXECUTED,
    LOG,
    LOG_HASH,
    REQUESTED,
    RUNNER,
    STRANGER,
    Json,
    Run,
    granted,
    materialized,
)
from tipstaff.evidence.chain import chained
from tipstaff.evidence.seal import payload_digest, signed

STANDS = materialized(CONTRACT)
RAN = (STANDS, EXECUTED, COMPLETED)
SECRETS = [{"name": "TOKEN", "scope": "session"}]
ARTIFACTS = {DIFF_HASH: DIFF.decode(), LOG_HASH: LOG.decode()}
ANOTHER = "ab" * 32
ANOTHER_ACTOR = {"kind": "human", "id": "carl@example.com"}
CONSENTED = (CREATED, ASKED, REQUESTED, granted(), CLAIMED, *RAN)
TRUE_IDENTITY = Run().identity


def change(*path: str | int, to: Any) -> Callable[[Json], None]:
    """Set one value inside a bundle that is signed already; a list is given one more element at -1."""

    def changed(document: Json) -> None:
        target: Any = document
        for step in path[:-1]:
            target = target[step]
        if path[-1] == "+":
            target.append(to)
        else:
            target[path[-1]] = to

    return changed


def rehash(links: list[Json], first: int) -> None:
    """Chain the events anew from one on, as somebody without a key can."""
    for index in range(first, len(links)):
        link = links[index]
        prev = links[index - 1]["hash"] if index else link["prev"]
        links[index] = chained(link["seq"], link["ts"], prev, link["event"])


def fork(document: Json) -> None:
    """Change one event when everybody has signed, and hash all that follow."""
    document["events"][4]["event"] = {**EXECUTED, "exitCode": 1}
    rehash(document["events"], 4)


def skip_a_number(document: Json) -> None:
    """Leave a number out, with hashes that fit."""
    links = document["events"]
    for link in links[4:]:
        link["seq"] += 1
    rehash(links, 4)


def start_elsewhere(document: Json) -> None:
    """Begin the chain with another contract's hash."""
    document["events"][0]["prev"] = ANOTHER
    first = document["events"][0]
    document["events"][0] = chained(0, first["ts"], ANOTHER, first["event"])
    rehash(document["events"], 1)


def odd_time(document: Json) -> None:
    """Date an event without milliseconds, with hashes that fit."""
    document["events"][3]["ts"] = "2026-03-01T00:00:00Z"
    rehash(document["events"], 3)


def no_such_day(document: Json) -> None:
    """Date an event on a day that no calendar has, with hashes that fit."""
    document["events"][3]["ts"] = "2026-02-31T00:00:00.000Z"
    rehash(document["events"], 3)


def cut(document: Json) -> None:
    """Take the last events away."""
    del document["events"][8:]


def sign_as_plane(document: Json) -> None:
    """Put a stranger's signature in the place of the plane's on the contract."""
    contract = document["contract"]
    contract["signatures"][0]["sig"] = STRANGER.sign(payload_digest(contract).encode())


def without_countersignature(document: Json) -> None:
    """Take the plane's signature off the receipt."""
    del document["receipt"]["signatures"][1]


def trailing_bits(document: Json) -> None:
    """Set a bit of the last base64 digit that no byte uses."""
    signature = document["receipt"]["signatures"][0]
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    last = digits[digits.index(signature["sig"][-3]) + 1]
    signature["sig"] = f"{signature['sig'][:-3]}{last}=="


def add_signature(place: str, role: str) -> Callable[[Json], None]:
    """Add a stranger's signature in some role."""

    def changed(document: Json) -> None:
        role_as: Any = role
        document[place]["signatures"] = signed(document[place], STRANGER, role_as)["signatures"]

    return changed


def stray_runner_signature(document: Json) -> None:
    """Let a lost runner sign after all."""
    receipt = document["receipt"]
    receipt["signatures"].insert(0, signed(receipt, RUNNER, "runner")["signatures"][-1])


def crlf(document: Json) -> None:
    """Spell the plane's key with other line ends."""
    document["keys"]["planePublicKeyPem"] = document["keys"]["planePublicKeyPem"].replace("\n", "\r\n")


def drop_entry(document: Json, index: int) -> Json:
    """A journal without one of its entries."""
    del document["entries"][index]
    return document


def text_of(run: Run) -> str:
    """The text of a bundle."""
    return json.dumps(run.bundle(), indent=1)
