"""Reading: strict JSON, one array element at a time, or one clear error."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipstaff.errors import InputError
from tipstaff.evidence.reading import json_object, read_body, read_object, typed
from tipstaff.model.noun import Actor

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=20,
)


def read(text):
    """Read a text with one sink, and give what came out of both."""
    taken: list[Any] = []
    return read_object(text.encode(), {"events": taken.append}), taken


@given(
    document=st.dictionaries(st.text(), JSON),
    indent=st.none() | st.integers(0, 3) | st.sampled_from(["\t", " \r\n"]),
    ascii_only=st.booleans(),
)
def test_what_json_reads_is_read_the_same(document, indent, ascii_only):
    """Every JSON object is read as Python's own reader does, whatever its spelling."""
    document.pop("events", None)

    assert read(json.dumps(document, indent=indent, ensure_ascii=ascii_only)) == (document, [])


@given(events=st.lists(JSON), before=JSON, after=JSON, indent=st.none() | st.just(2))
def test_a_sink_gets_each_element(events, before, after, indent):
    """The elements of a named array go to its sink in order, and leave an empty array behind."""
    text = json.dumps({"a": before, "events": events, "b": after}, indent=indent)

    assert read(text) == ({"a": before, "events": [], "b": after}, events)


@pytest.mark.parametrize("value", [None, 1, "x", {"a": 1}, True])
def test_only_an_array_goes_to_a_sink(value):
    """Anything else under that name stays where it is, and so does the name inside another object."""
    assert read(json.dumps({"events": value})) == ({"events": value}, [])
    assert read(json.dumps({"x": {"events": [1]}})) == ({"x": {"events": [1]}}, [])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "not a JSON object"),
        ("[]", "not a JSON object"),
        ("null", "not a JSON object"),
        ("\ufeff{}", "not a JSON object"),
        ("{", "not JSON"),
        ('{"a"}', "expected ':'"),
        ('{"a" 1}', "expected ':'"),
        ('{"a":1 "b":2}', "expected ',' or '}'"),
        ('{"a":1,}', "not JSON"),
        ("{,}", "not JSON"),
        ("{1:2}", "a key must be a string"),
        ('{"events":[1 2]}', "expected ',' or ']'"),
        ('{"events":[1,]}', "not JSON"),
        ('{"events":[}', "not JSON"),
        ('{"a":1}x', "something follows"),
        ('{"a":1}{}', "something follows"),
        ('{"a":NaN}', "NaN is not JSON"),
        ('{"a":[Infinity]}', "Infinity is not JSON"),
        ('{"a":-Infinity}', "-Infinity is not JSON"),
        ('{"a":1,"a":1}', "'a' stands twice"),
        ('{"a":1,"\\u0061":2}', "'a' stands twice"),
        ('{"events":[],"events":[]}', "'events' stands twice"),
        ('{"x":{"b":1,"b":1}}', "'b' stands twice"),
        ('{"events":[{"c":1,"c":1}]}', "'c' stands twice"),
        ('{"a":' + "1" * 5000 + "}", "number that is too long"),
        ('{"a":' + "[" * 100_000, "nested too deeply"),
        ('{"events":' + "[" * 100_000, "nested too deeply"),
        ('{"a":"\t"}', "not JSON"),
        ('{"a":01}', "expected ',' or '}'"),
        ("{'a':1}", "not JSON"),
        ('{"a":1}//', "something follows"),
        ('{"a":tru}', "not JSON"),
        ('{"a":"\\x"}', "not JSON"),
        ('{"a":\u00a01}', "not JSON"),
    ],
)
def test_what_is_not_json_is_an_error(text, complaint):
    """Each way of not being one JSON object is told by one sentence."""
    with pytest.raises(InputError) as caught:
        read(text)
    assert complaint in caught.value.message


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "latin-1"])
def test_only_utf_8_is_read(encoding):
    """Other encodings are refused with the place of the first byte that does not fit."""
    with pytest.raises(InputError, match=r"not UTF-8|not a JSON object"):
        read_object('{"é":1}'.encode(encoding), {})
    assert read_object('{"é":1}'.encode(), {}) == {"é": 1}


ODD = {"tuple": (1,), "bytes": b"x", "set": {1}, "complex": 1j, "object": object()}


@pytest.mark.parametrize(
    ("value", "complaint"), [*((value, name) for name, value in ODD.items()), ({1: 1}, "string"), ({b"a": 1}, "string")]
)
def test_what_a_caller_parsed_must_be_json(value, complaint):
    """A document that is given as a mapping may hold only what a JSON text could have given."""
    for place in ({"a": value}, {"a": [value]}, {"a": {"b": [{"c": value}]}}):
        with pytest.raises(InputError, match=complaint):
            json_object(place)
    assert json_object({"a": [1, 1.5, True, None, "x", {"b": []}]}) == {"a": [1, 1.5, True, None, "x", {"b": []}]}


@pytest.mark.parametrize("value", ["\ud800", {"kind": "human", "id": 1}, {"kind": "\ud800", "id": "x"}, {}, [], None])
def test_a_view_fits_or_is_an_error(value):
    """A value that does not fit a noun gives our own error, with half a character in it too."""
    with pytest.raises(InputError):
        typed(value, Actor)
    assert typed({"kind": "human", "id": "x", "more": 1}, Actor) == Actor(kind="human", id="x")


@pytest.mark.parametrize("half", [r"\ud800", r"\uDC00", r"\ud83dx", r"\ud83d\ud83d", r"\ude00\ud83d"])
@pytest.mark.parametrize("place", ['{"a":"%s"}', '{"%s":1}', '{"a":[1,{"b":["%s"]}]}', '{ "a" : "%s" }'])
def test_half_a_character_is_refused_in_a_body_and_judged_elsewhere(place, half):
    """A body with a lone surrogate anywhere is an error; a document that is only judged may have one."""
    with pytest.raises(InputError, match="lone surrogate"):
        read_body((place % half).encode())

    assert read_object((place % half).encode(), {})


@given(document=st.dictionaries(st.text(), JSON), ascii_only=st.booleans())
def test_a_body_of_whole_characters_is_read(document, ascii_only):
    """Whatever the spelling, escapes of whole characters and texts that look like escapes are no reason to refuse."""
    document["escaped"] = "\\ud800 \U0001f600"

    assert read_body(json.dumps(document, ensure_ascii=ascii_only).encode()) == document


def test_a_body_has_only_so_many_values(monkeypatch):
    """Values are counted before any is built: one too many is refused, as many as may be are read."""
    monkeypatch.setattr("tipstaff.evidence.reading.MOST_VALUES", 100)

    assert len(read_body(b'{"a":[%s]}' % b",".join([b"{}"] * 49))["a"]) == 49
    with pytest.raises(InputError, match="more than 100 values"):
        read_body(b'{"a":[%s]}' % b",".join([b"{}"] * 51))
