"""Claims about the variables that lead to the gate."""

from tipstaff.egress.variables import proxy_variables
from tipstaff.policy.checks.environment import is_ours


def test_every_program_is_led_to_the_gate():
    """All spellings of the proxy variables lead to the gate; the loopback is inside, and reached directly."""
    variables = proxy_variables(3128)

    for name in ("http_proxy", "https_proxy", "all_proxy"):
        assert variables[name] == variables[name.upper()] == "http://127.0.0.1:3128"
    assert variables["no_proxy"] == variables["NO_PROXY"] == "localhost,127.0.0.1,::1"


def test_no_request_can_lead_programs_elsewhere():
    """Each of these variables is one that no request may set."""
    assert all(is_ours(name) for name in proxy_variables(1))


def test_credentials_stand_in_the_address():
    """A gate that others could reach too is led to with its credentials."""
    assert proxy_variables(1, "user:word")["https_proxy"] == "http://user:word@127.0.0.1:1"
