"""Claims about ways out; every refusal has its permitted twin."""

from typing import Any

import pytest

from tipstaff.model import EgressRule


def network(*grants: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Make a network section of these grants."""
    return {"network": {"hosts": list(grants)} | fields}


def way(**fields: Any) -> dict[str, Any]:
    """Make the fields of a request for one way out."""
    return {"egress": {"rules": [fields]}}


API = {
    "id": "api",
    "host": "api.example.com",
    "ports": [443],
    "methods": ["GET", "PUT"],
    "paths": ["/v1/*"],
    "inspect": True,
}


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("api.example.com", True),
        ("API.Example.Com.", True),
        ("example.com", False),
        ("www.example.com", False),
        ("a.example.org", True),
        ("*.b.example.org", True),
        ("example.org", False),
        ("*", False),
    ],
)
def test_a_host_is_reachable_only_through_a_grant(ask, host, allowed):
    """A plain host is covered by a grant of its name or of a wildcard above it, or is refused."""
    decision = ask(network(API, {"host": "*.example.org"}), network={"allowHosts": [host]})

    assert decision.rules == (("everything",) if allowed else ("network.hosts",))


@pytest.mark.parametrize(
    "host", ["0x7f.1", "127.1", "2130706433", "a_b", "api.example.com:443", "a\0", "..", "\uff45xample.com"]
)
def test_an_odd_host_is_refused_even_where_all_are_granted(ask, host):
    """A host without a normal form is refused under a grant of everything, which lets a normal one through."""
    assert ask(network({"host": "*"}), network={"allowHosts": [host]}).rules == ("builtin.host",)
    assert ask(network({"host": "*"}), network={"allowHosts": ["127.0.0.1"]}).effect == "allow"


def test_a_plain_host_is_narrowed_to_its_grant(ask):
    """A plain host takes the ports, methods, paths and bounds of its grant, and nothing more."""
    granted = ask(
        network(API | {"max_bytes": "1MiB", "max_connections": 2}), network={"allowHosts": ["api.example.com"]}
    )

    assert granted.effective.egress == (
        EgressRule(
            host="api.example.com", ports=(443,), methods=("GET", "PUT"), paths=("/v1/*",), inspect=True,
            max_bytes=2**20, max_connections=2, rule="api",
        ),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "missing"),
    [
        ({"ports": [443]}, None),
        ({"ports": [443, 80]}, "port 80"),
        ({"methods": ["GET"]}, None),
        ({"methods": ["DELETE"]}, "the method DELETE"),
        ({"paths": ["/v1/users", "/v1/a/*"]}, None),
        ({"paths": ["/v2/users"]}, "the path `/v2/users`"),
        ({"paths": ["/*"]}, "the path `/*`"),
        ({"opaque": True}, "an opaque connection"),
        ({"addresses": ["10.0.0.1"]}, "the address 10.0.0.1"),
    ],
)
def test_what_a_grant_does_not_cover_is_refused(ask, fields, missing):
    """A port, method, path, address or opaque connection beyond the grant is a denial that names it."""
    decision = ask(network(API), **way(host="api.example.com", **fields))

    assert decision.rules == (("network.hosts",) if missing else ("everything",))
    assert missing is None or missing in decision.reasons[0].message


def test_a_request_narrows_its_grant(ask):
    """What is granted is what both the request and the grant say, with the smaller bound."""
    asked = way(host="api.example.com", methods=["GET"], paths=["/v1/users"], maxBytes=10, maxConnections=9)
    (granted,) = ask(network(API | {"max_bytes": 99, "max_connections": 3}), **asked).effective.egress

    assert (granted.methods, granted.paths, granted.ports) == (("GET",), ("/v1/users",), (443,))
    assert (granted.max_bytes, granted.max_connections) == (10, 3)


def test_several_grants_give_their_own_parts(ask):
    """Two grants for one host each give their own intersection, and together they cover the request."""
    policy = network(
        {"id": "web", "host": "a.example", "ports": [80]}, {"id": "safe", "host": "*.example", "ports": [443]}
    )
    granted = ask(policy, **way(host="a.example", ports=[80, 443])).effective.egress

    assert [(rule.rule, rule.ports) for rule in granted] == [("safe", (443,)), ("web", (80,))]
    assert ask(policy, **way(host="b.example", ports=[80, 443])).effect == "deny"


@pytest.mark.parametrize(
    ("grant", "fields", "allowed"),
    [
        ({"principals": ["builder"]}, {}, True),
        ({"principals": ["alice"]}, {}, False),
        ({"pools": ["default"]}, {}, True),
        ({"pools": ["gpu"]}, {}, False),
    ],
)
def test_a_grant_is_for_its_principals_and_pools(ask, grant, fields, allowed):
    """A grant for somebody else, or for another pool, covers nothing here."""
    decision = ask(network({"host": "a.example"} | grant), network={"allowHosts": ["a.example"]}, **fields)

    assert (decision.effect == "allow") is allowed


@pytest.mark.parametrize(
    ("host", "allowed"), [("metadata.internal", False), ("*.internal", False), ("*", False), ("other.internal", True)]
)
def test_a_denied_host_beats_every_grant(ask, host, allowed):
    """A denied name is refused, and so is a wildcard that includes it."""
    decision = ask(network({"host": "*"}, deny=["Metadata.internal."]), network={"allowHosts": [host]})

    assert decision.rules == (("everything",) if allowed else ("network.deny",))


def test_denied_hosts_reach_the_gate(ask):
    """Where the network is open, the gate still learns which hosts are denied."""
    policy = network(default_deny=False, deny=["*.internal"])

    effective = ask(policy, network={"defaultDeny": False}).effective

    assert (effective.default_deny, effective.denied_hosts) == (False, ("*.internal",))


@pytest.mark.parametrize(
    ("written", "asked", "allowed"), [(True, False, False), (False, False, True), (False, True, True)]
)
def test_an_open_network_must_be_written_down(ask, written, asked, allowed):
    """A request may open the network only where the policy says so, and is never opened without asking."""
    decision = ask({"network": {"default_deny": written}}, network={"defaultDeny": asked})

    assert decision.rules == (("everything",) if allowed else ("network.default-deny",))
    assert not allowed or decision.effective.default_deny is asked


def test_without_the_gate_there_is_no_network(ask):
    """The setting egressProxy: false leaves nothing reachable, and asking for hosts as well is a contradiction."""
    execution = {"kind": "shell", "script": "x", "env": {"egressProxy": False}}
    policy = network({"host": "*"}, default_deny=False)

    assert ask(policy, execution=execution).effective.egress == ()
    assert ask(policy, execution=execution).effective.default_deny
    assert ask(policy, execution=execution, network={"allowHosts": ["a.example"]}).rules == ("builtin.network",)
    assert ask(policy, execution=execution, network={"defaultDeny": False}).rules == ("builtin.network",)


@pytest.mark.parametrize(
    "fields",
    [
        {"maxBytes": -1},
        {"maxConnections": 0},
        {"methods": ["get"]},
        {"paths": ["v1"]},
        {"paths": ["/\\d"]},
        {"opaque": True, "methods": ["GET"]},
        {"addresses": ["x"]},
    ],
)
def test_what_no_gate_could_carry_out_is_refused(ask, fields):
    """A bound below one, or a method, path or address that is none, is refused under any grant."""
    policy = network({"host": "*", "addresses": ["0.0.0.0/0"]})

    assert ask(policy, **way(host="a.example", **fields)).rules == ("builtin.host",)
    assert ask(policy, **way(host="a.example")).effect == "allow"


@pytest.mark.parametrize(
    ("grant", "fields", "opaque"),
    [
        ({"opaque": True}, {}, False),
        ({"opaque": True}, {"opaque": True}, True),
        ({"opaque": True}, {"opaque": True, "inspect": True}, False),
    ],
)
def test_an_opaque_connection_is_asked_for_and_granted(ask, grant, fields, opaque):
    """A connection is opaque only where both sides say so and nobody inspects it."""
    (granted,) = ask(network({"host": "a.example"} | grant), **way(host="a.example", **fields)).effective.egress

    assert granted.opaque is opaque


@pytest.mark.parametrize(("asked", "allowed"), [([], True), (["10.1.0.0/16"], True), (["192.168.0.1"], False)])
def test_addresses_stay_within_the_grants(ask, asked, allowed):
    """Addresses that are asked for lie in the grant's, and a request without any takes those."""
    decision = ask(
        network({"host": "a.example", "addresses": ["10.0.0.0/8"]}), **way(host="a.example", addresses=asked)
    )

    assert (decision.effect == "allow") is allowed
    assert not allowed or decision.effective.egress[0].addresses == (tuple(asked) or ("10.0.0.0/8",))


def test_a_grant_without_an_id_is_named_by_what_it_grants(ask):
    """The name of a grant does not depend on its place in the file."""
    first = network({"host": "b.example"}, {"host": "A.example", "ports": [443]})
    second = network({"host": "A.example", "ports": [443]}, {"host": "b.example"})

    granted = [
        ask(policy, network={"allowHosts": ["a.example"]}).effective.egress[0].rule for policy in (first, second)
    ]

    assert granted == ["network.host:a.example:443"] * 2


@pytest.mark.parametrize(
    ("asked", "granted", "ports"),
    [((), [], (80, 443)), ((), [8443], (8443,)), ((22,), [], (22,)), ((22,), [22, 443], (22,))],
)
def test_a_way_out_without_a_port_is_for_the_web(ask, asked, granted, ports):
    """Where neither the request nor its grant names a port, it is 443 and 80; else what both have."""
    policy = network({"host": "a.example", "ports": granted})

    assert [rule.ports for rule in ask(policy, **way(host="a.example", ports=asked)).effective.egress] == [ports]


@pytest.mark.parametrize(
    ("asked", "granted", "left"),
    [
        (["127.0.0.1"], ["0.0.0.0/0"], ("127.0.0.1",)),
        ([], ["0.0.0.0/0", "::/0"], ()),
        ([], ["127.0.0.1"], ("127.0.0.1",)),
    ],
)
def test_a_grant_of_every_address_adds_none(ask, asked, granted, left):
    """Who may name any address gets the one that is named; a name that comes without one leads to public ones."""
    policy = network({"host": "a.example", "addresses": granted})

    assert [rule.addresses for rule in ask(policy, **way(host="a.example", addresses=asked)).effective.egress] == [left]
