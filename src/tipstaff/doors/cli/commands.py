"""The table of commands: name, the module that carries it out, one line of help.

A new command is a new module and one line here. The help text lives here and not in the module, so that
`tipstaff --help` imports no command. A module has either `configure(parser)` and `run(args) -> int`, or a table
`COMMANDS` like this one, which makes it a group of commands.
"""

Commands = dict[str, tuple[str, str]]

COMMANDS: Commands = {
    "run": ("tipstaff.doors.cli.run", "run a command by policy, in a sandbox, with a signed receipt"),
    "history": ("tipstaff.doors.cli.history", "list what ran, what waits and what was refused"),
    "show": ("tipstaff.doors.cli.show", "show everything about one run"),
    "log": ("tipstaff.doors.cli.log", "print what a run wrote to stdout and stderr"),
    "diff": ("tipstaff.doors.cli.diff", "print what a run changed in its workspace"),
    "apply": ("tipstaff.doors.cli.apply", "bring what a run changed into a folder or onto a branch, or undo that"),
    "why": ("tipstaff.doors.cli.why", "say why something was refused or ended as it did, and what to do next"),
    "bundle": ("tipstaff.doors.cli.bundle", "print the proof of a run: its bundle, or its signed refusal"),
    "approvals": ("tipstaff.doors.cli.approvals", "list the runs that wait for people"),
    "approve": ("tipstaff.doors.cli.approve", "say yes to a run that waits, by signature"),
    "deny": ("tipstaff.doors.cli.deny", "say no to a run that waits"),
    "cancel": ("tipstaff.doors.cli.cancel", "stop a run that waits or is at work"),
    "verify": ("tipstaff.doors.cli.verify", "check a receipt bundle offline: is it whole, signed and consistent?"),
    "policy": ("tipstaff.doors.cli.policy", "check, explain, test and compare policy files"),
    "keys": ("tipstaff.doors.cli.keys", "make, show and trust signing keys"),
    "secrets": ("tipstaff.doors.cli.secrets", "keep secrets for runs, and say where each comes from"),
    "plane": ("tipstaff.doors.cli.plane", "make and serve a plane, for people and runners on other machines"),
    "runner": ("tipstaff.doors.cli.runner", "take runs from a plane elsewhere, and carry them out here"),
    "prune": ("tipstaff.doors.cli.prune", "remove what ended long ago, by age or size"),
    "doctor": ("tipstaff.doors.cli.doctor", "say what this host can enforce, and how to mend what it cannot"),
    "completion": ("tipstaff.doors.cli.completion", "print a completion script for bash, zsh or fish"),
}
