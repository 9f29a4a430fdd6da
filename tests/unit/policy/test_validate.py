"""Claims about policies that are well-typed and still wrong; each has a twin that is right."""

from typing import Any

import pytest

from tipstaff.errors import PolicyError


def rule(**fields: Any) -> dict[str, Any]:
    """Make a section with one rule."""
    return {"rules": [{"id": "one", "effect": "allow", "when": "any"} | fields]}


def grant(**fields: Any) -> dict[str, Any]:
    """Make a section with one network grant."""
    return {"network": {"hosts": [{"host": "example.com"} | fields]}}


def secret(**fields: Any) -> dict[str, Any]:
    """Make a section with one secret."""
    return {"secrets": [{"name": "TOKEN"} | fields]}


APPROVALS = {"approvers": ["alice"]}

CASES = [
    (rule(when={}), rule(when="any"), "write `when: any`"),
    (rule(effect="ask"), rule(effect="ask", approvals=APPROVALS), "needs `approvals`"),
    (rule(approvals=APPROVALS), rule(), "asks nobody"),
    (
        rule(effect="ask", approvals=APPROVALS | {"quorum": 2}),
        rule(effect="ask", approvals={"approvers": ["alice", "bob"], "quorum": 2}),
        "larger than the number",
    ),
    (rule(effect="deny", tier="gvisor"), rule(tier="gvisor"), "no use for a tier"),
    (rule(tier="vm"), rule(tier="microvm"), "is not a tier"),
    (rule(when={"argv": [["bash", "-c", "ls"]]}), rule(when={"argv": [["bash", "..."]]}), "this rule cannot hold"),
    (
        rule(effect="deny", when={"argv": [["python3", "-c", "..."]]}),
        rule(effect="deny", when={"argv": [["python3", "..."]]}),
        "this rule cannot hold",
    ),
    (
        {"rules": [{"id": "one", "effect": "deny", "when": "any", "except": [{"argv": [["env", "ls"]]}]}]},
        {"rules": [{"id": "one", "effect": "deny", "when": "any", "except": [{"argv": [["ls"]]}]}]},
        "this rule cannot hold",
    ),
    (rule(when={"argv": [["git", "...", "x"]]}), rule(when={"argv": [["git", "x", "..."]]}), "only as the last"),
    (rule(when={"argv": [["..."]]}), rule(when={"argv": [["*", "..."]]}), "only as the last"),
    (rule(when={"argv": [["git", ["a", "..."]]]}), rule(when={"argv": [["git", ["a", "b"]]]}), "only as the last"),
    (rule(when={"argv": [[""]]}), rule(when={"argv": [["git", ""]]}), "has a name"),
    (rule(when={"argv": [["/usr/bin/", "..."]]}), rule(when={"argv": [["/usr/bin/*", "..."]]}), "has a name"),
    (rule(when={"argv": [["ash", "-c", "ls"]]}), rule(when={"argv": [["hash", "-c", "ls"]]}), "this rule cannot hold"),
    (rule(when={"argv": [["git", r"\d"]]}), rule(when={"argv": [["git", r"\*"]]}), "backslash"),
    (rule(when={"argv": [["ls"]], "kinds": ["shell"]}), rule(when={"argv": [["ls"]], "kinds": ["argv"]}), "kind argv"),
    (rule(when={"hosts": ["0x7f.1"]}), rule(when={"hosts": ["127.0.0.1"]}), "odd spelling"),
    (rule(when={"principals": ["a\\"]}), rule(when={"principals": ["a"]}), "backslash"),
    (rule(id="restricted"), rule(id="restricted-names"), "is taken"),
    (
        {"rules": [{"id": "one", "effect": "allow", "when": "any"}] * 2},
        {"rules": [{"id": name, "effect": "allow", "when": "any"} for name in ("one", "two")]},
        "is taken",
    ),
    (grant(id="everything"), grant(id="example"), "is taken"),
    (grant(host="a_b"), grant(host="a-b"), "labels"),
    (grant(methods=["GET"]), grant(methods=["GET"], inspect=True), "inspect: true"),
    (grant(methods=["get"], inspect=True), grant(methods=["GET"], inspect=True), "not a method"),
    (grant(paths=["v1/*"], inspect=True), grant(paths=["/v1/*"], inspect=True), "not a path"),
    (grant(opaque=True, inspect=True), grant(opaque=True), "opaque or inspected"),
    (grant(addresses=["10.0.0.1/8"]), grant(addresses=["10.0.0.0/8"]), "host bits"),
    ({"network": {"deny": ["a b"]}}, {"network": {"deny": ["*.internal"]}}, "labels"),
    (secret(name="LD_PRELOAD"), secret(name="TOKEN"), "set by Tipstaff itself"),
    (secret(name="a-b"), secret(name="A_B"), "not a name for a variable"),
    (secret(way="inject"), secret(way="inject", header="Authorization", hosts=["example.com"]), "needs a `header`"),
    (secret(hosts=["example.com"]), secret(), "write `way: inject`"),
    ({"env": {"inherit": ["a\\"]}}, {"env": {"inherit": ["LC_*"]}}, "backslash"),
    ({"files": {"readable": ["data/**"]}}, {"files": {"readable": ["/data/**"]}}, "absolute"),
    (
        {"limits": {"time": {"default": "2h", "max": "1h"}}},
        {"limits": {"time": {"default": "1h", "max": "2h"}}},
        "above",
    ),
    ({"limits": {"cpus": {"max": 0}}}, {"limits": {"cpus": {"max": 0.5}}}, ">= "),
    ({"tiers": {"default": "docker"}}, {"tiers": {"default": "auto"}}, "is not a tier"),
    ({"tiers": {"minimum": "auto"}}, {"tiers": {"minimum": "process"}}, "is not a tier"),
    ({"tiers": {"fallback": "process"}}, {"tiers": {"fallback": "process", "minimum": "process"}}, "below the minimum"),
]


@pytest.mark.parametrize(("wrong", "right", "words"), CASES)
def test_what_cannot_hold_is_refused_at_load(make_policy, wrong, right, words):
    """A policy that contradicts itself, or would only look like protection, is an error; its mended twin loads."""
    base = {"rules": [{"id": "everything", "effect": "allow", "when": "any"}]}

    with pytest.raises(PolicyError, match=words.replace("(", r"\(")):
        make_policy(**base | wrong)
    make_policy(**base | right)
