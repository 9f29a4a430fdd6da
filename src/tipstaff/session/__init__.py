"""One contract carried out in one sandbox: what it means on this host, what came out of it, and the events of it all.

`plan` reads a contract as a plan for a tier, `capture` keeps what the command printed, `history` chains the runner's
events, `record` writes the receipt, and `session` leads through them in order. Decides nothing: what the contract does
not grant is not there, and what cannot be kept is not run.
"""

from tipstaff.session.session import Host, Outside, Session, Told

__all__ = ["Host", "Outside", "Session", "Told"]
