"""The shape that all nouns share: frozen, keyword-only, camelCase on the wire.

`Noun` refuses unknown fields: what a door or a policy author writes must be understood whole.
`SignedNoun` takes them: a hash covers whatever fields are there, so that a newer writer's document still reads;
nobody re-encodes one that arrived, the JSON itself is hashed.
"""

from typing import Annotated, Any, Final, Literal, dataclass_transform

import msgspec

VERSION_CONTRACT: Final = "warrant.contract.v1"
VERSION_MANIFEST: Final = "warrant.manifest.v1"
VERSION_EVENT: Final = "warrant.event.v1"
VERSION_RECEIPT: Final = "warrant.receipt.v1"
VERSION_BUNDLE: Final = "warrant.bundle.v1"
VERSION_REFUSAL: Final = "tipstaff.refusal.v1"
VERSION_APPROVAL: Final = "tipstaff.approval.v1"
VERSION_JOURNAL: Final = "tipstaff.journal.v1"

HEX_DIGITS: Final = 64
NO_CONTENT: Final = "0" * HEX_DIGITS  # a deleted file's contentHash, and the journal's first prev

Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}\\Z")]
Timestamp = Annotated[
    str,
    msgspec.Meta(
        pattern="^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\\.[0-9]{3}Z\\Z"
    ),
]
KeyId = Annotated[str, msgspec.Meta(pattern="^ed25519:[0-9a-f]{16}\\Z")]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]

Disclosure = Literal["none", "metadata-only", "redacted", "minimal-context", "full"]


# msgspec hands frozen and kw_only down to subclasses; type checkers must be told.
@dataclass_transform(frozen_default=True, kw_only_default=True)
class Noun(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A value that is made once, never changed, and understood whole."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
class SignedNoun(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A value whose digest was signed by somebody; fields that we do not know are kept out of the typed view only."""


class Actor(SignedNoun):
    """A person, a service or an agent that asks or approves."""

    kind: Literal["human", "service", "agent"]
    id: Annotated[str, msgspec.Meta(min_length=1, max_length=256)]


def to_wire(noun: msgspec.Struct) -> Any:
    """Spell `noun` as the JSON value that travels and is hashed: equal nouns give equal values, None is left out."""
    value = msgspec.json.decode(msgspec.json.encode(noun))
    _drop_none(value)
    return value


def _drop_none(value: Any) -> None:
    """Take the members that are None out of a value that nobody else holds yet."""
    if type(value) is dict:
        for key in [key for key, item in value.items() if item is None]:
            del value[key]
    for item in value.values() if type(value) is dict else value:
        if type(item) is dict or type(item) is list:
            _drop_none(item)
