"""The contract, drafted: what was decided, in the words of the protocol. Pure; signing is the caller's business.

Only what the decision grants is written, never what was merely asked for: the execution that would really run with its
clamped time and the variables that it may inherit, the egress rules, the secrets with their leases, the limits, the
tiers. A field that says nothing is left out, because older readers take no null.
"""

from typing import Any, Final

import msgspec

from tipstaff.canonical import digest
from tipstaff.errors import InputError
from tipstaff.model.contract import Manifest
from tipstaff.model.decision import Decision, Effective, SecretLease
from tipstaff.model.execution import AgentRun, agent_kind
from tipstaff.model.noun import VERSION_CONTRACT, VERSION_MANIFEST, to_wire
from tipstaff.model.request import Request
from tipstaff.model.times import timestamp

Json = dict[str, Any]
_NO_FILES: Final = digest([])
EMPTY_TREE: Final[Json] = {
    "version": VERSION_MANIFEST,
    "kind": "tree",
    "baseRef": _NO_FILES,
    "treeHash": _NO_FILES,
    "untrackedFiles": [],
    "deniedPatterns": [],
    "deniedPaths": [],
}


class Terms(msgspec.Struct, frozen=True):
    """What the plane adds of its own."""

    run_id: str
    issued_at: int
    expires_at: int
    key_id: str
    retries: int = 1


def draft(request: Request, decision: Decision, terms: Terms) -> Json:
    """Write the contract for a request that was not denied."""
    effective = decision.effective
    if effective is None:
        raise ValueError("a denied request has no contract")
    said = {
        "version": VERSION_CONTRACT,
        "runId": terms.run_id,
        "issuedAt": timestamp(terms.issued_at),
        "issuer": {"keyId": terms.key_id, "role": "plane"},
        "requestedBy": to_wire(request.requested_by),
        "principal": request.requested_by.id,
        "door": request.door,
        "tool": request.tool or None,
        "purpose": request.purpose or None,
        "requestHash": decision.request_hash,
        "policyHash": decision.policy_hash,
        "runner": {"pool": request.pool},
        "disclosure": effective.disclosure,
        "isolation": request.isolation,
        "continuation": to_wire(request.continuation) if request.continuation else None,
        "expiresAt": timestamp(terms.expires_at),
        "retries": terms.retries,
        **_command(request, effective),
        **_reach(request, effective),
        **_bounds(effective),
    }
    # The manifest is hashed by others as it came, so not even a null is taken out of it.
    return {**_said(said), "workspace": request.workspace or EMPTY_TREE}


def check_manifest(manifest: Any) -> None:
    """Refuse a workspace that a verifier could not read later."""
    try:
        version = msgspec.convert(manifest, Manifest).version
    except msgspec.ValidationError as error:
        raise InputError(f"the workspace is not a manifest: {error}") from error
    if version != VERSION_MANIFEST:
        raise InputError(f"the workspace's version is not {VERSION_MANIFEST}")


def check_workspace(request: Request) -> None:
    """Refuse a workspace that could mean two things: the folder as it is, or what a manifest says."""
    files, manifest = request.files, request.workspace
    if manifest is not None:
        check_manifest(manifest)
    if files.captured and (manifest is None or files.workspace is None or files.in_place):
        raise InputError("a captured workspace needs a manifest and the folder that it is of, and is never in place")
    if manifest is not None and files.in_place:
        raise InputError("what a manifest says is never worked on in place: a copy of it is")
    if manifest is not None and files.workspace is not None and not files.captured:
        raise InputError("a run works on a folder or on what was captured, not on both")


def blobs_of_manifest(manifest: Json) -> list[str]:
    """List the blobs that a workspace is unpacked from."""
    view = msgspec.convert(manifest, Manifest)
    files = (file.hash for file in view.untracked_files or ())
    commit = view.git.pack_hash if view.git is not None else None
    named = (view.bundle_hash, view.dirty_diff_hash, view.tree_hash, commit, *(view.packs or ()), *files)
    return [one for one in named if one]


def _command(request: Request, effective: Effective) -> Json:
    execution = request.effective
    prompt, version = request.prompt, request.agent_version
    if isinstance(execution, AgentRun):
        prompt, version = execution.prompt, execution.agent.version
    spelled = _said(to_wire(execution))
    spelled["timeoutMs"] = effective.limits.time_ms
    spelled["env"]["inherit"] = list(effective.inherit)
    return {
        "agent": {"kind": agent_kind(execution), "version": version},
        "task": {"prompt": prompt},
        "execution": spelled,
    }


def _reach(request: Request, effective: Effective) -> Json:
    """Write what the run can reach: hosts, secrets, folders."""
    captured = {"captured": True} if request.files.captured else {}
    return {
        "network": {
            "defaultDeny": effective.default_deny,
            "allowHosts": list(dict.fromkeys(rule.host for rule in effective.egress)),
        },
        "egress": {"rules": [to_wire(rule) for rule in effective.egress], "deny": list(effective.denied_hosts)},
        "secrets": [_secret(lease) for lease in effective.secrets],
        "files": {
            "workspace": effective.workspace,
            "inPlace": effective.in_place,
            "readable": list(effective.readable),
            **captured,
        },
    }


def _secret(lease: SecretLease) -> Json:
    terms = to_wire(lease)
    return {"name": terms.pop("name"), "scope": terms.pop("scope"), "lease": terms}


def _bounds(effective: Effective) -> Json:
    return {
        "tier": effective.tier,
        "minimumTier": effective.minimum_tier,
        "fallback": effective.fallback,
        "demands": [to_wire(demand) for demand in effective.demands],
        "limits": to_wire(effective.limits),
        "budget": to_wire(effective.budget),
        "reply": to_wire(effective.reply),
        "retention": to_wire(effective.retention),
        "restricted": {"names": list(effective.restricted), "mask": effective.mask},
        "withheldClasses": list(effective.withheld_classes),
    }


def _said(value: Any) -> Any:
    """Leave out every field that says nothing; older readers take no null."""
    if type(value) is dict:
        return {
            name: _said(item) if type(item) in _NESTED else item for name, item in value.items() if item is not None
        }
    return [_said(item) if type(item) in _NESTED else item for item in value]


_NESTED: Final = frozenset({dict, list})  # asked before the call: most values are leaves
