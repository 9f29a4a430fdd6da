"""The group `tipstaff keys`: one module for each of its commands. Holds the table and nothing else."""

COMMANDS = {
    "show": ("tipstaff.doors.cli.keys.show", "print a public key and its id"),
    "new": ("tipstaff.doors.cli.keys.new", "make a signing key"),
    "list": ("tipstaff.doors.cli.keys.list", "list the keys of this machine and those it trusts"),
    "trust": ("tipstaff.doors.cli.keys.trust", "trust somebody's public key"),
    "revoke": ("tipstaff.doors.cli.keys.revoke", "stop trusting a key"),
}
