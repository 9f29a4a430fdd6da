"""The plane: the authority. It decides by policy, signs contracts, hands runs to runners, countersigns receipts.

Clock, randomness, keys and store are passed in. It reaches neither `isolation` nor `session`: it cannot run code.
"""

from tipstaff.plane.authority import Authority
from tipstaff.plane.clock import SteadyClock
from tipstaff.plane.intake import Intake, Queued, Refused, Waiting
from tipstaff.plane.plane import Plane
from tipstaff.plane.room import most_home_bytes
from tipstaff.plane.wire import answer

__all__ = ["Authority", "Intake", "Plane", "Queued", "Refused", "SteadyClock", "Waiting", "answer", "most_home_bytes"]
