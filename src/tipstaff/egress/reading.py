"""Reads heads off a connection, within bounds. What was read too far goes back to the connection."""

import re
from typing import Final

from tipstaff.egress.duplex import Ahead
from tipstaff.egress.heads import END
from tipstaff.egress.hello import Hello, HelloReader
from tipstaff.egress.refusal import malformed

CHUNK_BYTES: Final = 64 << 10
_BARE: Final = re.compile(rb"(?<!\r)\n")


async def read_head(source: Ahead, max_bytes: int) -> bytes:
    """Give a head without its empty line; EOFError when nothing comes, RefusalError when it is none."""
    kept = bytearray()
    while True:
        data = await source.read(max_bytes)
        if not data:
            raise malformed("the request ends in its head") if kept else EOFError("the connection ended")
        searched = max(0, len(kept) - len(END))
        kept += data
        end = kept.find(END, searched)
        if end >= 0:
            source.give_back(bytes(kept[end + len(END) :]))
        if end > max_bytes or (end < 0 and len(kept) > max_bytes):
            raise malformed(f"the head is longer than {max_bytes} bytes", 431)
        if not kept[:1].isupper() or _BARE.search(kept, searched, end if end >= 0 else len(kept)):
            # Said at once: whoever speaks another protocol, or ends lines in another way, would wait for the end.
            raise malformed("this is not HTTP/1, whose lines end with CRLF")
        if end >= 0:
            return bytes(kept[:end])


async def read_hello(source: Ahead) -> Hello:
    """Read a ClientHello, and leave it to be read again; EOFError when the client ends before."""
    reader, seen = HelloReader(), []
    try:
        while True:
            data = await source.read(CHUNK_BYTES)
            if not data:
                raise EOFError("the client ended the connection before it said anything of TLS")
            seen.append(data)
            if (hello := reader.feed(data)) is not None:
                return hello
    finally:
        source.give_back(b"".join(seen))
