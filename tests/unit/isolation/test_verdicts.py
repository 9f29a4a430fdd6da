"""What the kernel's words about a sandbox mean."""

from pathlib import Path

import msgspec
import pytest

from tipstaff.isolation import verdicts
from tipstaff.isolation.tier import Plan
from tipstaff.model.limits import Limits
from tipstaff.model.tiers import CLAUSES

PLAN = Plan(
    argv=("true",),
    environ={},
    limits=Limits(time_ms=1, memory_bytes=1 << 26, cpu_millis=500, pids=10, disk_bytes=1, output_bytes=1),
)
STATUS = {"CapBnd": "0" * 16, "CapEff": "0" * 16, "CapPrm": "0" * 16, "NoNewPrivs": "1", "Seccomp": "2",
          "Uid": "1879048192\t1879048192\t1879048192\t1879048192", "Gid": "1\t1\t1\t1"}  # fmt: skip
FACTS = {
    "status": STATUS,
    "own": sorted(verdicts.NAMESPACES),
    "interfaces": ["lo"],
    "limits": {"Max processes": 11},
    "group": {"memory": 1 << 26, "cpu": 500, "pids": 10},
    "groupVersion": 1,
}


def strengths(**changes):
    """The strength of every clause, for facts that differ from good ones."""
    return {verdict.clause: verdict.strength for verdict in verdicts.judge(PLAN, {**FACTS, **changes})}


def test_a_sandbox_as_it_should_be_has_no_breach():
    """Nothing is found where all is well."""
    assert verdicts.breaches(PLAN, FACTS) == []


@pytest.mark.parametrize(
    "change",
    [
        *({"own": sorted(verdicts.NAMESPACES - {name})} for name in sorted(verdicts.NAMESPACES)),
        *({"status": {**STATUS, name: "0000000000000400"}} for name in ("CapBnd", "CapEff", "CapPrm")),
        {"status": {**STATUS, "Uid": "1000\t0\t1000\t1000"}},
        {"status": {**STATUS, "Uid": ""}},
        {"status": {**STATUS, "NoNewPrivs": "0"}},
        {"status": {**STATUS, "Seccomp": "0"}},
        {"interfaces": ["lo", "eth0"]},
    ],
)
def test_each_gap_is_a_breach(change):
    """Whatever one thing is not as it must be, it is found, and it alone."""
    assert len(verdicts.breaches(PLAN, {**FACTS, **change})) == 1


def test_every_clause_is_judged():
    """There is one verdict for each clause, with what it rests on."""
    found = verdicts.judge(PLAN, FACTS)

    assert sorted(verdict.clause for verdict in found) == sorted(CLAUSES)
    assert all(verdict.by for verdict in found)


@pytest.mark.parametrize(("clause", "less"), [("memory", "weaker"), ("cpu", "unenforceable")])
def test_a_bound_is_enforced_when_the_kernel_says_so(clause, less):
    """A number read back that is larger than the limit, or missing, is not `enforced`; one at most as large is."""
    group = FACTS["group"]
    assert isinstance(group, dict)

    assert strengths()[clause] == "enforced"
    assert strengths(group={**group, clause: group[clause] - 1})[clause] == "enforced"
    assert strengths(group={**group, clause: group[clause] + 1})[clause] == less
    assert strengths(group={})[clause] == less


def test_processes_can_be_held_in_two_ways():
    """A control group or RLIMIT_NPROC inside holds; with neither the clause is `unenforceable`."""
    assert strengths(group={})["pids"] == "enforced"
    assert strengths(group={}, limits={"Max processes": 12})["pids"] == "unenforceable"
    assert strengths(group={}, limits={})["pids"] == "unenforceable"


def test_a_folder_in_place_is_said_to_be_unwatched():
    """The verdict on disk says which part nobody watches."""
    in_place = Plan(argv=("true",), environ={}, limits=PLAN.limits, workspace=Path("/w"), mode="in-place")

    by = {verdict.clause: verdict.by for verdict in verdicts.judge(in_place, FACTS)}
    assert "not watched" in by["disk"]
    assert "not watched" not in {verdict.clause: verdict.by for verdict in verdicts.judge(PLAN, FACTS)}["disk"]


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        ({"bytes": 1 << 20, "files": 1024}, "enforced"),
        ({"bytes": (1 << 20) - 1, "files": 1024}, "enforced"),
        ({"bytes": (1 << 20) + 1, "files": 1024}, "weaker"),
        ({"bytes": 1 << 20, "files": 0}, "weaker"),
        ({"bytes": 0, "files": 0}, "weaker"),
        ({}, "weaker"),
    ],
)
def test_a_quota_is_enforced_when_the_kernel_says_so(quota, expected):
    """Only limits on bytes and files that were read back, and are at most what was asked for, bound the disk."""
    bounded = msgspec.structs.replace(PLAN, limits=msgspec.structs.replace(PLAN.limits, disk_bytes=1 << 20))
    in_place = msgspec.structs.replace(bounded, workspace=Path("/w"), mode="in-place")

    def strength(plan: Plan) -> str:
        found = verdicts.judge(plan, {**FACTS, "quota": quota})
        return next(verdict.strength for verdict in found if verdict.clause == "disk")

    assert (strength(bounded), strength(in_place)) == (expected, "weaker")


@pytest.mark.parametrize("offered", [True, False])
def test_a_quota_is_promised_where_the_host_has_one(offered):
    """The promise on disk is `enforced` with quotas of the file system, and `weaker` without."""
    settled = {"groups": {"version": 2, "controllers": []}, "quota": offered}

    found = {verdict.clause: verdict.strength for verdict in verdicts.promised(settled)}

    assert found["disk"] == ("enforced" if offered else "weaker")
