"""How a plane serves: `plane.yaml` in its home, strict like a policy; every fault has its line and column.

What is not said is the careful choice: loopback, no plain HTTP beyond it, no blobs for those who say not who they are,
no header of a proxy believed. The command line may say otherwise for one start.
"""

import ipaddress
import os
import re
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from tipstaff.errors import NotFoundError, PolicyError
from tipstaff.policy import strict_yaml

HOST: Final = "127.0.0.1"
PORT: Final = 7172
MAX_BYTES: Final = 64 * 1024
GIB: Final = 1024**3
_PLACED: Final = re.compile(r"(.*) - at `(?:key` in `)?\$(.*)`\Z", re.DOTALL)
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.*)`\Z", re.DOTALL)
_WORDS: Final = {"`str`": "text", "`int`": "a whole number", "`bool`": "`true` or `false`", "`object`": "a mapping"}

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
Rate = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]


class Tls(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the certificate (with its chain) and its key are: PEM files."""

    certificate: Text
    key: Text


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much one peer may ask."""

    principal_per_second: Rate = 200
    principal_burst: Rate = 1000
    runner_per_second: Rate = 1000
    runner_burst: Rate = 5000
    address_per_second: Rate = 2000  # everything from one address, whoever it says it is
    address_burst: Rate = 10_000
    failures: Rate = 20  # wrong tokens from one address, before it has to wait
    failures_seconds: Rate = 60
    connections: Rate = 128  # open at once from one address; this machine and a trusted proxy may have more


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a plane serves."""

    host: Text = HOST
    port: Port = PORT
    tls: Tls | None = None
    plain_http: bool = False
    open_blobs: bool = False  # serve blobs of claimed contracts to peers that send no token
    lease_seconds: Annotated[int, msgspec.Meta(ge=2, le=3600)] = 60
    limits: Limits = Limits()
    trusted_proxy: Text | None = None  # the one address whose X-Forwarded-For is believed
    most_blob_bytes: Annotated[int, msgspec.Meta(ge=1, le=1024 * GIB)] = 4 * GIB

    @property
    def is_local(self) -> bool:
        """Say whether only this machine can reach the plane."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def read_settings(path: Path) -> Settings:
    """Read a file of settings."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        hint = "make a plane first: tipstaff plane init"
        raise NotFoundError(f"there is no plane here: {path} does not exist", hint=hint) from None
    except OSError as error:
        raise PolicyError(f"cannot be read: {os.strerror(error.errno or 0)}", source=str(path)) from error
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise PolicyError("this is not UTF-8 text", source=str(path)) from error
    if len(data) > MAX_BYTES:
        raise PolicyError(f"the file is larger than {MAX_BYTES} bytes", source=str(path))
    return parse_settings(text, str(path))


def parse_settings(text: str, source: str) -> Settings:
    """Read settings; a file of comments only says nothing, which is allowed."""
    if not any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines()):
        return Settings()
    tree = strict_yaml.read(text, source)
    try:
        settings = msgspec.convert(tree.value, Settings)
    except msgspec.ValidationError as error:
        raise _explained(str(error), tree, source) from error
    _check_proxy(settings, tree, source)
    return settings


def _check_proxy(settings: Settings, tree: Any, source: str) -> None:
    if settings.trusted_proxy is None:
        return
    try:
        ipaddress.ip_address(settings.trusted_proxy)
    except ValueError as error:
        spot = tree.spot(("trusted_proxy",))
        message = f"`{settings.trusted_proxy[:80]}` is not an address"
        hint = "write the proxy's IP address, as the plane sees it"
        raise PolicyError(message, source=source, line=spot.line, column=spot.column, hint=hint) from error


def _explained(text: str, tree: Any, source: str) -> PolicyError:
    placed = _PLACED.match(text)
    message, where = (placed[1], placed[2]) if placed else (text, "")
    path: tuple[str, ...] = tuple(step for step in where.split(".") if step)
    if unknown := _UNKNOWN.match(message):
        spot = tree.key_spot((*path, unknown[1]))
        known = ", ".join(field.name for field in msgspec.structs.fields(_KINDS.get(path, Settings)))
        message, hint = f"unknown key `{unknown[1][:80]}`", f"known keys are {known}"
    else:
        spot, hint = tree.spot(path), ""
        for type_name, word in _WORDS.items():
            message = message.replace(type_name, word)
    return PolicyError(message, source=source, line=spot.line, column=spot.column, hint=hint)


_KINDS: Final[dict[tuple[str, ...], Any]] = {("tls",): Tls, ("limits",): Limits}
