"""Nouns: their spelling on the wire, and their digest."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipstaff.canonical import digest
from tipstaff.errors import CanonicalError
from tipstaff.model import Actor, Argv, Budget, Environment, Request, parse_request
from tipstaff.model.noun import noun_digest, to_wire

numbers = st.none() | st.integers(0, 10**20) | st.floats(min_value=0, allow_nan=False, allow_infinity=False)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(["1.5", "1e9", "9" * 20, "é"])
values = st.recursive(
    text | st.integers(-9, 9) | st.floats(-1e6, 1e6) | st.booleans() | st.none(), st.lists, max_leaves=5
)


@st.composite
def requests(draw):
    """Requests with whatever may stand in them."""
    return Request(
        requested_by=Actor(kind="human", id=draw(text) or "x"),
        purpose=draw(text),
        budget=Budget(max_spend_usd=draw(numbers)),
        workspace=draw(st.none() | st.dictionaries(text, values, max_size=4)),
        execution=Argv(
            command="x", args=tuple(draw(st.lists(text))), env=Environment(vars=draw(st.dictionaries(text, text)))
        ),
    )


@given(requests())
def test_the_fast_digest_is_the_digest_of_the_wire(request):
    """The digest of a noun is H of its wire form, and what has none in one way has none in the other."""
    try:
        expected = digest(to_wire(request))
    except CanonicalError:
        with pytest.raises(CanonicalError):
            noun_digest(request)
    else:
        assert noun_digest(request) == expected


@given(requests())
def test_equal_nouns_have_one_spelling(request):
    """A noun that went over the wire and back is equal, and so is its digest."""
    if request.budget.max_spend_usd is not None and request.budget.max_spend_usd > 2**53:
        return  # JSON readers differ there, and no digest exists
    again = parse_request(json.loads(msgspec.json.encode(request)))

    assert again == request
    assert noun_digest(again) == noun_digest(request)


def test_a_default_said_aloud_is_the_same():
    """Saying what would be assumed anyway changes no digest; saying something else does."""
    actor = {"kind": "human", "id": "me"}
    silent = {"requestedBy": actor, "execution": {"kind": "argv", "command": "ls"}}
    aloud = {"requestedBy": actor, "execution": {"kind": "argv", "command": "ls", "cwd": ".", "env": {}}}
    other = {"requestedBy": actor, "execution": {"kind": "argv", "command": "ls", "cwd": "src"}}

    assert noun_digest(parse_request(silent)) == noun_digest(parse_request(aloud))
    assert noun_digest(parse_request(silent)) != noun_digest(parse_request(other))


def test_half_a_character_has_no_digest():
    """A lone surrogate is refused with our own error."""
    with pytest.raises(CanonicalError, match="lone surrogate"):
        noun_digest(Actor(kind="human", id="\ud800"))
