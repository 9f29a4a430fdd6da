"""Where a plane is: one spelling, no plain http beyond this machine by accident, and no password in sight."""

import pytest

from tipstaff.errors import UsageError
from tipstaff.runner.address import address_of, plain_is_meant


@pytest.mark.parametrize(
    ("given", "spelled", "is_loopback"),
    [
        ("https://Plane.Example.com/", "https://plane.example.com", False),
        ("HTTPS://plane.example.com:443", "https://plane.example.com", False),
        ("https://plane.example.com:7172/team/", "https://plane.example.com:7172/team", False),
        ("https://plane.example.com/@team", "https://plane.example.com/@team", False),
        ("https://127.0.0.1:7172", "https://127.0.0.1:7172", True),
        ("http://127.0.0.1:7172", "http://127.0.0.1:7172", True),
        ("http://127.9.9.9:7172", "http://127.9.9.9:7172", True),
        ("http://[::1]:7172", "http://[::1]:7172", True),
        ("http://localhost:80", "http://localhost", True),
    ],
)
def test_an_address_has_one_spelling(given, spelled, is_loopback):
    """Letters, a usual port and a slash at the end make no difference: keys are pinned under one name."""
    assert address_of(given) == (spelled, is_loopback)


@pytest.mark.parametrize("host", ["10.0.0.1", "plane.example.com", "[2001:db8::1]", "127.0.0.1.example.com"])
@pytest.mark.parametrize("plain_http", [True, False])
def test_plain_http_beyond_this_machine_has_to_be_asked_for(host, plain_http):
    """Plain http to another machine is refused, unless it is said to be meant."""
    if plain_http:
        assert address_of(f"http://{host}", plain_http=True) == (f"http://{host}", False)
        return

    with pytest.raises(UsageError, match="would read the token"):
        address_of(f"http://{host}")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not one of http"),
        ("ftp://plane.example.com", "not one of http"),
        ("plane.example.com:7172", "not one of http"),
        ("https://", "not one of http"),
        ("https://a b", "not one of http"),
        ("https://plane.example.com/\n", "not one of http"),
        ("https://pläne.example.com", "not one of http"),
        ("https://plane.example.com?x=1", "more than a host"),
        ("https://plane.example.com#x", "more than a host"),
        ("https://plane.example.com:port", "cannot be read"),
        ("https://plane.example.com:99999", "cannot be read"),
        ("http://[::1", "cannot be read"),
    ],
)
def test_what_is_no_address_is_refused(text, words):
    """Anything but a plain http or https address is refused with what is wrong and an example."""
    with pytest.raises(UsageError, match=words) as refused:
        address_of(text)
    assert "https://plane.example.com:7172" in refused.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "https://ana:hunter2@plane.example.com",
        "https://ana:hunter2@plane.example.com:port",
        "https://ana:hunter2@[::1",
        "ana:hunter2@plane.example.com",
    ],
)
def test_a_password_in_an_address_is_refused_and_not_repeated(text):
    """A name or a password in the address is refused, and no message shows it, whatever else is wrong."""
    with pytest.raises(UsageError) as refused:
        address_of(text)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(("value", "is_meant"), [("1", True), ("yes", True), ("true", True), ("0", False), ("", False)])
def test_the_environment_may_mean_plain_http(value, is_meant):
    """TIPSTAFF_PLAIN_HTTP says so with 1, true or yes, and with nothing else."""
    assert plain_is_meant({"TIPSTAFF_PLAIN_HTTP": value}) is is_meant
