"""What a plane says is read in the words that commands know, or refused by an error of ours."""

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipstaff.errors import InputError
from tipstaff.remote import outcomes, shapes

RUN = "run_00000000-0000-4000-8000-000000000001"
LINE = {"runId": RUN, "status": "created", "createdAt": "2026-01-01T00:00:00.000Z", "requestedBy": {"id": "ana"}}
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*LINE, "id", "execution"]), inner),
    max_leaves=12,
)


def test_an_older_plane_says_less():
    """A line without our own fields gets their plain meaning."""
    line = shapes.line_of(LINE)

    assert (line["id"], line["principal"], line["door"], line["updatedAt"]) == (
        RUN,
        "ana",
        "http",
        LINE["createdAt"],
    )


def test_requirements_come_back_as_objects():
    """What the wire calls `requirements` is what commands know as the requirements of consent."""
    wanted = [{"rule": "look", "approvers": ["boris"]}]

    assert (
        shapes.line_of({**LINE, "consentRequirements": ["look"], "requirements": wanted})["consentRequirements"]
        == wanted
    )


@given(VALUES)
def test_any_line_is_read_or_refused(value):
    """No JSON value is anything but a line, everything about a run, what waits, or an InputError."""
    whole = partial(shapes.run_of, run_id=RUN)
    for read in (shapes.line_of, whole, shapes.waiting_of, shapes.contract_of, shapes.receipt_of):
        try:
            read(value)
        except InputError:
            continue


@given(VALUES)
def test_any_decision_is_read(value):
    """Whatever a plane says of its decision, something can be told of it."""
    decided = outcomes.Decided({"decision": value, "rules": value, "reasons": value, "policy": value})

    assert decided.effect in {"allow", "ask", "deny"}
    assert all(isinstance(one, str) for one in (decided.policy, *decided.rules, *decided.reasons))


@pytest.mark.parametrize(
    ("execution", "known"),
    [
        ({"kind": "argv", "command": "echo", "args": ["hi"]}, True),
        ({"kind": "argv", "command": "echo", "args": [5]}, False),
        ({"kind": "argv", "command": 5}, False),
        ({"kind": "shell", "script": "echo"}, True),
        ({"kind": "shell"}, False),
        ({"kind": "agent", "agent": {"kind": "mock"}, "prompt": "x"}, True),
        ({"kind": "agent", "agent": {}, "prompt": "x"}, False),
        ({"kind": "other"}, False),
        (None, False),
    ],
)
def test_what_would_run_is_shown_only_if_it_is_known(execution, known):
    """An execution of no known form is shown as unknown, and breaks nothing."""
    assert bool(shapes.execution_of(execution)) is known


@pytest.mark.parametrize("same", [True, False])
def test_a_contract_is_shown_with_its_own_hash(same):
    """What waits for approval is refused where the hash to be signed is not that of the contract that is shown."""
    value = {"contract": {"a": 1}, "contractHash": shapes.hash_of({"a": 1}) if same else "0" * 64}

    with pytest.raises(InputError) as caught:
        shapes.waiting_of(value)

    assert ("another contract" in str(caught.value)) is not same
