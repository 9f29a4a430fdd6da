"""What a runner keeps on its own disk of each run until the plane has it: the claim, the events, contents, the receipt.

One file for each run, to which lines are added; what is behind half a line was never sent. Never a secret's value.
What must survive what:
- A kill of the runner: everything here. Lines are written before the same is sent, and the kernel keeps what was
  written.
- A loss of power before the command is let go, or while it runs: nothing here has to. The plane has made the beginning
  durable before it let the command go, and closes a run whose runner does not come back.
- A loss of power once the receipt is written: the receipt, unless the plane has it. Only then are files synced
  (`Entry.sync`), and only where the plane's answer does not come at once: to wait for the disk costs most of all.
A small file is held in reserve, so that a full disk still takes a receipt. What cannot be read again is thrown away.
"""

import os
import shutil
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from tipstaff.errors import StoreError
from tipstaff.runner.appended import Appended
from tipstaff.runner.client import Claim

Json = dict[str, Any]
SUFFIX: Final = ".ndjson"
BLOBS: Final = ".blobs"
RESERVE: Final = ".reserve"
REJECTED: Final = "rejected"
RESERVE_BYTES: Final = 1024**2
NEEDED_BYTES: Final = 64 * 1024**2  # free, before another run is taken
MOST_ENTRIES: Final = 256
MOST_REJECTED: Final = 20
_NAME_BYTES: Final = 4


class Parcel(msgspec.Struct, frozen=True):
    """What a run leaves for its plane: the signed receipt, events that the plane lacks, contents it may lack."""

    receipt: Json
    events: list[Json]
    inline: dict[str, bytes] = {}  # small contents by digest: they go with the receipt
    files: tuple[str, ...] = ()  # digests of those that must be brought before it


class _Kept(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One line of an entry: the claim as it came, a renewed one's token, events, or what is left for the plane."""

    run_id: str = ""
    contract: Json = {}
    claimed: list[Json] = []
    attempt: int = 0
    lease_ms: int = 0
    claim_token: str = ""
    events: list[Json] = []
    receipt: Json | None = None
    inline: dict[str, str] = {}
    files: list[str] = []
    sent: int = -1


class Entry:
    """One run in the spool."""

    def __init__(self, spool: "Spool", path: Path, claim: Claim) -> None:
        self._spool = spool
        self._path = path
        self._file = Appended(path)
        self._count = len(claim.events)
        self.claim = claim
        self.events: list[Json] = []  # the runner's own, in their order
        self.sent = (
            -1
        )  # the number of the last event that a plane is known to have; asked only of those that cannot tell
        self.parcel: Parcel | None = None  # what is left for the plane, once the run has ended

    def begin(self) -> None:
        """Write the claim down."""
        claim = self.claim
        self._add(
            _Kept(
                run_id=claim.run_id,
                contract=claim.contract,
                claimed=claim.events,
                attempt=claim.attempt,
                lease_ms=claim.lease_ms,
                claim_token=claim.token,
            )
        )

    def add(self, links: Sequence[Json]) -> None:
        """Write events down, before they are sent; those that are there already are passed over."""
        fresh = [link for link in links if link["seq"] >= self._count]
        if fresh:
            self._add(_Kept(events=fresh))
            self.take(_Kept(events=fresh))

    def arrived(self, links: Sequence[Json]) -> None:
        """Write down that the plane has these: one that takes no event twice must not get it twice."""
        if links and links[-1]["seq"] > self.sent:
            self.sent = int(links[-1]["seq"])
            self._add(_Kept(sent=self.sent))

    def renewed(self, claim: Claim) -> None:
        """Write the newest token down: the one before is void."""
        self.claim = claim._replace(secrets={})
        self._add(_Kept(claim_token=claim.token, lease_ms=claim.lease_ms))

    def finish(self, parcel: Parcel) -> None:
        """Write down what is left for the plane; a full disk gives up its reserve for it."""
        inline = {name: b64encode(content).decode() for name, content in parcel.inline.items()}
        kept = _Kept(receipt=parcel.receipt, events=parcel.events, inline=inline, files=list(parcel.files))
        self.parcel = parcel
        try:
            self._add(kept)
        except StoreError:
            self._spool.release_reserve()
            self._add(kept, b"\n")  # half a line of the first try must not swallow it

    def take(self, kept: _Kept) -> None:
        """Know what a line says."""
        if kept.receipt is not None:
            inline = {name: b64decode(content) for name, content in kept.inline.items()}
            self.parcel = Parcel(kept.receipt, kept.events, inline, tuple(kept.files))
        elif kept.events:
            self.events += kept.events
            self._count = kept.events[-1]["seq"] + 1
        elif kept.sent >= 0:
            self.sent = kept.sent
        elif kept.claim_token:
            self.claim = self.claim._replace(token=kept.claim_token, lease_ms=kept.lease_ms)

    def sync(self) -> None:
        """Be sure that everything survives a loss of power."""
        blobs = self._blobs
        with suppress(OSError):  # what cannot be synced still survives a kill, and there is nothing better to do
            for path in (self._path, *(blobs.iterdir() if blobs.is_dir() else ()), self._spool.folder):
                _sync(path)

    @property
    def _blobs(self) -> Path:
        return self._path.with_suffix(BLOBS)

    def blob(self, digest: str) -> Path:
        """Name the file of a content."""
        return self._blobs / digest

    def new_blob(self) -> tuple[int, Path]:
        """Make a file for a content whose digest is not known yet."""
        from tempfile import mkstemp  # noqa: PLC0415 - slow to import, and most runs leave little

        self._blobs.mkdir(mode=0o700, exist_ok=True)
        descriptor, name = mkstemp(suffix=".part", dir=self._blobs)
        return descriptor, Path(name)

    def nameless(self) -> BinaryIO:
        """Make a file for a content that is needed once: whatever happens, nothing of it stays."""
        try:
            descriptor, path = self.new_blob()
            path.unlink()
        except OSError as error:
            raise StoreError(f"{self._blobs} cannot be written: {error.strerror}", hint="check the disk") from error
        return os.fdopen(descriptor, "w+b")

    def remove(self) -> None:
        """Forget the run: the plane has it, or does not want it."""
        self._file.close()
        with suppress(OSError):
            self._path.unlink(missing_ok=True)
        if self._blobs.is_dir():
            shutil.rmtree(self._blobs, ignore_errors=True)

    def reject(self) -> None:
        """Put aside what the plane does not take, contents and all, for somebody to look at; the newest are kept."""
        rejected = self._spool.folder.parent / REJECTED
        with suppress(OSError):
            rejected.mkdir(mode=0o700, exist_ok=True)
            if self._blobs.is_dir():
                self._blobs.rename(rejected / self._blobs.name)
            self._path.rename(rejected / self._path.name)
            for old in sorted(rejected.glob(f"*{SUFFIX}"), key=lambda path: path.stat().st_mtime)[:-MOST_REJECTED]:
                shutil.rmtree(old.with_suffix(BLOBS), ignore_errors=True)
                old.unlink(missing_ok=True)
        self.remove()

    def _add(self, kept: _Kept, before: bytes = b"") -> None:
        """Add a line."""
        self._file.add(before + msgspec.json.encode(kept) + b"\n")


class Spool:
    """The runs of one runner that its plane does not have yet."""

    def __init__(self, data: Path) -> None:
        self.folder = data / "spool"
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{self.folder} cannot be made: {error.strerror}", hint="check the disk") from error
        self._keep_reserve()

    def open(self, claim: Claim) -> Entry:
        """Begin to keep a run; the caller has made sure that its id is a plain name."""
        path = self.folder / f"{claim.run_id}.{os.urandom(_NAME_BYTES).hex()}{SUFFIX}"
        return Entry(self, path, claim._replace(secrets={}))

    def left(self) -> Iterator[Entry]:
        """Give the runs that a former process of this runner left; contents without a run were being removed."""
        for stray in self.folder.glob(f"*{BLOBS}"):
            if not stray.with_suffix(SUFFIX).exists():
                shutil.rmtree(stray, ignore_errors=True)
        for path in sorted(self._entries()):
            entry = self._read(path)
            if entry is None:
                path.unlink(missing_ok=True)
                shutil.rmtree(path.with_suffix(BLOBS), ignore_errors=True)
            else:
                yield entry

    @staticmethod
    def names(data: Path) -> list[str]:
        """List the runs that are kept in a runner's directory; writes nothing."""
        folder = data / "spool"
        return sorted(path.name.partition(".")[0] for path in folder.glob(f"*{SUFFIX}"))

    @staticmethod
    def rejected(data: Path) -> tuple[Path, int]:
        """Name the folder of what the plane did not take, and say how much lies there; writes nothing."""
        folder = data / REJECTED
        return folder, sum(1 for _ in folder.glob(f"*{SUFFIX}"))

    def count(self) -> int:
        """Say how many runs are kept."""
        return sum(1 for _ in self._entries())

    def lacks_room(self) -> str:
        """Say why no more runs can be taken, or nothing."""
        try:
            found = os.statvfs(self.folder)
        except OSError as error:
            return f"{self.folder} cannot be looked at: {error.strerror}"
        if found.f_bavail * found.f_frsize < NEEDED_BYTES or (found.f_files and not found.f_favail):
            return f"the disk of {self.folder} is full"
        self._keep_reserve()
        if self.count() >= MOST_ENTRIES:
            return f"{MOST_ENTRIES} runs wait in {self.folder} for the plane"
        return ""

    def release_reserve(self) -> None:
        """Give the reserve up."""
        (self.folder / RESERVE).unlink(missing_ok=True)

    def _keep_reserve(self) -> None:
        path = self.folder / RESERVE
        if path.exists():
            return
        with suppress(OSError):  # there is no room for it now
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
            except OSError:
                path.unlink(missing_ok=True)
            finally:
                os.close(descriptor)

    def _entries(self) -> list[Path]:
        try:
            return list(self.folder.glob(f"*{SUFFIX}"))
        except OSError:
            return []

    def _read(self, path: Path) -> Entry | None:
        try:
            lines = _whole_lines(path.read_bytes())
        except OSError:
            return None
        kept = next(lines, None)
        if kept is None or not (kept.run_id and kept.claimed):
            return None
        token, attempt = kept.claim_token, kept.attempt
        entry = Entry(self, path, Claim(kept.run_id, kept.contract, token, attempt, kept.claimed, {}, kept.lease_ms))
        with suppress(KeyError, TypeError, ValueError):  # not ours: what was read before it still counts
            for line in lines:
                entry.take(line)
        return entry


def _whole_lines(data: bytes) -> Iterator[_Kept]:
    """Give the lines that were written whole; half a one, and what a full disk left of one, is passed over."""
    for line in data.split(b"\n"):
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            yield msgspec.json.decode(line, type=_Kept)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
