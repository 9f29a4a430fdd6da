"""What would allow a refused attempt: the flag, or the lines of the policy. Pure.

Advice is for a person to judge, and is exact enough to be copied. It says how, never that it would be wise.
"""

from typing import Final

from tipstaff.policy.hosts import is_address

DENIED: Final = "in the policy: take it out of network.deny"


def spell_place(host: str, port: int) -> str:
    """Spell a host and a port as `--allow-host` takes them."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def to_allow(host: str, port: int) -> str:
    """Allow a host and a port that no rule has."""
    return f"--allow-host {spell_place(host, port)}"


def to_dial(host: str, port: int, address: str) -> str:
    """Allow an address that is not public: as itself, or as what a name stands for."""
    if is_address(host):
        return to_allow(host, port)
    return f"{to_allow(host, port)},address={address}"


def to_pass_unseen(host: str, port: int) -> str:
    """Allow a connection that cannot be looked into."""
    return f"{to_allow(host, port)},opaque"


def to_request(host: str, port: int, method: str, path: str) -> str:
    """Allow a request whose method or path no rule has."""
    plain = path.partition("?")[0]
    shown = plain if plain.isascii() and plain.isprintable() and not set(plain) & set("\"'*?\\{}[]") else "/…"
    return _grant(host, port, f'methods: [{method}], paths: ["{shown}"], inspect: true')


def _grant(host: str, port: int, more: str) -> str:
    return f"in the policy: network: {{hosts: [{{host: {_quoted(host)}, ports: [{port}], {more}}}]}}"


def _quoted(text: str) -> str:
    """Quote what YAML would read as something else."""
    return f'"{text}"' if ":" in text or text.startswith("*") else text
