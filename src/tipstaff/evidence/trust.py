"""Which keys count. Keys inside a bundle prove nothing by themselves: somebody must have named them before.

Pinned keys (given for this verification) are trusted to authorise, and where any is given the known-keys file is not
asked. A known key counts in its own role and inside its validity. The plane's key is the root: it vouches for the
runner's by the chain that it countersigned.
"""

from collections.abc import Iterable

from tipstaff.evidence.report import Findings
from tipstaff.keys import KnownKeys, PublicKey
from tipstaff.model.receipt import Role


class Trust:
    """The keys that one verification goes by."""

    def __init__(self, pinned: Iterable[PublicKey] = (), known: KnownKeys | None = None) -> None:
        self._pinned = {key.raw: key for key in pinned}
        self._known = known if known is not None and not self._pinned else KnownKeys()

    def find(self, key_id: str) -> PublicKey | None:
        """Find the plane's key for a document that carries none."""
        pinned = next((key for key in self._pinned.values() if key.key_id == key_id), None)
        return pinned or self._known.by_id(key_id, "plane")

    def check(self, key: PublicKey, role: Role, times: Iterable[str], findings: Findings) -> None:
        """Check 27 for an authority: unknown is unproven, revoked or out of time is wrong."""
        if key.raw in self._pinned:
            return
        entry = self._known.find(key, role)
        if entry is None:
            findings.add(27, f"the {role}'s key {key.key_id} is neither pinned nor known", certain=False)
            return
        for fault in sorted({entry.fault_at(when) for when in times} - {""}):
            findings.add(27, f"the {role}'s key {key.key_id} {fault}")

    def check_vouched(self, key: PublicKey, role: Role, times: Iterable[str], findings: Findings) -> None:
        """Check 27 for a key that an authority vouches for: it may be unknown, but not known as revoked."""
        if self._known.find(key, role) is not None:
            self.check(key, role, times, findings)

    def approver_key(self, key_id: str) -> PublicKey | None:
        """Find an approver's key for an approval that carries none."""
        return self._known.by_id(key_id, "approver")

    def approver(self, key: PublicKey, actor: str, when: str) -> tuple[bool, str]:
        """Say whether an approver's key is known, and what is wrong with it: it is another's, or out of time."""
        entry = self._known.find(key, "approver")
        if entry is None:
            return False, ""
        if entry.name and entry.name != actor:
            return True, f"is known as {entry.name!r}'s"
        return True, entry.fault_at(when)
