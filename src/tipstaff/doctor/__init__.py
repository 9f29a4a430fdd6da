"""What this host can enforce, what it cannot, and the exact command that mends it.

Looks and tells; changes nothing. Whether a tier holds is never guessed: a sandbox is built, and what the kernel says
of it is read back.
"""

from tipstaff.doctor.report import Examination, TierFinding, examine

__all__ = ["Examination", "TierFinding", "examine"]
