"""Claims about hosts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipstaff.policy.hosts import address_within, covers, normal_address, normal_host, normal_pattern, overlaps


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("API.Example.com.", "api.example.com"),
        ("localhost", "localhost"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]", "::1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("3com.example", "3com.example"),
    ],
)
def test_a_host_has_one_spelling(text, normal):
    """Case, a trailing dot and the long form of an address make no difference."""
    assert normal_host(text) == normal
    assert normal_host(normal) == normal


@pytest.mark.parametrize(
    "text",
    [
        "0x7f.1",
        "127.1",
        "2130706433",
        "0177.0.0.1",
        "127.0.0.01",
        "1.2.3.4.5",
        "example.0x1",
        "::ffff:127.0.0.1",
        "fe80::1%eth0",
    ],
)
def test_an_odd_spelling_of_an_address_is_refused(text):
    """What some program would take for an address and another for a name is neither here."""
    with pytest.raises(ValueError, match=r"address"):
        normal_host(text)


@pytest.mark.parametrize(
    "text",
    [
        "", ".", "a..b", "-a.example", "a-.example", "a_b.example", "a b", "bücher.example", "a/b", "a@b", "a\0b",
        "a\n",
        "example.com:443", "https://example.com", "*.example.com", "x" * 64, ".".join(["x" * 60] * 5), "ⓔxample.com",
        "1。1",
    ],
)  # fmt: skip
def test_what_is_no_host_is_refused(text):
    """Anything but labels of letters, digits and hyphens is refused."""
    with pytest.raises(ValueError, match=r"."):
        normal_host(text)


@given(st.text(max_size=40))
def test_any_text_is_a_host_or_a_refusal(text):
    """Whatever the text, it has a normal form that is its own normal form, or is refused."""
    try:
        normal = normal_pattern(text)
    except ValueError:
        return
    assert normal_pattern(normal) == normal


@pytest.mark.parametrize(
    ("wide", "narrow", "covered"),
    [
        ("*.example.com", "a.example.com", True),
        ("*.example.com", "a.b.example.com", True),
        ("*.example.com", "*.b.example.com", True),
        ("*.example.com", "*.example.com", True),
        ("*.example.com", "example.com", False),
        ("*.example.com", "badexample.com", False),
        ("*.b.example.com", "*.example.com", False),
        ("example.com", "*.example.com", False),
        ("*", "192.0.2.1", True),
        ("*", "*", True),
        ("*.1", "192.0.2.1", False),
    ],
)
def test_a_wildcard_covers_what_is_below_it(wide, narrow, covered):
    """The pattern `*.x` covers everything below `x`, and neither `x` nor a name that merely ends alike."""
    assert covers(wide, narrow) is covered


@pytest.mark.parametrize(
    ("one", "other", "overlapping"),
    [
        ("*.example.com", "api.example.com", True),
        ("*", "metadata.internal", True),
        ("*.a.example", "*.b.example", False),
    ],
)
def test_a_wildcard_includes_names(one, other, overlapping):
    """A wildcard overlaps with each name that it includes, seen from either side."""
    assert overlaps(one, other) is overlapping
    assert overlaps(other, one) is overlapping


def test_an_address_lies_in_a_network():
    """Addresses are compared as numbers, and never across the two families."""
    assert address_within(normal_address("10.1.2.3"), normal_address("10.0.0.0/8"))
    assert not address_within(normal_address("11.1.2.3"), normal_address("10.0.0.0/8"))
    assert not address_within(normal_address("::1"), normal_address("0.0.0.0/0"))
    assert address_within(normal_address("fd00::1"), normal_address("fd00::/8"))
