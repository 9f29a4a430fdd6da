"""An id is a kind and a UUID; what a verifier reads is at least a plain name."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipstaff.model.contract import RunId
from tipstaff.model.ids import is_refusal_id, is_run_id

WHOLE = "run_00000000-0000-4000-8000-000000000001"


def test_a_whole_id_is_one():
    """An id as planes make them is taken, each kind as itself."""
    assert is_run_id(WHOLE)
    assert is_refusal_id("ref" + WHOLE[3:])
    assert not is_refusal_id(WHOLE)
    assert not is_run_id("ref" + WHOLE[3:])


@pytest.mark.parametrize("name", [WHOLE[:-1], WHOLE + "0", WHOLE + "\n", WHOLE.upper(), "../" + WHOLE, "", None, 5])
def test_anything_else_is_none(name):
    """What is shorter, longer, a path or no text is no id."""
    assert not is_run_id(name)


@given(st.text())
def test_no_text_that_leads_elsewhere_is_an_id(name):
    """Whatever is an id has no slash and no dot in it."""
    assert not (is_run_id(name) and set(name) & set("/.\0"))


@pytest.mark.parametrize(
    ("name", "fits"),
    [(WHOLE, True), ("run_other", True), ("run_" + "x" * 129, False), ("run_", False), ("other", False),
     ("run_../x", False), ("../run_x", False), ("run_x\n", False), ("run_ü", False)],
)  # fmt: skip
def test_a_document_names_a_run_plainly(name, fits):
    """A contract or a receipt with a run id of other characters does not read."""
    if fits:
        assert msgspec.convert(name, RunId) == name
    else:
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(name, RunId)
