"""What a run did to a `.git`: never brought back, and named where git, or a tool, would execute it later.

`is_git` knows every spelling that git, or a file system that folds case, takes for `.git` (CVE-2014-9390 and its kind).
Most of what lies in it is git's own bookkeeping, which is only counted. Configuration is read as text: git is never run
on it. Pure.
"""

import re
from collections.abc import Iterator
from typing import Final

PREFIX: Final = "inside .git, never brought back: "
# Code points that HFS+ leaves out when it compares names.
_IGNORABLE: Final = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
# NTFS: the short name, and what it drops from the end of a name or takes for a stream of it.
_NTFS: Final = re.compile(r"(?:\.git|git~[0-9]+)[ .]*(?::.*)?", re.IGNORECASE | re.DOTALL)
_LEADS: Final = {
    ("commondir",): "it leads git to another directory",
    ("gitdir",): "it leads git to another directory",
    ("info", "attributes"): "it can name filters, which git would execute",
    ("objects", "info", "alternates"): "it leads git to objects elsewhere",
    ("objects", "info", "http-alternates"): "it leads git to objects elsewhere",
}
_UNDER_WAY: Final = {"rebase-merge", "rebase-apply", "sequencer"}
_CONFIGURATION: Final = {"config", "config.worktree"}
_SECTION: Final = re.compile(r"\[\s*([A-Za-z0-9.-]+)\s*(?:\"((?:[^\"\\]|\\.)*)\")?\s*\]")
_VARIABLE: Final = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*(?:=(.*))?$", re.DOTALL)
# Keys that make git run something, or look elsewhere for what it runs; `*` stands for any name.
_EXECUTED: Final = re.compile(
    r"core\.(?:fsmonitor|hookspath|sshcommand|editor|pager|askpass|gitproxy|attributesfile|excludesfile|worktree"
    r"|alternaterefscommand)"
    r"|filter\..*\.(?:clean|smudge|process)|diff\.external|diff\..*\.(?:command|textconv)|merge\..*\.driver"
    r"|alias\..*|credential(?:\..*)?\.helper|include\.path|includeif\..*\.path|url\..*\.(?:push)?insteadof"
    r"|sequence\.editor|pager\..*|interactive\.difffilter|gpg(?:\..*)?\.program|gpg\.ssh\.defaultkeycommand"
    r"|(?:diff|merge)tool\..*\.(?:cmd|path)|(?:browser|man|web)\..*\.(?:cmd|path)|remote\..*\.(?:uploadpack|receivepack"
    r"|proxy|vcs|url|pushurl)|submodule\..*\.(?:update|url)|uploadpack\.packobjectshook|sendemail\..*"
    r"|trailer\..*\.(?:command|cmd)|hook\..*\.command|http\.(?:.*\.)?proxy|protocol\..*|instaweb\..*|gc\..*command"
    r"|extensions\..*|init\.templatedir|commit\.template|core\.repositoryformatversion|tar\..*\.command|lfs\..*",
    re.DOTALL,
)
_ORDINARY: Final = {"core.repositoryformatversion": "0", "extensions.objectformat": "sha256"}


def is_git(part: bytes) -> bool:
    """Say whether git, or a file system somewhere, would take this part of a name for `.git`."""
    if b"g" not in part and b"G" not in part:
        return False
    folded = _IGNORABLE.sub("", part.decode("utf-8", "replace"))
    return any(_NTFS.fullmatch(piece) is not None for piece in folded.split("\\"))


def parts_inside(name: bytes) -> tuple[str, ...]:
    """Give the parts of a name that come after its first `.git`, in lower case."""
    parts = name.split(b"/")
    start = next((number for number, part in enumerate(parts, 1) if is_git(part)), len(parts))
    return tuple(part.decode("utf-8", "replace").lower() for part in parts[start:])


def is_configuration(name: bytes) -> bool:
    """Say whether git would read its configuration from this."""
    return parts_inside(name)[-1:] != () and parts_inside(name)[-1] in _CONFIGURATION


def is_noise(name: bytes) -> bool:
    """Say whether this is only git's own bookkeeping, as long as it is a file."""
    return not reason(name) and not is_configuration(name)


def reason(name: bytes) -> str:
    """Say what something of this name could do to who uses git later; empty for bookkeeping and for configuration."""
    inside = parts_inside(name)
    if not inside:
        return "it stands in place of the repository, and leads git elsewhere"
    if "hooks" in inside[:-1] and not inside[-1].endswith(".sample"):
        return "it is a hook, which git would execute"
    if _UNDER_WAY & set(inside):
        return "it is a rebase under way, whose steps git would execute"
    return next((told for tail, told in _LEADS.items() if inside[-len(tail) :] == tail), "")


def told(keys: list[str]) -> str:
    """Say what a changed configuration sets."""
    if not keys:
        return "git's configuration was changed"
    listed = ", ".join(keys[:5]) + (f" and {len(keys) - 5} more" if len(keys) > 5 else "")  # noqa: PLR2004 - as many
    return f"sets {listed}, which git would execute or follow"


def new_keys(base: bytes, now: bytes) -> list[str]:
    """Name the keys of a configuration that git would execute or follow, and that were not so before."""
    before = set(settings(base))
    found = {key: None for key, value in settings(now) if (key, value) not in before and _matters(key, value)}
    return [key[:80] for key in found]


def _matters(key: str, value: str) -> bool:
    return _EXECUTED.fullmatch(key.lower()) is not None and _ORDINARY.get(key.lower()) != value


def settings(text: bytes) -> Iterator[tuple[str, str]]:
    """Read a configuration as git would, leniently: its keys, as `section.name.variable`, and their values."""
    section = ""
    for line in _lines(text.decode("utf-8", "replace").replace("\r\n", "\n").lstrip("\ufeff")):
        rest = line.lstrip()
        while found := _SECTION.match(rest):
            section = f"{found[1].lower()}.{found[2]}" if found[2] is not None else found[1].lower()
            rest = rest[found.end() :].lstrip()
        if found := _VARIABLE.match(rest):
            yield f"{section}.{found[1].lower()}", (found[2] or "").strip().strip('"')


def _lines(text: str) -> Iterator[str]:
    """Split into lines: without comments, and with those joined that a backslash holds together."""
    line, quoted, position = "", False, 0
    while position < len(text):
        letter = text[position]
        if letter == "\\" and position + 1 < len(text):
            line += "" if text[position + 1] == "\n" else text[position : position + 2]
            position += 2
            continue
        if letter in "#;" and not quoted:
            end = text.find("\n", position)
            position = len(text) if end < 0 else end
            continue
        if letter == "\n":
            yield line
            line, quoted = "", False
        else:
            quoted ^= letter == '"'
            line += letter
        position += 1
    yield line
