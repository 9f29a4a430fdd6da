"""Tipstaff from Python: `run`, `arun`, and `open` for many runs.

    outcome = tipstaff.run(["python3", "job.py"], workspace="job/", timeout=30)
    outcome.ok, outcome.exit_code, outcome.ending, outcome.stdout, outcome.receipt

A refusal is an `Outcome` whose ending is `refused`, never an exception; what cannot be meant is a `UsageError`.
The policy, the home and the sandbox are the same as at the command line; with `plane="https://…"` the run goes to that
plane instead. Prints nothing, and reads no standard input.
"""

from tipstaff.doors.python.box import Box, arun, open, run  # noqa: A004 - a public name: `tipstaff.open()` reads well

__all__ = ["Box", "arun", "open", "run"]
