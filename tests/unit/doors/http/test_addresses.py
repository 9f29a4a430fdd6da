"""Addresses: who counts as one peer."""

import pytest

from tipstaff.doors.http.addresses import is_loopback, peer_of, unwrapped


@pytest.mark.parametrize(
    ("address", "peer"),
    [("192.0.2.1", "192.0.2.1"), ("::ffff:192.0.2.1", "192.0.2.1"), ("::ffff:c000:201", "192.0.2.1"),
     ("2001:db8::1", "2001:db8::/64"), ("2001:db8:0:1::1", "2001:db8:0:1::/64"), ("fe80::1%eth0", "fe80::/64"),
     ("::1", "::/64"), ("not an address", "not an address"), ("not:an:address", "not:an:address"), ("-", "-")],
)  # fmt: skip
def test_an_address_counts_for_its_peer(address, peer):
    """One of version 4 is itself, also where version 6 wraps it; one of version 6 counts for its network."""
    assert peer_of(address) == peer


def test_only_what_is_wrapped_is_unwrapped():
    """An address of version 6 that wraps none of version 4 stays whole."""
    assert unwrapped("::ffff:10.0.0.1") == "10.0.0.1"
    assert unwrapped("2001:db8::1") == "2001:db8::1"


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_this_machine_is_known_in_every_spelling(address):
    """Loopback is loopback, wrapped or not; anything else, and what is no address, is not."""
    assert is_loopback(address)
    assert not is_loopback("192.0.2.1")
    assert not is_loopback("::ffff:192.0.2.1")
    assert not is_loopback("localhost")
