"""YAML as a policy may use it: plain values with their places, and nothing clever.

Refuses what makes a file mean something else than it seems to: aliases, anchors, tags, merge keys, directives, several
documents, duplicate keys, keys that are not text, empty values, tabs, invisible and direction-changing characters
(CVE-2021-42574), files beyond 1 MiB and nesting beyond 32. A plain scalar is `true`, `false`, a number as JSON spells
it, or text: `no`, `on`, `12:30` and `2024-01-01` stay text. What readers of YAML disagree about (`010`, `0x1f`, `True`,
`1_000`, `+1`, `.5`) is an error that asks for quotes or a plain number: nobody can know which was meant.
JSON is YAML, goes through the same reader and keeps its places; it must be JSON to the end. Knows no schema.
"""

import json
import math
import re
import unicodedata
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, NoReturn

import yaml

from tipstaff.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BYTES: Final = 1024 * 1024
MAX_DEPTH: Final = 32
SAFE_INTEGER: Final = 2**53 - 1  # what JSON, and with it the policy's hash, can carry exactly

Path = tuple[str | int, ...]

_FAST: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_JSON: Final = re.compile(r'\s*\{\s*"')
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?\Z")
_SURPRISES: Final = (
    (re.compile(r"(?i:true|false)\Z"), "write `true` or `false` in lower case, or quote it"),
    (re.compile(r"[+-]?0[xX][0-9a-fA-F_]+\Z"), "write a hexadecimal number as a decimal one, or quote it"),
    (re.compile(r"[+-]?0[oObB]?[0-9_]+\Z"), "is it octal or decimal? Write it without the leading zero, or quote it"),
    (re.compile(r"[+-]?[0-9][0-9_]*_[0-9_]*(\.[0-9_]*)?\Z"), "write the number without underscores, or quote it"),
    (re.compile(r"[+-]?(\.[0-9][0-9_]*|[0-9]+\.|[0-9]+\.?[0-9]*|\.(?i:inf|nan))([eE][+-]?[0-9]+)?\Z"),
     "write the number as 1, -1 or 0.5, or quote it"),
)  # fmt: skip
_HIDDEN: Final = {
    "Cc": "a control character",
    "Cf": "an invisible character",
    "Cs": "half a character",
    "Zl": "a line separator",
    "Zp": "a paragraph separator",
}


class Spot(NamedTuple):
    """Where something stands: `line` and `column` count from 1, `start` and `end` are character offsets."""

    line: int
    column: int
    start: int
    end: int
    block: bool = False  # a mapping or a sequence in block style


class Node:
    """One value of the file with its place; a mapping also knows the places of its keys."""

    __slots__ = ("children", "flow", "keys", "kind", "spot", "style", "value")

    def __init__(self, kind: Literal["mapping", "sequence", "scalar"], spot: Spot, *, flow: bool, value: Any) -> None:
        self.kind = kind
        self.spot = spot
        self.flow = flow
        self.value = value
        self.style: str | None = None  # of a scalar: None when plain, else its first character
        self.children: dict[str | int, Node] = {}
        self.keys: dict[str, Spot] = {}


class Tree:
    """A file that was read: its plain value, its text and the place of everything in it."""

    def __init__(self, text: str, source: str, root: Node) -> None:
        self.text = text
        self.source = source
        self.root = root

    @property
    def value(self) -> Any:
        """The whole file as dict, list, str, int, float and bool."""
        return self.root.value

    def node(self, path: Path) -> Node | None:
        """Find the node at `path`, or None."""
        node: Node | None = self.root
        for step in path:
            node = node.children.get(step) if node else None
        return node

    def at(self, path: Path) -> Node:
        """Give the node at `path`, which exists; KeyError otherwise."""
        node = self.node(path)
        if node is None:
            raise KeyError(path)
        return node

    def spot(self, path: Path) -> Spot:
        """Say where the value at `path` stands; for one that is not there, where its nearest parent does."""
        node = self.root
        for step in path:
            if step not in node.children:
                break
            node = node.children[step]
        return node.spot

    def key_spot(self, path: Path) -> Spot:
        """Say where the key of the value at `path` stands; an item of a sequence has none, so its own place."""
        parent = self.node(path[:-1]) if path else None
        last = path[-1] if path else 0
        return parent.keys[last] if parent and isinstance(last, str) and last in parent.keys else self.spot(path)


def read(text: str, source: str) -> Tree:
    """Read `text`; every fault is a `PolicyError` with the line and column of what is wrong."""
    _check_characters(text, source)
    _check_json(text, source)
    try:
        # libyaml gives the same events ten times faster; what it refuses, the Python parser judges anew, because it
        # alone reads JSON's surrogate pairs, and because a message should not depend on how PyYAML was built.
        return Tree(text, source, _Reader(text, source, _FAST).document())
    except (yaml.YAMLError, PolicyError, ValueError, OverflowError):
        return Tree(text, source, _read_slowly(text, source))


def _read_slowly(text: str, source: str) -> Node:
    try:
        return _Reader(text, source, yaml.SafeLoader).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = " ".join((error.problem or error.context or "cannot be read").split())
        _refuse(source, mark.line + 1 if mark else 1, mark.column + 1 if mark else 1, f"this is not YAML: {problem}")
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # chr() of an escape such as \UFFFFFFFF
        _refuse(source, 1, 1, f"this is not YAML: {' '.join(str(error).split())}")


class _Reader:
    """Builds the tree from the parser's events, without recursion, so that depth is ours to bound."""

    def __init__(self, text: str, source: str, loader: Any) -> None:
        self.text = text
        self.source = source
        self.events: Iterator[Any] = yaml.parse(text, Loader=loader)
        self.open: list[Node] = []  # the collections around the place where we are
        self.pending: list[tuple[str, Spot] | None] = []  # for each, the key that waits for its value

    def document(self) -> Node:
        root: Node | None = None
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._check_document(event, first=root is None)
            elif isinstance(event, yaml.NodeEvent):
                root = self._node(event) or root
            elif isinstance(event, yaml.CollectionEndEvent):
                self._close(event)
        if root is None:
            _refuse(self.source, 1, 1, "the file is empty")
        return root

    def _check_document(self, event: Any, *, first: bool) -> None:
        if event.version or event.tags:
            self._fault(event, "a `%` directive is not allowed here")
        if not first:
            self._fault(event, "a second document starts here; write one policy in one file")

    def _node(self, event: Any) -> Node | None:
        """Take one value; the result is the root when it is the outermost."""
        self._check_plain(event)
        waiting_key = self.open and self.open[-1].kind == "mapping" and self.pending[-1] is None
        if waiting_key:
            self._key(event)
            return None
        node = self._scalar(event) if isinstance(event, yaml.ScalarEvent) else self._collection(event)
        outermost = not self.open
        if not outermost:
            self._attach(node)
        if node.kind != "scalar":
            self._enter(event, node)
        return node if outermost else None

    def _check_plain(self, event: Any) -> None:
        if isinstance(event, yaml.AliasEvent):
            self._fault(event, f"`*{event.anchor}` is an alias; write the value again, or quote a `*` meant as text")
        if event.anchor is not None:
            self._fault(event, f"`&{event.anchor}` is an anchor; write the value in each place, or quote it")
        if event.tag is not None:
            self._fault(event, "a tag (`!…`) is not allowed; quote a `!` that is meant as text")

    def _key(self, event: Any) -> None:
        if not isinstance(event, yaml.ScalarEvent) or event.style in ("|", ">"):
            self._fault(event, "a key must be text on one line")
        parent, key, spot = self.open[-1], event.value, self._spot(event)
        if not event.style:
            self._check_plain_key(event, key)
        else:
            key = self._joined(event, key)
        if key in parent.keys:
            self._fault(event, f"the key `{key}` stands here a second time, first in line {parent.keys[key].line}")
        self._check_key_place(event, parent, spot)
        parent.keys[key] = spot
        self.pending[-1] = (key, spot)

    def _check_plain_key(self, event: Any, key: str) -> None:
        if key == "<<":
            self._fault(event, "`<<` (merge) is not allowed; write the keys in each place")
        if not isinstance(self._plain(event, key), str):
            self._fault(event, f"the key `{key}` is not text; quote it if it is meant as text")

    def _check_key_place(self, event: Any, parent: Node, spot: Spot) -> None:
        """Refuse the `? key` form: edits by place could not tell it from a value."""
        if parent.flow:
            last = next(reversed(parent.children.values()), None)  # what is before it was looked at for its own key
            before = self.text[last.spot.end if last else parent.spot.start : spot.start]
            explicit = before.rstrip().endswith("?")
        else:
            explicit = spot.column != parent.spot.column
        if explicit:
            self._fault(event, "write the key as `key: value`, without `?`")

    def _attach(self, node: Node) -> None:
        parent = self.open[-1]
        waiting = self.pending[-1]
        step: str | int = len(parent.value) if waiting is None else waiting[0]
        if waiting is None:
            parent.value.append(node.value)
        else:
            parent.value[step] = node.value
            self.pending[-1] = None
        parent.children[step] = node

    def _enter(self, event: Any, node: Node) -> None:
        if len(self.open) >= MAX_DEPTH:
            self._fault(event, f"this is nested deeper than {MAX_DEPTH} levels")
        self.open.append(node)
        self.pending.append(None)

    def _collection(self, event: Any) -> Node:
        mapping = isinstance(event, yaml.MappingStartEvent)
        flow = bool(event.flow_style)
        if flow and mapping and self.text[event.start_mark.index] != "{":
            self._fault(event, "write a mapping inside brackets with braces: `{key: value}`")
        spot = self._spot(event)._replace(block=not flow)
        return Node("mapping" if mapping else "sequence", spot, flow=flow, value={} if mapping else [])

    def _close(self, event: Any) -> None:
        """Set where the collection ends: after its bracket, or after its last child (comments behind are not part)."""
        node = self.open.pop()
        self.pending.pop()
        last = next(reversed(node.children.values()), None)
        end = last.spot.end if not node.flow and last else event.end_mark.index
        node.spot = node.spot._replace(end=end)

    def _scalar(self, event: Any) -> Node:
        text = event.value
        value = self._plain(event, text) if not event.style else self._joined(event, text)
        node = Node("scalar", self._spot(event), flow=event.style not in ("|", ">"), value=value)
        node.style = event.style or None  # libyaml says ''
        return node

    def _plain(self, event: Any, text: str) -> Any:
        if text in ("", "~") or text.lower() == "null":
            self._fault(event, "there is no value here; write one, or remove the key" if not text else
                        f"`{text}` means no value; write one, remove the key, or quote it")  # fmt: skip
        if text in ("true", "false"):
            return text == "true"
        if match := _NUMBER.match(text):
            return self._number(event, text, whole=match[2] is None and match[3] is None)
        for pattern, advice in _SURPRISES:
            if pattern.match(text):
                self._fault(event, f"`{text}` is read differently by different readers of YAML; {advice}")
        return text

    def _number(self, event: Any, text: str, *, whole: bool) -> int | float:
        # The digits are counted first: Python refuses to convert more than 4300 of them.
        number = (int(text) if len(text) <= 17 else SAFE_INTEGER + 1) if whole else float(text)  # noqa: PLR2004 - 2^53 has 16
        if abs(number) > SAFE_INTEGER or not math.isfinite(number):
            self._fault(event, f"the number is larger than {SAFE_INTEGER}; quote it if it is meant as text")
        return number

    def _joined(self, event: Any, text: str) -> str:
        """Join the surrogate pairs that JSON writes for one character, and refuse what no program could be given."""
        if "\0" in text:
            self._fault(event, "the text holds a NUL, which no program can be given")
        try:
            text.encode()
        except UnicodeEncodeError:
            try:
                return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
            except UnicodeDecodeError:
                self._fault(event, "the text holds half of a surrogate pair")
        return text

    def _spot(self, event: Any) -> Spot:
        start, end = event.start_mark, event.end_mark
        return Spot(start.line + 1, start.column + 1, start.index, end.index)

    def _fault(self, event: Any, message: str) -> NoReturn:
        _refuse(self.source, event.start_mark.line + 1, event.start_mark.column + 1, message)


def _check_characters(text: str, source: str) -> None:
    """Refuse what must not be in a policy at all, before the parser sees it."""
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        _refuse(source, 1, 1, f"the file is larger than {MAX_BYTES} bytes")
    for number, line in enumerate(text.split("\n"), 1):
        body = line.removesuffix("\r")
        if body.isascii() and body.isprintable():
            continue
        for column, char in enumerate(body, 1):
            if char == "\t":
                _refuse(source, number, column, "a tab; indent with spaces, or write `\\t` in double quotes")
            if char == "\ufeff":
                _refuse(source, number, column, "a byte order mark; save the file as UTF-8 without one")
            if (kind := _HIDDEN.get(unicodedata.category(char))) is not None:
                _refuse(source, number, column, f"{kind} (U+{ord(char):04X}); write it as an escape in double quotes")


def _check_json(text: str, source: str) -> None:
    """Hold a file that begins as JSON to JSON: no comments and no comma too many, so that every reader takes it."""
    if not _JSON.match(text):
        return
    try:
        json.loads(text, parse_int=len)  # `len` because the reader bounds numbers, and int() refuses long ones
    except json.JSONDecodeError as error:
        _refuse(source, error.lineno, error.colno, f"this begins as JSON and is not: {error.msg}")
    except RecursionError:
        return  # the reader says where it is too deep


def _refuse(source: str, line: int, column: int, message: str) -> NoReturn:
    raise PolicyError(message, source=source, line=line, column=column)
