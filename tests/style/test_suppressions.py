"""A check is silenced only with its code and a reason; nothing in the tests is patched from outside."""

import ast
import io
import re
import tokenize

import pytest

SILENCING = re.compile(r"#\s*(noqa|type:\s*ignore|ruff:|mypy:|pyright:|pylint:|pragma:)", re.IGNORECASE)
REASONED = re.compile(r"# (noqa: [A-Z]+\d+(, ?[A-Z]+\d+)*|type: ignore\[[\w-]+(, ?[\w-]+)*\])  ?(-|#) ?\S.{6,}")


def unreasoned(text: str) -> list[str]:
    """Find the comments in `text` that silence a check without a code and a reason."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
    return [comment for comment in comments if SILENCING.search(comment) and not REASONED.match(comment)]


def patches(text: str) -> list[str]:
    """Find the imports in `text` of anything that replaces parts of other modules."""
    nodes = list(ast.walk(ast.parse(text)))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [
        f"{node.module}.{alias.name}" for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names
    ]
    foreign = [name for name in names if not name.startswith("tipstaff.")]  # an agent of ours has that name
    return [name for name in foreign if {"mock", "pytest_mock"} & set(name.split("."))]


def test_every_suppression_has_a_code_and_a_reason(python):
    """A silenced check says which one it is, and why, on the same line."""
    assert {name: found for name, text in python.items() if (found := unreasoned(text))} == {}


@pytest.mark.parametrize(
    ("comment", "accepted"),
    [
        ("# noqa: S603 - the program is ours", True),
        ("# type: ignore[arg-type]  # the stub lacks unions", True),
        ("# noqa: S603", False),
        ("# noqa", False),
        ("# type: ignore  # because", False),
        ("# type: ignore[arg-type]", False),
        ("# ruff: noqa", False),
        ("# an ordinary comment", True),
    ],
)
def test_a_suppression_is_recognised(comment, accepted):
    """The check above tells a reasoned suppression from a bare one."""
    assert (unreasoned(f"x = 1  {comment}\n") == []) is accepted


def test_nothing_is_mocked(python):
    """Tests use shipped fakes and real programs: nobody imports a library that patches other modules."""
    assert {name: found for name, text in python.items() if (found := patches(text))} == {}


@pytest.mark.parametrize(
    "line", ["from unittest import mock", "import unittest.mock", "from unittest.mock import patch"]
)
def test_a_mock_is_recognised(line):
    """The check above sees every way to import the library."""
    assert patches(line) != []
