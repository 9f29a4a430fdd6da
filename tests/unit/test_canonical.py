"""Canonical bytes are those of RFC 8785, whichever encoder writes them."""

import json
import math
import struct
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tipstaff.canonical import MAX_DEPTH, SAFE_INTEGER, canonical, digest
from tipstaff.errors import CanonicalError

ANY_TEXT = st.text(st.characters())
SURROGATES = st.text(st.characters(categories=["Cs"]), min_size=1, max_size=2)
CONTROLS = st.text(st.characters(max_codepoint=0x9F), max_size=8)
BEYOND_BMP = st.text(st.characters(min_codepoint=0xD7F0, max_codepoint=0x10FFFF), max_size=4)
TEXT = ANY_TEXT | SURROGATES | CONTROLS | BEYOND_BMP
INTEGERS = st.integers() | st.integers(-(2**53) - 3, -(2**53) + 3) | st.integers(2**53 - 3, 2**53 + 3)
VALUES = st.recursive(
    st.none() | st.booleans() | INTEGERS | st.floats() | TEXT,
    lambda inner: (
        st.lists(inner, max_size=4) | st.lists(inner, max_size=4).map(tuple) | st.dictionaries(TEXT, inner, max_size=5)
    ),
    max_leaves=25,
)
ODD = (
    VALUES
    | st.binary()
    | st.sampled_from([object(), {1, 2}, 1j, ..., {1: 2}, {None: 1}, {b"a": 1}, [b"x"], {"a": {2: 3}}])
)


def reference(value: Any) -> bytes | None:
    """What the reference implementation writes, or None where it refuses."""
    try:
        return rfc8785.dumps(value)
    except ValueError:  # its own errors, and those of the encoder, are ValueErrors
        return None


def ours(value: Any) -> bytes | None:
    """What we write, or None where we refuse; any other error escapes."""
    try:
        return canonical(value)
    except CanonicalError:
        return None


@settings(max_examples=4 * settings().max_examples)
@given(value=VALUES)
@example(value={"\U0001f600": 1, "\ufb33": 2, "a": 3})  # UTF-16 order is not the order of code points
@example(value={"é": 1, "z": 2})
@example(value="\u2028\u2029\x7f\x80/")
@example(value=[True, 1, 1.0, -0.0, 0])
@example(value="\ud83d\ude00")  # two halves that are not one character
def test_the_fast_encoder_is_the_reference(value):
    """For every JSON value the bytes are the reference implementation's, and what it refuses is refused."""
    assert ours(value) == reference(value)


@settings(max_examples=3 * settings().max_examples)
@given(value=ODD)
def test_what_is_not_json_has_no_canonical_form(value):
    """Other Python values are refused with our own error wherever the reference refuses them."""
    assert ours(value) == reference(value)


@given(value=VALUES)
def test_canonical_bytes_are_stable(value):
    """Reading canonical bytes and writing them again gives the same bytes."""
    written = ours(value)

    if written is not None:
        numbers = json.loads(
            written, parse_int=lambda text: int(text) if abs(int(text)) <= SAFE_INTEGER else float(text)
        )
        assert canonical(numbers) == written


# RFC 8785, appendix B: the bits of a double, and how it is written.
RFC_NUMBERS = {
    "0000000000000000": "0",
    "8000000000000000": "0",
    "0000000000000001": "5e-324",
    "8000000000000001": "-5e-324",
    "7fefffffffffffff": "1.7976931348623157e+308",
    "ffefffffffffffff": "-1.7976931348623157e+308",
    "4340000000000000": "9007199254740992",
    "c340000000000000": "-9007199254740992",
    "4430000000000000": "295147905179352830000",
    "44b52d02c7e14af5": "9.999999999999997e+22",
    "44b52d02c7e14af6": "1e+23",
    "44b52d02c7e14af7": "1.0000000000000001e+23",
    "444b1ae4d6e2ef4e": "999999999999999700000",
    "444b1ae4d6e2ef4f": "999999999999999900000",
    "444b1ae4d6e2ef50": "1e+21",
    "3eb0c6f7a0b5ed8c": "9.999999999999997e-7",
    "3eb0c6f7a0b5ed8d": "0.000001",
    "41b3de4355555553": "333333333.3333332",
    "41b3de4355555554": "333333333.33333325",
    "41b3de4355555555": "333333333.3333333",
    "41b3de4355555556": "333333333.3333334",
    "41b3de4355555557": "333333333.33333343",
    "becbf647612f3696": "-0.0000033333333333333333",
    "43143ff3c1cb0959": "1424953923781206.2",
}


@pytest.mark.parametrize(("bits", "written"), RFC_NUMBERS.items())
def test_the_numbers_of_the_rfc(bits, written):
    """Each number of the RFC's table is written as the table says."""
    (number,) = struct.unpack(">d", bytes.fromhex(bits))

    assert canonical(number).decode() == written


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, SAFE_INTEGER + 1, -SAFE_INTEGER - 1, 10**400])
def test_numbers_without_a_form_are_refused(number):
    """NaN, the infinities and integers that a double does not hold have no canonical form."""
    for value in (number, 10**5000, [number], {"a": {"b": number}}):
        with pytest.raises(CanonicalError):
            canonical(value)


@pytest.mark.parametrize("number", [SAFE_INTEGER, -SAFE_INTEGER, 1.5, 1e300])
def test_numbers_with_a_form_are_not(number):
    """The largest integers that a double holds, and any finite double, have one."""
    assert json.loads(canonical([number])) == [number]


def test_the_example_of_the_rfc():
    """The object of RFC 8785, section 3.2.2, gives the bytes of section 3.2.4."""
    value = json.loads(
        r"""{
        "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
        "literals": [null, true, false]
        }"""
    )
    expected = (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )

    assert canonical(value) == expected.encode()


def test_the_sorting_example_of_the_rfc():
    """The keys of RFC 8785, section 3.2.3, are in the order of their UTF-16 code units."""
    value = json.loads(
        r"""{"\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh",
        "1": "One", "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control",
        "\u00f6": "Latin Small Letter O With Diaeresis"}"""
    )
    order = ["Carriage Return", "One", "Control", "Latin Small Letter O With Diaeresis", "Euro Sign"]

    assert list(json.loads(canonical(value)).values()) == [
        *order,
        "Emoji: Grinning Face",
        "Hebrew Letter Dalet With Dagesh",
    ]


def test_every_control_character_is_written_as_the_rfc_says():
    """Below the space: the five short escapes, else four lowercase digits; above it, only quote and backslash."""
    short = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
    for code in range(0x100):
        character = chr(code)
        written = short.get(character, f"\\u{code:04x}" if code < 0x20 else character)
        assert canonical(character) == f'"{written}"'.encode()
        assert canonical({character: 1}) == f'{{"{written}":1}}'.encode()


@pytest.mark.parametrize(
    "wrap", [lambda v: [v], lambda v: {"a": v}, lambda v: (v,), lambda v: {"é": v}, lambda v: [0.5, v]]
)
def test_depth_is_bounded(wrap):
    """A value may be nested 64 levels deep and no deeper, in either encoder, at any depth."""
    value: Any = "x"
    for _ in range(MAX_DEPTH):
        value = wrap(value)

    assert canonical(value) == rfc8785.dumps(value)
    for depth in (1, 1000, 100_000):
        for _ in range(depth):
            value = wrap(value)
        with pytest.raises(CanonicalError, match="nested deeper than 64"):
            canonical(value)


def test_a_value_that_contains_itself_is_refused():
    """A cycle is nested too deeply, whatever it is made of."""
    cycle: list[Any] = []
    cycle.extend([1, cycle, cycle])

    for value in (cycle, {"a": cycle}, (cycle,)):
        with pytest.raises(CanonicalError):
            canonical(value)


@given(value=st.lists(VALUES, max_size=4))
def test_a_tuple_is_a_list(value):
    """Python's tuples are written as the lists that they stand for."""
    assert ours(tuple(value)) == ours(value)


def test_the_digest_is_that_of_the_bytes():
    """H is the sha-256 of the canonical bytes in lowercase hexadecimal; key order does not matter, values do."""
    assert digest({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    assert digest({"b": 1, "a": [2.0]}) == digest({"a": [2], "b": 1})
    assert digest({"a": 1}) != digest({"a": "1"})
