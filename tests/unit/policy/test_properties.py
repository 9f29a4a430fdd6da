"""What holds for every policy and every request: generated ones, hostile strings included."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tipstaff.model import Decision, EgressRule, parse_request
from tipstaff.model.tiers import OURS, RANKS, at_best
from tipstaff.policy import Facts, Policy, decide, hosts
from tipstaff.policy.load import policy_from_value
from tipstaff.policy.patterns import covers

ORDER = {"deny": 0, "ask": 1, "allow": 2}
NAMES = ["builder", "alice", "team-a", "*", "team-*"]
PROGRAMS = ["git", "ls", "/opt/git", "bash", "./x"]
WORDS = ["status", "push", "-c", "*"]
HOSTS = ["a.example", "b.example", "*.example", "c.b.example", "*", "127.0.0.1"]
SECRETS = ["TOKEN", "OTHER"]
TIERS = list(OURS)


def some(values: list[Any], *, least: int = 0) -> st.SearchStrategy[list[Any]]:
    """Draw a few of the values."""
    return st.lists(st.sampled_from(values), min_size=least, max_size=3, unique=True)


def argv_patterns() -> st.SearchStrategy[list[Any]]:
    """Draw a command line pattern that a policy may have."""
    whole = st.sampled_from(["bash", "*", "git", "ls"]).map(lambda program: [program, "..."])
    exact = st.tuples(st.sampled_from(["git", "ls", "/opt/git"]), some(WORDS)).map(lambda pair: [pair[0], *pair[1]])
    return whole | exact | exact.map(lambda pattern: [*pattern, "..."])


FACETS = {
    "principals": some(NAMES, least=1),
    "kinds": some(["shell", "python", "agent"]).map(lambda kinds: ["argv", *kinds]),
    "doors": some(["cli", "grpc"], least=1),
    "agents": some(["command", "mock"], least=1),
    "secrets": some(["*", *SECRETS], least=1),
    "hosts": some(HOSTS, least=1),
    "tools": some(["run", "query", "*"], least=1),
    "argv": st.lists(argv_patterns(), min_size=1, max_size=2),
}
CONDITIONS = st.one_of(
    *(st.fixed_dictionaries({key: facet}) for key, facet in FACETS.items()),
    *(st.fixed_dictionaries({"argv": FACETS["argv"], key: FACETS[key]}) for key in ("principals", "kinds", "hosts")),
)
LIMITS = st.fixed_dictionaries({}, optional={"time": st.sampled_from(["1s", "1m", "2h"]), "pids": st.integers(1, 900)})


@st.composite
def rules(draw: st.DrawFn, effect: str | None = None) -> dict[str, Any]:
    """Draw a rule without its id."""
    chosen = effect or draw(st.sampled_from(["allow", "ask", "ask", "ask", "deny"]))
    rule: dict[str, Any] = {
        "effect": chosen,
        "when": draw(st.just("any") | CONDITIONS),
        "except": draw(st.lists(CONDITIONS, max_size=1)),
    }
    if chosen == "ask":
        rule["approvals"] = {"approvers": ["alice"]}
    if chosen != "deny":
        rule["limits"] = draw(LIMITS)
        if draw(st.booleans()):
            rule["tier"] = draw(st.sampled_from(TIERS))
    return rule


def numbered(drawn: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give rules their ids."""
    return [{"id": f"rule-{number}"} | rule for number, rule in enumerate(drawn)]


GRANTS = st.fixed_dictionaries(
    {"host": st.sampled_from(HOSTS)},
    optional={
        "ports": some([80, 443], least=1),
        "principals": some(NAMES),
        "pools": some(["default", "*"]),
        "max_bytes": st.integers(1, 99),
    },
)
WEB_GRANTS = st.fixed_dictionaries(
    {"host": st.sampled_from(HOSTS), "inspect": st.just(value=True)},
    optional={"methods": some(["GET", "PUT"]), "paths": some(["/v1/*", "/v1/a", "/*"])},
)
PRINCIPALS = st.fixed_dictionaries(
    {"id": st.sampled_from(NAMES)},
    optional={
        "tools": st.fixed_dictionaries({"allow": some(["*", "run", "query"])}, optional={"deny": some(["query"])})
    },
)
ANYBODY = {"id": "*", "tools": {"allow": ["*"]}}
ANYTHING = {"id": "anything", "effect": "allow", "when": "any"}
ANYWHERE = [{"host": host} for host in HOSTS] + [{"host": "*", "opaque": True}]
TOLERANT = dict.fromkeys(
    ("network", "hosts", "memory", "cpu", "pids", "disk", "files", "secrets", "restricted"), "unenforceable"
)


def mostly(usual: Any, otherwise: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw the permissive value four times of five: a policy that refuses everything tests nothing."""
    return st.sampled_from(range(5)).flatmap(lambda number: otherwise if number == 0 else st.just(usual))


POLICIES = st.fixed_dictionaries(
    {
        "version": st.just("tipstaff.policy.v1"),
        "name": st.just("drawn"),
        "principals": mostly([ANYBODY], st.lists(PRINCIPALS, max_size=3)),
        "rules": st.tuples(mostly([ANYTHING], st.just([])), st.lists(rules(), max_size=3).map(numbered)).map(
            lambda two: [*two[0], *two[1]]
        ),
        "restricted": mostly([], some(["ls", "query"])),
        "safe_mode": mostly(usual=False, otherwise=st.booleans()),
        "pools": mostly(["default", "gpu"], some(["default", "gpu"])),
        "network": st.fixed_dictionaries(
            {
                "hosts": mostly(ANYWHERE, st.lists(GRANTS | WEB_GRANTS, max_size=3)),
                "deny": mostly([], some(HOSTS)),
                "default_deny": st.booleans(),
            }
        ),
        "secrets": mostly(
            [{"name": "*"}], st.lists(st.sampled_from([{"name": "TOKEN"}, {"name": "*", "pools": ["gpu"]}]), max_size=2)
        ),
        "env": st.just({"inherit": ["LANG"]}),
        "files": mostly({"workspaces": ["/**"], "readable": ["/**"]}, st.just({"readable": ["/srv/*"]})),
        "limits": st.fixed_dictionaries(
            {},
            optional={
                "time": st.fixed_dictionaries({"max": st.sampled_from(["1m", "3h"])}),
                "pids": st.fixed_dictionaries({"max": st.integers(1, 900)}),
            },
        ),
        "tiers": st.fixed_dictionaries(
            {"minimum": st.sampled_from(TIERS), "tolerate": mostly(TOLERANT, st.just({}))},
            optional={"default": st.sampled_from([*TIERS, "auto"])},
        ),
    }
)
EXECUTIONS = st.one_of(
    st.fixed_dictionaries(
        {"kind": st.just("argv"), "command": st.sampled_from(PROGRAMS), "args": some(WORDS)},
        optional={"timeoutMs": st.integers(1, 10**8)},
    ),
    st.sampled_from(
        [{"kind": "shell", "script": "ls"}, {"kind": "shell", "script": "ls", "env": {"inherit": ["LANG"]}}]
    ),
    st.sampled_from([{"kind": "python", "source": "1"}, {"kind": "agent", "agent": {"kind": "mock"}, "prompt": "x"}]),
)
WAYS = st.fixed_dictionaries(
    {"host": st.sampled_from(HOSTS)},
    optional={
        "ports": some([80, 443]),
        "methods": some(["GET", "POST"]),
        "paths": some(["/v1/a", "/v1/*", "/x"]),
        "maxBytes": st.integers(1, 200),
    },
)
REQUESTS = st.fixed_dictionaries(
    {
        "requestedBy": st.sampled_from(
            [{"kind": "agent", "id": "builder"}, {"kind": "human", "id": "alice"}, {"kind": "agent", "id": "team-a"}]
        ),
        "execution": EXECUTIONS,
    },
    optional={
        "door": st.sampled_from(["cli", "grpc"]),
        "tool": st.sampled_from(["query", "run"]),
        "pool": st.sampled_from(["default", "gpu"]),
        "secretNames": some(SECRETS),
        "network": st.fixed_dictionaries({"allowHosts": some(HOSTS)}, optional={"defaultDeny": st.just(value=True)}),
        "egress": st.fixed_dictionaries({"rules": st.lists(WAYS, max_size=2)}),
        "files": st.sampled_from(
            [
                {"workspace": "/srv/a"},
                {"workspace": "/srv/a", "readable": ["/srv/b", "/data/x"]},
                {"workspace": "/proc"},
            ]
        ),
        "limits": st.fixed_dictionaries(
            {},
            optional={
                "timeMs": st.integers(1, 10**9),
                "pids": st.integers(1, 10**6),
                "memoryBytes": st.integers(1, 2**50),
            },
        ),
        "budget": st.fixed_dictionaries(
            {}, optional={"maxDurationMin": st.floats(0, 1e6), "maxSpendUsd": st.floats(0, 1e6)}
        ),
        "isolation": st.sampled_from([*TIERS, "auto"]),
    },
).map(parse_request)
HOST_TIERS = st.lists(st.sampled_from(TIERS), min_size=3, max_size=6, unique=True).map(
    lambda names: tuple(at_best(name) for name in names)
)
FACTS = st.builds(Facts, tool_bound=st.booleans(), tiers=mostly((), HOST_TIERS))
# Policies are large to draw, and few draws hit a rule: HYPOTHESIS_PROFILE=explore looks further, for an evening.
thorough = settings(
    max_examples=3 * settings().max_examples // 2,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def compiled(value: dict[str, Any]) -> Policy:
    """Load a drawn policy."""
    return policy_from_value(value)


def reach(decision: Decision) -> tuple[set[Any], ...]:
    """List what a decision grants."""
    effective = decision.effective
    if effective is None:
        return set(), set(), set(), set()
    return (
        set(effective.egress),
        {one.name for one in effective.secrets},
        set(effective.readable),
        set(effective.inherit),
    )


def never_more(after: Decision, before: Decision) -> None:
    """Claim that `after` permits nothing that `before` did not."""
    assert ORDER[after.effect] <= ORDER[before.effect]
    assert all(new <= old for new, old in zip(reach(after), reach(before), strict=True))


@thorough
@given(POLICIES, REQUESTS, FACTS, rules("deny"))
def test_adding_a_denial_never_permits_more(value, request_, facts, denial):
    """A deny rule more gives an effect at most as wide, and no grant that was not there."""
    more = value | {"rules": [*value["rules"], {"id": "added"} | denial]}

    never_more(decide(request_, compiled(more), facts), decide(request_, compiled(value), facts))


@thorough
@given(POLICIES, REQUESTS, FACTS, st.sampled_from(HOSTS), st.sampled_from(["ls", "query", "git", "*"]))
def test_denying_a_host_a_name_or_a_tool_never_permits_more(value, request_, facts, host, name):
    """A denied host, restricted name or denied tool more never permits what was refused."""
    network = value["network"]
    before = decide(request_, compiled(value), facts)
    denied_host = value | {"network": network | {"deny": [*network["deny"], host]}}
    restricted = value | {"restricted": [*value["restricted"], name]}
    tools = [
        entry | {"tools": entry.get("tools", {}) | {"deny": [*entry.get("tools", {}).get("deny", []), name]}}
        for entry in value["principals"]
    ]

    never_more(decide(request_, compiled(denied_host), facts), before)
    never_more(decide(request_, compiled(restricted), facts), before)
    never_more(decide(request_, compiled(value | {"principals": tools}), facts), before)


@thorough
@given(POLICIES, REQUESTS, FACTS, CONDITIONS)
def test_an_exception_to_a_permission_never_permits_more(value, request_, facts, exception):
    """An exception added to every allow rule never widens the answer."""
    narrowed = [
        rule | {"except": [*rule.get("except", []), exception]} if rule["effect"] == "allow" else rule
        for rule in value["rules"]
    ]
    before, after = (decide(request_, compiled(one), facts) for one in (value, value | {"rules": narrowed}))

    assert ORDER[after.effect] <= ORDER[before.effect]


@thorough
@given(POLICIES, REQUESTS, st.sampled_from(TIERS))
def test_raising_the_minimum_never_lowers_a_tier(value, request_, minimum):
    """A higher minimum gives a tier of at least the rank that it was."""
    section = value.get("tiers", {"minimum": "bwrap"})
    if RANKS[minimum] < RANKS[section["minimum"]]:
        minimum = section["minimum"]
    before = decide(request_, compiled(value)).effective
    after = decide(request_, compiled(value | {"tiers": section | {"minimum": minimum}})).effective

    if before is not None and after is not None:
        assert RANKS[after.tier] >= RANKS[before.tier]
        assert RANKS[after.tier] >= RANKS[after.minimum_tier] >= RANKS[minimum]


@thorough
@given(POLICIES, REQUESTS, FACTS)
def test_clamping_never_raises(value, request_, facts):
    """No limit is above the wish, above the policy's maximum, or absent."""
    effective = decide(request_, compiled(value), facts).effective
    if effective is None:
        return
    wish, limits = request_.limits, effective.limits
    timeout = request_.effective.timeout_ms
    minutes = request_.budget.max_duration_min
    ceilings = {"1m": 60_000, "3h": 10_800_000}
    maximum = value.get("limits", {})
    assert limits.time_ms is not None
    assert limits.time_ms <= min(wish.time_ms or limits.time_ms, timeout or limits.time_ms)
    assert minutes is None or limits.time_ms <= max(1, minutes * 60_000)
    assert "time" not in maximum or limits.time_ms <= ceilings[maximum["time"]["max"]]
    assert limits.pids is not None
    assert limits.pids <= (wish.pids or limits.pids)
    assert "pids" not in maximum or limits.pids <= maximum["pids"]["max"]
    assert limits.memory_bytes is not None
    assert limits.memory_bytes <= (wish.memory_bytes or limits.memory_bytes)
    wished, spend = request_.budget.max_spend_usd, effective.budget.max_spend_usd
    assert wished is None or (spend is not None and spend <= wished)


@thorough
@given(POLICIES, REQUESTS, FACTS, st.randoms(use_true_random=False))
def test_the_order_of_a_file_does_not_matter(value, request_, facts, shuffler):
    """Rules, grants, secrets and principals in another order give the same answer in the same words."""
    network = value.get("network", {})
    mixed = value | {
        "rules": shuffler.sample(value["rules"], len(value["rules"])),
        "principals": shuffler.sample(value["principals"], len(value["principals"])),
        "network": network | {"hosts": shuffler.sample(network.get("hosts", []), len(network.get("hosts", [])))},
        "secrets": shuffler.sample(value.get("secrets", []), len(value.get("secrets", []))),
    }
    first, second = decide(request_, compiled(value), facts), decide(request_, compiled(mixed), facts)

    assert (first.effect, first.rules, first.reasons) == (second.effect, second.rules, second.reasons)
    assert (first.effective, first.requirements) == (second.effective, second.requirements)


@thorough
@given(POLICIES, REQUESTS, FACTS)
def test_every_decision_names_a_rule(value, request_, facts):
    """Every decision names at least one rule, and every rule that it names has its reason."""
    decision = decide(request_, compiled(value), facts)

    assert decision.rules
    assert set(decision.rules) == {reason.rule for reason in decision.reasons}
    assert (decision.effective is None) is (decision.effect == "deny")
    assert bool(decision.requirements) is (decision.effect == "ask")


@thorough
@given(POLICIES, REQUESTS, FACTS)
def test_what_is_granted_lies_within_the_request_and_the_policy(value, request_, facts):
    """Every way out, secret, folder and variable was asked for, and is covered by a line of the policy."""
    policy = compiled(value)
    effective = decide(request_, policy, facts).effective
    if effective is None:
        return
    grants = {entry.id: entry for entry in policy.tables.hosts}
    asked = [*request_.egress.rules, *(EgressRule(host=host, opaque=True) for host in request_.network.allow_hosts)]
    for rule in effective.egress:
        assert any(_within(rule, wish) for wish in asked)
        assert any(
            hosts.covers(entry.host, rule.host) and _within(rule, EgressRule(**_fields(entry), host=rule.host))
            for entry in grants.values()
        )
        assert not any(hosts.overlaps(pattern, rule.host) for pattern in policy.tables.denied_hosts)
    assert {lease.name for lease in effective.secrets} <= set(request_.secret_names)
    assert all(any(entry.matches(lease.name) for entry in policy.tables.secrets) for lease in effective.secrets)
    assert set(effective.readable) <= set(request_.files.readable)
    assert set(effective.inherit) <= set(request_.effective.env.inherit)
    assert all(policy.tables.inherit(name) for name in effective.inherit)
    assert effective.default_deny or (not request_.network.default_deny and not policy.document.network.default_deny)


def _fields(entry: Any) -> dict[str, Any]:
    grant = entry.grant
    return {
        "ports": grant.ports,
        "methods": grant.methods,
        "paths": grant.paths,
        "opaque": grant.opaque,
        "max_bytes": entry.max_bytes,
    }


def _within(rule: EgressRule, wish: EgressRule) -> bool:
    """Say whether `rule` is no wider than `wish` in any respect."""
    return (
        rule.host == hosts.normal_pattern(wish.host)
        and (not wish.ports or (bool(rule.ports) and set(rule.ports) <= set(wish.ports)))
        and (not wish.methods or (bool(rule.methods) and set(rule.methods) <= set(wish.methods)))
        and (
            not wish.paths
            or (bool(rule.paths) and all(any(covers(wide, path) for wide in wish.paths) for path in rule.paths))
        )
        and (wish.opaque or not rule.opaque)
        and (wish.max_bytes is None or (rule.max_bytes is not None and rule.max_bytes <= wish.max_bytes))
    )
