"""The public names are these and no others."""

from importlib import import_module

import pytest

import tipstaff

PUBLIC = {
    "Box": "tipstaff.doors.python",
    "Decision": "tipstaff.model",
    "Outcome": "tipstaff.model.outcome",
    "Policy": "tipstaff.policy",
    "Problem": "tipstaff.evidence",
    "Report": "tipstaff.evidence",
    "Request": "tipstaff.model",
    "TipstaffError": "tipstaff.errors",
    "arun": "tipstaff.doors.python",
    "decide": "tipstaff.policy",
    "load_policy": "tipstaff.policy",
    "open": "tipstaff.doors.python",
    "parse_request": "tipstaff.model",
    "run": "tipstaff.doors.python",
    "verify": "tipstaff.evidence",
}


def test_the_list_is_exact():
    """A new public name is a promise: it is added here too, on purpose."""
    assert tipstaff.__all__ == sorted([*PUBLIC, "__version__"])


@pytest.mark.parametrize(("name", "home"), PUBLIC.items())
def test_each_name_resolves(name, home):
    """Each public name is the object of the same name in its own module, and completion finds it."""
    assert getattr(tipstaff, name) is getattr(import_module(home), name)
    assert name in dir(tipstaff)


def test_other_names_are_refused():
    """A name that is not public is an AttributeError, as in any module."""
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        tipstaff.nothing  # noqa: B018 - looking it up is the test
