"""The group `tipstaff policy`: one module for each of its commands. Holds the table and nothing else."""

COMMANDS = {
    "check": ("tipstaff.doors.cli.policy.check", "check a policy file: syntax, rules and their examples"),
    "explain": ("tipstaff.doors.cli.policy.explain", "say what the policy decides about a request, and why"),
    "test": ("tipstaff.doors.cli.policy.test", "decide a file of requests and compare with what is expected"),
    "diff": ("tipstaff.doors.cli.policy.diff", "compare two policies: what is newly allowed, what newly denied"),
    "export": ("tipstaff.doors.cli.policy.export", "print the policy in force as JSON, with its digest"),
}
