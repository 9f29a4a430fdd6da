"""`tipstaff policy explain`: say what a policy decides about a request, why, and what would change it.

Exit code 0: allowed. 1: denied. 2: people would be asked. 65: a file does not parse. The smallest change that would
let the request pass comes last, as a patch: pipe the output into `patch -p0` to make it. Nothing says that you should.

Example:
  tipstaff policy explain policy.yaml request.json
  tipstaff policy explain shipped:mcp - --json < request.json
"""

import argparse
import sys
from typing import Any

from tipstaff.doors.cli.output import emit_json, printable, say
from tipstaff.doors.cli.policy.documents import POLICY_HELP, policy_text, read_facts, read_request
from tipstaff.model.decision import Decision, Effective
from tipstaff.model.noun import to_wire
from tipstaff.policy.explain import Explanation, explain
from tipstaff.policy.load import parse_policy
from tipstaff.policy.strict_yaml import read
from tipstaff.policy.units import show_duration, show_size

EXIT_CODES = {"allow": 0, "deny": 1, "ask": 2}
VERDICTS = {"allow": "allowed", "deny": "denied", "ask": "people must approve it first"}
BECOMES = {"allow": "allowed", "ask": "asked about, no longer denied"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", metavar="FILE", help=POLICY_HELP)
    parser.add_argument("request", metavar="REQUEST", help="a request as JSON; - for stdin")
    parser.add_argument("--facts", metavar="FACTS", help="what the door and the host know, as JSON (default: nothing)")


def run(args: argparse.Namespace) -> int:
    """Explain the decision and tell."""
    text, source = policy_text(args.file)
    policy = parse_policy(text, source)
    explanation = explain(read_request(args.request), policy, read_facts(args.facts), tree=read(text, source))
    if args.json:
        emit_json(_as_json(explanation))
    else:
        _tell(explanation, source)
    return EXIT_CODES[explanation.decision.effect]


def _tell(explanation: Explanation, source: str) -> None:
    decision = explanation.decision
    say(f"{VERDICTS[decision.effect]}, by the policy `{decision.policy}`")
    for reason in decision.reasons:
        say(f"  {reason.rule}: {reason.message}")
    for requirement in decision.requirements:
        approvers = ", ".join(requirement.approvers)
        say(f"  {requirement.rule}: {requirement.quorum} of {approvers} must approve")
    if decision.effective is not None:
        say(f"  it would have: {_grants(decision.effective)}")
    _tell_change(explanation, decision, source)


def _tell_change(explanation: Explanation, decision: Decision, source: str) -> None:
    for reason in explanation.impossible:
        say(f"no policy can allow it: {reason.message}")
    for reason in explanation.beyond:
        say(f"the format of {source} has no words to allow it: {reason.message}")
    if explanation.change is not None:
        say(f"the smallest change after which it is {BECOMES[explanation.change.becomes]}:")
        _write_patch(explanation.change.patch)
    elif decision.effect != "allow" and not explanation.impossible and not explanation.beyond:
        say("no small change would allow it; look at the reasons one by one")


def _write_patch(patch: str) -> None:
    """Print the patch so that it can be piped on; a carriage return at the end of a line is the file's own."""
    for line in patch.removesuffix("\n").split("\n"):
        if line.endswith("\r"):
            sys.stdout.write(printable(line[:-1]) + "\r\n")
        else:
            say(line)


def _grants(effective: Effective) -> str:
    """Say in short what the run would have."""
    limits = effective.limits
    parts = [f"tier {effective.tier}"]
    parts += [f"at most {show_duration(limits.time_ms)}"] if limits.time_ms else []
    parts += [f"{show_size(limits.memory_bytes)} of memory"] if limits.memory_bytes else []
    parts.append(_network(effective))
    parts += [f"the secrets {', '.join(lease.name for lease in effective.secrets)}"] if effective.secrets else []
    parts += [f"the variables {', '.join(effective.inherit)}"] if effective.inherit else []
    parts += [f"the workspace {effective.workspace}"] if effective.workspace else []
    parts += [f"to read {', '.join(effective.readable)}"] if effective.readable else []
    return "; ".join(parts)


def _network(effective: Effective) -> str:
    if not effective.default_deny:
        return "an open network"
    ways = [f"{rule.host}{''.join(f':{port}' for port in rule.ports)}" for rule in effective.egress]
    return f"the hosts {', '.join(ways)}" if ways else "no network"


def _as_json(explanation: Explanation) -> dict[str, Any]:
    change = explanation.change
    return {
        "decision": to_wire(explanation.decision),
        "change": {"patch": change.patch, "text": change.text, "becomes": change.becomes} if change else None,
        "impossible": [to_wire(reason) for reason in explanation.impossible],
        "beyondFormat": [to_wire(reason) for reason in explanation.beyond],
    }
