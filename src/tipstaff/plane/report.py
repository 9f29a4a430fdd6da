"""What would leave, to where, and under which rules: the answer to a request that is only tried. Keeps nothing."""

from typing import Any

import msgspec

from tipstaff.model.contract import Manifest
from tipstaff.model.decision import Decision
from tipstaff.model.execution import agent_kind
from tipstaff.model.facts import Facts
from tipstaff.model.noun import to_wire
from tipstaff.model.request import Request, parse_request
from tipstaff.plane.authority import Authority
from tipstaff.plane.contract import check_workspace
from tipstaff.plane.intake import asked
from tipstaff.policy import decide

Json = dict[str, Any]


def disclosure_report(authority: Authority, value: Any, facts: Facts) -> Json:
    """Judge a request and tell what would come of it."""
    request = parse_request(value)
    check_workspace(request)
    decision = decide(request, authority.policy, facts)
    told = {
        "dryRun": True,
        "agent": {"kind": agent_kind(request.effective), "version": request.agent_version},
        "pool": request.pool,
        "requestedBy": to_wire(request.requested_by),
        "workspace": _workspace(request),
        "execution": to_wire(request.effective),
        "isolation": request.isolation,
        "continuation": to_wire(request.continuation) if request.continuation else None,
        "policyDecision": {
            "decision": decision.effect,
            "reason": "; ".join(f"{one.rule}: {one.message}" for one in decision.reasons),
            "consentRequirements": [asked(one) for one in decision.requirements],
        },
        "policy": decision.policy,
        "policyHash": decision.policy_hash,
        "rules": list(decision.rules),
        "reasons": [f"{one.rule}: {one.message}" for one in decision.reasons],
        **_granted(request, decision),
    }
    return {name: item for name, item in told.items() if item is not None}


def _workspace(request: Request) -> Json | None:
    if request.workspace is None:
        return None
    view = msgspec.convert(request.workspace, Manifest)
    told = {
        "baseRef": view.base_ref,
        "bundleHash": view.bundle_hash,
        "dirtyDiffHash": view.dirty_diff_hash,
        "untrackedPaths": [one.path for one in view.untracked_files or ()],
        "deniedPaths": list(request.workspace.get("deniedPaths") or ()),
        "deniedPatterns": list(request.workspace.get("deniedPatterns") or ()),
    }
    return {name: item for name, item in told.items() if item is not None}


def _granted(request: Request, decision: Decision) -> Json:
    """Say what the run would have; of a denied one, what it asked for."""
    effective = decision.effective
    if effective is None:
        return {
            "secrets": [{"name": name} for name in request.secret_names],
            "network": to_wire(request.network),
            "budget": to_wire(request.budget),
            "disclosure": request.disclosure,
        }
    return {
        "secrets": [{"name": one.name, "scope": one.scope} for one in effective.secrets],
        "network": {
            "defaultDeny": effective.default_deny,
            "allowHosts": list(dict.fromkeys(rule.host for rule in effective.egress)),
        },
        "egress": [to_wire(rule) for rule in effective.egress],
        "budget": to_wire(effective.budget),
        "limits": to_wire(effective.limits),
        "tier": effective.tier,
        "disclosure": effective.disclosure,
        "inherit": list(effective.inherit),
    }
