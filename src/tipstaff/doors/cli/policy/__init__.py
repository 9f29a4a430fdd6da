"""The group `tipstaff policy`: one module for each of its commands. Holds the table and nothing else."""

COMMANDS = {
    "check": (
        "tipstaff.doors.cli.policy.check",
        "say what a policy means, what looks wrong, what a tier cannot enforce",
    ),
    "explain": (
        "tipstaff.doors.cli.policy.explain",
        "say what a policy decides about a request, why, and what would change it",
    ),
    "test": ("tipstaff.doors.cli.policy.test", "try the examples that stand in a policy"),
    "diff": ("tipstaff.doors.cli.policy.diff", "compare two policies: what is wider, what is narrower"),
    "export": ("tipstaff.doors.cli.policy.export", "print a policy as warrant.policy.v1 JSON"),
}
