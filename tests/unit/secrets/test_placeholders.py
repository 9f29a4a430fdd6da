"""Claims about placeholders."""

import base64
import itertools
import json
import os
import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipstaff.secrets.placeholders import ALPHABETS, MIN_RANDOM, PREFIXES, placeholder_for, placeholders_for
from tipstaff.secrets.redact import fault_of

BASE62 = string.ascii_letters + string.digits


def text(alphabet: str, length: int) -> str:
    """Some text that is the same in every run."""
    return "".join(random.Random(alphabet).choices(alphabet, k=length))  # noqa: S311 - examples, no keys


KEYS = {  # what keys of these vendors look like; none of them is one
    "sk-ant-api03-": text(BASE62 + "-_", 95),
    "sk-proj-": text(BASE62 + "-_", 156),
    "sk-": text(BASE62, 48),
    "ghp_": text(BASE62, 36),
    "github_pat_": text(BASE62 + "_", 82),
    "glpat-": text(BASE62 + "-_", 20),
    "xoxb-": text(string.digits + "-" + BASE62, 50),
    "AKIA": text(string.ascii_uppercase + "234567", 16),
    "hf_": text(string.ascii_letters, 34),
    "npm_": text(BASE62, 36),
    "pypi-": text(BASE62 + "-_", 150),
    "": text("0123456789abcdef", 40),
}


def seeded(seed: int):
    return random.Random(seed).randbytes  # noqa: S311 - the same in every run


@pytest.mark.parametrize("prefix", KEYS)
def test_a_placeholder_looks_like_the_vendor_s_keys(prefix):
    """It has the prefix, the length and the letters of the value."""
    value = prefix + KEYS[prefix]
    placeholder = placeholder_for(value, os.urandom)

    assert placeholder != value
    assert placeholder.startswith(prefix)
    assert len(placeholder) == len(value)
    assert any(set(KEYS[prefix]) | set(placeholder[len(prefix) :]) <= set(letters) for letters in ALPHABETS)


@pytest.mark.parametrize("prefix", KEYS)
@pytest.mark.parametrize("alphabet", ALPHABETS)
def test_nothing_else_of_the_value_is_told(prefix, alphabet):
    """Two values of the same prefix, length and letters get the same placeholder from the same randomness."""
    one, other = (prefix + 2 * alphabet, prefix + 2 * alphabet[::-1])

    assert placeholder_for(one, seeded(1)) == placeholder_for(other, seeded(1))


@given(st.text(min_size=8, max_size=80), st.integers())
def test_any_value_gets_a_placeholder_that_can_be_found(value, seed):
    """Whatever the value is, its placeholder is plain, long enough to be met nowhere by chance, and not the value."""
    placeholder = placeholder_for(value, seeded(seed))

    assert placeholder.isascii()
    assert placeholder.isprintable()
    assert len(placeholder) >= max(MIN_RANDOM, min(len(value), 80))
    assert fault_of(placeholder) is None


@pytest.mark.parametrize("length", range(96, 104))
def test_a_token_can_be_read(length):
    """In the place of a JSON Web Token stands one that programs can decode, of the same length."""
    value = "eyJhbGciOiJSUzI1NiJ9." + "e30" + "." + "x" * (length - 25)
    placeholder = placeholder_for(value, os.urandom)
    head, claims, signature = placeholder.split(".")

    assert len(placeholder) == len(value)
    assert json.loads(base64.urlsafe_b64decode(head + "==")) == {"alg": "HS256"}
    assert list(json.loads(base64.urlsafe_b64decode(claims + "=="))) == ["sub"]
    assert len(base64.urlsafe_b64decode(signature + "==")) >= 31


def test_no_two_secrets_share_a_placeholder():
    """Also where randomness repeats itself, each secret has a placeholder of its own."""
    blocks = itertools.chain.from_iterable(itertools.repeat(seeded(number)(80), 2) for number in range(50))

    made = placeholders_for({"A": "a" * 40, "B": "b" * 40, "C": "c" * 40}, lambda _: next(blocks))

    assert len(set(made.values())) == 3


def test_a_placeholder_is_no_value():
    """Randomness that happens to give a value is asked again."""
    digits = "12345678901234567890"
    blocks = iter([bytes(ord(digit) - ord("0") for digit in digits) * 2, seeded(1)(40)])

    assert placeholders_for({"A": digits}, lambda _: next(blocks))["A"] != digits


@pytest.mark.parametrize("value", [*PREFIXES, ""])
def test_a_prefix_alone_is_a_value(value):
    """A value that is nothing but a prefix is not told by its placeholder."""
    assert not value or value not in placeholders_for({"A": value}, seeded(3))["A"]


def test_randomness_is_used_evenly():
    """Every letter is about as likely as every other one."""
    picked = placeholder_for("x" + "9" * 100_000, seeded(2))
    counts = [picked.count(letter) for letter in string.ascii_lowercase + string.digits]

    assert max(counts) < 1.1 * min(counts)


def test_prefixes_are_in_order():
    """The list is sorted and has nothing twice, so that it can be read and added to."""
    assert list(PREFIXES) == sorted(set(PREFIXES))
