"""Why a request is decided as it is, and the smallest change of the policy that would decide it otherwise.

The change is found by trying: one reason's remedy is made in the file's own text, the file is loaded and the request
decided anew, until it is no longer denied (or, where it was only asked about, is allowed). Then every step is left out
once; what is not missed stays out. So the patch is checked before it is shown, and each of its lines is needed.
Where a remedy contradicts an example of the file, the example is part of the change. Nothing says that it is wise.
"""

from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from tipstaff.errors import PolicyError
from tipstaff.model.request import parse_request
from tipstaff.policy.edit import compact, plain, tidy
from tipstaff.policy.examples import NOBODY
from tipstaff.policy.judge import NO_FACTS, Judgement, judge
from tipstaff.policy.load import WARRANT, parse_policy, policy_from_value
from tipstaff.policy.patch import left_out, unified
from tipstaff.policy.remedy import Edit, Remedy, Remove, SetValue
from tipstaff.policy.strict_yaml import Path, Tree
from tipstaff.policy.translate import translated
from tipstaff.policy.trial import trials, untested

if TYPE_CHECKING:
    from tipstaff.model.decision import Decision, Effect, Reason
    from tipstaff.model.facts import Facts
    from tipstaff.model.request import Request
    from tipstaff.policy.compiled import Policy

MOST_STEPS: Final = 64  # each reason takes one step; a request with more wishes than that is not explained by a patch
FEW_STEPS: Final = 16  # up to here each step is left out once; that takes the square of their number
SHORT: Final = 64 * 1024  # characters of a file that is read so often

Edits = tuple[Edit, ...]
Manner = Callable[[Tree, Edits], Tree]
MANNERS: Final[tuple[Manner, ...]] = (plain, tidy, compact)  # the first in which no line is idle is taken


class Change(NamedTuple):
    """A change of the policy's text, as a patch and as the whole, and what is decided after it."""

    patch: str
    text: str
    becomes: "Effect"


class Explanation(NamedTuple):
    """A decision, the change that would turn it, and the reasons that no change of this file removes."""

    decision: "Decision"
    change: Change | None = None
    impossible: tuple["Reason", ...] = ()  # no policy can allow this
    beyond: tuple["Reason", ...] = ()  # ours could, but the file's own format (`warrant.policy.v1`) has no words for it


class _Draft(NamedTuple):
    """A policy and the text that it was read from."""

    policy: "Policy"
    tree: Tree


def explain(
    request: "Request", policy: "Policy", facts: "Facts" = NO_FACTS, *, tree: Tree | None = None
) -> Explanation:
    """Decide `request`, and find the smallest change that would let it pass, in the policy's text or in `tree`."""
    judgement = judge(request, policy, facts)
    decision, tree = judgement.decision, tree or policy.tree
    remedies = judgement.remedies
    impossible = tuple(dict.fromkeys(remedy.reason for remedy in remedies if not remedy.edits))
    if decision.effect == "allow" or tree is None:
        return Explanation(decision, None, impossible)
    beyond = tuple(remedy.reason for remedy in remedies if remedy.edits and not _edits(remedy, tree))
    if impossible or beyond:
        return Explanation(decision, None, impossible, beyond)
    return Explanation(decision, _Search(request, _Draft(policy, tree), facts, judgement).change())


def _edits(remedy: Remedy, tree: Tree) -> Edits:
    """Give the edits of a remedy in the words of the file's own format."""
    foreign = isinstance(tree.value, dict) and tree.value.get("version") == WARRANT
    return translated(remedy.edits, tree.value) if foreign else remedy.edits


class _Search:
    """The search for one change: pure, and bounded by `MOST_STEPS`."""

    def __init__(self, request: "Request", draft: _Draft, facts: "Facts", judgement: Judgement) -> None:
        self.request = request
        self.draft = draft
        self.facts = facts
        self.judgement = judgement
        self.goal = ("ask", "allow") if judgement.decision.effect == "deny" else ("allow",)

    def change(self) -> Change | None:
        """Find the change, or None where trying leads nowhere; of several spellings, one in which no line is idle."""
        steps = self._found()
        if steps is None:
            return None
        needed = self._needed(steps)
        spelled = (draft for manner in MANNERS if (draft := self._replayed(needed, manner)) is not None)
        first = next(spelled)
        best = next((draft for draft in chain([first], spelled) if not self._has_idle_line(draft.tree.text)), first)
        before, after = self.draft.tree, best.tree
        becomes = judge(self.request, best.policy, self.facts).decision.effect
        return Change(unified(before.text, after.text, before.source), after.text, becomes)

    def _found(self) -> list[Edits] | None:
        """Make the first remedy, decide anew, and so on, until the goal is reached."""
        steps: list[Edits] = []
        draft, judgement = self.draft, self.judgement
        while judgement.decision.effect not in self.goal:
            edits = _edits(judgement.remedies[0], draft.tree)
            changed = _made(draft, edits) if edits and len(steps) < MOST_STEPS else None
            if changed is None:
                return None
            steps.append(edits)
            draft, judgement = changed, judge(self.request, changed.policy, self.facts)
        return steps

    def _needed(self, steps: list[Edits]) -> list[Edits]:
        """Leave out each step that is not missed."""
        if len(steps) > FEW_STEPS or len(self.draft.tree.text) > SHORT:
            return steps
        for index in reversed(range(len(steps))):
            shorter = steps[:index] + steps[index + 1 :]
            draft = self._replayed(shorter) if shorter else None
            if draft is not None and self._is_goal(draft.policy):
                steps = shorter
        return steps

    def _replayed(self, steps: list[Edits], manner: Manner = plain) -> _Draft | None:
        draft: _Draft | None = self.draft
        for edits in steps:
            draft = _made(draft, edits, manner) if draft is not None else None
        return draft if draft is not None and self._is_goal(draft.policy) else None

    def _has_idle_line(self, text: str) -> bool:
        return any(self._passes(without) for without in left_out(self.draft.tree.text, text))

    def _passes(self, text: str) -> bool:
        try:
            return self._is_goal(parse_policy(text, self.draft.tree.source))
        except PolicyError:
            return False

    def _is_goal(self, policy: "Policy") -> bool:
        return judge(self.request, policy, self.facts).decision.effect in self.goal


def _made(draft: _Draft, edits: Edits, manner: Manner = plain) -> _Draft | None:
    """Make `edits` in the text and load it; examples that then fail are changed with it."""
    try:
        tree = manner(draft.tree, edits)
        return _with_examples_mended(_Draft(untested(tree), tree))
    except PolicyError:
        return None


def _with_examples_mended(draft: _Draft) -> _Draft:
    """Change what the examples say into what the policy now does."""
    edits = [edit for trial in trials(draft.policy) if trial.problem for edit in _mended(draft.policy, trial.path)]
    if not edits:
        return draft
    tree = plain(draft.tree, edits)
    return _Draft(policy_from_value(tree.value, tree.source, tree), tree)


def _mended(policy: "Policy", path: Path) -> list[Edit]:
    """Let a whole-policy example expect what is decided now; take away one that its rule no longer fits."""
    if path[0] != "examples":
        return [Remove(path)]
    example = policy.document.examples[int(path[1])]
    decision = judge(parse_request(NOBODY | example.request), policy, example.facts).decision
    edits: list[Edit] = [] if decision.effect == example.expect else [SetValue((*path, "expect"), decision.effect)]
    return edits if set(example.rules) <= set(decision.rules) else [*edits, Remove((*path, "rules"))]
