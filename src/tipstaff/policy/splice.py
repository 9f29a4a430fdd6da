"""Where the characters of an edit go: pure arithmetic on the places of a file that was read.

Follows what surrounds the edit: block or flow, one line or one item a line, the indentation, a comma that is there
already, comments that belong to the item before. Each function offers ways, the most careful first, and `edit` reads
each back before it believes it; so a way may be wrong for an odd layout, but never silently.
"""

from typing import TYPE_CHECKING, NamedTuple

from tipstaff.policy.spelling import spelling_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tipstaff.policy.spelling import Spelling
    from tipstaff.policy.strict_yaml import Node, Path, Tree


class Splice(NamedTuple):
    """Characters `start` to `end` become `text`."""

    start: int
    end: int
    text: str


def insertions(tree: "Tree", path: "Path", dash: str, item: str) -> "Iterator[list[Splice]]":
    """Put `item` at the end of the collection at `path`; `dash` is what a block wants before it."""
    node = tree.at(path)
    spelling = spelling_of(tree.text)
    if node.flow:
        yield from _into_flow(tree.text, node, spelling, item)
        return
    last = next(reversed(node.children.values()))
    line = " " * (node.spot.column - 1) + dash + item
    yield [_new_line(tree.text, _after(tree.text, last, node.spot.column - 1), line, spelling.newline)]
    # A block scalar that ends with the file would grow by the line feed before the new line: it is quoted instead.
    spot = _deepest(last).spot
    yield [Splice(spot.start, spot.end, spelling.value(_deepest(last).value) + spelling.newline + line)]


def _into_flow(text: str, node: "Node", spelling: "Spelling", item: str) -> "Iterator[list[Splice]]":
    if not node.children:
        inside, closing = node.spot.start + 1, node.spot.end - 1
        yield [Splice(closing if "#" in text[inside:closing] else inside, closing, item)]
        return
    last = next(reversed(node.children.values()))
    comma = _skip(text, last.spot.end)
    has_comma = text[comma] == ","
    lead = "" if has_comma else ","
    first = _first_of(node, last)
    if _starts_line(text, first):
        line = spelling.newline + text[_line_start(text, first) : first] + item
        end = _line_end(text, comma if has_comma else last.spot.end)
        comment = text[last.spot.end : end]  # and blanks, and the comma if there was one
        yield [Splice(last.spot.end, end, lead + comment + line)]
    place = comma + 1 if has_comma else last.spot.end
    yield [Splice(place, place, lead + ("" if spelling.tight else " ") + item)]


def _new_line(text: str, place: int, line: str, newline: str) -> Splice:
    """Insert `line` before the line that begins at `place`, or after a last line that has no end."""
    if place == len(text) and not text.endswith("\n"):
        return Splice(place, place, newline + line)
    return Splice(place, place, line + newline)


def _after(text: str, last: "Node", column: int) -> int:
    """Find the line behind `last`: its own comments, which are indented deeper than `column`, stay with it."""
    deepest = _deepest(last)
    place = deepest.spot.end
    if deepest.style not in ("|", ">"):
        place = _next_line(text, place)
    while (body := text[place : _line_end(text, place)]).lstrip(" ").startswith("#"):
        if len(body) - len(body.lstrip(" ")) <= column:
            break
        place = _next_line(text, place)
    return place


def _deepest(node: "Node") -> "Node":
    """Follow the last children down to the value that ends `node`."""
    while node.children and not node.flow:
        node = next(reversed(node.children.values()))
    return node


def replacements(tree: "Tree", path: "Path", item: str) -> "Iterator[list[Splice]]":
    """Put `item` in the place of what stands at `path`; a comment behind the key stays."""
    node = tree.at(path)
    text, spot = tree.text, node.spot
    end = spot.start + len(text[spot.start : spot.end].rstrip(" \r\n")) if not node.flow else spot.end
    key_line_end = _line_end(text, tree.key_spot(path).end) if path and isinstance(path[-1], str) else -1
    if node.kind != "scalar" and not node.flow and -1 < key_line_end < spot.start:
        colon = text.index(":", tree.key_spot(path).end) + 1
        kept = [line for line in text[key_line_end:end].splitlines(keepends=True)[1:] if _says_nothing(line)]
        newline = text[key_line_end : _next_line(text, key_line_end)]
        yield [Splice(colon, colon, " " + item), Splice(key_line_end, end, (newline + "".join(kept)).rstrip("\r\n"))]
    yield [Splice(spot.start, end, item)]


def removals(tree: "Tree", path: "Path") -> "Iterator[list[Splice]]":
    """Take away what stands at `path`, with its key or its dash."""
    parent = tree.at(path[:-1])
    steps = list(parent.children)
    index = steps.index(path[-1])
    if len(steps) == 1:
        empty = "[]" if parent.kind == "sequence" else "{}"
        yield from replacements(tree, path[:-1], empty)
    elif parent.flow:
        yield from _out_of_flow(tree.text, parent, index)
    else:
        yield from _out_of_block(tree.text, parent, index)


def _out_of_flow(text: str, parent: "Node", index: int) -> "Iterator[list[Splice]]":
    nodes = list(parent.children.values())
    node = nodes[index]
    start, comma = _first_of(parent, node), _skip(text, node.spot.end)
    end = comma + 1 if text[comma] == "," else node.spot.end
    if _starts_line(text, start) and text[end : _line_end(text, end)].lstrip(" ")[:1] in ("", "#"):
        yield [Splice(_line_start(text, start), _next_line(text, end), "")]
    if index + 1 < len(nodes):
        yield [Splice(start, _first_of(parent, nodes[index + 1]), "")]
    else:
        yield [Splice(nodes[index - 1].spot.end, node.spot.end, "")]


def _out_of_block(text: str, parent: "Node", index: int) -> "Iterator[list[Splice]]":
    nodes = list(parent.children.values())
    start = _head(text, parent, index)
    if not _starts_line(text, start) and index + 1 < len(nodes):
        yield [Splice(start, _head(text, parent, index + 1), "")]
        return
    last = _deepest(nodes[index])
    begin, end = (
        _line_start(text, start),
        last.spot.end if last.style in ("|", ">") else _next_line(text, last.spot.end),
    )
    if end == len(text) and not text.endswith("\n"):
        begin = len(text[:begin].removesuffix("\n").removesuffix("\r"))
    yield [Splice(begin, end, "")]


def _head(text: str, parent: "Node", index: int) -> int:
    """Say where a child of a block begins: at its key or its dash."""
    nodes = list(parent.children.values())
    return _first_of(parent, nodes[index]) if parent.kind == "mapping" else _dash(text, parent, index)


def _dash(text: str, parent: "Node", index: int) -> int:
    """Find the `-` of an item: the first thing between its predecessor and itself that is no comment."""
    if index == 0:
        return parent.spot.start
    before = list(parent.children.values())[index - 1]
    return _skip(text, before.spot.end)


def _first_of(parent: "Node", node: "Node") -> int:
    """Say where a child begins: at its key, where it has one."""
    for step, child in parent.children.items():
        if child is node and isinstance(step, str):
            return parent.keys[step].start
    return node.spot.start


def _says_nothing(line: str) -> bool:
    """Say whether a line is blank or a comment."""
    return line.lstrip(" \r\n")[:1] in ("", "#")


def _skip(text: str, place: int) -> int:
    """Go to the next character that is neither blank nor in a comment."""
    while place < len(text) and text[place] in " \r\n#":
        place = _line_end(text, place) if text[place] == "#" else place + 1
    return place


def _line_start(text: str, place: int) -> int:
    return text.rfind("\n", 0, place) + 1


def _line_end(text: str, place: int) -> int:
    """Find where the line ends, before its line feed."""
    end = text.find("\n", place)
    end = len(text) if end < 0 else end
    return end - 1 if end > place and text[end - 1] == "\r" else end


def _next_line(text: str, place: int) -> int:
    end = text.find("\n", place)
    return len(text) if end < 0 else end + 1


def _starts_line(text: str, place: int) -> bool:
    return not text[_line_start(text, place) : place].strip(" ")
