"""The policies that Tipstaff ships: one default for each door, read from the package like any other file.

The one that every `tipstaff run` starts with also lies beside its file as plain values, made by `make docs`: checked
then, not at each start. It counts only while it names the very text of the file, so an edited file is read as it is.
"""

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

from tipstaff.canonical import digest
from tipstaff.errors import NotFoundError
from tipstaff.policy.compiled import Policy
from tipstaff.policy.document import typed

NAMES: Final = ("local", "twins", "inbox", "ecs", "mcp", "plane")
DEFAULTS: Final = {
    "cli": "local",
    "grpc": "twins",
    "inbox": "inbox",
    "ecs": "ecs",
    "mcp": "mcp",
    "http": "plane",
}  # by door
READY: Final = ("local",)
_FOLDER: Final = Path(__file__).parent.parent / "policies"


@cache
def shipped(name: str) -> Policy:
    """Load the shipped policy `name`."""
    text, source = text_of(name), f"tipstaff/policies/{name}.yaml"
    value = _ready_value(name, text) if name in READY else None
    if value is None:
        from tipstaff.policy.load import parse_policy  # noqa: PLC0415 - as little as possible where all is ready

        return parse_policy(text, source)
    return Policy(document=typed(value), hash=digest(value), value=value, source=source)


def text_of(name: str) -> str:
    """Give the text of the shipped policy `name`, to be read, copied and changed."""
    if name not in NAMES:
        raise NotFoundError(f"there is no shipped policy {name!r}", hint=f"there are {', '.join(NAMES)}")
    return (_FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


def ready_form(text: str) -> str:
    """Spell a policy that holds as plain values, with the digest of the text that they come from."""
    from tipstaff.policy.load import parse_policy  # noqa: PLC0415 - as above

    form = {"text": _digest(text), "value": parse_policy(text).value}
    return msgspec.json.format(msgspec.json.encode(form), indent=1).decode() + "\n"


def _ready_value(name: str, text: str) -> Any:
    try:
        form = msgspec.json.decode((_FOLDER / f"{name}.json").read_bytes())
    except (OSError, msgspec.DecodeError):
        return None
    return form["value"] if form.get("text") == _digest(text) else None


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()
