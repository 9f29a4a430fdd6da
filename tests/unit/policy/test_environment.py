"""Claims about variables; every refusal has its permitted twin."""

import pytest

from tipstaff.policy.checks.environment import is_ours


def shell(**environment):
    """Make a shell execution with this environment."""
    return {"kind": "shell", "script": "env", "env": environment}


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("PATH", False), ("HOME", False), ("LD_PRELOAD", False), ("LD_LIBRARY_PATH", False), ("HTTP_PROXY", False),
        ("https_proxy", False),
        ("All_Proxy", False), ("NO_PROXY", False), ("SSL_CERT_FILE", False), ("GIT_SSL_CAINFO", False),
        ("NODE_EXTRA_CA_CERTS", False),
        ("CODEX_CA_CERTIFICATE", False), ("BASH_ENV", False), ("ENV", False), ("IFS", False),
        ("TIPSTAFF_HOME", False), ("BASH_FUNC_ls", False),
        ("", False), ("A=B", False), ("1A", False), ("A-B", False), ("A\0", False), ("A\n", False), ("Ä", False),
        ("DEBUG", True), ("PYTHONPATH", True), ("MY_PATH", True), ("path", True), ("PROXY", True), ("_", True),
    ],
)  # fmt: skip
def test_some_names_are_ours(ask, name, allowed):
    """No request sets, maps or inherits a variable that is ours or no name at all; others may be set."""
    expected = ("everything",) if allowed else ("builtin.environment",)

    assert ask({}, execution=shell(vars={name: "x"})).rules == expected
    assert ask({"env": {"inherit": ["*"]}}, execution=shell(inherit=[name])).rules == expected
    mapped = shell(secrets=[{"env": name, "secretName": "TOKEN"}])
    assert ask({"secrets": [{"name": "TOKEN"}]}, execution=mapped, secretNames=["TOKEN"]).rules == expected


@pytest.mark.parametrize(("name", "allowed"), [("TOKEN", True), ("PATH", False), ("http_proxy", False)])
def test_a_secret_has_a_name_that_may_be_set(ask, name, allowed):
    """A secret is put under its own name, so one that is called like a variable of ours is refused."""
    decision = ask({"secrets": [{"name": "*"}]}, secretNames=[name])

    assert decision.rules == (("everything",) if allowed else ("builtin.environment",))


@pytest.mark.parametrize(
    ("value", "allowed"),
    [("x", True), ("a\0b", False), ("__WARRANT_SECRET__:TOKEN", False), ("x__WARRANT_SECRET__:", True)],
)
def test_a_value_is_text_and_no_forgery(ask, value, allowed):
    """A value with a NUL, or one that is written like the place of a secret, is refused."""
    decision = ask({}, execution=shell(vars={"NAME": value}))

    assert decision.rules == (("everything",) if allowed else ("builtin.environment",))


@pytest.mark.parametrize(
    ("patterns", "name", "allowed"),
    [
        ([], "LANG", False),
        (["LANG"], "LANG", True),
        (["LC_*"], "LC_ALL", True),
        (["LC_*"], "AWS_SECRET_ACCESS_KEY", False),
    ],
)
def test_only_listed_names_are_inherited(ask, patterns, name, allowed):
    """A variable of the runner's host is inherited when the policy lists it, and the decision says which."""
    decision = ask({"env": {"inherit": patterns}}, execution=shell(inherit=[name]))

    assert decision.rules == (("everything",) if allowed else ("env.inherit",))
    assert not allowed or decision.effective.inherit == (name,)


def test_a_mapping_of_a_secret_that_is_not_asked_for_is_no_fault(ask):
    """As the protocol has it, such a mapping is left out later and refuses nothing now."""
    assert ask({}, execution=shell(secrets=[{"env": "NAME", "secretName": "OTHER"}])).effect == "allow"


def test_case_matters_only_for_proxies():
    """Proxy variables are ours in any case, since programs read them in any; `path` is an ordinary name."""
    assert is_ours("hTtP_pRoXy")
    assert not is_ours("path")
