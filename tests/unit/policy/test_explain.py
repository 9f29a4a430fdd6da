"""Claims about explanations: the patch is enough, every line of it is needed, and what cannot be is said."""

import copy
import json
import subprocess
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tipstaff.errors import PolicyError
from tipstaff.model.facts import Facts
from tipstaff.model.request import parse_request
from tipstaff.model.tiers import at_best
from tipstaff.policy import decide, parse_policy
from tipstaff.policy.explain import explain
from tipstaff.policy.patch import left_out, unified
from tipstaff.policy.spelling import spelling_of
from tipstaff.policy.strict_yaml import read

POLICY: dict[str, Any] = {
    "version": "tipstaff.policy.v1",
    "name": "team",
    "restricted": {"names": ["shutdown", "reboot"]},
    "principals": [
        {"id": "builder", "kinds": ["agent"], "tools": {"allow": ["run", "read"], "deny": ["delete", "del*"]}},
        {"id": "alice"},
    ],
    "rules": [
        {"id": "read-the-repository", "effect": "allow", "when": {"argv": [["git", ["status", "diff"], "..."]]}},
        {"id": "tools", "effect": "allow", "when": {"tools": ["read", "delete", "write"]}},
        {
            "id": "no-force",
            "effect": "deny",
            "when": {"argv": [["git", "push", "..."]]},
            "match": [["git", "push", "-f"]],
        },
        {
            "id": "ask-deploy",
            "effect": "ask",
            "when": {"argv": [["deploy", "..."]]},
            "approvals": {"approvers": ["alice"]},
        },
    ],
    "agents": ["mock", "command"],
    "network": {
        "hosts": [
            {"host": "api.example.com", "ports": [443], "methods": ["GET"], "paths": ["/v1/*"], "inspect": True},
            {"host": "plain.example.com", "ports": [443]},
        ],
        "deny": ["metadata.internal"],
    },
    "secrets": [{"name": "API_TOKEN", "pools": ["default"], "principals": ["builder"]}],
    "env": {"inherit": ["LANG"]},
    "files": {"workspaces": ["/srv/work/**"]},
}
GIT = {
    "requestedBy": {"kind": "agent", "id": "builder"},
    "execution": {"kind": "argv", "command": "git", "args": ["status"]},
}


def request(**fields):
    """A request for `git status`, with other fields."""
    return GIT | fields


def argv(command, *args, **fields):
    """An execution of one command line."""
    return {"kind": "argv", "command": command, "args": list(args), **fields}


def egress(host, **fields):
    """One way out."""
    return {"rules": [{"host": host, **fields}]}


DEFAULT = ["builtin.default-deny"]
PUSH = request(execution=argv("git", "push"))
SCENARIOS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "an unknown principal": (request(requestedBy={"kind": "agent", "id": "stranger"}), {}),
    "a principal whose name is not a word": (request(requestedBy={"kind": "human", "id": "no: *#"}), {}),
    "a principal of another kind": (request(requestedBy={"kind": "human", "id": "builder"}), {}),
    "a tool that is not allowed": (request(tool="write"), {}),
    "a tool that is denied": (request(tool="delete"), {}),
    "a restricted program": (request(execution=argv("reboot")), {}),
    "no rule": (request(execution=argv("ls", "-l", "a b", "*", "...")), {}),
    "no rule for a shell": (request(execution={"kind": "shell", "script": "echo hello"}), {}),
    "no rule for Python": (request(execution={"kind": "python", "source": "print(1)"}), {}),
    "no rule for a launcher": (request(execution=argv("bash", "-c", "true")), {}),
    "a program at an odd path": (request(execution=argv("/opt/bin/git", "status")), {}),
    "a rule that denies": (request(execution=argv("git", "push", "-f", "origin")), {}),
    "a pool": (request(pool="big"), {}),
    "an agent kind": (request(agentKind="claude-code", prompt="hello", execution=None), {}),
    "a label for another agent": (request(agentKind="codex"), {}),
    "a host": (request(network={"allowHosts": ["files.example.com"]}), {}),
    "two hosts": (request(network={"allowHosts": ["files.example.com", "*.example.org"]}), {}),
    "a port": (request(egress=egress("plain.example.com", ports=[8443])), {}),
    "a method": (request(egress=egress("api.example.com", ports=[443], methods=["POST"])), {}),
    "a path": (request(egress=egress("api.example.com", ports=[443], paths=["/v2/x"])), {}),
    "a host with methods and paths": (request(egress=egress("new.example.com", methods=["GET"], paths=["/a"])), {}),
    "an opaque connection": (request(egress=egress("plain.example.com", ports=[443], opaque=True)), {}),
    "an address": (request(egress=egress("plain.example.com", ports=[443], addresses=["10.0.0.1"])), {}),
    "a denied host": (request(network={"allowHosts": ["metadata.internal"]}), {}),
    "an open network": (request(network={"defaultDeny": False}), {}),
    "a secret": (request(secretNames=["OTHER"]), {}),
    "a secret in another pool": (request(secretNames=["API_TOKEN"], pool="big"), {}),
    "a secret of somebody else": (request(requestedBy={"kind": "human", "id": "alice"}, secretNames=["API_TOKEN"]), {}),
    "a variable": (request(execution=argv("git", "status", env={"inherit": ["TZ", "EDITOR_X"]})), {}),
    "a workspace": (request(files={"workspace": "/home/me/project"}), {}),
    "a workspace in place": (request(files={"workspace": "/srv/work/a", "inPlace": True}), {}),
    "readable files": (request(files={"readable": ["/srv/data/one", "/srv/data/two"]}), {}),
    "a disclosure": (request(disclosure="full"), {}),
    "a weaker tier": (
        GIT,
        {
            "facts": Facts(tiers=(at_best("process"), at_best("bwrap"))),
            "policy": {"tiers": {"tolerate": {"disk": "enforced"}}},
        },
    ),
    "a tier that enforces little": (
        request(isolation="process"),
        {
            "facts": Facts(tiers=(at_best("process"),)),
            "policy": {"tiers": {"default": "process", "minimum": "process"}},
        },
    ),
    "safe mode": (GIT, {"policy": {"safe_mode": True}}),
    "several at once": (
        request(
            requestedBy={"kind": "human", "id": "carol"}, execution=argv("shutdown", "now"), pool="big",
            network={"defaultDeny": False, "allowHosts": ["metadata.internal"]}, secretNames=["A", "B"],
            disclosure="full",
        ),
        {"policy": {"safe_mode": True}},
    ),
    "an example that says otherwise": (
        request(execution=argv("ls")),
        {"policy": {"examples": [{"request": request(execution=argv("ls")), "expect": "deny", "rules": DEFAULT}]}},
    ),
    "an example of a rule that says otherwise": (
        request(execution=argv("git", "push")),
        {"rule": {"id": "no-push", "effect": "deny", "when": {"argv": [["git", "push"]]}, "match": [PUSH]}},
    ),
    "an almost empty policy": (GIT, {"whole": {"version": "tipstaff.policy.v1", "name": "x"}}),
}  # fmt: skip

STYLES = {
    "block": lambda value: "# A comment\n" + yaml.safe_dump(value, sort_keys=False) + "# The end\n",
    "tight block": lambda value: yaml.safe_dump(value, sort_keys=False, default_flow_style=None, width=200),
    "flow": lambda value: spelling_of("a: b").value(value) + "\n",
    "JSON": lambda value: json.dumps(value, indent=2),
    "JSON in one line": lambda value: json.dumps(value, separators=(",", ":")),
    "block with CRLF": lambda value: yaml.safe_dump(value, sort_keys=False).replace("\n", "\r\n"),
}


def written(options, style):
    """The policy of a scenario, in one style."""
    value = copy.deepcopy(options.get("whole", POLICY)) | copy.deepcopy(options.get("policy", {}))
    if "rule" in options:
        value["rules"].append(options["rule"])
    return STYLES[style](value)


def effect(text, asked, facts):
    """What a policy text decides, or why it does not load."""
    try:
        return decide(parse_request(asked), parse_policy(text, "policy.yaml"), facts).effect
    except PolicyError as error:
        return f"does not load: {error}"


MAIN_STYLES = ("block", "flow", "JSON")
PAIRS = [
    (scenario, style)
    for number, scenario in enumerate(SCENARIOS)
    for place, style in enumerate(STYLES)
    # Every scenario in the three main styles; the others take turns.
    if style in MAIN_STYLES or number % 6 == place
]


@pytest.mark.parametrize(("scenario", "style"), PAIRS)
def test_the_patch_is_enough_and_every_line_of_it_is_needed(scenario, style):
    """With the patch the request is no longer denied; with any line of it left out it is, or the file does not load."""
    asked, options = SCENARIOS[scenario]
    text, facts = written(options, style), options.get("facts", Facts())
    assert effect(text, asked, facts) == "deny"

    explanation = explain(parse_request(asked), parse_policy(text, "policy.yaml"), facts)

    assert explanation.change is not None
    after = explanation.change.text
    assert effect(after, asked, facts) == explanation.change.becomes != "deny"
    for without in left_out(text, after):
        assert effect(without, asked, facts) not in ("allow", "ask"), without
    assert explanation.change.patch == unified(text, after, "policy.yaml")


@pytest.mark.parametrize("style", MAIN_STYLES)
def test_a_question_is_answered_by_an_exception(style):
    """What would be asked about is allowed after the change, and without it is still asked."""
    asked = request(execution=argv("deploy", "now"))
    value = copy.deepcopy(POLICY)
    value["rules"].append({"id": "deploy", "effect": "allow", "when": {"argv": [["deploy", "..."]]}})
    text = STYLES[style](value)
    assert effect(text, asked, Facts()) == "ask"

    change = explain(parse_request(asked), parse_policy(text, "policy.yaml")).change

    assert change is not None
    assert change.becomes == "allow"
    assert all(effect(without, asked, Facts()) != "allow" for without in left_out(text, change.text))
    rules = parse_policy(change.text, "policy.yaml").value["rules"]
    asking = next(rule for rule in rules if rule["id"] == "ask-deploy")
    assert asking["except"] == [{"principals": ["builder"], "argv": [["deploy", "now"]]}]


def changed(asked, text=None):
    """The plain value of the policy after the change for a request."""
    change = explain(parse_request(asked), parse_policy(text or STYLES["block"](POLICY), "policy.yaml")).change
    assert change is not None
    return parse_policy(change.text, "policy.yaml").value


def test_the_change_is_narrow():
    """A new rule or exception is for this requester and this command line only, and a deny rule stays."""
    allowed = changed(request(execution=argv("ls", "-l")))["rules"]
    excepted = changed(request(execution=argv("git", "push", "-f")))["rules"]

    exactly = {"principals": ["builder"], "argv": [["ls", "-l"]]}
    assert allowed == [*POLICY["rules"], {"id": "allow-ls-l", "effect": "allow", "when": exactly}]
    assert [rule["id"] for rule in excepted][: len(POLICY["rules"])] == [rule["id"] for rule in POLICY["rules"]]
    assert excepted[2]["except"] == [{"principals": ["builder"], "argv": [["git", "push", "-f"]]}]


def test_an_example_that_says_otherwise_is_changed_with_it():
    """The file still loads: what an example claims is part of the change, and a reader of the patch sees it."""
    asked, options = SCENARIOS["an example that says otherwise"]

    change = explain(parse_request(asked), parse_policy(written(options, "block"), "policy.yaml")).change

    assert change is not None
    assert "-  expect: deny\n" in change.patch
    assert "+  expect: allow\n" in change.patch


@pytest.mark.parametrize(
    ("asked", "facts", "rule"),
    [
        (request(execution=argv("git", "status", cwd="../..")), Facts(), "builtin.cwd"),
        (request(execution=argv("git", "status", env={"vars": {"LD_PRELOAD": "x"}})), Facts(), "builtin.environment"),
        (request(network={"allowHosts": ["0x7f.1"]}), Facts(), "builtin.host"),
        (GIT, Facts(authenticated="mallory"), "builtin.requester"),
        (request(execution=argv("git", "a\0b")), Facts(), "builtin.execution"),
        (request(files={"workspace": "/proc/self"}), Facts(), "builtin.files"),
        (request(isolation="castle"), Facts(), "builtin.tier"),
    ],
)
def test_what_no_policy_can_allow_is_said(asked, facts, rule):
    """A reason that no policy removes is named, and no patch pretends otherwise."""
    explanation = explain(parse_request(asked), parse_policy(STYLES["block"](POLICY), "policy.yaml"), facts)

    assert explanation.decision.effect == "deny"
    assert explanation.change is None
    assert rule in {reason.rule for reason in explanation.impossible}


def test_what_is_allowed_needs_no_change():
    """A request that is allowed is explained by its rules alone."""
    explanation = explain(parse_request(GIT), parse_policy(STYLES["block"](POLICY), "policy.yaml"))

    assert explanation.decision.effect == "allow"
    assert explanation[1:] == (None, (), ())


def test_explaining_is_pure():
    """The same question has the same answer, and the policy is as it was."""
    policy = parse_policy(STYLES["block"](POLICY), "policy.yaml")
    asked = parse_request(request(execution=argv("ls")))

    assert explain(asked, policy) == explain(asked, policy)
    assert decide(asked, policy).effect == "deny"


WISHES = st.fixed_dictionaries(
    {
        "requestedBy": st.builds(
            lambda kind, name: {"kind": kind, "id": name},
            st.sampled_from(["agent", "human"]),
            st.sampled_from(["builder", "alice", "no", "*", "a: b", "\u202e", "x" * 200]),
        ),
        "execution": st.builds(
            argv, st.sampled_from(["git", "deploy", "reboot", "/opt/git", "bash", "-", "#"]), st.text(max_size=4)
        ),
    },
    optional={
        "tool": st.sampled_from(["delete", "write", "*", ""]),
        "pool": st.sampled_from(["default", "big", "{a: 1}"]),
        "secretNames": st.lists(st.sampled_from(["API_TOKEN", "OTHER", "a b"]), max_size=2),
        "network": st.builds(
            lambda hosts, closed: {"allowHosts": hosts, "defaultDeny": closed},
            st.lists(
                st.sampled_from(["api.example.com", "x.org", "*.x.org", "metadata.internal", "127.1"]), max_size=2
            ),
            st.booleans(),
        ),
        "files": st.builds(lambda path: {"workspace": path}, st.sampled_from(["/srv/work/a", "/home/é x", "/proc"])),
        "disclosure": st.sampled_from(["none", "full"]),
    },
)


@given(WISHES, st.sampled_from(sorted(STYLES)))
@settings(max_examples=settings().max_examples // 2, deadline=None)
def test_whatever_is_asked_the_explanation_is_true(asked, style):
    """For any request there is a patch that works, or a reason that no policy removes; never an error."""
    text = STYLES[style](POLICY)

    explanation = explain(parse_request(asked), parse_policy(text, "policy.yaml"))

    if explanation.decision.effect == "deny" and not explanation.impossible:
        assert explanation.change is not None
        assert effect(explanation.change.text, asked, Facts()) == explanation.change.becomes != "deny"


# warrant.policy.v1

WARRANT = {
    "version": "warrant.policy.v1",
    "runners": {"allowPools": ["default"]},
    "agents": {"allow": ["mock"]},
    "network": {"defaultDeny": True, "allowHosts": ["api.example.com"]},
    "secrets": {"releasable": [{"name": "API_TOKEN", "scope": "session", "pools": ["default"]}]},
    "consent": [{"when": "agent-kind", "match": "mock", "approvers": ["alice"]}],
}
MOCK = {"requestedBy": {"kind": "human", "id": "bob"}, "agentKind": "mock", "prompt": "hello"}
FOREIGN = {
    "pool": MOCK | {"pool": "big"},
    "agent": MOCK | {"agentKind": "command"},
    "host": MOCK | {"network": {"allowHosts": ["new.example.com"]}},
    "open network": MOCK | {"network": {"defaultDeny": False}},
    "secret": MOCK | {"secretNames": ["OTHER"]},
    "secret in a pool": MOCK | {"secretNames": ["API_TOKEN"], "pool": "big"},
    "question": MOCK,
}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("scenario", FOREIGN)
def test_a_warrant_policy_is_patched_in_its_own_words(scenario, indent):
    """A policy of the other format is changed in that format, stays JSON, and every line of the change is needed."""
    text, asked = json.dumps(WARRANT, indent=indent), FOREIGN[scenario]
    before = effect(text, asked, Facts())
    policy = parse_policy(text, "policy.json")

    change = explain(parse_request(asked), policy, tree=read(text, "policy.json")).change

    assert change is not None
    assert json.loads(change.text)["version"] == "warrant.policy.v1"
    better = ("allow",) if before == "ask" else ("allow", "ask")
    assert effect(change.text, asked, Facts()) in better
    assert all(effect(without, asked, Facts()) not in better for without in left_out(text, change.text))


def test_what_the_other_format_cannot_say_is_said():
    """Where our format has words for a change and the file's has none, the explanation says which reason that is."""
    text = json.dumps(WARRANT)
    asked = parse_request(MOCK | {"files": {"workspace": "/srv/work/a"}})

    explanation = explain(asked, parse_policy(text, "policy.json"), tree=read(text, "policy.json"))

    assert explanation.change is None
    assert explanation.impossible == ()
    assert [reason.rule for reason in explanation.beyond] == ["files"]


# The patch, applied by the programs that people use


@pytest.mark.parametrize("program", ["patch", "git"])
@pytest.mark.parametrize("name", ["policy.yaml", "my policy.yaml"])
@pytest.mark.parametrize("style", STYLES)
def test_the_patch_is_applied_by_real_programs(tmp_path, style, name, program):
    """The programs patch and git, with -p0, make exactly the text that the change promises."""
    asked, options = SCENARIOS["several at once"]
    text = written(options, style)
    (tmp_path / name).write_bytes(text.encode())
    change = explain(parse_request(asked), parse_policy(text, name)).change
    assert change is not None

    command = ["patch", "-p0", "--binary"] if program == "patch" else ["git", "apply", "-p0"]
    done = subprocess.run(command, input=change.patch.encode(), cwd=tmp_path, capture_output=True, check=False)

    assert done.returncode == 0, done
    assert (tmp_path / name).read_bytes().decode() == change.text
