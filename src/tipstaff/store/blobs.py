"""Bytes by their sha-256: small ones in a row of the database, large ones each in a file named by its digest.

A file is written under another name, synced and renamed: under its own name it is whole or not there. What is read is
hashed again: bytes that do not fit their name are never given out. Knows who brought a blob, and judges nothing by it.
"""

import fcntl
import os
from collections.abc import Callable, Iterable
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final

from tipstaff.errors import BusyError, NotFoundError, StoreError
from tipstaff.store.database import Database

IN_ROW: Final = 64 * 1024  # bytes: a file of its own costs a sync, a row rides on the run's transaction
PART: Final = ".part"
PIECE: Final = 1024 * 1024  # bytes hashed at once
Still = Callable[[], bool]  # says whether anybody still waits
# `touched` is the newest run at that time: with it, whoever removes what is not used can tell what is too new to judge.
_KEEP: Final = (
    "INSERT INTO blobs (hash, bytes, content, touched, touched_at)"
    " VALUES (?, ?, ?, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'runs'), 0), unixepoch())"
    " ON CONFLICT (hash) DO UPDATE SET touched = excluded.touched, touched_at = excluded.touched_at"
    " WHERE touched < excluded.touched OR touched_at < excluded.touched_at"
)
_UNUSED: Final = (
    "(touched < coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'runs'), 0)"
    " AND touched < (SELECT coalesce(min(number), 9e18) FROM runs"
    " WHERE state NOT IN ('completed', 'failed', 'cancelled'))"
    " OR touched_at < unixepoch() - 86400)"  # what nothing names after a day, nothing will name
    " AND NOT EXISTS (SELECT 1 FROM uses WHERE uses.hash = blobs.hash)"
)


def always() -> bool:
    """Say that somebody waits."""
    return True


class Blobs:
    """The blobs of one store."""

    def __init__(self, database: Database, folder: Path) -> None:
        self._database = database
        self._folder = folder

    def put(self, content: bytes) -> str:
        """Keep `content`; gives its sha-256. Keeping it again changes nothing."""
        writer = self.writer()
        writer.write(content)
        return writer.finish()

    def get(self, wanted: str) -> bytes:
        """Give the bytes with this sha-256, checked."""
        row = self._database.one("SELECT content FROM blobs WHERE hash = ?", wanted)
        if row is None:
            raise NotFoundError(f"there is no blob {wanted[:64]}")
        content = bytes(row[0]) if row[0] is not None else self._read_file(wanted)
        if sha256(content).hexdigest() != wanted:
            raise StoreError(f"the blob {wanted} is damaged: its bytes have another digest", hint="restore a backup")
        return content

    def open(self, wanted: str, still: Still = always) -> BinaryIO:
        """Give the bytes with this sha-256 to be read in pieces, checked before the first of them is given out.

        The check of a large one ends early, with a `BusyError`, when `still` says that nobody waits for it.
        """
        row = self._database.one("SELECT content IS NULL FROM blobs WHERE hash = ?", wanted)
        if row is None or not row[0]:
            return BytesIO(self.get(wanted))
        try:
            file = self.path(wanted).open("rb")
            if _digest_of(file, still) == wanted:
                file.seek(0)
                return file
            file.close()
        except OSError as error:
            raise StoreError(f"the blob {wanted} cannot be read: {error.strerror}", hint="restore a backup") from error
        raise StoreError(f"the blob {wanted} is damaged: its bytes have another digest", hint="restore a backup")

    def has(self, wanted: str) -> bool:
        """Say whether the blob is kept."""
        return self._database.one("SELECT 1 FROM blobs WHERE hash = ?", wanted) is not None

    def writer(self) -> "Writer":
        """Begin a blob whose size is not known, in bounded memory."""
        return Writer(self)

    def riding(self) -> "Blobs":
        """Give the same blobs for a run at work: its small ones are written with the run's next transaction."""
        return _Riding(self._database, self._folder)

    def sweep(self) -> None:
        """Remove what writers that were killed left half-written."""
        for part in self._folder.glob(f"*{PART}"):
            descriptor = os.open(part, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                part.unlink(missing_ok=True)
            except BlockingIOError:
                continue  # its writer lives
            finally:
                os.close(descriptor)

    def path(self, digest: str) -> Path:
        """Name the file of a large blob."""
        return self._folder / digest[:2] / digest[2:]

    def begin(self) -> tuple[int, Path]:
        """Make a file to write into; locked, so that nobody takes it for a leftover."""
        from tempfile import mkstemp  # noqa: PLC0415 - slow to import, and most runs write only rows

        with _explained(self._folder):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            descriptor, name = mkstemp(suffix=PART, dir=self._folder)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            return descriptor, Path(name)

    def keep_row(self, digest: str, content: bytes) -> None:
        """Keep a small blob."""
        with self._database.transaction():
            self._database.run(_KEEP, digest, len(content), content)

    def keep_file(self, digest: str, size: int, part: Path) -> None:
        """Keep a large blob that is written and synced: give it its name, then say that it is there."""
        path = self.path(digest)
        # Named inside the transaction: whoever removes a file does so inside one too, and looks for its row first.
        with self._database.transaction(), _explained(path):
            path.parent.mkdir(mode=0o700, exist_ok=True)
            part.rename(path)
            _sync_folder(path.parent)
            _sync_folder(self._folder)
            self._database.run(_KEEP, digest, size, None)

    def use(self, user: str, digests: Iterable[str]) -> None:
        """Say that a run, or a refusal, names these; inside its transaction."""
        self._database.run_each("INSERT OR IGNORE INTO uses VALUES (?, ?)", ((one, user) for one in digests))

    def release(self, user: str, digests: Iterable[str]) -> int:
        """Say that a run, or a refusal, names these no longer; gives how many of them it had named."""
        rows = ((one, user) for one in digests)
        return self._database.run_each("DELETE FROM uses WHERE hash = ? AND user = ?", rows)

    def used_alone(self, user: str, digests: Iterable[str]) -> int:
        """Say how many bytes of these nobody but `user` names."""
        alone = "SELECT coalesce(sum(bytes), 0) FROM blobs WHERE hash = ?1 AND EXISTS"
        alone += " (SELECT 1 FROM uses WHERE hash = ?1 AND user = ?2) AND NOT EXISTS"
        alone += " (SELECT 1 FROM uses WHERE hash = ?1 AND user != ?2)"
        return sum(int(self._database.one(alone, one, user)[0]) for one in set(digests))

    def own(self, owner: str, digest: str) -> None:
        """Say who brought a blob."""
        self._database.run("INSERT OR IGNORE INTO blob_owners VALUES (?, ?)", digest, owner)

    def unused_of(self, owner: str) -> int:
        """Say how many bytes somebody brought that nothing names."""
        row = self._database.one(
            "SELECT coalesce(sum(bytes), 0) FROM blob_owners JOIN blobs USING (hash)"
            " WHERE owner = ? AND NOT EXISTS (SELECT 1 FROM uses WHERE uses.hash = blobs.hash)",
            owner,
        )
        return int(row[0])

    def is_owned(self, owner: str, digest: str) -> bool:
        """Say whether somebody brought this very blob, and it is there."""
        return (
            self.has(digest)
            and self._database.one("SELECT 1 FROM blob_owners WHERE hash = ? AND owner = ?", digest, owner) is not None
        )

    def is_used(self, user: str, digest: str) -> bool:
        """Say whether a run, or a refusal, names a blob."""
        return self._database.one("SELECT 1 FROM uses WHERE hash = ? AND user = ?", digest, user) is not None

    def users(self, digest: str) -> list[str]:
        """List the runs that name a blob."""
        rows = self._database.all(
            "SELECT user FROM uses WHERE hash = ? AND EXISTS (SELECT 1 FROM runs WHERE run_id = user)", digest
        )
        return [row[0] for row in rows]

    def is_used_for(self, principal: str, digest: str) -> bool:
        """Say whether a run of this requester's names a blob."""
        return self._database.one(
            "SELECT 1 FROM uses JOIN runs ON runs.run_id = uses.user WHERE uses.hash = ? AND runs.principal = ?",
            digest, principal,
        ) is not None  # fmt: skip

    def remove_unused(self, among: Iterable[str] | None = None) -> None:
        """Remove what nothing names, of all or of some. What a run at work may be about to name stays."""
        with self._database.transaction():
            rows = self._unused() if among is None else [row for one in among for row in self._unused(one)]
            self._database.run_each("DELETE FROM blobs WHERE hash = ?", ((row[0],) for row in rows))
        files = [gone for gone, is_file in rows if is_file]
        if not files:
            return
        with self._database.transaction(durable=True):
            pass  # a row must not come back, after a power loss, whose file is gone
        with self._database.transaction():  # nobody gives a file its name again between the look and the removal
            for gone in files:
                if not self.has(gone):
                    self.path(gone).unlink(missing_ok=True)

    def _unused(self, digest: str | None = None) -> list[tuple[str, bool]]:
        statement = f"SELECT hash, content IS NULL FROM blobs WHERE {_UNUSED}"  # noqa: S608 - our own words
        if digest is None:
            return self._database.all(statement)
        return self._database.all(f"{statement} AND hash = ?", digest)

    def remove_strays(self) -> None:
        """Remove files that no row speaks of: those of a process that was killed between the two steps of removal."""
        for folder in self._folder.glob("??"):
            with self._database.transaction():
                for path in folder.iterdir():
                    if not self.has(folder.name + path.name):
                        path.unlink(missing_ok=True)

    def _read_file(self, wanted: str) -> bytes:
        try:
            return self.path(wanted).read_bytes()
        except OSError as error:
            raise StoreError(f"the blob {wanted} cannot be read: {error.strerror}", hint="restore a backup") from error


class _Riding(Blobs):
    """Blobs whose small ones wait for the next transaction: the run's own, which names them."""

    def keep_row(self, digest: str, content: bytes) -> None:
        """Keep a small blob, a little later."""
        self._database.ride(_KEEP, digest, len(content), content)

    def get(self, wanted: str) -> bytes:
        """Give the bytes with this sha-256, checked; those that wait are written first."""
        if not self.has(wanted):
            with self._database.transaction():
                pass
        return super().get(wanted)


class Writer:
    """One blob being written: in memory while it is small, then in a file."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._digest = sha256()
        self._size = 0
        self._held = bytearray()
        self._file: tuple[int, Path] | None = None

    def write(self, chunk: bytes) -> None:
        """Take some more bytes."""
        self._digest.update(chunk)
        self._size += len(chunk)
        self._held += chunk
        if len(self._held) > IN_ROW:
            self._spill()

    def finish(self) -> str:
        """Keep the blob; gives its sha-256."""
        digest = self._digest.hexdigest()
        if self._file is None:
            self._blobs.keep_row(digest, bytes(self._held))
            return digest
        self._spill()
        descriptor, part = self._file
        with _explained(part):
            os.fsync(descriptor)
        self._blobs.keep_file(digest, self._size, part)
        os.close(descriptor)
        self._file = None
        return digest

    def discard(self) -> None:
        """Forget it."""
        self._held.clear()
        if self._file is not None:
            descriptor, part = self._file
            part.unlink(missing_ok=True)
            os.close(descriptor)
            self._file = None

    def _spill(self) -> None:
        if self._file is None:
            self._file = self._blobs.begin()
        descriptor, part = self._file
        with _explained(part), memoryview(self._held) as held:
            written = 0
            while written < len(held):
                written += os.write(descriptor, held[written:])
        self._held.clear()


class _explained:  # noqa: N801 - reads as a statement
    """A disk that says no is a `StoreError`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError):
            raise StoreError(f"{self._path} cannot be written: {error.strerror}", hint="check the disk") from error


def _digest_of(file: BinaryIO, still: Still) -> str:
    digest = sha256()
    while piece := file.read(PIECE):
        if not still():
            file.close()
            raise BusyError("nobody waits for this blob any more", hint="ask again")
        digest.update(piece)
    return digest.hexdigest()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
