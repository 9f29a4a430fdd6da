"""Every test says in one sentence what it claims."""

import ast

import pytest


def claimless(text: str) -> list[str]:
    """Find the test functions in `text` whose docstring is no sentence."""
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [
        node.name for node in functions if node.name.startswith("test_") and not is_sentence(ast.get_docstring(node))
    ]


def is_sentence(docstring: str | None) -> bool:
    """Say whether a docstring starts with a capital and ends with a full stop."""
    return docstring is not None and docstring[:1].isupper() and docstring.endswith(".")


def test_every_test_is_a_claim(python):
    """Every test function has a docstring that starts with a capital and ends with a full stop."""
    tests = {name: text for name, text in python.items() if name.startswith("tests/")}

    assert {name: found for name, text in tests.items() if (found := claimless(text))} == {}


@pytest.mark.parametrize(
    ("docstring", "accepted"),
    [('"""It holds."""', True), ('"""it holds."""', False), ('"""It holds"""', False), ("0", False)],
)
@pytest.mark.parametrize("keyword", ["def", "async def"])
def test_a_claim_is_recognised(keyword, docstring, accepted):
    """The check above tells a sentence from anything else."""
    assert (claimless(f"{keyword} test_it():\n    {docstring}\n") == []) is accepted
