"""Edits of our format as edits of `warrant.policy.v1`, for those who keep their policy in that one.

Such a file is decided by the document that `warrant` makes of it, so remedies speak of that document. Here they are
said in the file's own words. What that format has no words for (a folder, a variable, a tier) has no translation.
"""

from typing import Any

from tipstaff.policy.patterns import is_literal, tokens
from tipstaff.policy.remedy import AddKey, Append, Edit, Remove, SetValue, appended
from tipstaff.policy.strict_yaml import Path

RULES_BEFORE_CONSENTS = 1  # `warrant` puts the rule that allows every run first


def translated(edits: tuple[Edit, ...], value: Any) -> tuple[Edit, ...]:
    """Say `edits` about the file `value`; nothing where one of them cannot be said."""
    found = [_translated(edit, value) for edit in edits]
    return tuple(edit for edit in found if edit is not None) if None not in found else ()


def _translated(edit: Edit, value: Any) -> Edit | None:
    match edit:
        case SetValue(path=("network", "default_deny"), value=bool(closed)):
            return SetValue(("network", "defaultDeny"), closed)
        case AddKey(path=("rules", int(index)), key="except") if index >= RULES_BEFORE_CONSENTS:
            # That format knows no exceptions: not to be asked means that nobody is.
            return Remove(("consent", index - RULES_BEFORE_CONSENTS))
        case Append():
            return _appended(edit, value)
    return None


def _appended(edit: Append, value: Any) -> Edit | None:
    match edit:
        case Append(path=("pools",), value=str(pool)):
            return _plain(value, ("runners", "allowPools"), pool)
        case Append(path=("agents",), value=str(kind)):
            return _plain(value, ("agents", "allow"), kind)
        case Append(path=("network", "hosts"), value=dict(grant)):
            return appended(value, ("network", "allowHosts"), grant["host"])
        case Append(path=("secrets",), value=dict(grant)):
            return appended(value, ("secrets", "releasable"), _releasable(grant))
    return None


def _plain(value: Any, path: Path, pattern: str) -> Edit | None:
    return appended(value, path, tokens(pattern)) if is_literal(pattern) else None


def _releasable(grant: dict[str, Any]) -> dict[str, Any]:
    pools = [tokens(pool) for pool in grant.get("pools", [])]
    return {"name": tokens(grant["name"]), "scope": grant.get("scope", "session"), "pools": pools}
