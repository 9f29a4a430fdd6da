"""`tipstaff policy check`: say what a policy means, what looks wrong in it, and whether a tier can hold it.

Exit code 0: it loads, and the tier enforces every clause that the policy does not tolerate less of. 1: some clause
would be refused. 65: the file is not a policy; the error names its line and column. Remarks do not change the code.
The tier is judged at its best; `tipstaff doctor` says what it does on this machine.

Example:
  tipstaff policy check policy.yaml
  tipstaff policy check shipped:local --tier process
"""

import argparse
from typing import Any

from tipstaff.doors.cli.output import emit_json, say
from tipstaff.doors.cli.policy.documents import POLICY_HELP, policy_text
from tipstaff.model.tiers import OURS, at_best
from tipstaff.policy.checks.tiers import AUTO
from tipstaff.policy.compiled import Policy
from tipstaff.policy.describe import describe
from tipstaff.policy.enforceable import ClauseReport, enforceable
from tipstaff.policy.lint import remarks
from tipstaff.policy.load import parse_policy

HEADINGS = {"allows": "allows", "asks": "asks first", "refuses": "always refuses", "grants": "grants, when asked for"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", metavar="FILE", help=POLICY_HELP)
    parser.add_argument("--tier", choices=OURS, help="the tier to judge (default: the policy's own)")


def run(args: argparse.Namespace) -> int:
    """Load the policy and tell."""
    policy = parse_policy(*policy_text(args.file))
    default = policy.document.tiers.default
    tier = args.tier or (policy.document.tiers.minimum if default == AUTO else default)
    clauses = enforceable(policy, at_best(tier))
    if args.json:
        emit_json(_as_json(policy, tier, clauses))
    else:
        _tell(policy, tier, clauses)
    return int(any(clause.answer == "refused" for clause in clauses))


def _tell(policy: Policy, tier: str, clauses: tuple[ClauseReport, ...]) -> None:
    say(f"{policy.source}: the policy `{policy.name}`, {policy.hash[:12]}")
    for key, sentences in describe(policy)._asdict().items():
        if sentences:
            say(f"{HEADINGS[key]}:")
        for sentence in sentences:
            say(f"  {sentence}")
    found = [(_place(policy, remark.path), remark.message) for remark in remarks(policy)]
    if found:
        say("look at:")
    for (line, column), message in found:
        say(f"  {policy.source}:{line}:{column}: {message}")
    short = [clause for clause in clauses if clause.answer in ("refused", "tolerated")]
    say(f"in {tier}:" if short else f"in {tier}: every clause is enforced")
    for clause in short:
        say(f"  {clause.message}")


def _place(policy: Policy, path: tuple[str | int, ...]) -> tuple[int, int]:
    return policy.tree.spot(path)[:2] if policy.tree else (1, 1)


def _as_json(policy: Policy, tier: str, clauses: tuple[ClauseReport, ...]) -> dict[str, Any]:
    warnings = [(_place(policy, remark.path), remark.message) for remark in remarks(policy)]
    return {
        "file": policy.source,
        "name": policy.name,
        "hash": policy.hash,
        **{key: list(sentences) for key, sentences in describe(policy)._asdict().items()},
        "warnings": [{"line": line, "column": column, "message": message} for (line, column), message in warnings],
        "tier": tier,
        "clauses": [
            {"clause": clause.clause, "answer": clause.answer, "strength": clause.strength, "by": clause.by}
            for clause in clauses
        ],
        "ok": not any(clause.answer == "refused" for clause in clauses),
    }
