"""What a run may reach: plain hosts, as the protocol has them, and egress rules, which say more."""

from typing import Annotated

import msgspec

from tipstaff.model.noun import Noun

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Host = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]


class Network(Noun):
    """The protocol's own words: nothing but these hosts, unless `default_deny` is off."""

    default_deny: bool = True
    allow_hosts: tuple[Host, ...] = ()


class EgressRule(Noun):
    """One way out. Empty `ports`, `methods` and `paths` mean any; methods and paths need `inspect`."""

    host: Host
    ports: tuple[Port, ...] = ()
    methods: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    opaque: bool = False
    inspect: bool = False
    addresses: tuple[str, ...] = ()
    max_bytes: int | None = None
    max_connections: int | None = None
    ask: bool = False
    rule: str = ""  # the policy rule that granted it


class Egress(Noun):
    """The rules of one run; `allowHosts` is their plain projection."""

    rules: tuple[EgressRule, ...] = ()
