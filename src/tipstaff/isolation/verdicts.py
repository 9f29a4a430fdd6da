"""What the kernel's own words about a waiting sandbox mean: is it one at all, and which clauses does it keep? Pure.

`breaches` must be empty before a command is let go. `judge` gives a verdict for every clause; `enforced` is said only
where the number that was read back is at most the one that was asked for.
"""

from collections.abc import Mapping
from typing import Any, Final

from tipstaff.isolation.tier import Plan
from tipstaff.model.tiers import Clause, Strength, Verdict, at_best

NAMESPACES: Final = {"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"}
_WAY_OUT: Final = "the only way out is a gate of ours, which lets through what the contract names"
QUOTA: Final = "project quota of the file system"
WATCHED: Final = "bytes and entries of the workspace are looked at every 250 ms"
_FILTERED: Final = "2"  # SECCOMP_MODE_FILTER
_SAMPLED: Final[tuple[Strength, str]] = ("weaker", "looked at every 25 ms, no control group")
_UNBOUNDED: Final[tuple[Strength, str]] = ("unenforceable", "no control group: all processors can be used")


def breaches(_plan: Plan, facts: Mapping[str, Any]) -> list[str]:
    """List what is not as it must be for every run."""
    status = facts["status"]
    missing = sorted(NAMESPACES - set(facts["own"]))
    checks = {
        f"it shares namespaces with the host: {', '.join(missing)}": not missing,
        "it runs as the host's root": "0" not in status["Uid"].split() and bool(status["Uid"]),
        "it has capabilities": all(not status[name].strip("0") for name in ("CapEff", "CapPrm", "CapBnd")),
        "it could gain privileges": status["NoNewPrivs"] == "1",
        "its system calls are not filtered": status["Seccomp"] == _FILTERED,
        "it has other network interfaces than lo": set(facts["interfaces"]) == {"lo"},
    }
    return [problem for problem, holds in checks.items() if not holds]


def judge(plan: Plan, facts: Mapping[str, Any]) -> tuple[Verdict, ...]:
    """Give the verdict on every clause for this very run."""
    said: dict[Clause, tuple[Strength, str]] = {
        "network": ("enforced", "a network namespace with nothing but lo, which is checked for this run"),
        "hosts": ("enforced", _WAY_OUT if plan.port else "no host can be reached"),
        **bounded(plan, facts),
        "disk": disk(plan, facts),
        "time": ("enforced", "the whole process namespace is killed"),
        "output": ("enforced", "counted as it passes"),
        "files": ("enforced", f"a root built from nothing, as uid {facts['status']['Uid'].split()[0]} of the host"),
        "secrets": ("enforced", "no variable, descriptor or process of the host is inside"),
        "restricted": restricted(plan),
    }
    return spelled(said)


def promised(settled: Mapping[str, Any]) -> tuple[Verdict, ...]:
    """Say which clauses a sandbox will keep, from what the spawner found when it settled; the best for the rest."""
    groups = settled["groups"]
    by = f"control group, version {groups['version']}"
    held: dict[Clause, tuple[Strength, str]] = dict.fromkeys(groups["controllers"], ("enforced", by))
    without: dict[Clause, tuple[Strength, str]] = {
        "memory": _SAMPLED,
        "cpu": _UNBOUNDED,
        "pids": ("enforced", "RLIMIT_NPROC in the sandbox's own user namespace"),
    }
    best = {verdict.clause: (verdict.strength, verdict.by) for verdict in at_best("bwrap").verdicts}
    quota: dict[Clause, tuple[Strength, str]] = {"disk": ("enforced", QUOTA)} if settled["quota"] else {}
    return spelled({**best, **without, **held, **quota})


def spelled(said: Mapping[Clause, tuple[Strength, str]]) -> tuple[Verdict, ...]:
    """Spell what is said of each clause."""
    return tuple(Verdict(clause=clause, strength=strength, by=by) for clause, (strength, by) in said.items())


def bounded(plan: Plan, facts: Mapping[str, Any]) -> dict[Clause, tuple[Strength, str]]:
    """Say what holds memory, processors and processes, by the numbers that were read back."""
    limits, group, by = plan.limits, facts["group"], f"control group, version {facts['groupVersion']}"
    kept = {
        "memory": group.get("memory", 0) and group["memory"] <= (limits.memory_bytes or 0),
        "cpu": group.get("cpu", 0) and group["cpu"] <= max(10, limits.cpu_millis or 0),
        "pids": group.get("pids", 0) and group["pids"] <= (limits.pids or 0),
    }
    counted = facts["limits"].get("Max processes", 0) - 1  # the sandbox's own first process
    pids: tuple[Strength, str] = (
        ("enforced", "RLIMIT_NPROC in the sandbox's own user namespace")
        if 0 < counted <= (limits.pids or 0)
        else ("unenforceable", "neither a control group nor RLIMIT_NPROC holds")
    )
    return {
        "memory": ("enforced", by) if kept["memory"] else _SAMPLED,
        "cpu": ("enforced", by) if kept["cpu"] else _UNBOUNDED,
        "pids": ("enforced", by) if kept["pids"] else pids,
    }


def disk(plan: Plan, facts: Mapping[str, Any]) -> tuple[Strength, str]:
    """Say what bounds the disk: a quota that was read back, or a look at bytes and entries."""
    scratch = "scratch folders have a size, each file has one"
    if plan.workspace is not None and plan.mode == "in-place":
        return "weaker", f"{scratch}, the workspace in place is not watched"
    held = facts.get("quota") or {"bytes": 0, "files": 0}
    if 0 < held["bytes"] <= (plan.limits.disk_bytes or 0) and held["files"]:
        return "enforced", f"{QUOTA}: {held['bytes']} bytes, {held['files']} files"
    return "weaker", f"{scratch}, {WATCHED}"


def restricted(plan: Plan) -> tuple[Strength, str]:
    """Say whether programs can be kept away by their names."""
    if plan.masked:
        return "enforced", "the names do not exist inside"
    return "weaker", "a program of that name can be copied or renamed inside the sandbox"
