"""Refusals and the journal: made, signed and checked.

A refusal is a denial that anybody can check: plane-signed, with the digests of the request and of the policy. The
journal chains everything that was decided or done, and its head is signed at each completion, so that a removed record
shows. Neither carries a key: without a pinned or known one they are unproven.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

from tipstaff.canonical import digest
from tipstaff.errors import InputError
from tipstaff.evidence.reading import View, typed
from tipstaff.evidence.report import Findings
from tipstaff.evidence.seal import Seal, signed
from tipstaff.evidence.trust import Trust
from tipstaff.keys import Signer
from tipstaff.model.noun import NO_CONTENT, VERSION_JOURNAL, VERSION_JOURNAL_HEAD, VERSION_REFUSAL, to_wire
from tipstaff.model.records import JournalEntry, JournalHead, Refusal

JOURNAL_FIELDS: Final = frozenset({"version", "entries", "head"})
HEAD_FIELDS: Final = frozenset({"version", "seq", "hash", "ts", "signatures"})


def refuse(refusal: Refusal, plane: Signer, about: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Sign a refusal; `about` is what else it tells, such as the run that it ended."""
    return signed({**to_wire(refusal), **(about or {})}, plane, "plane")


def journal_entry(
    seq: int, prev: str, ts: str, kind: Literal["refusal", "contract", "receipt"], of: str
) -> dict[str, Any]:
    """Chain one more record: the digest `of` a refusal, a contract or a receipt."""
    entry = {"seq": seq, "prev": prev, "ts": ts, "kind": kind, "digest": of}
    return {**entry, "hash": digest(entry)}


def journal_head(last: Mapping[str, Any], ts: str, plane: Signer) -> dict[str, Any]:
    """Sign the journal as it stands after its `last` entry."""
    head = {"version": VERSION_JOURNAL_HEAD, "seq": last["seq"], "hash": last["hash"], "ts": ts}
    return signed(head, plane, "plane")


def check_refusal(document: Mapping[str, Any], trust: Trust, findings: Findings) -> None:
    """Checks 0, 1, 15, 27 and 28 on a refusal."""
    if document.get("version") != VERSION_REFUSAL:
        findings.add(1, f"the version is not {VERSION_REFUSAL}", "version")
    seal = Seal(document, "refusal", ("plane",), findings)
    view = _view(document, Refusal, "refusal", findings)
    _check_plane(seal, 28, view.ts if view else None, trust, findings)


def check_head(document: Mapping[str, Any], trust: Trust, findings: Findings) -> JournalHead | None:
    """Checks 0, 1, 15, 27 and 30 on a journal's head by itself.

    The plane signs other documents too, and a runner chooses the fields of one of them, its receipt: what has another
    version, or a field that no head has, is none. Older heads have no version.
    """
    if document.get("version", VERSION_JOURNAL_HEAD) != VERSION_JOURNAL_HEAD:
        findings.add(1, f"the version is not {VERSION_JOURNAL_HEAD}", "head.version")
    for name in sorted(document.keys() - HEAD_FIELDS):
        findings.add(30, "no head of a journal has this field", f"head.{name[:64]}")
    seal = Seal(document, "head", ("plane",), findings)
    view = _view(document, JournalHead, "head", findings)
    _check_plane(seal, 30, view.ts if view else None, trust, findings)
    return view


class Journal:
    """A journal's entries, folded from one after the other."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._prev = NO_CONTENT
        self.count = 0

    def add(self, value: Any) -> None:
        """Check 29 for one more entry."""
        seq, self.count = self.count, self.count + 1
        place = f"entries[{seq}]"
        try:
            entry = typed(value, JournalEntry)
            expected = digest({key: item for key, item in value.items() if key != "hash"})
        except InputError as error:  # CanonicalError is one
            self._findings.add(29, f"this is not an entry: {error.message}", place)
            self._prev = ""
            return
        if entry.seq != seq:
            self._findings.add(29, f"its number is {entry.seq}", place)
        if entry.prev != self._prev:
            self._findings.add(29, "its prev is not the hash of the entry before it", place)
        if entry.hash != expected:
            self._findings.add(29, "its hash does not fit its content", place)
        self._prev = entry.hash

    def check(self, document: Mapping[str, Any], trust: Trust) -> None:
        """Check the whole: the fields, the signed head, and that it is the last entry's."""
        if document.get("version") != VERSION_JOURNAL:
            self._findings.add(1, f"the version is not {VERSION_JOURNAL}", "version")
        for name in sorted(document.keys() - JOURNAL_FIELDS):
            self._findings.add(15, "this field is covered by no hash", name[:64])
        raw = document.get("head")
        if type(raw) is not dict or type(document.get("entries")) is not list:
            self._findings.add(0, "a journal has a list of entries and a head", "journal")
            return
        head = check_head(raw, trust, self._findings)
        if head is not None and (head.seq, head.hash) != (self.count - 1, self._prev):
            self._findings.add(30, "the head is not the last entry's: entries are missing, or were added", "head")


def _view(document: Mapping[str, Any], kind: type[View], place: str, findings: Findings) -> View | None:
    try:
        return typed(document, kind)
    except InputError as error:
        findings.add(0, error.message, place)
        return None


def _check_plane(seal: Seal, number: int, when: str | None, trust: Trust, findings: Findings) -> None:
    """Check the plane's signature on a document that carries no key: the signature names it."""
    key_id = seal.key_id("plane")
    key = trust.find(key_id) if key_id else None
    if key_id and key is None:
        findings.add(27, f"the plane's key {key_id[:64]} is neither pinned nor known", certain=False)
        return
    seal.check(number, "plane", key)
    if key is not None and when is not None:
        trust.check(key, "plane", (when,), findings)
