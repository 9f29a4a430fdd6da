"""The group `tipstaff runner`: one module for each of its commands. Holds the table and nothing else."""

COMMANDS = {
    "enroll": ("tipstaff.doors.cli.runner.enroll", "make this runner known to a plane, once"),
    "start": ("tipstaff.doors.cli.runner.start", "take runs from a plane and carry them out"),
    "drain": ("tipstaff.doors.cli.runner.drain", "have a runner at work take no more, and end when its runs have"),
    "status": ("tipstaff.doors.cli.runner.status", "say who this runner is, and what it does"),
}
