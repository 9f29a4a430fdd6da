"""`tipstaff policy test`: say whether the examples in a policy hold.

Lists every example: those under `match` and `no_match` of each rule, and those of the whole policy. Exit code 0: all
hold. 1: some do not; such a policy is refused everywhere else. 65: something else is wrong with the file.

Example:
  tipstaff policy test policy.yaml
"""

import argparse
from typing import Any

from tipstaff.doors.cli.output import emit_json, say
from tipstaff.doors.cli.policy.documents import POLICY_HELP, policy_text
from tipstaff.policy.compiled import Policy
from tipstaff.policy.spelling import spelling_of
from tipstaff.policy.trial import Trial, load_untested, trials

LONGEST = 100  # characters of an example in the list: enough to know it by


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", metavar="FILE", help=POLICY_HELP)


def run(args: argparse.Namespace) -> int:
    """Try the examples and tell."""
    policy = load_untested(*policy_text(args.file))
    tried = trials(policy)
    failed = sum(trial.problem is not None for trial in tried)
    if args.json:
        emit_json({"file": policy.source, "ok": not failed, "examples": [_as_json(policy, trial) for trial in tried]})
        return int(failed > 0)
    for trial in tried:
        _tell(policy, trial)
    say(f"{len(tried)} examples, {failed} failed" if tried else "there are no examples")
    return int(failed > 0)


def _tell(policy: Policy, trial: Trial) -> None:
    verdict = "ok  " if trial.problem is None else "FAIL"
    say(f"{verdict} {policy.source}:{trial.line}:{trial.column}: {_subject(policy, trial)}: {_example(trial)}")
    if trial.problem is not None:
        say(f"     {trial.problem}")


def _subject(policy: Policy, trial: Trial) -> str:
    if trial.path[0] == "examples":
        return f"expect {trial.example['expect']}"
    return f"{policy.document.rules[int(trial.path[1])].id} {trial.path[2]}"


def _example(trial: Trial) -> str:
    value = trial.example["request"] if trial.path[0] == "examples" else trial.example
    text = spelling_of("").value(value)
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


def _as_json(policy: Policy, trial: Trial) -> dict[str, Any]:
    return {
        "path": list(trial.path),
        "line": trial.line,
        "column": trial.column,
        "subject": _subject(policy, trial),
        "example": trial.example,
        "ok": trial.problem is None,
        "problem": trial.problem,
    }
