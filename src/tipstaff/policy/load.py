"""Text → a checked, compiled `Policy`; the only part of `policy` that reads a file.

1. Strict YAML, with the place of every value. 2. The types of `document`: an unknown key is an error that names the
nearest known one. 3. `validate`: what cannot hold. 4. The examples, decided. Every error has its line and column.
A `warrant.policy.v1` document is read into the same form, and keeps its own hash.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import msgspec

from tipstaff.canonical import digest
from tipstaff.errors import CanonicalError, NotFoundError, PolicyError
from tipstaff.policy import examples, validate
from tipstaff.policy.compiled import Policy
from tipstaff.policy.document import Document, typed

if TYPE_CHECKING:
    from tipstaff.policy.strict_yaml import Tree

__all__ = ["Policy", "load_policy", "parse_policy", "policy_from_value"]

WARRANT: Final = "warrant.policy.v1"
MAX_BYTES: Final = 1024 * 1024

_WORDS: Final = {
    "str": "text", "object": "a mapping", "array": "a list", "int": "a whole number", "float": "a number",
    "bool": "`true` or `false`", "null": "nothing",
}  # fmt: skip
_TYPES: Final = re.compile(r"`((?:str|object|array|int|float|bool|null)(?: \| [a-z]+)*)`")
_STEP: Final = re.compile(r"\.([A-Za-z_]+)|\[([0-9]+)\]|(\[\.\.\.\])")
_PLACED: Final = re.compile(r"(.*) - at `(?:key` in `)?\$(.*)`\Z", re.DOTALL)


def load_policy(source: str | bytes | Path, *, name: str = "") -> Policy:
    """Load a policy: a `Path` is a file, `str` and `bytes` are the text itself, which errors then call `name`."""
    if isinstance(source, Path):
        return parse_policy(_decoded(_read(source), str(source)), name or str(source))
    text = source if isinstance(source, str) else _decoded(source, name or "policy")
    return parse_policy(text, name or "policy")


def parse_policy(text: str, source: str = "policy") -> Policy:
    """Read, check and compile the policy in `text`; errors call it `source`."""
    from tipstaff.policy import strict_yaml  # noqa: PLC0415 - PyYAML is paid for only by those who read a policy

    tree = strict_yaml.read(text, source)
    return policy_from_value(tree.value, source, tree)


def policy_from_value(value: Any, source: str = "policy", tree: "Tree | None" = None) -> Policy:
    """Check and compile a policy that is already plain values."""
    if isinstance(value, dict) and value.get("version") == WARRANT:
        from tipstaff.policy import warrant  # noqa: PLC0415 - few sites have such a file

        return warrant.compiled(value, source)
    checked = _typed(value, source, tree)
    for fault in validate.faults(checked):
        _refuse(fault, source, tree)
    policy = Policy(document=checked, hash=_hash(value, source), value=value, source=source, tree=tree)
    for fault in examples.faults(policy):
        _refuse(fault, source, tree)
    return policy


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise NotFoundError(f"there is no policy file {path}", hint="name one that exists") from None
    except OSError as error:
        raise PolicyError(f"cannot be read: {error.strerror}", source=str(path)) from error


def _decoded(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise PolicyError("this is not UTF-8 text", source=source, line=line, column=column) from error


def _hash(value: Any, source: str) -> str:
    try:
        return digest(value)
    except CanonicalError as error:
        raise PolicyError(f"the file has no hash: {error.message}", source=source) from error


def _typed(value: Any, source: str, tree: "Tree | None") -> Document:
    try:
        return typed(value)
    except msgspec.ValidationError as error:
        _refuse(_explained(str(error)), source, tree)
    except (UnicodeError, RecursionError) as error:  # only plain values can hold these; the reader of text refuses both
        raise PolicyError("the file holds half a character, or is nested too deeply", source=source) from error


def _explained(text: str) -> validate.Fault:
    """Say msgspec's error in the words of a policy's author."""
    placed = _PLACED.match(text)
    message, where = (placed[1], placed[2]) if placed else (text, "")
    path = tuple(name or int(index) for name, index, _ in _STEP.findall(where) if name or index)
    if unknown := re.match(r"Object contains unknown field `(.*)`\Z", message, re.DOTALL):
        return _unknown(path, unknown[1])
    if missing := re.match(r"Object missing required field `(.*)`\Z", message):
        return validate.Fault(path, f"the key `{missing[1]}` is missing")
    if invalid := re.match(r"Invalid enum value '(.*)'\Z", message, re.DOTALL):
        return _not_offered(path, invalid[1])
    if message.startswith("Expected `str` matching regex"):
        return validate.Fault(path, "an id is lower-case letters, digits and inner hyphens, at most 64")
    return validate.Fault(path, _TYPES.sub(lambda found: _in_words(found[1]), message))


def _in_words(types: str) -> str:
    return " or ".join(_WORDS.get(name, name) for name in types.split(" | ") if name != "null") or "nothing"


def _unknown(path: tuple[str | int, ...], key: str) -> validate.Fault:
    known = _known_keys(path)
    near = _closest(key, known)
    hint = f"did you mean `{near[0]}`?" if near else f"known keys are {', '.join(sorted(known))}"
    return validate.Fault((*path, key), f"unknown key `{key[:80]}`", hint)


def _not_offered(path: tuple[str | int, ...], value: str) -> validate.Fault:
    offered = [str(choice) for choice in _choices(path)]
    near = _closest(value, offered)
    hint = f"did you mean `{near[0]}`?" if near else ""
    return validate.Fault(path, f"`{value[:80]}` is not one of {', '.join(offered)}", hint)


def _closest(word: str, words: list[str]) -> list[str]:
    from difflib import get_close_matches  # noqa: PLC0415 - slow to import, and only an error needs it

    return get_close_matches(word, words, n=1)


def _known_keys(path: tuple[str | int, ...]) -> list[str]:
    return [field.encode_name for kind in _kinds_at(path) for field in getattr(kind, "fields", ())]


def _choices(path: tuple[str | int, ...]) -> list[str]:
    return [value for kind in _kinds_at(path) for value in getattr(kind, "values", ())]


def _kinds_at(path: tuple[str | int, ...]) -> list[Any]:
    """List the types that the document has at `path`, with unions opened."""
    from msgspec import inspect  # noqa: PLC0415 - only an error needs it

    kinds = _opened(inspect.type_info(Document))
    for step in path:
        if isinstance(step, int):
            inner = [getattr(kind, "item_type", None) for kind in kinds]
        else:
            inner = [field.type for kind in kinds for field in getattr(kind, "fields", ()) if field.encode_name == step]
        kinds = [kind for found in inner if found is not None for kind in _opened(found)]
    return kinds


def _opened(kind: Any) -> list[Any]:
    return list(getattr(kind, "types", (kind,)))


def _refuse(fault: validate.Fault, source: str, tree: "Tree | None") -> NoReturn:
    """Raise `fault` with its place: the key's where the key is what is wrong, else the value's."""
    line = column = 0
    if tree is not None:
        spot = tree.key_spot(fault.path) if fault.message.startswith("unknown key") else _spot(tree, fault.path)
        line, column = spot.line, spot.column
    raise PolicyError(fault.message, source=source, line=line, column=column, hint=fault.hint)


def _spot(tree: "Tree", path: tuple[str | int, ...]) -> Any:
    """Find the place of `path`, or of the nearest thing around it that the file really has."""
    while path and tree.node(path) is None:
        path = path[:-1]
    return tree.spot(path)
