"""Evidence: the chain, the receipt and the bundle, and verification that needs nobody's permission.

Pure: no clock, no randomness, no network. What is wrong with a document is a value (`Report`), not an exception.
"""

from tipstaff.evidence.report import CHECKS, Problem, Report
from tipstaff.evidence.verify import verify

__all__ = ["CHECKS", "Problem", "Report", "verify"]
