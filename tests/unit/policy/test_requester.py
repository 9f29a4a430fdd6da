"""Claims about who asks and for what by name; every refusal has its permitted twin."""

import pytest

from tipstaff.policy import Facts

SHELL = {"kind": "shell", "script": "ls"}


@pytest.mark.parametrize(
    ("facts", "rule"),
    [
        (Facts(), None),
        (Facts(authenticated="builder"), None),
        (Facts(authenticated="builder", authenticated_kind="agent"), None),
        (Facts(authenticated="mallory"), "builtin.requester"),
        (Facts(authenticated=""), "builtin.requester"),
        (Facts(authenticated="builder", authenticated_kind="human"), "builtin.requester"),
    ],
)
def test_a_requester_is_who_the_door_proved(ask, facts, rule):
    """Where the door proved somebody, the request must say the same."""
    assert ask({}, facts).rules == ((rule,) if rule else ("everything",))


@pytest.mark.parametrize(
    ("entry", "allowed"),
    [
        ({"id": "builder"}, True),
        ({"id": "build*"}, True),
        ({"id": "builder2"}, False),
        ({"id": "builder", "kinds": ["agent"]}, True),
        ({"id": "builder", "kinds": ["human"]}, False),
        ({"id": "*", "tools": {"allow": []}}, False),
        ({"id": "*", "tools": {"allow": ["run"]}}, True),
        ({"id": "*", "tools": {"deny": ["run"]}}, False),
        ({"id": "*", "tools": {"allow": ["run"], "deny": ["r*"]}}, False),
        ({"id": "*", "tools": {"deny": ["delete"]}}, True),
    ],
)
def test_a_requester_that_no_entry_names_may_do_nothing(ask, entry, allowed):
    """Somebody is named by id and kind, and has the tools that are allowed and not denied."""
    decision = ask({"principals": [entry]})

    assert decision.rules == (("everything",) if allowed else ("principals",))


def test_nobody_is_named_by_an_empty_list(ask):
    """Without principals there is nobody, not everybody."""
    assert ask({"principals": []}).rules == ("principals",)
    assert ask({}).effect == "allow"


@pytest.mark.parametrize("order", [1, -1])
def test_a_denied_tool_is_denied_whichever_entry_allows_it(ask, order):
    """Where several entries name a requester, one that denies a tool wins, in any order."""
    entries = [{"id": "*", "tools": {"allow": ["run"]}}, {"id": "builder", "tools": {"deny": ["run"]}}][::order]

    assert ask({"principals": entries}).effect == "deny"
    assert ask({"principals": entries}, requestedBy={"kind": "agent", "id": "other"}).effect == "allow"


@pytest.mark.parametrize(
    ("tools", "bound", "allowed"),
    [(["query"], True, True), (["query"], False, False), (["query", "run"], False, True), (["run"], True, False)],
)
def test_a_tools_name_buys_nothing_by_itself(ask, tools, bound, allowed):
    """An execution that the site did not declare also needs the built-in tool of its kind."""
    policy = {"principals": [{"id": "*", "tools": {"allow": tools}}]}
    decision = ask(policy, Facts(tool_bound=bound), tool="query", execution=SHELL)

    assert (decision.effect == "allow") is allowed


@pytest.mark.parametrize(("bound", "allowed"), [(True, True), (False, False)])
def test_a_rule_that_permits_a_tool_needs_it_bound(ask, bound, allowed):
    """A rule for one tool is not opened by a caller who merely says that name."""
    rules = [{"id": "query", "effect": "allow", "when": {"tools": ["query"]}}]

    assert (ask({"rules": rules}, Facts(tool_bound=bound), tool="query").effect == "allow") is allowed


@pytest.mark.parametrize(
    ("effect", "bound", "allowed"),
    [("read", True, True), ("write", True, False), ("execute", True, False), ("read", False, False)],
)
def test_safe_mode_lets_only_declared_reading_through(ask, effect, bound, allowed):
    """Safe mode refuses what does not read, and an unbound tool counts as executing whatever it says."""
    fields = {"tool": "query", "toolEffect": effect}

    assert (ask({"safe_mode": True}, Facts(tool_bound=bound), **fields).effect == "allow") is allowed
    assert ask({"safe_mode": False}, Facts(tool_bound=bound), **fields).effect == "allow"


@pytest.mark.parametrize(
    ("fields", "refused"),
    [
        ({"execution": {"kind": "argv", "command": "rm"}}, True),
        ({"execution": {"kind": "argv", "command": "/opt/x/RM"}}, True),
        ({"execution": {"kind": "argv", "command": "rmdir"}}, False),
        ({"tool": "Rm"}, True),
        ({"tool": "remove"}, False),
        ({"execution": {"kind": "argv", "command": "ls", "args": ["rm"]}}, False),
    ],
)
@pytest.mark.parametrize("section", [["rm"], {"names": ["rm"]}])
def test_a_restricted_name_is_run_by_nobody(ask, section, fields, refused):
    """The tool's name and the program's, in any case and at any path, are compared with the list."""
    assert ("restricted" in ask({"restricted": section}, **fields).rules) is refused


@pytest.mark.parametrize(
    ("policy", "fields", "rule"),
    [
        ({}, {"pool": "gpu"}, "pools"),
        ({"pools": ["gpu"]}, {}, "pools"),
        ({"agents": ["mock"]}, {}, "agents"),
        ({"agents": []}, {}, "agents"),
        ({}, {"disclosure": "full"}, "disclosure"),
        ({"disclosure": ["none"]}, {}, "disclosure"),
    ],
)
def test_what_is_not_listed_may_not_be_used(ask, policy, fields, rule):
    """A pool, an agent kind or a disclosure mode that the policy does not list is refused."""
    assert ask(policy, **fields).rules == (rule,)


@pytest.mark.parametrize(
    ("policy", "fields"),
    [
        ({"pools": ["gpu"]}, {"pool": "gpu"}),
        ({"agents": ["command"]}, {}),
        ({"disclosure": ["full"]}, {"disclosure": "full"}),
    ],
)
def test_what_is_listed_may_be_used(ask, policy, fields):
    """A pool, an agent kind or a disclosure mode that the policy lists is allowed."""
    assert ask(policy, **fields).effect == "allow"


@pytest.mark.parametrize(
    ("execution", "allowed"),
    [
        ({"kind": "argv", "command": "ls", "args": ["a\0b"]}, False),
        ({"kind": "argv", "command": "l\0s"}, False),
        ({"kind": "shell", "script": "ls\0"}, False),
        ({"kind": "python", "source": "\0"}, False),
        ({"kind": "agent", "agent": {"kind": "mock"}, "prompt": "\0"}, False),
        ({"kind": "argv", "command": "ls", "args": ["a\nb"]}, True),
    ],
)
def test_what_no_program_can_be_given_is_refused(ask, execution, allowed):
    """A NUL in a command line, a script or a prompt is refused; a newline is not."""
    assert ask({}, execution=execution).rules == (("everything",) if allowed else ("builtin.execution",))


@pytest.mark.parametrize("name", ["a\nb", "a\0", "\x1b[31mred", "a\u202eb"])
def test_a_requester_has_a_name_that_can_be_shown(ask, name):
    """An id with control or direction characters is refused, and no reason repeats them."""
    decision = ask({}, requestedBy={"kind": "human", "id": name})

    assert decision.rules == ("builtin.requester",)
    assert all(reason.message.isprintable() for reason in decision.reasons)


def test_data_classes_stay_in_their_pools(ask):
    """A class that is listed for other pools is withheld from this one, and only that one."""
    policy = {
        "pools": ["*"],
        "data_classes": [
            {"data_class": "code-diff", "pools": ["default"]},
            {"data_class": "session-log", "pools": ["eu-*"]},
        ],
    }

    assert ask(policy).effective.withheld_classes == ("session-log",)
    assert ask(policy, pool="eu-1").effective.withheld_classes == ("code-diff",)
