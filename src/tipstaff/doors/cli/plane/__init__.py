"""The group `tipstaff plane`: one module for each of its commands. Holds the table and nothing else."""

COMMANDS = {
    "init": ("tipstaff.doors.cli.plane.init", "make a plane: its key, its policy, its settings and the first admin"),
    "start": ("tipstaff.doors.cli.plane.start", "serve the plane over HTTP"),
    "token": ("tipstaff.doors.cli.plane.token", "make, replace or revoke the token of somebody who may ask"),
    "enroll-token": ("tipstaff.doors.cli.plane.enroll_token", "make a token that one runner can enrol with"),
    "prune": ("tipstaff.doors.cli.plane.prune", "remove what ended long ago from the plane's home"),
    "status": ("tipstaff.doors.cli.plane.status", "say what the plane holds, and who may ask it"),
}
