"""Decisions and proofs take their clock and randomness as arguments.

Import-linter keeps whole modules out (see pyproject.toml); this looks for calls into modules that have other uses.
"""

import ast

import pytest

PURE = ("src/tipstaff/canonical.py", "src/tipstaff/evidence/", "src/tipstaff/model/", "src/tipstaff/policy/")
IMPURE = {"now", "today", "urandom", "utcnow"}


def impure(text: str) -> list[str]:
    """Find the places in `text` that ask the machine for the time or for randomness."""
    nodes = list(ast.walk(ast.parse(text)))
    found = [
        f"{node.attr} in line {node.lineno}"
        for node in nodes
        if isinstance(node, ast.Attribute) and node.attr in IMPURE
    ]
    imported = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    return found + [
        f"{alias.name} in line {node.lineno}" for node in imported for alias in node.names if alias.name in IMPURE
    ]


def test_the_core_asks_for_no_clock(python):
    """No module of policy, evidence, model or canonical reads the machine's clock or its randomness."""
    pure = {name: text for name, text in python.items() if name.startswith(PURE)}

    assert len(pure) > len(PURE)
    assert {name: found for name, text in pure.items() if (found := impure(text))} == {}


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("datetime.now(UTC)", False),
        ("datetime.datetime.utcnow()", False),
        ("date.today()", False),
        ("read = datetime.now", False),
        ("from os import urandom", False),
        ("datetime.fromisoformat(text)", True),
        ("decide(request, now=now)", True),
    ],
)
def test_a_clock_is_recognised(text, accepted):
    """The check above tells a clock that is read from one that is passed in."""
    assert (impure(text) == []) is accepted
