"""The tiers, how strong each is, the clauses of a contract and the verdicts on them.

The order says what a minimum means: a run never takes a tier of lower rank than the minimum. It compares the
boundary only; whether a clause (the network, say) holds is a verdict of its own, asked of the tier and read back.
`BEST` is what a tier can do at best, on a host that has everything; the host's own answer may be weaker.
"""

from typing import Final, Literal

from tipstaff.model.noun import Noun

Clause = Literal[
    "network", "hosts", "memory", "cpu", "pids", "disk", "time", "output", "files", "secrets", "restricted"
]
CLAUSES: Final[tuple[Clause, ...]] = (
    "network", "hosts", "memory", "cpu", "pids", "disk", "time", "output", "files", "secrets", "restricted",
)  # fmt: skip
Strength = Literal["enforced", "weaker", "unenforceable"]
STRENGTHS: Final[tuple[Strength, ...]] = ("unenforceable", "weaker", "enforced")

RANKS: Final = {
    "process": 0,  # the host's own kernel and file system, narrowed
    "bwrap": 1,  # namespaces: a root built from nothing, the host's kernel
    "hermetic": 2,  # no operating system at all, but an interpreter in our own process tree
    "gvisor": 3,  # a kernel of its own in user space
    "microvm": 4,  # a kernel of its own on virtual hardware
    "era": 4,
    "vercel-sandbox": 4,  # never ours: a receipt of the other implementation may name it
}
OURS: Final = ("process", "bwrap", "hermetic", "gvisor", "microvm", "era")


class Verdict(Noun):
    """What a tier says of one clause: does it hold, and by what or how not."""

    clause: Clause
    strength: Strength
    by: str = ""


class TierReport(Noun):
    """What one tier can do on one host."""

    name: str
    available: bool = True
    missing: str = ""  # what is not there, and how to get it
    verdicts: tuple[Verdict, ...] = ()


def rank(tier: str) -> int | None:
    """Say how strong `tier` is, or None where nobody told us."""
    return RANKS.get(tier)


_ENFORCED: Final[tuple[Strength, str]] = ("enforced", "")
_ALL_ENFORCED: Final = dict.fromkeys(CLAUSES, _ENFORCED)
_SHELL: Final[tuple[Strength, str]] = ("weaker", "a program of that name can be copied or renamed inside the sandbox")

BEST: Final[dict[str, dict[Clause, tuple[Strength, str]]]] = {
    "process": {
        **_ALL_ENFORCED,
        "network": ("unenforceable", "proxy variables only: a program may ignore them"),
        "hosts": ("unenforceable", "proxy variables only: a program may ignore them"),
        "memory": ("weaker", "RLIMIT_AS counts each process by itself"),
        "cpu": ("weaker", "CPU seconds are bounded, not the share"),
        "pids": ("weaker", "RLIMIT_NPROC counts all processes of the user"),
        "disk": ("weaker", "RLIMIT_FSIZE counts each file by itself"),
        "files": ("weaker", "Landlock hides contents, not names and sizes"),
        "secrets": ("weaker", "other processes of the same user can read the environment"),
        "restricted": _SHELL,
    },
    "bwrap": {
        **_ALL_ENFORCED,
        "disk": ("weaker", "a sized tmpfs or a watched folder, not a quota of the file system"),
        "restricted": _SHELL,
    },
    "hermetic": {
        **_ALL_ENFORCED,
        "cpu": ("weaker", "one worker process: time is bounded, not the share"),
    },
    "gvisor": {**_ALL_ENFORCED, "restricted": _SHELL},
    "microvm": {**_ALL_ENFORCED, "restricted": _SHELL},
    "era": {
        **_ALL_ENFORCED,
        "network": ("unenforceable", "ERA does not pass its network setting on"),
        "hosts": ("unenforceable", "ERA does not pass its network setting on"),
        "restricted": _SHELL,
    },
}


def at_best(tier: str) -> TierReport:
    """Say what `tier` does on a host that has everything it needs."""
    return TierReport(
        name=tier,
        verdicts=tuple(
            Verdict(clause=clause, strength=strength, by=by) for clause, (strength, by) in BEST[tier].items()
        ),
    )
