"""The table of commands: name, the module that carries it out, one line of help.

A new command is a new module and one line here. The help text lives here and not in the module, so that
`tipstaff --help` imports no command. A module has either `configure(parser)` and `run(args) -> int`, or a table
`COMMANDS` like this one, which makes it a group of commands.
"""

Commands = dict[str, tuple[str, str]]

COMMANDS: Commands = {
    "verify": ("tipstaff.doors.cli.verify", "check a receipt bundle offline: is it whole, signed and consistent?"),
    "policy": ("tipstaff.doors.cli.policy", "check, explain, test and compare policy files"),
    "keys": ("tipstaff.doors.cli.keys", "make, show and trust signing keys"),
}
