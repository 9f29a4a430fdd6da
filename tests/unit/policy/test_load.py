"""Claims about reading a policy file: what is wrong is said with its line and column."""

from pathlib import Path

import pytest

from tipstaff.errors import NotFoundError, PolicyError
from tipstaff.policy import Facts, load_policy, parse_policy

HEAD = "version: tipstaff.policy.v1\nname: test\n"


def test_a_policy_is_read_from_text_bytes_or_a_file(tmp_path):
    """Text, bytes and a file with the same content are the same policy."""
    file = tmp_path / "policy.yaml"
    file.write_text(HEAD)

    assert load_policy(HEAD).hash == load_policy(HEAD.encode()).hash == load_policy(file).hash
    assert load_policy(file).source == str(file)
    assert load_policy(HEAD, name="mine").source == "mine"


def test_the_hash_covers_values_and_not_spelling():
    """Comments and style do not change a policy's hash; a value does."""
    assert (
        load_policy(HEAD).hash
        == load_policy('{"name": "test", "version": "tipstaff.policy.v1"}').hash
        == load_policy("# x\n" + HEAD).hash
    )
    assert load_policy(HEAD).hash != load_policy(HEAD + "safe_mode: true\n").hash


def test_an_empty_policy_grants_nothing():
    """Every section that a file leaves out is the narrower thing."""
    document = load_policy(HEAD).document

    assert not document.principals + document.rules + document.secrets + document.network.hosts
    assert document.network.default_deny
    assert document.files.workspaces == document.files.in_place == document.files.readable == ()
    assert document.env.inherit == ()
    assert document.tiers.fallback is None
    assert "full" not in document.disclosure


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("alow: []\n", 3, 1, "unknown key `alow`; known keys"),
        ("rulez: []\n", 3, 1, "unknown key `rulez`; did you mean `rules`?"),
        ("network:\n  hots: []\n", 4, 3, "did you mean `hosts`?"),
        ("safe_mode: maybe\n", 3, 12, "Expected `true` or `false`, got text"),
        ("rules: 5\n", 3, 8, "Expected a list, got a whole number"),
        ("limits: {time: {max: 10}}\n", 3, 22, "write `10s`"),
        ("limits: {memory: {max: lots}}\n", 3, 24, "a size such as"),
        ("tiers: {tolerate: {dsk: weaker}}\n", 3, 20, "did you mean `disk`?"),
        ("tiers: {tolerate: {disk: weeker}}\n", 3, 26, "did you mean `weaker`?"),
        ("rules:\n  - {id: a, effect: alow, when: any}\n", 4, 21, "did you mean `allow`?"),
        ("rules:\n  - {id: a, effect: allow}\n", 4, 5, "the key `when` is missing"),
        ("rules:\n  - {id: A b, effect: allow, when: any}\n", 4, 10, "lower-case"),
        ("rules:\n  - {id: a, effect: allow, when: {argv: []}}\n", 4, 41, "length >= 1"),
        ("rules:\n  - {id: a, effect: allow, when: {kinds: [argw]}}\n", 4, 43, "did you mean `argv`?"),
    ],
)
def test_a_fault_has_its_place(text, line, column, words):
    """An unknown key, a wrong type or a bad unit is said with the line and column where it stands."""
    with pytest.raises(PolicyError) as caught:
        parse_policy(HEAD + text, "policy.yaml")

    assert (caught.value.line, caught.value.column) == (line, column)
    assert words in str(caught.value)
    assert str(caught.value).startswith(f"policy.yaml:{line}:{column}: ")


@pytest.mark.parametrize("text", ["", "[]", "5", "version: tipstaff.policy.v2\nname: x\n", "name: x\n"])
def test_what_is_no_policy_is_an_error(text):
    """An empty file, a list, a number or another version is refused."""
    with pytest.raises(PolicyError):
        parse_policy(text)


def test_a_file_that_is_not_there_is_said_so(tmp_path):
    """A missing file is an error of its own, and never an empty policy."""
    with pytest.raises(NotFoundError, match="no policy file"):
        load_policy(tmp_path / "none.yaml")


@pytest.mark.parametrize("content", [b"\xff\xfe", b"name: x\n\xff"])
def test_what_is_not_text_is_an_error(content, tmp_path):
    """Bytes that are not UTF-8 are refused with their place."""
    file = tmp_path / "policy.yaml"
    file.write_bytes(content)

    with pytest.raises(PolicyError, match="UTF-8"):
        load_policy(Path(file))


def test_facts_are_not_in_the_file():
    """A policy cannot say what was proved: facts stand only in its examples."""
    with pytest.raises(PolicyError, match="unknown key `facts`"):
        parse_policy(HEAD + "facts: {toolBound: true}\n")
    assert Facts() == Facts(authenticated=None, tool_bound=False, tiers=(), protected=())
