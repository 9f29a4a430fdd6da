"""Rules, compiled to answer whether they speak about a request.

What permits matches strictly, what forbids matches broadly: an allow rule knows a program by its bare name or its
place in the system, a deny or ask rule knows it by its name at any path; an exception is the other way round.
Rules are found by the program that they name or the requester they concern, so that a long file costs little.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import attrgetter
from typing import Final

from tipstaff.policy import document, hosts
from tipstaff.policy.bounds import LIMIT_NAMES, amount_of
from tipstaff.policy.case import Case
from tipstaff.policy.patterns import any_of
from tipstaff.policy.programs import ArgvPattern, basename

Test = Callable[[Case], bool]

STEERING: Final = any_of(  # variables that make a known program run something else
    (
        "GIT_*", "PYTHON*", "PERL*", "RUBY*", "NODE_*", "NPM_CONFIG_*", "npm_config_*", "JAVA_TOOL_OPTIONS",
        "_JAVA_OPTIONS", "JDK_*", "*PAGER", "*EDITOR", "VISUAL", "BROWSER", "SHELL", "LESS*", "*_COMMAND", "*_RSH",
        "*_ASKPASS", "CARGO_*", "RUST*", "GO*", "CC", "CXX", "MAKEFLAGS", "*RC", "*_HOME", "*CONFIG*", "PIP_*",
        "UV_*", "XDG_*", "*_OPTIONS", "*_OPTS", "OPENSSL_*", "MAKEFILES", "GNUMAKEFLAGS", "*_SSH", "*_CONNECT_PROG",
        "*INIT", "CLASSPATH", "AWK*PATH", "LUA*", "HGRCPATH", "PHP*", "BUN_*", "DENO_*", "DOTNET_*", "CORECLR_*",
        "GEM_*", "BUNDLE_*", "ZDOTDIR",
    )
)  # fmt: skip


class Condition:
    """A `when` or an `except`: every test must hold."""

    __slots__ = ("_questions", "_tests", "concerns", "programs")

    def __init__(self, condition: document.Condition, *, broad: bool) -> None:
        argv = tuple(ArgvPattern(pattern) for pattern in condition.argv or ())
        self._tests = _tests(condition, argv, broad=broad)
        self._questions = tuple(test for _, test in self._tests)
        self.programs = _programs(argv)
        self.concerns = any_of(condition.principals or ("*",))

    def matches(self, case: Case) -> bool:
        """Say whether every test holds for `case`."""
        for holds in self._questions:  # noqa: SIM110 - a loop is twice as fast here as `all` over a generator
            if not holds(case):
                return False
        return True

    def matches_given(self, case: Case, given: frozenset[str], *, unknown: bool) -> bool:
        """Judge an example, which speaks only of the facets in `given`; `unknown` is the answer for the others."""
        return all(test(case) if facet in given else unknown for facet, test in self._tests)


class Rule:
    """One rule, ready to be asked."""

    __slots__ = ("_exceptions", "_when", "concerns", "id", "index", "maxima", "programs", "source")

    def __init__(self, rule: document.Rule, index: int) -> None:
        forbids = rule.effect != "allow"
        when = document.Condition() if rule.when == "any" else rule.when
        self.id = rule.id
        self.index = index
        self.source = rule
        self._when = Condition(when, broad=forbids)
        self._exceptions = tuple(Condition(exception, broad=not forbids) for exception in rule.exceptions)
        self.programs = self._when.programs
        self.concerns = self._when.concerns  # can this rule speak about a requester of that id at all?
        self.maxima = {
            name: amount_of(name, most) for name in LIMIT_NAMES if (most := getattr(rule.limits, name)) is not None
        }

    def matches(self, case: Case) -> bool:
        """Say whether this rule speaks about `case`."""
        if not self._when.matches(case):
            return False
        return not self._exceptions or not any(exception.matches(case) for exception in self._exceptions)

    def matches_given(self, case: Case, given: frozenset[str]) -> bool:
        """Judge an example: what it does not mention is taken as met by the rule and as not excepted."""
        return self._when.matches_given(case, given, unknown=True) and not any(
            exception.matches_given(case, given, unknown=False) for exception in self._exceptions
        )


class RuleBook:
    """All rules of a policy, found by program where they name one."""

    __slots__ = ("_by_program", "_general", "rules")

    def __init__(self, rules: Iterable[document.Rule]) -> None:
        self.rules = tuple(Rule(rule, index) for index, rule in enumerate(rules))
        general = [rule for rule in self.rules if rule.programs is None]
        # Requesters come back: which rules can concern one is worked out once. A pure table, of bounded size.
        self._general = lru_cache(maxsize=256)(lambda who: tuple(rule for rule in general if rule.concerns(who)))
        self._by_program: dict[str, list[Rule]] = {}
        for rule in self.rules:
            for program in rule.programs or ():
                self._by_program.setdefault(program, []).append(rule)

    def matching(self, case: Case) -> list[Rule]:
        """List the rules that speak about `case`."""
        found = [rule for rule in self._general(case.principal) if rule.matches(case)]
        if case.command is not None:
            found += [rule for rule in self._by_program.get(basename(case.command), ()) if rule.matches(case)]
        return found


def _tests(
    condition: document.Condition, argv: tuple[ArgvPattern, ...], *, broad: bool
) -> tuple[tuple[str, Test], ...]:
    """Compile the keys that are given, the cheap ones first."""
    kinds = frozenset(condition.kinds or ())
    made: list[tuple[str, object, Callable[[], Test]]] = [
        ("kinds", condition.kinds, lambda: lambda case: case.kind in kinds),
        ("argv", condition.argv, lambda: _argv_test(argv, broad=broad)),
        ("principals", condition.principals, lambda: _name_test("principal", condition.principals)),
        ("doors", condition.doors, lambda: _name_test("door", condition.doors)),
        ("agents", condition.agents, lambda: _name_test("agent", condition.agents)),
        ("pools", condition.pools, lambda: _name_test("pool", condition.pools)),
        ("tools", condition.tools, lambda: _tool_test(condition.tools, broad=broad)),
        ("secrets", condition.secrets, lambda: _secret_test(condition.secrets, broad=broad)),
        ("hosts", condition.hosts, lambda: _host_test(condition.hosts, broad=broad)),
    ]
    return tuple((facet, make()) for facet, given, make in made if given is not None)


def _name_test(facet: str, patterns: tuple[str, ...] | None) -> Test:
    match, read = any_of(patterns or ()), attrgetter(facet)
    return lambda case: match(read(case))


def _tool_test(patterns: tuple[str, ...] | None, *, broad: bool) -> Test:
    match = any_of(patterns or ())
    # A name that the caller chose must not open a rule that permits: there, every judged name has to match.
    together = any if broad else all
    return lambda case: together(match(tool) for tool in case.tools)


def _secret_test(patterns: tuple[str, ...] | None, *, broad: bool) -> Test:
    match = any_of(patterns or ())
    # What is permitted for one secret or host must not carry another along.
    together = any if broad else all
    return lambda case: bool(case.secrets) and together(match(name) for name in case.secrets)


def _host_test(patterns: tuple[str, ...] | None, *, broad: bool) -> Test:
    normal = tuple(hosts.normal_pattern(pattern) for pattern in patterns or ())
    meets, together = (hosts.overlaps, any) if broad else (hosts.covers, all)
    return lambda case: (
        bool(case.hosts) and together(any(meets(pattern, host) for pattern in normal) for host in case.hosts)
    )


def _argv_test(patterns: tuple[ArgvPattern, ...], *, broad: bool) -> Test:
    def test(case: Case) -> bool:
        command = case.command
        if command is None or not any(pattern.matches(command, case.args, broad=broad) for pattern in patterns):
            return False
        # With GIT_SSH_COMMAND set, `git fetch` is not the command that the rule's author had in mind.
        environment = case.execution.env
        names = (*environment.vars, *(mapped.env for mapped in environment.secrets))
        return broad or not any(map(STEERING, names))

    return test


def _programs(patterns: tuple[ArgvPattern, ...]) -> frozenset[str] | None:
    """List the programs by which a condition can be found, or None when it must be tried for every request."""
    if not patterns or any(pattern.programs is None for pattern in patterns):
        return None
    return frozenset(program for pattern in patterns for program in pattern.programs or ())
