"""A request laid out for judgement: the facets that rules look at, and the findings that checks write down.

The facets come from the execution that would run, never from a label beside it. A finding is one rule's word; what
would remedy it is worked out only when somebody asks, so that deciding stays fast.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from tipstaff.model.decision import Effect, Reason, Requirement
from tipstaff.model.execution import AgentRun, Argv, Execution, Python, Shell, agent_kind
from tipstaff.model.facts import Facts
from tipstaff.model.network import EgressRule
from tipstaff.model.request import Request
from tipstaff.policy.hosts import normal_pattern
from tipstaff.policy.remedy import Edit

if TYPE_CHECKING:
    from tipstaff.policy.compiled import Policy

KINDS: Final = {Argv: "argv", Shell: "shell", Python: "python", AgentRun: "agent"}
BUILTIN_TOOLS: Final = {"argv": "run", "shell": "run", "python": "run", "agent": "agent"}
SHOWN: Final = 120  # characters of a requester's text in a message: enough to know it by

Cure = Callable[[], tuple[Edit, ...]]


class Case(NamedTuple):
    """One request, as rules see it."""

    request: Request
    facts: Facts
    policy: "Policy"
    execution: Execution
    kind: str
    agent: str
    principal: str
    tools: tuple[str, ...]  # every name that must be allowed
    door: str
    pool: str
    secrets: tuple[str, ...]
    hosts: tuple[str, ...]  # normal; one that has no normal form is refused by itself and matches no rule
    command: str | None
    args: tuple[str, ...]


class Finding(NamedTuple):
    """One rule's word, and how the policy would have to change for it to fall away."""

    rule: str
    effect: Effect
    message: str
    cure: Cure | None = None

    @property
    def reason(self) -> Reason:
        """The finding without its remedy, as a decision carries it."""
        return Reason(rule=self.rule, effect=self.effect, message=self.message)


class Findings:
    """What the checks found, in the order found; `judge` sorts it."""

    __slots__ = ("allowed", "asked", "denied", "notes", "requirements")

    def __init__(self) -> None:
        self.denied: list[Finding] = []
        self.asked: list[Finding] = []
        self.allowed: list[Finding] = []
        self.notes: list[Finding] = []  # clamped limits, a raised tier: true whatever the rules said
        self.requirements: list[Requirement] = []

    def deny(self, rule: str, message: str, cure: Cure | None = None) -> None:
        """Write down that `rule` forbids the request."""
        self.denied.append(Finding(rule, "deny", message, cure))

    def note(self, rule: str, message: str) -> None:
        """Write down what `rule` changed about the request without forbidding it."""
        self.notes.append(Finding(rule, "allow", message))


def open_case(request: Request, policy: "Policy", facts: Facts) -> Case:
    """Lay `request` out by what would really run."""
    execution = request.effective
    kind = KINDS[type(execution)]
    argv = execution if isinstance(execution, Argv) else None
    return Case(
        request=request,
        facts=facts,
        policy=policy,
        execution=execution,
        kind=kind,
        agent=agent_kind(execution),
        principal=request.requested_by.id,
        tools=judged_tools(request.tool, kind, bound=facts.tool_bound),
        door=request.door,
        pool=request.pool,
        secrets=request.secret_names,
        hosts=_normal_hosts(request),
        command=argv.command if argv else None,
        args=argv.args if argv else (),
    )


def judged_tools(tool: str, kind: str, *, bound: bool) -> tuple[str, ...]:
    """List the tool names that must all be allowed: a name that the caller chose buys nothing by itself."""
    builtin = BUILTIN_TOOLS[kind]
    if not tool:
        return (builtin,)
    return (tool,) if bound or tool == builtin else (tool, builtin)


def wanted_egress(request: Request) -> Iterable[tuple[EgressRule, bool]]:
    """List every way out that is asked for, and whether it is a plain host, which takes whatever its grant gives."""
    for rule in request.egress.rules:
        yield rule, False
    for host in request.network.allow_hosts:
        yield EgressRule(host=host), True


def shown(text: str) -> str:
    """Spell a requester's text for a message: printable, bounded, in backquotes."""
    kept = text if len(text) <= SHOWN else text[:SHOWN] + "…"
    if not kept.isprintable():
        kept = "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in kept)
    return f"`{kept}`"


def _normal_hosts(request: Request) -> tuple[str, ...]:
    if not request.egress.rules and not request.network.allow_hosts:
        return ()
    found = []
    for rule, _ in wanted_egress(request):
        try:
            found.append(normal_pattern(rule.host))
        except ValueError:
            continue  # the network check refuses it and says why
    return tuple(found)
