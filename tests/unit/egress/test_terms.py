"""What a contract lets out: one decision for every way of asking."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipstaff.egress.terms import Terms, judge, judge_request, terms_of, ways
from tipstaff.errors import InputError
from tipstaff.model.network import EgressRule

LABEL = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=8).filter(lambda text: text[0].isalpha())
NAME = st.lists(LABEL, min_size=1, max_size=4).map(".".join)
PATTERN = st.one_of(NAME, NAME.map("*.".__add__), st.just("*"))


def terms(*hosts, deny=(), default_deny=True, **more):
    return Terms(tuple(EgressRule(host=host, **more) for host in hosts), deny, default_deny)


def speaks(found, host, port):
    """Give the rule that allows a place."""
    rule = judge(found, host, port).rule
    assert rule is not None
    return rule


def contract(rules=None, hosts=(), **more):
    egress = {"rules": rules, **more} if rules is not None else more
    return {"network": {"defaultDeny": True, "allowHosts": list(hosts)}, "egress": egress}


@pytest.mark.parametrize("empty", [contract([]), contract(None), {"network": {"allowHosts": []}}])
def test_an_empty_list_allows_nothing(empty):
    """No rules and no hosts allow nothing, however the contract says it."""
    assert not judge(terms_of(empty), "example.com", 443).allowed


def test_the_rules_win_over_the_plain_hosts():
    """Where a contract has rules, its plain hosts allow nothing more."""
    read = terms_of(contract([{"host": "a.example", "ports": [443]}], hosts=["a.example", "b.example"]))

    assert judge(read, "a.example", 443).allowed
    assert not judge(read, "a.example", 22).allowed
    assert not judge(read, "b.example", 443).allowed


@pytest.mark.parametrize("egress", [{}, {"egress": None}])
def test_an_old_contract_means_any_port(egress):
    """A contract without rules allows its plain hosts at any port, tunnels included, and no others."""
    read = terms_of({"network": {"defaultDeny": True, "allowHosts": ["Example.COM."]}, **egress})

    assert speaks(read, "example.com", 22).opaque
    assert not judge(read, "www.example.com", 22).allowed


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"network": {}},
        {"network": {"allowHosts": "example.com"}},
        {"network": {"allowHosts": [], "defaultDeny": 0}},
        {"network": {"allowHosts": [], "defaultDeny": None}},
        {"network": {"allowHosts": ["a"]}, "egress": []},
        contract([{"host": "a", "unknown": 1}]),
        contract([{"host": "0x7f.1"}]),
        contract([{"host": "a", "opaque": True, "inspect": True}]),
        contract([{"host": "a", "maxBytes": -1}]),
        contract([{"host": "a", "paths": ["/\\x"]}]),
        contract([{"host": "a", "addresses": ["10.0.0.1/8"]}]),
        contract([], deny=["a b"]),
        contract([], deny=None),
    ],
)
def test_a_contract_that_is_not_understood_is_an_error(broken):
    """Terms are understood whole or not at all."""
    with pytest.raises(InputError, match="what may be reached"):
        terms_of(broken)


@pytest.mark.parametrize(
    ("rule", "asked", "allowed"),
    [
        ("example.com", "example.com", True),
        ("example.com", "EXAMPLE.com.", True),
        ("example.com", "www.example.com", False),
        ("example.com", "example.com.evil.test", False),
        ("example.com", "notexample.com", False),
        ("*.example.com", "a.b.example.com", True),
        ("*.example.com", "example.com", False),
        ("*.example.com", "evilexample.com", False),
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "3221225985", False),
        ("127.0.0.1", "0x7f.1", False),
        ("127.0.0.1", "127.1", False),
        ("127.0.0.1", "017700000001", False),
        ("127.0.0.1", "::ffff:127.0.0.1", False),
        ("::1", "[::1]", True),
        ("::1", "0:0:0:0:0:0:0:1", True),
        ("*", "anything.test", True),
    ],
)
def test_a_host_is_judged_by_what_it_means(rule, asked, allowed):
    """A name matches in any case and with its final dot; an odd spelling of an address matches nothing."""
    assert judge(terms(rule), asked, 443).allowed is allowed


@pytest.mark.parametrize(
    "odd",
    [
        "",
        " ",
        "a b",
        "a\0.example.com",
        "a\r\n",
        "a%00.example.com",
        "user@example.com",
        "exämple.com",
        "a" * 64 + ".com",
        ".",
        "a..b",
        "-a.com",
        "a_b.com",
        "a/b",
        "[::1",
        "fe80::1%eth0",
        "x." * 127 + "com",
        "*",
        "*.example.com",
    ],
)
def test_what_is_no_host_is_refused(odd):
    """A host that has no one spelling is refused by every rule, even by one for all hosts, and with a reason."""
    verdict = judge(terms("*", default_deny=False), odd, 443)

    assert (verdict.allowed, verdict.host) == (False, "")
    assert "is not a host" in verdict.reason
    assert verdict.reason.isprintable()


def test_deny_wins():
    """A denied host is refused, whatever rule has it and however open the network is; its neighbour is not."""
    for default_deny in (True, False):
        open_terms = terms("*", deny=("*.internal.test", "bad.test"), default_deny=default_deny)

        assert not judge(open_terms, "a.internal.test", 80).allowed
        assert not judge(open_terms, "BAD.test.", 80).allowed
        assert judge(open_terms, "good.test", 80).allowed


def test_an_open_network_allows_without_a_rule():
    """With `defaultDeny: false` every host is allowed, by no rule; a rule that has it still speaks."""
    open_terms = terms("a.test", default_deny=False, inspect=True)

    assert judge(open_terms, "b.test", 9).allowed
    assert judge(open_terms, "b.test", 9).rule is None
    assert speaks(open_terms, "a.test", 9).inspect


def test_the_most_specific_rule_speaks():
    """A host comes before a suffix, a longer suffix before a shorter one, whatever their order."""
    rules = [EgressRule(host=host) for host in ("*", "*.test", "*.a.test", "b.a.test")]
    for order in (rules, rules[::-1]):
        found = [speaks(Terms(tuple(order)), host, 1).host for host in ("b.a.test", "c.a.test", "c.test", "c.d")]

        assert found == ["b.a.test", "*.a.test", "*.test", "*"]


def test_a_rule_without_the_port_does_not_speak():
    """Of several rules those with the port are asked; the reason names the ports that there are."""
    rules = Terms((EgressRule(host="a.test", ports=(443,)), EgressRule(host="*.test", ports=(22,))))

    assert speaks(rules, "a.test", 443).host == "a.test"
    assert speaks(rules, "a.test", 22).host == "*.test"
    assert judge(rules, "a.test", 80).reason == "port 80 of a.test is not among 22, 443"


def test_of_equal_rules_the_inspected_one_comes_first():
    """Among rules for the same host the inspected comes first, then the one that asks nobody."""
    plain, asking, inside = (
        EgressRule(host="a", rule="p"),
        EgressRule(host="a", ask=True),
        EgressRule(host="a", inspect=True),
    )

    assert ways(Terms((asking, plain, inside)), "a", 1) == (inside, plain, asking)


def test_a_refusal_names_the_flag():
    """A refused host comes with the flag that would allow it."""
    assert judge(terms(), "a.test", 8443).advice == "--allow-host a.test:8443"
    assert judge(terms(), "2606:4700::1111", 443).advice == "--allow-host [2606:4700::1111]:443"
    assert judge(terms(deny=("a.test",)), "a.test", 1).advice == "in the policy: take it out of network.deny"


@given(st.lists(PATTERN, max_size=4), st.lists(PATTERN, max_size=2), NAME, st.integers(1, 65535))
def test_denying_more_never_allows_more(rules, deny, host, port):
    """Whatever is allowed with a longer deny list is allowed with a shorter one."""
    wide, narrow = terms(*rules), terms(*rules, deny=tuple(deny))

    assert judge(wide, host, port).allowed >= judge(narrow, host, port).allowed


@given(st.text(max_size=40), st.integers(1, 65535))
def test_any_text_is_judged(host, port):
    """Any text gets a verdict, and with no rules it is no."""
    assert not judge(terms(), host, port).allowed


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/items", True),
        ("GET", "/v1/items?x=/../admin", True),
        ("GET", "/v1/caf%C3%A9", True),
        ("GET", "/v%31/items", True),
        ("POST", "/v1/items", False),
        ("get", "/v1/items", False),
        ("GET", "/v2/items", False),
        ("GET", "/v1", False),
        ("GET", "/V1/items", False),
        ("GET", "/v1/../admin", False),
        ("GET", "/v1/%2e%2e/admin", False),
        ("GET", "/v1/..;/admin", False),
        ("GET", "/v1/..%2fadmin", False),
        ("GET", "/v1/%5c..%5cadmin", False),
        ("GET", "/v1//admin", False),
        ("GET", "//v1/items", False),
        ("GET", "/v1/%252e%252e/admin", False),
        ("GET", "/v1/%zz", False),
        ("GET", "/v1/%", False),
        ("GET", "/v1/%ff", False),
        ("GET", "/v1/%00", False),
        ("GET", "/v1/\uff0e\uff0e/admin", False),
        ("GET", "/v1/%EF%BC%8E%EF%BC%8E/x", False),
        ("GET", "*", False),
        ("GET", "", False),
    ],
)
def test_a_request_needs_its_method_and_path(method, path, allowed):
    """A request passes by method and by its path in one spelling; a path of two meanings never does."""
    rule = EgressRule(host="a", methods=("GET", "HEAD"), paths=("/v1/*",), inspect=True)

    assert (judge_request(rule, method, path) == "") is allowed


def test_a_rule_without_paths_has_them_all():
    """Where a rule names no paths and methods, any pass, also strange ones."""
    assert judge_request(EgressRule(host="a"), "PATCH", "//x/../%zz") == ""
    assert judge_request(None, "PATCH", "//x/../%zz") == ""
