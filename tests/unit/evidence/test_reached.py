"""What was reached is held against the contract's rules, and carries an approval where somebody had to be asked."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vectors.story import (
    APPROVER,
    BORIS,
    CLAIMED,
    COMPLETED,
    CONTRACT,
    CREATED,
    EXECUTED,
    PLANE,
    STRANGER,
    Run,
    at,
)
from tipstaff.egress.terms import judge, judge_request, looks_inside, terms_of, ways
from tipstaff.evidence import verify
from tipstaff.evidence.approval import ApprovalCheck, approve
from tipstaff.evidence.chain import Chain, chained
from tipstaff.evidence.reached import check_places, check_questions
from tipstaff.evidence.report import Findings
from tipstaff.evidence.trust import Trust
from tipstaff.keys import KnownKey, KnownKeys
from tipstaff.model import Actor
from tipstaff.model.contract import Contract

PLACE = {"host": "api.example.com", "port": 443, "rule": "ask-first"}
ASKS = {"host": "*.example.com", "ports": [443], "ask": True, "rule": "ask-first"}
ALLOWED = {"type": "policy.evaluated", "decision": "allow", "reason": "a test"}


def connected(signer=APPROVER, of="", expires=3_600_000, decision="allowed", question=PLACE, **fields):
    """The event of a connection with its approval."""

    def event(contract_hash):
        more = {"question": question} if question else {}
        actor = Actor(kind="human", id=BORIS["id"])
        approval = approve(of or contract_hash, actor, signer, "key", at(expires), **more)
        said = {"type": "network.connected", "decision": decision, **PLACE, "approval": approval, **fields}
        return {name: value for name, value in said.items() if value is not None}

    return event


def report(*events, rules=(ASKS,), keys=None, default_deny=True, deny=()):
    """Verify a run that reached what these events say, under these rules."""
    hosts = [rule["host"] for rule in rules]
    egress = {"rules": list(rules), "deny": list(deny)}
    contract = {"network": {"defaultDeny": default_deny, "allowHosts": hosts}, "egress": egress}
    bundle = Run(contract, (CREATED, ALLOWED, CLAIMED, *events, EXECUTED, COMPLETED)).bundle()
    return verify(bundle, [PLANE.public]) if keys is None else verify(bundle, known=keys)


def problems(found):
    """List the numbers and the sentences."""
    return [(one.number, one.message) for one in found.problems]


def test_an_approved_place_is_valid():
    """With its approval the bundle is valid, and says on what that rests."""
    found = report(connected(), connected())

    assert problems(found) == []
    assert len(found.notes) == 1
    assert "the key of 'boris@example.com' is not known" in found.notes[0]


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        (connected(approval=None), "was reached without an approval"),
        (connected(approval="yes"), "was reached without an approval"),
        (connected(approval={}), "malformed"),
        (connected(question=None), "the approval is for the run, not for"),
        (connected(question={**PLACE, "port": 80}), "port 80"),
        (connected(question={**PLACE, "host": "www.example.com"}), "'www.example.com'"),
        (connected(question={**PLACE, "rule": "other"}), "(rule 'other')"),
        (connected(of="0" * 64), "for another contract"),
        (connected(expires=1), "had expired"),
        (connected(host="www.example.com"), "not for 'www.example.com'"),
        (connected(rule=None), "not for 'api.example.com'"),
    ],
)
def test_any_other_approval_is_check_24(event, sentence):
    """Without an approval, or with one for something else, the bundle is invalid."""
    found = report(event)

    assert {number for number, _ in problems(found)} == {24}
    assert any(sentence in message for _, message in problems(found))


@pytest.mark.parametrize("name", ["expiresAt", "assurance", "question", "actor", "sig", "publicKeyPem"])
def test_no_field_of_an_approval_can_be_changed(name):
    """A change after the signature is found, whatever it was."""
    changed = {
        "expiresAt": at(9_999_999),
        "assurance": "hardware",
        "question": {**PLACE, "why": "x"},
        "actor": {"kind": "human", "id": "clara@example.com"},
        "sig": "AAAA",
        "publicKeyPem": STRANGER.public.pem,
    }

    def event(contract_hash):
        said = connected()(contract_hash)
        return {**said, "approval": {**said["approval"], name: changed[name]}}

    assert {number for number, _ in problems(report(event))} == {24}


def test_every_way_is_looked_at():
    """One good connection does not cover a later one to the same place without its approval."""
    assert [number for number, _ in problems(report(connected(), connected(approval=None)))] == [24]


@pytest.mark.parametrize(
    "rules",
    [
        ({**ASKS, "ask": False},),
        ({"host": "*.example.com"},),
        (ASKS, {"host": "*.example.com", "ports": [443], "rule": "free"}),
        ({**ASKS, "ports": [80]}, {"host": "api.example.com", "ports": [443]}),
        ({**ASKS, "host": "*.com"}, {"host": "api.example.com"}),
    ],
)
def test_where_nobody_had_to_be_asked_nothing_is_missing(rules):
    """A place that the speaking rules give freely needs no approval: no rule asks, or not all, or not for this port."""
    assert problems(report(connected(approval=None, rule="free"), rules=rules)) == []


@pytest.mark.parametrize(
    "rules",
    [
        (ASKS, {**ASKS, "host": "api.example.com"}),
        ({"host": "*.example.com"}, {**ASKS, "host": "api.example.com", "ports": []}),
        ({"host": "*", "rule": "free"}, ASKS),
        ({**ASKS, "host": "*"},),
        ({**ASKS, "host": "API.Example.com"},),
        (ASKS, {"host": "*.example.com", "rule": "free"}),  # but the event says which of the two let it through
    ],
)
def test_where_somebody_had_to_be_asked_it_shows(rules):
    """The most specific rules speak, and of those the one that the event names."""
    assert [number for number, _ in problems(report(connected(approval=None), rules=rules))] == [24]


def test_an_open_network_still_asks_where_a_rule_says_so():
    """An open network (`defaultDeny: false`) lets the rest through, not what a rule asks for."""
    assert [number for number, _ in problems(report(connected(approval=None), default_deny=False))] == [24]
    assert problems(report(connected(approval=None, host="other.test"), default_deny=False)) == []


def test_a_blocked_attempt_needs_no_approval():
    """What was refused was not reached."""
    assert problems(report(connected(decision="blocked", approval=None))) == []


def test_a_known_approver_is_judged():
    """A known key gives no note; one that was revoked before, or is known as another's, is wrong."""
    plane = KnownKey(public_key_pem=PLANE.public.pem, role="plane")

    def judged(**window):
        mine = KnownKey(public_key_pem=APPROVER.public.pem, role="approver", **window)
        return report(connected(), keys=KnownKeys((plane, mine)))

    assert (problems(judged()), judged().notes) == ([], ())
    assert [number for number, _ in problems(judged(revoked_at=at(0)))] == [24]
    assert [number for number, _ in problems(judged(name="clara@example.com"))] == [24]


def test_an_approval_of_a_place_does_not_approve_a_run():
    """A consent whose approval answers a question is refused; the same without it is not."""
    asked = {"type": "policy.evaluated", "decision": "ask", "reason": "a test"}

    def granted(**more):
        def event(contract_hash):
            actor = Actor(kind="human", id=BORIS["id"])
            approval = approve(contract_hash, actor, APPROVER, "key", at(3_600_000), **more)
            return {"type": "consent.granted", "actor": BORIS, "approval": approval}

        return event

    def verdict(consent):
        return verify(Run({}, (CREATED, asked, consent, CLAIMED, EXECUTED, COMPLETED)).bundle(), [PLANE.public]).verdict

    assert (verdict(granted(question=PLACE)), verdict(granted())) == ("invalid", "valid")


def test_any_host_means_any_host():
    """A rule for `*` names every host."""
    assert problems(report(connected(approval=None), rules=({"host": "*"},))) == []


# Check 20

RULE = {"host": "*.example.com", "ports": [443], "rule": "r"}
INSIDE = {**RULE, "methods": ["GET"], "inspect": True}
API = {"type": "network.connected", "host": "api.example.com", "decision": "allowed", "port": 443, "rule": "r"}


def faults(event, *rules, **more):
    """List the numbers of what is wrong with one event under these rules; what it says as None it does not say."""
    said = {name: value for name, value in {**API, **event}.items() if value is not None}
    return [number for number, _ in problems(report(said, rules=rules or (RULE,), **more))]


@pytest.mark.parametrize(
    ("event", "rules"),
    [
        ({}, [RULE]),
        ({"port": 443.0}, [RULE]),
        ({"port": None, "host": "api.example.com:443"}, [RULE]),
        ({"port": 22}, [{**RULE, "ports": []}]),
        ({"port": None}, [{**RULE, "ports": []}]),
        ({"port": None}, [{**RULE, "ports": None}, {**RULE, "host": "other.example.com"}]),
        ({"port": 22}, [RULE, {"host": "*", "ports": [22]}]),
        ({"host": "API.example.com"}, [{**RULE, "host": "*.EXAMPLE.com"}]),
        ({"host": "*.example.com", "count": 3}, [RULE]),
        ({"host": "*", "count": 3}, [{**RULE, "host": "*"}]),
        ({"host": "[REDACTED:T].example.com"}, [RULE]),
        ({"depth": "opaque"}, [RULE]),
        ({"depth": "sni", "method": "CONNECT"}, [RULE]),
        ({"depth": "inspected", "method": "GET"}, [INSIDE]),
        ({"depth": "http", "method": "GET"}, [INSIDE]),
        ({"depth": "http"}, [INSIDE]),
        ({"depth": "inspected", "method": "PUT"}, [{**RULE, "inspect": True}]),
        ({"depth": "inspected", "method": "PUT"}, [INSIDE, {**RULE, "methods": ["PUT"]}]),
        ({"depth": "sni"}, [INSIDE, RULE]),
        ({"depth": "sni"}, [{**INSIDE, "host": "*"}, RULE]),
        ({"depth": "sni"}, [{**INSIDE, "host": "api.example.com", "ports": [8443]}, RULE]),
        ({"decision": "blocked", "port": 22, "bytesOut": 0}, [RULE]),
        ({"opened": True}, [RULE]),
    ],
)
def test_what_a_rule_allows_is_valid(event, rules):
    """A place that a rule covers, reached as deep and by a method as it says, is valid."""
    assert faults(event, *rules) == []


@pytest.mark.parametrize(
    ("event", "rules"),
    [
        ({"port": 22}, [RULE]),
        ({"port": 22}, []),
        ({"port": 22}, [{**RULE, "ports": "22"}]),
        ({"port": 1}, [{**RULE, "ports": [True]}]),
        ({"port": 443.5}, [RULE]),
        ({"port": "443"}, [RULE]),
        ({"port": True}, [{**RULE, "ports": [1]}]),
        ({"port": None}, [RULE]),
        ({"port": 0}, [RULE]),
        ({"port": None, "rule": "free"}, [RULE, {**RULE, "ports": [], "rule": "free"}]),
        ({"port": None}, [{"host": "api.example.com"}, RULE]),
        ({"host": "api.example.com:22"}, [RULE]),
        ({"host": "api.example.com:22", "port": None}, [RULE]),
        ({"host": "example.com"}, [RULE]),
        ({"host": "*.example.com"}, [RULE]),
        ({"host": "*.api.example.com", "count": 3}, [RULE]),
        ({"host": "*.example.com", "count": 0}, [RULE]),
        ({"host": "*.example.com", "count": 3}, [{"host": "*"}]),
        ({"host": "*.example.com", "count": 3, "port": 22}, [RULE]),
        *[({"depth": depth}, [INSIDE]) for depth in ("opaque", "sni", "name", "", None, 1, "Inspected")],
        ({"depth": "sni", "method": "GET"}, [INSIDE]),
        ({"depth": "sni"}, [{**RULE, "inspect": True}]),
        ({"depth": "sni"}, [{**RULE, "inspect": 1}]),
        ({"depth": "sni"}, [{**RULE, "methods": ["GET"]}]),
        ({"depth": "sni"}, [{**RULE, "paths": ["/a"]}]),
        ({"depth": "sni"}, [{**RULE, "paths": "/a"}]),
        ({"depth": "sni"}, [INSIDE, {**RULE, "rule": "free"}]),  # it names the one that looks inside
        ({"depth": "sni"}, [{**INSIDE, "host": "api.example.com"}, RULE]),
        ({"depth": "inspected", "method": "POST"}, [INSIDE]),
        ({"depth": "http", "method": "POST"}, [INSIDE]),
        ({"depth": "http", "method": "get"}, [INSIDE]),
        ({"depth": "http", "method": "GE"}, [{**INSIDE, "methods": "GET"}]),
        ({"depth": "http", "method": "POST"}, [INSIDE, {**RULE, "rule": "free"}]),
        ({"decision": "blocked", "bytesOut": 1}, [RULE]),
        ({"decision": "blocked", "bytesOut": 1, "host": "other.test", "count": 7}, [RULE]),
    ],
)
def test_what_no_rule_allows_is_check_20(event, rules):
    """A port, a depth or a method that no speaking rule has, or a refusal by which bytes went out, is a lie."""
    found = report({name: value for name, value in {**API, **event}.items() if value is not None}, rules=rules)

    assert [number for number, _ in problems(found)] == [20]


def test_the_sentences_say_what_is_wrong():
    """Each contradiction is told in its own words."""
    events = (
        {**API, "port": 22},
        {**API, "port": 0},
        {**API, "depth": "sni"},
        {**API, "depth": "http", "method": "PUT"},
        {**API, "host": "evil.example.com"},
        {**API, "decision": "blocked", "bytesOut": 5},
    )
    found = report(*events, rules=(INSIDE,), deny=("evil.example.com",))

    assert [(problem.place, problem.message.partition(".com' was ")[2]) for problem in found.problems] == [
        ("events[3]", "reached without being in the contract (port 22)"),
        ("events[4]", "reached on a port that is not told, and the contract's rules for it have ports"),
        ("events[5]", "reached without being looked into (depth 'sni'), as its rule demands"),
        ("events[6]", "reached by the method 'PUT', which its rule does not have"),
        ("events[7]", "reached although the contract denies it"),
        ("events[8]", "refused, and yet bytes went out"),
    ]


@pytest.mark.parametrize("default_deny", [True, False])
@pytest.mark.parametrize(
    ("deny", "host"),
    [
        ("api.example.com", "api.example.com"),
        ("*.example.com", "api.example.com"),
        ("*.com", "api.example.com"),
        ("*", "api.example.com"),
        ("API.example.com", "api.EXAMPLE.com"),
        ("api.example.com", "api.example.com."),
        ("api.example.com", "api.example.com:443"),
        ("api.example.com", "api.example.com.:443"),
        (1, "api.example.com"),
    ],
)
def test_what_is_denied_is_not_reached(deny, host, default_deny):
    """A host that `deny` covers is a lie, whatever the rules say, and on an open network; another is not."""
    rules = ({"host": "*"},)

    assert faults({"host": host}, *rules, deny=[deny], default_deny=default_deny) == [20]
    assert faults({"host": host}, *rules, deny=["denied.test"], default_deny=default_deny) == []
    assert faults({"host": host, "decision": "blocked"}, *rules, deny=[deny], default_deny=default_deny) == []


def test_what_is_too_long_for_a_host_gets_around_no_denial():
    """A name whose suffixes are not looked at counts as denied where anything is."""
    host = f"{'a.' * 128}example.com"

    assert faults({"host": host}, {"host": "*"}, deny=["*.example.com"]) == [20]
    assert faults({"host": host}, {"host": "*"}) == []


@pytest.mark.parametrize(
    ("event", "numbers"),
    [
        ({"host": "other.test", "port": 22}, []),
        ({"host": "other.test", "port": None}, []),
        ({"port": 22}, []),
        ({"depth": "sni"}, [20]),
        ({"depth": "http", "method": "POST"}, [20]),
        ({"port": None, "depth": "http"}, [20]),  # it could be the port that is looked into
        ({"depth": "http", "method": "GET"}, []),
    ],
)
def test_an_open_network_lets_through_what_no_rule_covers(event, numbers):
    """With `defaultDeny: false` the rules bind only where they cover host and port."""
    assert faults(event, INSIDE, default_deny=False) == numbers


@pytest.mark.parametrize("egress", [None, {}, {"rules": None}, {"rules": []}])
@pytest.mark.parametrize("event", [{}, {"port": None}, {"port": 22, "depth": "opaque", "method": "x", "rule": "?"}])
def test_a_contract_without_rules_is_judged_by_its_hosts(egress, event):
    """Without rules, as in old bundles, the plain hosts count, on any port; with none at all in the list, none."""
    contract = {"network": {"defaultDeny": True, "allowHosts": ["*.example.com"]}, "egress": egress}

    def numbers(host):
        said = {name: value for name, value in {**API, **event, "host": host}.items() if value is not None}
        bundle = Run(contract, (CREATED, ALLOWED, CLAIMED, said, EXECUTED, COMPLETED)).bundle()
        return [number for number, _ in problems(verify(bundle, [PLANE.public]))]

    assert numbers("api.example.com") == ([20] if egress and egress["rules"] == [] else [])
    assert numbers("other.test") == [20]


@pytest.mark.parametrize("rules", [[ASKS, {"host": "*.example.com", "ports": [22], "rule": "free"}], [ASKS]])
@pytest.mark.parametrize("event", [{"port": 80}, {"port": None}, {"port": None, "rule": "free"}])
def test_another_port_is_no_way_around_the_question(rules, event):
    """An event without a port, or with one that no rule has, is a lie, whether it had to be asked for or not."""
    assert 20 in faults(event, *rules)


@pytest.mark.parametrize(("method", "numbers"), [("GET", []), ("POST", [24]), ("PUT", [20])])
def test_only_rules_that_have_the_method_can_spare_the_question(method, numbers):
    """Where a free rule has only GET, a POST was let through by the rule that asks; a PUT by none."""
    free, asking = INSIDE, {**INSIDE, "methods": ["POST"], "ask": True}

    assert faults({"method": method, "depth": "inspected"}, free, asking) == numbers


def test_a_question_without_a_port_is_answered_for_any():
    """Where the rule that asks has no ports, an event without one needs its approval all the same."""
    assert [number for number, _ in problems(report(connected(port=None), rules=({**ASKS, "ports": []},)))] == [24]
    assert problems(report(connected(), rules=({**ASKS, "ports": []},))) == []


# The gate and the verifier

HOSTS = ("a.example", "b.a.example", "c.b.a.example", "other.test")
PATTERNS = (*HOSTS, "*.a.example", "*.example", "*.b.a.example", "*")
METHODS = ("GET", "POST")
RULES = st.fixed_dictionaries(
    {
        "host": st.sampled_from(PATTERNS),
        "ports": st.lists(st.sampled_from([80, 443]), max_size=2),
        "methods": st.lists(st.sampled_from(METHODS), max_size=1),
        "inspect": st.booleans(),
        "ask": st.booleans(),
    }
)
TERMS = st.fixed_dictionaries(
    {"rules": st.lists(RULES, max_size=4), "deny": st.lists(st.sampled_from(PATTERNS[:-1]), max_size=1)}
)


def gate(terms, host, port, method, *, tunnel):
    """Say what an honest gate writes down of what it lets through, and whether it has asked; None if it does not."""
    if not judge(terms, host, port).allowed:
        return None
    found = ways(terms, host, port) or (None,)
    if tunnel and not looks_inside(found[0]):
        rule, depth, method = found[0], "sni", "CONNECT"
    else:
        fitting = [rule for rule in found if not judge_request(rule, method, "/")]
        if not fitting:
            return None
        rule, depth = fitting[0], "inspected" if tunnel else "http"
    said = {"depth": depth, "method": method, "rule": rule.rule if rule else ""}
    return said, rule is not None and rule.ask


def judged(contract, event):
    """Hold one event against a contract: the numbers of what is wrong."""
    findings = Findings()
    chain = Chain(Findings())
    said = {"type": "network.connected", "decision": "allowed", **event}
    created = chained(0, at(0), "0" * 64, CREATED)
    chain.add(created)
    chain.add(chained(1, at(1), created["hash"], said))
    view = msgspec.convert(contract, Contract)
    check_places(view, chain, findings)
    check_questions(view, chain, ApprovalCheck("0" * 64, at(0), Trust(), findings))
    return [problem.number for problem in findings.sorted()]


@given(
    egress=TERMS,
    default_deny=st.booleans(),
    place=st.fixed_dictionaries({"host": st.sampled_from(HOSTS), "port": st.sampled_from([80, 443, 22])}),
    method=st.sampled_from([*METHODS, "PUT"]),
    tunnel=st.booleans(),
)
def test_the_verifier_agrees_with_the_gate(egress, default_deny, place, method, *, tunnel):
    """What an honest gate lets through is no lie, and needs an approval if, and only if, it had to ask; else it is."""
    rules = [{**rule, "rule": f"r{number}"} for number, rule in enumerate(egress["rules"])]
    network = {"defaultDeny": default_deny, "allowHosts": []}
    contract = {**CONTRACT, "network": network, "egress": {**egress, "rules": rules}}
    honest = gate(terms_of(contract), **place, method=method, tunnel=tunnel)

    if honest is None:
        said = {**place, "depth": "inspected" if tunnel else "http", "method": method}
        assert all(20 in judged(contract, {**said, "rule": name}) for name in ["", *(rule["rule"] for rule in rules)])
    else:
        said, asked = honest
        assert judged(contract, {**place, **said}) == ([24] if asked else [])
