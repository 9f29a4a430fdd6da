"""How long one decision takes, with two hundred rules."""

from collections.abc import Iterator
from statistics import quantiles
from time import perf_counter

from bench.figure import Figure
from tipstaff.model import Actor, Argv, Network, Request
from tipstaff.policy import decide, load_policy

RULES = 200
ROUNDS = 5_000

HEAD = """\
version: tipstaff.policy.v1
name: bench
principals: [{id: "agent-*"}]
network: {hosts: [{host: "*.example.com", ports: [443]}]}
rules:
"""
RULE = """\
  - id: rule-{number}
    effect: {effect}
    reason: rule {number}
    when: {{principals: ["agent-{group}*"], doors: [cli, mcp], argv: [[tool-{number}, [build, test], "..."]]}}
"""
LAST = """\
  - id: everything-else
    effect: allow
    when: {principals: ["agent-*"], kinds: [argv]}
"""


def figures() -> Iterator[Figure]:
    """Time decisions one by one: a request that only the last of the rules allows."""
    rules = [RULE.format(number=n, effect="deny" if n % 2 else "allow", group=n % 7) for n in range(RULES - 1)]
    policy = load_policy("".join([HEAD, *rules, LAST]))
    request = Request(
        requested_by=Actor(kind="agent", id="agent-3"),
        execution=Argv(command="make", args=("test", "-j2")),
        network=Network(allow_hosts=("api.example.com",)),
    )
    if decide(request, policy).effect != "allow":
        raise AssertionError(decide(request, policy))
    times = []
    for _ in range(ROUNDS):
        start = perf_counter()
        decide(request, policy)
        times.append((perf_counter() - start) * 1e6)
    cuts = quantiles(times, n=100)
    yield Figure("decide_us", cuts[49], "µs, p50", at_most=100, detail={"p99": round(cuts[98], 1), "rules": RULES})
