"""What is to be said of a sandbox of the `process` tier, from the kernel's words and its own trials. Pure.

It runs on the host's own kernel and file system, narrowed: never as the host's root, and never where it could read our
signing keys, which is so when it runs as ourselves and the kernel has no Landlock.
"""

import socket
from collections.abc import Mapping
from typing import Any, Final

from tipstaff.isolation.tier import Plan
from tipstaff.isolation.verdicts import WATCHED, bounded, disk, restricted, spelled
from tipstaff.model.tiers import Clause, Strength, Verdict

_FILTERED: Final = "2"  # SECCOMP_MODE_FILTER
_SCOPED: Final = 6  # the version of Landlock that holds back signals
_OWN_COUNT: Final[tuple[Strength, str]] = ("enforced", "RLIMIT_NPROC of a uid of its own")
_SHARED_COUNT: Final[tuple[Strength, str]] = ("weaker", "RLIMIT_NPROC counts all processes of the user")
ON_TRUST: Final[tuple[Strength, str]] = (
    "unenforceable",
    "the host's own network: variables lead to the gate, and nothing keeps a command to it",
)
_INTERNET: Final = {int(socket.AF_INET), int(socket.AF_INET6)}
KEYS_IN_REACH: Final = (
    "this kernel has no Landlock and the command would run as ourselves, so it could read our signing keys; use Linux "
    "5.13 or newer with Landlock, run as root, or use the tier bwrap"
)


def breaches(plan: Plan, facts: Mapping[str, Any]) -> list[str]:
    """List what is not as it must be for every run."""
    status, told = facts["status"], facts["told"]
    sockets = set(told.get("sockets", ("unknown",)))
    alone = _alone(facts)
    checks = {
        "it runs as the host's root": "0" not in status["Uid"].split() and bool(status["Uid"]),
        "it has capabilities": all(not status[name].strip("0") for name in ("CapEff", "CapPrm")),
        "it could gain privileges": status["NoNewPrivs"] == "1",
        "its system calls are not filtered": status["Seccomp"] == _FILTERED,
        "it can make sockets": sockets <= (_INTERNET if plan.on_trust else set()),
        KEYS_IN_REACH: alone or bool(told.get("landlock")),
        "Landlock does not hold": not told.get("landlock") or told.get("listed") is False,
    }
    return [problem for problem, holds in checks.items() if not holds]


def judge(plan: Plan, facts: Mapping[str, Any]) -> tuple[Verdict, ...]:
    """Give the verdict on every clause for this very run."""
    said: dict[Clause, tuple[Strength, str]] = {
        **bounded(plan, facts),
        "disk": disk(plan, facts),
        **_shown(facts["told"].get("landlock", 0), mode=facts["mode"], alone=_alone(facts)),
        "restricted": restricted(plan),
    }
    if plan.on_trust:
        said |= {"network": ON_TRUST, "hosts": ON_TRUST}
    if not said["pids"][1].startswith("control group"):
        said["pids"] = _counted(facts)
    return spelled(said)


def promised(settled: Mapping[str, Any]) -> tuple[Verdict, ...]:
    """Say which clauses will be kept, from what the spawner found when it settled."""
    groups = settled["groups"]
    by = f"control group, version {groups['version']}"
    alone = settled["mode"] == "root"
    without: dict[Clause, tuple[Strength, str]] = {
        "memory": ("weaker", "looked at every 25 ms, no control group"),
        "cpu": ("unenforceable", "no control group: all processors can be used"),
        "pids": _OWN_COUNT if alone else _SHARED_COUNT,
        "disk": ("weaker", f"each file has a size, {WATCHED}"),
        "restricted": ("weaker", "a program of that name can be copied or renamed inside the sandbox"),
    }
    held: dict[Clause, tuple[Strength, str]] = dict.fromkeys(groups["controllers"], ("enforced", by))
    shown = _shown(settled["landlock"], mode=settled["mode"], alone=alone)
    return spelled({**without, **held, **shown, "hosts": ON_TRUST})


def _counted(facts: Mapping[str, Any]) -> tuple[Strength, str]:
    if not facts["limits"].get("Max processes"):
        return "unenforceable", "neither a control group nor RLIMIT_NPROC holds"
    return _OWN_COUNT if _alone(facts) else _SHARED_COUNT


def _alone(facts: Mapping[str, Any]) -> bool:
    """Say whether the command has a uid that nobody else has."""
    return str(facts["ours"]) not in facts["status"]["Uid"].split()


def _shown(version: int, *, mode: str, alone: bool) -> dict[Clause, tuple[Strength, str]]:
    return {
        "network": ("enforced", "no socket can be made at all, which was tried for this run"),
        "hosts": ("enforced", "no host can be reached"),
        "time": ("enforced", "a uid of its own, of which everything is killed")
        if alone
        else ("enforced", "everything that it started is killed, and cannot signal whoever does it")
        if version >= _SCOPED
        else ("weaker", "it runs as ourselves and could signal our own processes"),
        "output": ("enforced", "counted as it passes"),
        "files": _files(version, mode),
        "secrets": ("weaker", "no variable or descriptor of the host, but the names of its files and processes"),
    }


def _files(version: int, mode: str) -> tuple[Strength, str]:
    if not version:
        return "unenforceable", "no Landlock: whatever anybody may read can be read"
    if mode == "plain":
        return "weaker", "Landlock hides contents, not names, sizes and rights"
    return "weaker", "Landlock hides contents, not names and sizes"
