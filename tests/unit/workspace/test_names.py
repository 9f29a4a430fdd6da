"""File names as records spell them."""

import base64
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipstaff.errors import InputError
from tipstaff.model import names

ANY = st.lists(st.binary(min_size=1, max_size=20), min_size=1, max_size=4).map(b"/".join)
GOOD = ANY.filter(lambda name: not names.fault(name))


@given(name=GOOD)
def test_every_name_comes_back_from_its_spelling(name):
    """What `spelled` writes, `read` gives back, byte for byte."""
    assert names.read(names.spelled(name)) == name
    assert names.read(names.spelled(name, "from"), "from") == name


@given(name=ANY)
def test_a_name_has_its_bytes_beside_it_only_where_it_is_no_text(name):
    """UTF-8 is a text alone; anything else stands beside it in base64."""
    try:
        assert names.spelled(name) == {"path": name.decode()}
    except UnicodeDecodeError:
        assert names.spelled(name) == {"path": names.shown(name), "pathBytes": base64.b64encode(name).decode()}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (b"", "empty"),
        (b"/etc/passwd", "absolute"),
        (b"a//b", "empty"),
        (b"a/", "empty"),
        (b"..", "by way of"),
        (b"a/../b", "by way of"),
        (b"./a", "by way of"),
        (b"a\0b", "NUL"),
        (b"a" * 256, "255"),
        (b"a/" * 2048 + b"a", "4095"),
    ],
)
def test_what_cannot_lie_beneath_a_folder_has_a_fault(name, said):
    """Each kind of bad name is told, and is no name in a record either."""
    assert said in names.fault(name)
    with pytest.raises(InputError):
        names.read({"path": name.decode()})


@pytest.mark.parametrize("name", [b"a", b"a/b", b"...", b"..a", b"a..", b"a b", b"\xff", b"a\nb", b"~", b"a" * 255])
def test_what_can_lie_beneath_a_folder_has_none(name):
    """Names that only look like bad ones are good."""
    assert names.fault(name) == ""


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"path": 1},
        {"path": None},
        {"path": ["a"]},
        {"path": "\ud800"},
        {"path": "a", "pathBytes": base64.b64encode(b"b").decode()},
        {"path": "a", "pathBytes": base64.b64encode(b"a").decode()},
        {"path": "\\xff", "pathBytes": "/w"},
        {"path": "\\xff", "pathBytes": 1},
        {"path": "x", "pathBytes": "é"},
        {"path": "..\\xff", "pathBytes": base64.b64encode(b"../\xff").decode()},
    ],
)
def test_a_record_without_one_name_is_an_input_error(said):
    """No text, no base64, or two spellings of different names: none of it is a name."""
    with pytest.raises(InputError):
        names.read(said)


@given(said=st.fixed_dictionaries({}, optional={"path": st.text() | st.integers(), "pathBytes": st.text() | st.none()}))
def test_any_record_is_read_or_refused(said):
    """Reading gives a name without a fault, or raises InputError."""
    with contextlib.suppress(InputError):
        assert names.fault(names.read(said)) == ""
