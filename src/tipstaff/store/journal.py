"""The journal of one store: everything that was decided or done, chained, with its head signed at every entry.

Before an entry is added, the head must be signed by a plane's key that counts and be the last entry's: otherwise
signing a new head would hide that something was taken out. Made by `evidence.records`, kept here.
"""

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from tipstaff.canonical import canonical
from tipstaff.errors import StoreError
from tipstaff.evidence.records import check_head, journal_entry, journal_head
from tipstaff.evidence.report import Findings
from tipstaff.evidence.trust import Trust
from tipstaff.keys import Signer
from tipstaff.model.noun import NO_CONTENT, VERSION_JOURNAL
from tipstaff.store.database import Database

Json = dict[str, Any]
Kind = Literal["refusal", "contract", "receipt"]
_read: Callable[[bytes], Any] = msgspec.json.decode


class Journal:
    """Chained entries and one signed head."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._checked = b""  # the head whose signature was seen to hold, so that it is checked once

    def record(self, kind: Kind, of: str, ts: str, key: Signer, trust: Trust) -> None:
        """Add the digest `of` a document; inside the transaction that keeps the document."""
        last = self._last(trust)
        seq, prev = (last["seq"] + 1, last["hash"]) if last else (0, NO_CONTENT)
        entry = journal_entry(seq, prev, ts, kind, of)
        head = canonical(journal_head(entry, ts, key))
        self._database.run("INSERT INTO journal VALUES (?, ?)", seq, canonical(entry))
        self._database.run("INSERT OR REPLACE INTO journal_head VALUES (1, ?)", head)
        self._checked = head

    def document(self) -> Json | None:
        """Give the whole journal, as `verify` reads it; None while there is nothing in it."""
        with self._database.transaction():  # entries and head of one moment
            head = self._database.one("SELECT head FROM journal_head")
            entries = [_read(row[0]) for row in self._database.all("SELECT entry FROM journal ORDER BY seq")]
        if head is None and not entries:
            return None
        return {"version": VERSION_JOURNAL, "entries": entries, "head": _read(head[0]) if head else {}}

    def _last(self, trust: Trust) -> Json | None:
        last, head = self._database.one(
            "SELECT (SELECT entry FROM journal ORDER BY seq DESC LIMIT 1), (SELECT head FROM journal_head)"
        )
        if last is None and head is None:
            return None
        entry: Json = _read(last) if last else {}
        if head is None or not self._fits(bytes(head), entry, trust):
            raise StoreError(
                f"the journal in {self._database.path} was changed: its signed head is not its last entry's",
                hint="run: tipstaff verify, on an exported journal, and restore the store from a backup",
            )
        return entry

    def _fits(self, head: bytes, entry: Json, trust: Trust) -> bool:
        document = _read(head)
        if head != self._checked:
            findings = Findings()
            check_head(document, trust, findings)
            if findings.sorted():
                return False
            self._checked = head
        return (document["seq"], document["hash"]) == (entry.get("seq"), entry.get("hash"))
