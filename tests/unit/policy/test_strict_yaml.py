"""Claims about the strict reader: what it takes, what it refuses and where it says things stand."""

import json
import unicodedata

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tipstaff.errors import PolicyError
from tipstaff.policy.strict_yaml import MAX_BYTES, SAFE_INTEGER, _Reader, read

ACCEPTED = [
    ("a: 1", {"a": 1}),
    ("a: -0.5", {"a": -0.5}),
    ("a: 1e3", {"a": 1000.0}),
    (f"a: {SAFE_INTEGER}", {"a": SAFE_INTEGER}),
    ("a: true\nb: false", {"a": True, "b": False}),
    ("a: [no, yes, on, off, y, n]", {"a": ["no", "yes", "on", "off", "y", "n"]}),
    ("a: 2024-01-01\nb: 12:30:45\nc: 8080:80", {"a": "2024-01-01", "b": "12:30:45", "c": "8080:80"}),
    ('a: "*"\nb: \'&x\'\nc: "!t"\nd: "<<"', {"a": "*", "b": "&x", "c": "!t", "d": "<<"}),
    ('a: ["010", "0x1f", "1_000", "True", "null", "+1"]', {"a": ["010", "0x1f", "1_000", "True", "null", "+1"]}),
    ('"1": a\n"true": b', {"1": "a", "true": "b"}),
    ("---\na: 1\n...\n", {"a": 1}),
    ("a:\r\n- b\r\n- c: 1\r\n", {"a": ["b", {"c": 1}]}),
    ("a: |\n  x\n  y\nb: >-\n  x\n  y\n", {"a": "x\ny\n", "b": "x y"}),
    ("a: 'x\n  y'", {"a": "x y"}),
    ("# only a comment before\na: 1 # and behind", {"a": 1}),
    ("a: x?\nb: 1", {"a": "x?", "b": 1}),
    ("{a: x?, b: 1}", {"a": "x?", "b": 1}),
    ("a: größe 😀", {"a": "größe 😀"}),
    ('{"a":"\\ud83d\\ude00\\/\\t","b":[1,2.5,true,{}],"c":[]}', {"a": "😀/\t", "b": [1, 2.5, True, {}], "c": []}),
    ("a: " + "[" * 31 + "]" * 31, None),
]  # fmt: skip

REFUSED = {
    "": "1:1: the file is empty",
    "# nothing": "1:1: the file is empty",
    "a: *x": "1:4: `*x` is an alias",
    "a: &x 1": "1:4: `&x` is an anchor",
    "a: !!str 1": "1:4: a tag",
    "a: !x 1": "1:4: a tag",
    "b: 1\n<<: {a: 1}": "2:1: `<<` (merge)",
    "a: 1\nb: 2\n'a': 3": "3:1: the key `a` stands here a second time, first in line 1",
    "{a: 1, a: 2}": "1:8: the key `a` stands here a second time",
    "1: a": "1:1: the key `1` is not text",
    "true: a": "1:1: the key `true` is not text",
    "[a]: b": "1:1: a key must be text",
    "{a: 1}: b": "1:1: a key must be text",
    "? a\n: b": "1:3: write the key as `key: value`",
    "a: 1\n? b\n: c": "2:3: write the key as `key: value`",
    "{? a : b}": "1:4: write the key as `key: value`",
    "a: [b: c]": "1:5: write a mapping inside brackets",
    "a:": "1:3: there is no value here",
    "a: [b, ~]": "1:8: `~` means no value",
    "a: Null": "1:4: `Null` means no value",
    "a:\n- b\n-": "3:2: there is no value here",
    "a: True": "lower case",
    "a: 010": "1:4: `010` is read differently",
    "a: 0o17": "is read differently",
    "a: 0x1f": "is read differently",
    "a: 1_000": "is read differently",
    "a: +1": "is read differently",
    "a: .5": "is read differently",
    "a: 5.": "is read differently",
    "a: .inf": "is read differently",
    "a: .NaN": "is read differently",
    "a: 9007199254740992": "1:4: the number is larger",
    "a: " + "9" * 5000: "1:4: the number is larger",
    "a: 1e999": "1:4: the number is larger",
    "a:\t1": "1:3: a tab",
    "a: 'x\ty'": "1:6: a tab",
    "a: x\x07": "1:5: a control character (U+0007)",
    "a: x\0": "1:5: a control character (U+0000)",
    "a: x\ry": "1:5: a control character (U+000D)",
    "a: x\x85y": "a control character (U+0085)",
    "a: 1\n# \u202e": "2:3: an invisible character (U+202E)",
    "a: x\u200by": "an invisible character (U+200B)",
    "a: x\u2028y": "a line separator (U+2028)",
    "a: x\ud800": "half a character",
    "\ufeffa: 1": "1:1: a byte order mark",
    "a: \ufffe": "this is not YAML",
    'a: "\\0"': "1:4: the text holds a NUL",
    'a: "\\ud800"': "1:4: the text holds half of a surrogate pair",
    'a: "\\UFFFFFFFF"': "this is not YAML",
    "a: 1\n---\nb: 2": "2:1: a second document",
    "%YAML 1.1\n---\na: 1": "1:1: a `%` directive",
    "%TAG ! !x\n---\na: 1": "1:1: a `%` directive",
    "a: [1, 2": "this is not YAML",
    '{"a": [1,]}': "this begins as JSON and is not",
    '{"a": 1} # text': "1:10: this begins as JSON and is not",
    '{"a": [\n1\n2]}': "3:1: this begins as JSON and is not",
    '{"a": ' + "[" * 50_000: "this is nested deeper",
    '{"a": 1, "a": 2}': "1:10: the key `a` stands here a second time",
    "a: b: c": "1:5: this is not YAML: mapping values are not allowed here",
    "a: " + "[" * 32 + "]" * 32: "1:35: this is nested deeper than 32 levels",
    "[" * 100_000: "1:33: this is nested deeper than 32 levels",
    "a: " + "x" * MAX_BYTES: "1:1: the file is larger than 1048576 bytes",
    "a: " + "é" * (MAX_BYTES // 2): "1:1: the file is larger than 1048576 bytes",
}


@pytest.mark.parametrize(("text", "value"), ACCEPTED)
def test_plain_values_are_read_as_they_look(text, value):
    """What has one meaning to every reader of YAML is read with that meaning."""
    tree = read(text, "policy.yaml")

    assert value is None or tree.value == value
    assert value is None or json.dumps(tree.value) == json.dumps(value)


@pytest.mark.parametrize(("text", "message"), REFUSED.items(), ids=range(len(REFUSED)))
def test_what_could_mean_something_else_is_refused(text, message):
    """A surprise is refused with the place and a sentence, and never with another error."""
    with pytest.raises(PolicyError) as caught:
        read(text, "policy.yaml")

    assert str(caught.value).startswith("policy.yaml:")
    assert message in str(caught.value)
    assert caught.value.line >= 1
    assert caught.value.column >= 1


def test_every_value_and_key_has_its_place():
    """The place of a value or of its key is where it stands in the text, in block and in flow."""
    text = "# head\nrules:\n  - id: one # first\n    when: {argv: [[git, 'st at']]}\nname: x\n"

    tree = read(text, "policy.yaml")

    def at(path):
        spot = tree.spot(path)
        return spot.line, spot.column, text[spot.start : spot.end], spot.block

    assert at(("rules", 0, "id")) == (3, 9, "one", False)
    assert at(("rules", 0)) == (3, 5, "id: one # first\n    when: {argv: [[git, 'st at']]}", True)
    assert at(("rules",))[:2] == (3, 3)
    assert at(("rules", 0, "when")) == (4, 11, "{argv: [[git, 'st at']]}", False)
    assert at(("rules", 0, "when", "argv", 0, 1)) == (4, 25, "'st at'", False)
    assert tree.key_spot(("rules", 0, "when"))[:2] == (4, 5)
    assert tree.key_spot(("name",))[:2] == (5, 1)


def test_what_is_not_there_has_its_parents_place():
    """A missing key is reported where the mapping that should hold it stands."""
    tree = read("a:\n  b: 1\n", "policy.yaml")

    assert tree.spot(("a", "c", "d")) == tree.spot(("a",))
    assert tree.key_spot(("a", "c")) == tree.spot(("a",))
    assert tree.node(("a", "c")) is None


@given(
    st.text(alphabet=st.one_of(st.sampled_from("ab: -[]{},#'\"\n*&!|>?%@\\0_1.eE+~<"), st.characters()), max_size=60)
)
def test_any_text_is_read_or_refused(text):
    """Whatever the text, the answer is a tree of plain values or a PolicyError with a place."""
    try:
        value = read(text, "policy.yaml").value
    except PolicyError as error:
        value = error.line

    assert value is not None
    json.dumps(value, allow_nan=False)


def shape(node):
    return node.kind, node.spot, node.flow, node.style, node.keys, {k: shape(v) for k, v in node.children.items()}


@given(st.text(alphabet="ab: -[]{},#'\"\n|>1", max_size=40).filter(lambda text: text.strip()))
def test_both_parsers_of_pyyaml_give_the_same_tree(text):
    """What both the C parser and the Python parser read has the same values at the same places."""
    try:
        fast = _Reader(text, "policy.yaml", yaml.CSafeLoader).document()
        slow = _Reader(text, "policy.yaml", yaml.SafeLoader).document()
    except (yaml.YAMLError, PolicyError):
        return

    assert slow.value == fast.value
    assert shape(slow) == shape(fast)


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=100)
scalars = st.booleans() | st.integers(-SAFE_INTEGER, SAFE_INTEGER) | st.floats(-1e15, 1e15) | texts
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=12
)


@given(st.dictionaries(st.text("abc", max_size=3), json_values, min_size=1), st.sampled_from([None, 2]))
def test_json_is_read_as_json(value, indent):
    """A JSON file means to this reader what it means to `json.loads`."""
    text = json.dumps(value, indent=indent)

    assert json.dumps(read(text, "policy.json").value) == json.dumps(value)


@given(st.characters(categories=["Cc", "Cf", "Zl", "Zp"], exclude_characters="\n"))
def test_hidden_characters_are_refused_raw_and_taken_as_escapes(char):
    """A character that cannot be seen may stand in a policy only where its escape shows it; NUL not even so."""
    assert unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp")
    with pytest.raises(PolicyError):
        read(f"a: 'x{char}y'", "policy.yaml")
    if char != "\0":
        assert read(f'a: "x\\U{ord(char):08x}y"', "policy.yaml").value == {"a": f"x{char}y"}
