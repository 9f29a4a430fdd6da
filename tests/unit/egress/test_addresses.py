"""Which addresses an allowed name may lead to."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipstaff.egress.addresses import fault_of, pinned
from tipstaff.model.network import EgressRule

SPECIAL = [
    "0.0.0.0",  # noqa: S104 - judged, not bound
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:93.184.215.14",
    "::ffff:0:7f00:1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "2002:7f00:1::1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
    "4000::1",
]
PUBLIC = [
    "93.184.215.14",
    "1.1.1.1",
    "172.32.0.1",
    "100.128.0.1",
    "192.0.1.1",
    "2606:4700:4700::1111",
    "2a00:1450::1",
    "2001:4860:4860::8888",
]


@pytest.mark.parametrize("address", SPECIAL)
def test_special_addresses_are_refused(address):
    """No name leads to this host, its neighbours, a metadata service, or an address in disguise."""
    assert fault_of(address, EgressRule(host="a.test")) != ""
    assert fault_of(address, EgressRule(host="*")) != ""
    assert fault_of(address, None) != ""


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_not(address):
    """A name may lead to any public address, unless the address itself is denied."""
    assert fault_of(address, EgressRule(host="a.test")) == ""
    assert fault_of(address, EgressRule(host="a.test"), deny=(address,)) == "is denied"


@pytest.mark.parametrize("text", ["", "a.test", "127.1", "0x7f.1", "fe80::1%eth0", "1.2.3.4 "])
def test_what_is_no_address_is_refused(text):
    """A resolver that gives something else than an address gives nothing."""
    assert fault_of(text, EgressRule(host="*", addresses=("0.0.0.0/0", "::/0"))) != ""


@pytest.mark.parametrize("address", SPECIAL)
def test_a_rule_names_its_address(address):
    """A special address is dialled where the rule names that very address or its network, and nowhere else."""
    network = str(ipaddress.ip_network(address))
    other = "10.9.8.7" if address != "10.9.8.7" else "10.9.8.6"

    assert fault_of(address, EgressRule(host="a.test", addresses=(network,))) == ""
    assert fault_of(address, EgressRule(host=str(ipaddress.ip_address(address)))) == ""
    assert fault_of(address, EgressRule(host="a.test", addresses=(other,))) != ""


def test_mapped_addresses_are_not_within_their_network():
    """A rule for an IPv4 network does not name the same address in an IPv6 disguise."""
    assert fault_of("::ffff:10.0.0.1", EgressRule(host="a", addresses=("10.0.0.0/8",))) != ""


def test_single_addresses_need_no_resolver():
    """A name whose rule lists single addresses leads there; with a network among them somebody must resolve."""
    assert pinned(EgressRule(host="a.test", addresses=("10.0.0.1", "::1")), "a.test") == ("10.0.0.1", "::1")
    assert pinned(EgressRule(host="a.test", addresses=("10.0.0.1", "10.1.0.0/16")), "a.test") == ()
    assert pinned(EgressRule(host="a.test"), "a.test") == ()
    assert pinned(EgressRule(host="*", addresses=("10.0.0.1",)), "93.184.215.14") == ()


@given(st.ip_addresses())
def test_nothing_that_python_holds_private_is_let_through(address):
    """Our list refuses at least what `ipaddress` knows not to be global."""
    if not address.is_global:
        assert fault_of(str(address), None) != ""
