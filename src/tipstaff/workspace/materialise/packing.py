"""The contents of a tree as blobs that travel: packs, each with a line that says what is in it.

A pack is one line of JSON, `[[digest, bytes], …]`, and behind it these bytes, one content after another. A content that
is too long for one pack goes on at the beginning of the next. Empty contents are in none. Reading and writing streams,
whatever the length of a pack. Does not say which names have a content: the list does.
"""

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from hashlib import file_digest, sha256
from io import BytesIO
from pathlib import Path
from typing import Annotated, BinaryIO, Final, NamedTuple

import msgspec

from tipstaff.errors import InputError, NotFoundError
from tipstaff.model import names
from tipstaff.model.blobs import BlobStore, BlobWriter, OpenBlobs
from tipstaff.model.noun import Digest
from tipstaff.workspace import listing
from tipstaff.workspace.beneath import Beneath
from tipstaff.workspace.listing import FOLDER, LINK, Entry

PACK_BYTES: Final = 32 * 2**20  # of contents in one pack: other planes take blobs of 64 MiB
PACK_ROWS: Final = 50_000
MOST_LINE: Final = 8 * 2**20  # bytes
CHUNK: Final = 2**20
_Rows = list[tuple[Digest, Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]]]


class Piece(NamedTuple):
    """A part of a content, or all of it: where it begins in its file, and how long it is."""

    entry: Entry
    start: int
    size: int


def pack(
    base: Path, entries: list[Entry], blobs: BlobStore, known: Collection[str] = (), *, most_bytes: int = PACK_BYTES
) -> list[str]:
    """Keep the list of a tree and its contents, read from `base`; gives the digests of the packs, in their order.

    `known` are packs that were kept before: what they hold is not packed again. InputError where a file is not as
    listed.
    """
    blobs.put(listing.encode(entries))
    wanted = {entry.digest: entry for entry in entries if entry.type != FOLDER and entry.size}
    kept = _kept(known, {digest: entry.size for digest, entry in wanted.items()}, blobs)
    held = {digest for rows in kept.values() for digest, _ in rows}
    missing = [entry for digest, entry in wanted.items() if digest not in held]
    with Beneath(base) as folder:
        return [*kept, *(_write(folder, pieces, blobs) for pieces in plan(missing, most_bytes))]


def plan(entries: Iterable[Entry], most_bytes: int) -> Iterator[list[Piece]]:
    """Say which contents go into which pack. Pure."""
    pieces: list[Piece] = []
    room = most_bytes
    for entry in entries:
        if pieces and entry.size > room:
            yield pieces
            pieces, room = [], most_bytes
        start = 0
        while start < entry.size:
            size = min(entry.size - start, room)
            pieces.append(Piece(entry, start, size))
            start, room = start + size, room - size
            if not room or len(pieces) == PACK_ROWS:
                yield pieces
                pieces, room = [], most_bytes
    if pieces:
        yield pieces


def read(pack: BinaryIO) -> Iterator[tuple[str, memoryview]]:
    """Read a pack: the digest of the content that a piece is of, or all of, and the bytes: no more than a chunk."""
    for digest, size in _rows(pack):
        left = size
        while left:
            piece = pack.read(min(left, CHUNK))
            if not piece:
                raise InputError("a pack of the workspace ended while it was read")
            yield digest, memoryview(piece)
            left -= len(piece)


def keep_git_pack(base: Path, wanted: str, blobs: BlobStore) -> None:
    """Keep the pack in the `.git` of a base, as a blob; NotFoundError when none there has this digest."""
    for path in sorted((base / ".git/objects/pack").glob("*.pack")):
        with path.open("rb") as file:
            if file_digest(file, "sha256").hexdigest() != wanted:
                continue
            file.seek(0)
            writer = blobs.writer()
            while chunk := file.read(CHUNK):
                writer.write(chunk)
            writer.finish()
            return
    raise NotFoundError(f"the workspace's .git has no pack {wanted}", hint="capture the folder again")


def _rows(pack: BinaryIO) -> _Rows:
    """Read what a pack says is in it; what follows are the contents."""
    line = pack.readline(MOST_LINE)
    try:
        rows = msgspec.json.decode(line if line.endswith(b"\n") else b"", type=_Rows)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"a pack of the workspace does not say what is in it: {error}") from error
    whole = pack.seek(0, os.SEEK_END)
    if len(line) + sum(size for _, size in rows) != whole:
        raise InputError("a pack of the workspace is not as long as its first line says")
    pack.seek(len(line))
    return rows


def _kept(known: Collection[str], sizes: dict[str, int], blobs: BlobStore) -> dict[str, _Rows]:
    """Give those of the packs that are of use, and hold all of each wanted content that they hold a part of."""
    kept: dict[str, _Rows] = {}
    for digest in known:
        try:
            with opened(blobs, digest, "a pack") as held_pack:
                rows = _rows(held_pack)
        except NotFoundError:
            continue
        if any(content in sizes for content, _ in rows):
            kept[digest] = rows
    while True:
        held: Counter[str] = Counter()
        for rows in kept.values():
            held.update(dict(rows))
        broken = {content for content in held.keys() & sizes.keys() if held[content] != sizes[content]}
        whole = {digest: rows for digest, rows in kept.items() if not any(content in broken for content, _ in rows)}
        if len(whole) == len(kept):
            return kept
        kept = whole


def _write(folder: Beneath, pieces: list[Piece], blobs: BlobStore) -> str:
    writer = blobs.writer()
    try:
        writer.write(msgspec.json.encode([(piece.entry.digest, piece.size) for piece in pieces]) + b"\n")
        for piece in pieces:
            _copy(folder, piece, writer)
    except BaseException:
        writer.discard()
        raise
    return writer.finish()


def _copy(folder: Beneath, piece: Piece, writer: BlobWriter) -> None:
    entry = piece.entry
    found = sha256()
    size = 0
    for chunk in _chunks(folder, piece):
        found.update(chunk)
        size += len(chunk)
        writer.write(chunk)
    # A piece has no digest of its own; that the whole is right shows when it is unpacked.
    if size != piece.size or (size == entry.size and found.hexdigest() != entry.digest):
        raise InputError(
            f"{names.shown(entry.name)!r} changed since the workspace was captured", hint="capture it again"
        )


def _chunks(folder: Beneath, piece: Piece) -> Iterator[bytes]:
    if piece.entry.type == LINK:
        yield folder.target(piece.entry.name)
        return
    descriptor = folder.open(piece.entry.name)
    try:
        at, end = piece.start, piece.start + piece.size
        while at < end and (chunk := os.pread(descriptor, min(CHUNK, end - at), at)):
            yield chunk
            at += len(chunk)
    finally:
        os.close(descriptor)


def fetched(blobs: BlobStore, digest: str, what: str) -> bytes:
    """Get a blob and hash it, whoever kept it: a store far away may give anything."""
    content = blobs.get(digest)
    if sha256(content).hexdigest() != digest:
        raise _other(digest, what)
    return content


def opened(blobs: BlobStore, digest: str, what: str) -> BinaryIO:
    """Get a blob, hashed as well, to be read in pieces; from a store that has it only whole, it is in memory."""
    file = blobs.open(digest) if isinstance(blobs, OpenBlobs) else BytesIO(blobs.get(digest))
    if file_digest(file, "sha256").hexdigest() != digest:  # type: ignore[arg-type]  # any open file will do
        file.close()
        raise _other(digest, what)
    file.seek(0)
    return file


def _other(digest: str, what: str) -> InputError:
    return InputError(f"{what} of the workspace has other bytes than its digest {digest} says")
