"""Advice is exact enough to be copied."""

import yaml

from tipstaff.egress.advice import to_allow, to_dial, to_pass_unseen, to_request


def grant(text):
    [found] = yaml.safe_load(text.removeprefix("in the policy: "))["network"]["hosts"]
    return found


def test_a_flag_names_host_and_port():
    """A host and a port are spelled as the flag takes them."""
    assert to_allow("a.test", 443) == "--allow-host a.test:443"
    assert to_dial("10.0.0.1", 80, "10.0.0.1") == "--allow-host 10.0.0.1:80"


def test_lines_of_a_policy_are_lines_of_a_policy():
    """What is to be added to the policy is a grant that YAML reads back."""
    assert to_dial("a.test", 443, "::1") == "--allow-host a.test:443,address=::1"
    assert to_pass_unseen("a.test", 22) == "--allow-host a.test:22,opaque"
    assert grant(to_request("a.test", 443, "PUT", "/x/y?z")) == {
        "host": "a.test",
        "ports": [443],
        "methods": ["PUT"],
        "paths": ["/x/y"],
        "inspect": True,
    }


def test_a_path_is_not_copied_blindly():
    """A path that would be a pattern, or would leave its quotes, is not spelled out."""
    for path in ("/*", '/"]}', "/a\\b", "/\x1b[2J"):
        assert grant(to_request("a.test", 1, "GET", path))["paths"] == ["/…"]
