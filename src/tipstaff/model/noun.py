"""The shape that all nouns share: frozen, keyword-only, camelCase on the wire.

`Noun` refuses unknown fields: what a door or a policy author writes must be understood whole.
`SignedNoun` takes them: a hash covers whatever fields are there, so that a newer writer's document still reads;
nobody re-encodes one that arrived, the JSON itself is hashed.
"""

import re
from hashlib import sha256
from typing import Annotated, Any, Final, Literal, dataclass_transform

import msgspec

from tipstaff.canonical import canonical
from tipstaff.errors import CanonicalError

VERSION_CONTRACT: Final = "warrant.contract.v1"
VERSION_MANIFEST: Final = "warrant.manifest.v1"
VERSION_EVENT: Final = "warrant.event.v1"
VERSION_RECEIPT: Final = "warrant.receipt.v1"
VERSION_BUNDLE: Final = "warrant.bundle.v1"
VERSION_REFUSAL: Final = "tipstaff.refusal.v1"
VERSION_APPROVAL: Final = "tipstaff.approval.v1"
VERSION_JOURNAL: Final = "tipstaff.journal.v1"
VERSION_JOURNAL_HEAD: Final = "tipstaff.journal-head.v1"
VERSION_CHECKPOINT: Final = "tipstaff.checkpoint.v1"
VERSION_CLAIM: Final = "tipstaff.claim.v1"
VERSION_ANSWER: Final = "tipstaff.answer.v1"

HEX_DIGITS: Final = 64
NO_CONTENT: Final = "0" * HEX_DIGITS  # a deleted file's contentHash, and the journal's first prev

Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}\\Z")]
# A day that exists: of a month's length, the 29th of February in leap years, and no year 0, which no clock shows.
TIME: Final = (
    "^(?!0000)(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)"
    "T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\\.[0-9]{3}Z\\Z"
)
Timestamp = Annotated[str, msgspec.Meta(pattern=TIME)]
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
    """Spell `noun` as the JSON value that travels: every field is written out, null where nothing was said."""
    return msgspec.json.decode(msgspec.json.encode(noun))


def noun_digest(noun: msgspec.Struct) -> str:
    """H(to_wire(noun))."""
    return sha256(noun_bytes(noun)).hexdigest()


def noun_bytes(noun: msgspec.Struct) -> bytes:
    """Spell to_wire(noun) in RFC 8785 bytes, without a detour where msgspec is sure to write the same."""
    try:
        data = _encode(noun)
    except UnicodeEncodeError as error:
        raise CanonicalError("a string holds a lone surrogate, which has no UTF-8 form") from error
    if not data.isascii() or _odd_number(data):
        data = canonical(msgspec.json.decode(data))
    return data


_encode = msgspec.json.Encoder(order="sorted").encode
# A float or an integer of 16 digits may need the reference encoder; a number follows one of these four characters. Text
# that only looks so takes the detour too, which costs time and nothing else.
_odd_number = re.compile(rb"[:\[,\-][0-9](?:[0-9]{15}|[0-9]*[.eE])").search
