"""A request on its way out of a sandbox, as the gate has parsed it: what secrets are put into, or are not."""

import msgspec


class Outgoing(msgspec.Struct, frozen=True):
    """One request. `path` is its target as it was asked, query included; headers are as they came, in their order."""

    host: str  # in its one spelling
    port: int
    method: str
    path: str
    headers: tuple[tuple[bytes, bytes], ...]
    secured: bool  # goes out over TLS, to a server that was verified
