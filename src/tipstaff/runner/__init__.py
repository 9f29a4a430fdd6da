"""The runner: takes runs from a plane, always by asking, and answers with receipts."""

from tipstaff.runner.client import Claim, InProcess, PlaneClient

__all__ = ["Claim", "InProcess", "PlaneClient"]
