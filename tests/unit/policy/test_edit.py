"""Claims about edits of a policy's text: exact in meaning, minimal in characters."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tipstaff.errors import PolicyError
from tipstaff.policy.edit import apply, edited
from tipstaff.policy.remedy import AddKey, Append, Edit, Remove, SetValue
from tipstaff.policy.spelling import spelling_of
from tipstaff.policy.strict_yaml import read

TRICKY = [
    "*", "no", "1", "a: b", "#", "x #y", "", " ", "-", "- a", "[", "{}", "a,b", "true", "null", "~", "0x1f", "1e3",
    "'", '"', "\\", "a\nb", "\t", "\x1b[31m", "\u202e", "😀", "é", "&a", "!t", "%x", "@x", "`", "|", ">", "?", ":",
    "<<", "...", "---", "2024-01-01", "12:30", "=", ".", "/etc/passwd", "--flag", "\U000e0001", "\x85", "\u2028", "y",
    "N",
]  # fmt: skip

BLOCK = """\
# The policy of the team.
name: team # ours
principals:
  - id: builder   # the build agent
    tools: {allow: [read, "*"]}   # all
    # a comment that belongs to builder

  - id: other
pools: [default]
network:
    deny:
    - a.example
    # nothing more
description: |
  Two lines
  of text.
"""

CASES: dict[str, tuple[Edit, str, str]] = {
    "append to a block list": (
        Append(("principals",), {"id": "no", "kinds": ["agent"]}),
        "  - id: other\n",
        '  - id: other\n  - {id: "no", kinds: [agent]}\n',
    ),
    "append to a flow list": (Append(("pools",), "*"), "[default]", '[default, "*"]'),
    "append to a flow list in a line with a comment": (
        Append(("principals", 0, "tools", "allow"), "x"),
        '"*"]}   # all',
        '"*", x]}   # all',
    ),
    "append to a list that is not indented": (
        Append(("network", "deny"), "b"),
        "    - a.example\n",
        "    - a.example\n    - b\n",
    ),
    "add a key to a block mapping": (
        AddKey(("principals", 0), "kinds", ["agent"]),
        "# all\n    # a comment that belongs to builder\n",
        "# all\n    kinds: [agent]\n    # a comment that belongs to builder\n",
    ),
    "add a key behind a block scalar": (AddKey((), "k", 1), "of text.\n", "of text.\nk: 1\n"),
    "add a key to a flow mapping": (AddKey(("principals", 0, "tools"), "deny", ["rm"]), '"*"]}', '"*"], deny: [rm]}'),
    "set a scalar": (SetValue(("name",), "a: b"), "name: team # ours", 'name: "a: b" # ours'),
    "set a block scalar": (
        SetValue(("description",), "short"),
        "description: |\n  Two lines\n  of text.\n",
        "description: short\n",
    ),
    "set a block list": (SetValue(("network", "deny"), ["b"]), "    deny:\n    - a.example\n", "    deny: [b]\n"),
    "remove a block item": (Remove(("principals", 1)), "  - id: other\n", ""),
    "remove the only item": (Remove(("network", "deny", 0)), "    deny:\n    - a.example\n", "    deny: []\n"),
    "remove a flow item": (Remove(("principals", 0, "tools", "allow", 0)), '[read, "*"]', '["*"]'),
    "remove the last flow item": (Remove(("principals", 0, "tools", "allow", 1)), '[read, "*"]', "[read]"),
    "remove a key": (Remove(("pools",)), "pools: [default]\n", ""),
    "remove the first key of an item": (
        Remove(("principals", 0, "id")),
        "  - id: builder   # the build agent\n    tools:",
        "  - tools:",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_edit_changes_its_own_place_only(case):
    """Each kind of edit replaces these characters by those, and every other character stays."""
    edit, before, after = CASES[case]
    assert BLOCK.count(before) == 1

    assert apply(read(BLOCK, "policy.yaml"), [edit]) == BLOCK.replace(before, after)


def test_json_stays_json():
    """An edit of a JSON file gives JSON, in the layout of the file."""
    value = {"version": "x", "network": {"allowHosts": ["a"], "deny": []}}
    edits: list[Edit] = [Append(("network", "allowHosts"), "no"), AddKey((), "b", {"c": [True]}), Remove(("version",))]
    wanted = {"network": {"allowHosts": ["a", "no"], "deny": []}, "b": {"c": [True]}}
    for indent in (None, 2):
        text = json.dumps(value, indent=indent)
        assert json.loads(apply(read(text, "p"), edits)) == wanted
    tight = json.dumps(value, separators=(",", ":"))
    assert apply(read(tight, "p"), edits[:2]) == tight.replace('["a"]', '["a","no"]')[:-1] + ',"b":{"c":[true]}}'


def test_an_item_a_line_stays_an_item_a_line():
    """In a flow list that has one item a line, a new one gets its own line, and comments stay with their items."""
    text = "hosts: [\n  a,  # first\n  b   # second\n]\n"

    after = apply(read(text, "policy.yaml"), [Append(("hosts",), "c")])

    assert after == "hosts: [\n  a,  # first\n  b,   # second\n  c\n]\n"
    assert apply(read(after, "policy.yaml"), [Remove(("hosts", 2))]) == text.replace("b", "b,")


def test_an_empty_list_keeps_the_comment_in_it():
    """What is put into an empty list leaves a comment inside the brackets where it is."""
    text = "hosts: [ # none yet\n  ]\nb: [ ]\n"

    after = apply(read(text, "policy.yaml"), [Append(("hosts",), "a"), Append(("b",), "c")])

    assert after == "hosts: [ # none yet\n  a]\nb: [c]\n"


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_line_endings_stay(newline, last):
    """A file keeps its line endings, and a last line without one stays without."""
    text = newline.join(["a:", "- b"]) + (newline if last else "")

    after = apply(read(text, "policy.yaml"), [Append(("a",), "c")])

    assert after == newline.join(["a:", "- b", "- c"]) + (newline if last else "")
    assert apply(read(after, "policy.yaml"), [Remove(("a", 1))]) == text


@pytest.mark.parametrize("text", TRICKY)
@pytest.mark.parametrize("file", ["a:\n  - x\nb: {k: v}\n", '{"a": ["x"], "b": {"k": "v"}}'])
def test_every_text_is_quoted_so_that_it_stays_itself(text, file):
    """Whatever the text, it is read back as that text: as an item, as a key and as a value."""
    edits: list[Edit] = [Append(("a",), text), AddKey(("b",), text, text), SetValue(("a", 0), text)]

    assert read(apply(read(file, "p"), edits), "p").value == {"a": [text, text], "b": {"k": "v", text: text}}


@pytest.mark.parametrize("word", ["git", "api.example", "/usr/bin/git", "a-b_c", "read.me"])
def test_simple_words_are_not_quoted(word):
    """A word that no reader of YAML could mistake is written plainly."""
    assert spelling_of("a: b").text(word) == word


@pytest.mark.parametrize(
    "edit",
    [
        Append(("name",), "x"), Append(("nothing",), "x"), AddKey((), "name", 1), AddKey(("pools",), "x", 1),
        SetValue(("nothing",), 1), Remove(("pools", 7)), Remove(()), AddKey((), "x", "\0"), AddKey((), "x", "\ud800"),
    ],
)  # fmt: skip
def test_an_edit_without_a_place_is_an_error(edit):
    """An edit that cannot be made is a PolicyError, never a file that means something else."""
    with pytest.raises(PolicyError):
        apply(read(BLOCK, "policy.yaml"), [edit])


# Any document, in any layout

words = st.sampled_from([*TRICKY, "git", "a", "b", "some words"]).filter(lambda text: "\0" not in text)
values = st.recursive(
    words | st.booleans() | st.integers(-10, 10**9) | st.just(0.5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=10,
)
documents = st.dictionaries(words, values, min_size=1, max_size=4)


@st.composite
def layouts(draw):
    """A document and one of its many spellings."""
    value = draw(documents)
    spelling = spelling_of("a: b")
    kind = draw(st.sampled_from(["json", "json-lines", "flow", "block", "block", "block", "block"]))
    if kind == "json":
        return json.dumps(value)
    if kind == "json-lines":
        return json.dumps(value, indent=draw(st.integers(0, 4)))
    if kind == "flow":
        return "---\n" + spelling.value(value)  # what begins as JSON must be JSON
    text = "\n".join(draw(block(value, "")))
    text = draw(st.sampled_from(["", "---\n", "# head\n\n"])) + text + draw(st.sampled_from(["", "\n", "\n\n# end\n"]))
    return text.replace("\n", draw(st.sampled_from(["\n", "\n", "\r\n"])))


@st.composite
def block(draw, value, indent):
    """The lines of `value` in block style, some of it in flow style, with comments strewn in."""
    spelling = spelling_of("a: b")
    lines = []
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in pairs:
        if draw(st.integers(0, 5)) == 0:
            lines.append(draw(st.sampled_from(["", indent + "# comment", "# at the margin"])))
        head = indent + (spelling.text(str(key)) + ":" if isinstance(value, dict) else "-")
        if not isinstance(item, dict | list) or not item or draw(st.integers(0, 2)) == 0:
            lines += draw(inline(head, item))
            continue
        deeper = indent + " " * draw(st.integers(1, 4))
        if isinstance(value, dict) and isinstance(item, list) and draw(st.booleans()):
            deeper = indent
        inner = draw(block(item, deeper))
        if isinstance(value, list) and inner[0].startswith(deeper) and "#" not in inner[0] and draw(st.booleans()):
            lines += [
                head + inner[0][len(head) :] if len(deeper) > len(head) else head + " # c",
                *inner[len(deeper) > len(head) :],
            ]
        else:
            lines += [head + draw(st.sampled_from(["", " # c"])), *inner]
    return lines


@st.composite
def inline(draw, head, item):
    """One line, a flow list with an item a line, or a block scalar."""
    spelling = spelling_of("a: b")
    indent = " " * (len(head) - len(head.lstrip(" ")))
    comment = draw(st.sampled_from(["", "", "   # behind"]))
    if isinstance(item, list) and item and draw(st.booleans()):
        inner = [f"{indent}     {spelling.value(entry)}" for entry in item]
        commas = [line + draw(st.sampled_from([",", ",  # each", " ,"])) for line in inner[:-1]]
        return [
            head + " [" + comment,
            *commas,
            inner[-1] + draw(st.sampled_from(["", ",", " # last"])),
            indent + "     ]",
        ]
    if isinstance(item, str) and item.isalpha() and item.isascii() and draw(st.booleans()):
        style = draw(st.sampled_from(["|", ">-", "|-", "|+"]))
        return [f"{head} {style}", f"{indent}      {item}"]
    return [f"{head} {spelling.value(item)}{comment}"]


def places(value, path=()):
    """Every path of `value`."""
    yield path, value
    for step, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(item, (*path, step))


@st.composite
def changes(draw, value):
    """An edit that has a place in `value`."""
    path, here = draw(st.sampled_from(list(places(value))))
    kinds = ["set", "remove"] if path else []
    kinds += ["append"] * 2 if isinstance(here, list) else ["add"] * 2 if isinstance(here, dict) else []
    kind = draw(st.sampled_from(kinds))
    new = draw(values)
    if kind == "append":
        return Append(path, new)
    if kind == "add":
        return AddKey(path, draw(words.filter(lambda word: word not in here)), new)
    return SetValue(path, new) if kind == "set" else Remove(path)


@given(st.data())
@settings(max_examples=4 * settings().max_examples, deadline=None)
def test_an_edited_document_means_exactly_the_edited_value(data):
    """After any edit of any layout the file means the edited value, and what an insertion found is still there."""
    text = data.draw(layouts())
    tree = read(text, "policy.yaml")
    edit = data.draw(changes(tree.value))

    after = apply(tree, [edit])

    assert json.dumps(read(after, "policy.yaml").value) == json.dumps(edited(tree.value, edit))
    if isinstance(edit, Append | AddKey) and (text.endswith("\n") or "|" not in text):
        assert is_within(text, after)
    if isinstance(edit, Append | AddKey) or tree.at(edit.path).kind == "scalar":
        assert remarks(after) == remarks(text)


def is_within(text, after):
    """Say whether `after` is `text` with characters added."""
    rest = iter(after)
    return all(character in rest for character in text)


def remarks(text):
    """List the lines that are nothing but a comment."""
    return [line for line in text.splitlines() if line.lstrip().startswith("# ")]
