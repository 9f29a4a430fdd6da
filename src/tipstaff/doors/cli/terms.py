"""What a contract lets happen, in lines that a person reads before saying yes, or afterwards to know what was meant.

Nothing is left out or cut, and nothing in it can move, hide or reverse text. Pure.
"""

from collections.abc import Iterator
from typing import Any

from tipstaff.doors.cli.quoting import quoted, spelled
from tipstaff.plane.contract import EMPTY_TREE
from tipstaff.policy.units import show_duration, show_size

Json = dict[str, Any]


def terms(contract: Json) -> Iterator[str]:
    """Write out what would run, for whom, with what within reach, and how it is bounded."""
    files = contract["files"]
    yield from spelled(contract["execution"])
    yield f"asked by:  {quoted(contract['requestedBy']['id'])} ({contract['requestedBy']['kind']})"
    if contract.get("purpose"):
        yield f"purpose:   {quoted(contract['purpose'])}"
    is_captured = contract["workspace"] != EMPTY_TREE
    yield f"workspace: {_workspace(files, is_captured=is_captured)}"
    if is_captured:
        yield from _captured(contract["workspace"])
    for path in files.get("readable", ()):
        yield f"may read:  {quoted(path)}"
    yield from _variables(contract["execution"].get("env", {}))
    yield f"hosts:     {', '.join(_hosts(contract)) or 'none'}"
    for secret in contract["secrets"]:
        yield f"secret:    {quoted(secret['name'])}{_use(secret.get('lease', {}))}"
    yield f"tier:      {contract['tier']}"
    yield f"limits:    {bounds(contract['limits'])}"


def _hosts(contract: Json) -> Iterator[str]:
    """Name every way out, with what makes it more or less than a host and its ports."""
    if not contract["network"].get("defaultDeny", True):
        yield "any"
    for rule in contract.get("egress", {}).get("rules") or [
        {"host": host} for host in contract["network"]["allowHosts"]
    ]:
        said = [" or ".join(map(str, rule["ports"])) if rule.get("ports") else "any port"]
        said += [quoted(address) for address in rule.get("addresses", ())]
        said += [word for word in ("inspect", "opaque", "ask") if rule.get(word)]
        yield f"{quoted(rule['host'])} ({', '.join(said)})"


def _use(lease: Json) -> str:
    if lease.get("way") != "inject":
        return " (in the environment)"
    return f" (put into {quoted(lease['header'])} for {', '.join(map(quoted, lease['hosts']))})"


def bounds(limits: Json) -> str:
    """Say the limits in one line."""
    said = [show_duration(limits["timeMs"])] if "timeMs" in limits else []
    said += [f"{show_size(limits['memoryBytes'])} memory"] if "memoryBytes" in limits else []
    said += [f"{limits['cpuMillis'] / 1000:g} cores"] if "cpuMillis" in limits else []
    said += [f"{limits['pids']} processes"] if "pids" in limits else []
    said += [f"{show_size(limits['diskBytes'])} disk"] if "diskBytes" in limits else []
    return ", ".join(said)


def _workspace(files: Json, *, is_captured: bool) -> str:
    if not files.get("workspace"):
        return "what was captured" if is_captured else "an empty folder"
    return quoted(files["workspace"]) + (", CHANGED IN PLACE" if files.get("inPlace") else ", as a copy")


def _captured(manifest: Json) -> Iterator[str]:
    """Say which state of a folder was captured, and what of it was not."""
    commit = manifest.get("git", {}).get("commit") or (manifest["baseRef"] if "bundleHash" in manifest else None)
    state = f"commit {quoted(commit)}, and what was not committed" if commit else f"tree {quoted(manifest['baseRef'])}"
    yield f"captured:  {state}"
    left = [*manifest.get("deniedPaths", ()), *(one["path"] for one in manifest.get("leftOut", ()))]
    if left:
        yield f"left out:  {', '.join(map(quoted, left))}"


def _variables(env: Json) -> Iterator[str]:
    for name, value in env.get("vars", {}).items():
        yield f"variable:  {quoted(f'{name}={value}')}"
    if env.get("inherit"):
        yield f"inherits:  {', '.join(map(quoted, env['inherit']))}"
