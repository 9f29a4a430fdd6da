"""Content that a runner brings: small ones inside a message, others one by one; and whose each of them is.

A run's events may name only content that its own runner brought for it, or that its own workspace is made of: who
could name any digest could have anybody's content shown to the run's requester.
"""

from base64 import b64decode
from binascii import Error
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO, Final

from tipstaff.errors import InputError, NotFoundError, PlaneError
from tipstaff.plane.authority import Authority
from tipstaff.plane.contract import blobs_of_manifest
from tipstaff.plane.room import refuse_full
from tipstaff.store import Run
from tipstaff.store.blobs import Still, always

Json = dict[str, Any]
MOST_INLINE_BYTES: Final = 64 * 1024
MOST_INLINE: Final = 1024 * 1024
LOOK_BYTES: Final = 8 * 1024**2  # between one look at the disk and the next
MOST_UNUSED_BYTES: Final = 8 * 1024**3


class OwnedWriter:
    """One blob being written, which is somebody's once it is finished."""

    def __init__(self, authority: Authority, owner: str) -> None:
        self._authority = authority
        self._owner = owner
        self._unused = authority.store.blobs.unused_of(owner)
        self._written = 0
        self._looked_at = -LOOK_BYTES
        self._writer = authority.store.blobs.writer()

    def write(self, chunk: bytes) -> None:
        """Take some more bytes, as long as there is room for them."""
        self._written += len(chunk)
        if self._written - self._looked_at >= LOOK_BYTES:
            self._looked_at = self._written
            refuse_full(self._authority, self._written)
        if self._unused + self._written > MOST_UNUSED_BYTES:
            message = f"{self._owner!r} has brought {MOST_UNUSED_BYTES} bytes that no run names"
            raise PlaneError(message, status=413, code="too_much", reasons=("they are removed after a day",))
        self._writer.write(chunk)

    def finish(self) -> str:
        """Keep the blob; gives its sha-256."""
        digest = self._writer.finish()
        with self._authority.store.database.transaction():
            self._authority.store.blobs.own(self._owner, digest)
        return digest

    def discard(self) -> None:
        """Forget it."""
        self._writer.discard()


def run_owner(run_id: str) -> str:
    """Name the owner of what a run's runner brings; no principal has a name like it."""
    return f"run:{run_id}"


def read_contents(value: Any) -> list[bytes]:
    """Read the small contents that came inside a message."""
    if value is None:
        return []
    if type(value) is not list or not all(type(one) is str and one.isascii() for one in value):
        raise InputError("`blobs` is not a list of base64 texts")
    if sum(map(len, value)) > MOST_INLINE * 4 // 3 + 4:
        raise PlaneError("`blobs` holds too much for one message", status=413, code="blobs_too_large")
    try:
        contents = [b64decode(one, validate=True) for one in value]
    except (Error, ValueError) as error:
        raise InputError(f"`blobs` holds something that is not base64: {error}") from error
    if any(len(one) > MOST_INLINE_BYTES for one in contents):
        raise PlaneError("a blob inside a message is at most 64 KiB", status=413, code="blobs_too_large")
    return contents


def keep_contents(authority: Authority, run: Run, contents: Iterable[bytes]) -> None:
    """Keep what a runner brought inside a message; inside the transaction that takes the message."""
    for content in contents:
        digest = authority.store.blobs.put(content)
        authority.store.blobs.own(run_owner(run.run_id), digest)


def refuse_foreign_artifacts(authority: Authority, run: Run, links: Sequence[Json]) -> None:
    """Refuse events that name content which this run did not bring."""
    named = {link["event"]["hash"] for link in links if link["event"]["type"] == "artifact.created"}
    if foreign := sorted(one for one in named if not _is_of(authority, run, one)):
        message = f"the artifact {str(foreign[0])[:64]} was not uploaded for this run"
        next_step = "upload it with the claim token first"
        raise PlaneError(message, status=403, code="artifact_unknown", reasons=(next_step,))


def content_of_claim(authority: Authority, run: Run, digest: str, still: Still = always) -> BinaryIO:
    """Give a runner content that its run is made of, or that it brought itself."""
    if not _is_of(authority, run, digest):
        raise NotFoundError(f"there is no blob {digest[:64]} for this run")
    return authority.store.blobs.open(digest, still)


def content_of_anybody(authority: Authority, digest: str, still: Still = always) -> BinaryIO:
    """Give content to whoever names it: only what a run that a runner holds now is made of."""
    users = authority.store.blobs.users(digest)
    for run_id in users:
        run = authority.store.runs.get(run_id)
        if run.claimed and digest in blobs_of_manifest(run.contract["workspace"]):
            return authority.store.blobs.open(digest, still)
    raise NotFoundError(f"there is no blob {digest[:64]}")


def _is_of(authority: Authority, run: Run, digest: str) -> bool:
    return authority.store.blobs.is_owned(run_owner(run.run_id), digest) or digest in blobs_of_manifest(
        run.contract["workspace"]
    )
