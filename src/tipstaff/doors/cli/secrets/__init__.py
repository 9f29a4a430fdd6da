"""The group `tipstaff secrets`: one module for each of its commands. Holds the table and nothing else."""

COMMANDS = {
    "set": ("tipstaff.doors.cli.secrets.set", "keep a secret in the encrypted store"),
    "list": ("tipstaff.doors.cli.secrets.list", "list the secrets and where each comes from, never a value"),
    "rotate": ("tipstaff.doors.cli.secrets.rotate", "replace a secret by a new value, and note when"),
    "remove": ("tipstaff.doors.cli.secrets.remove", "forget a secret of the store"),
}
