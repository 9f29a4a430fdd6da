"""Who asks, and for what by name: requester, tools, safe mode, restricted names, pools, agents, disclosure."""

from typing import TYPE_CHECKING

from tipstaff.model.execution import AgentRun, Argv, Execution, Shell
from tipstaff.policy.case import Case, Cure, Findings, shown
from tipstaff.policy.patterns import escape, glob, is_literal
from tipstaff.policy.programs import basename
from tipstaff.policy.remedy import Edit, Remove, appended, assigned

if TYPE_CHECKING:
    from tipstaff.policy.compiled import PrincipalEntry


def check(case: Case, findings: Findings) -> None:
    """Judge everything about the request that is a name."""
    _check_identity(case, findings)
    _check_principals(case, findings)
    _check_safe_mode(case, findings)
    _check_restricted(case, findings)
    _check_pool(case, findings)
    _check_agents(case, findings)
    _check_disclosure(case, findings)
    _check_text(case, findings)


def _check_identity(case: Case, findings: Findings) -> None:
    actor, facts = case.request.requested_by, case.facts
    if facts.authenticated is not None and facts.authenticated != actor.id:
        message = f"the door proved {shown(facts.authenticated)}, the request says {shown(actor.id)}"
        findings.deny("builtin.requester", message)
    if facts.authenticated_kind is not None and facts.authenticated_kind != actor.kind:
        findings.deny(
            "builtin.requester", f"the door proved a {facts.authenticated_kind}, the request says {actor.kind}"
        )
    if not actor.id.isprintable():
        findings.deny("builtin.requester", f"the requester's id {shown(actor.id)} has characters that cannot be shown")


def _check_principals(case: Case, findings: Findings) -> None:
    actor = case.request.requested_by
    named = (entry for entry in case.policy.tables.principals if entry.matches(actor.id))
    fitting = [entry for entry in named if not entry.kinds or actor.kind in entry.kinds]
    if not fitting:
        message = f"no entry of `principals` names {shown(actor.id)} as {actor.kind}"
        findings.deny("principals", message, lambda: _name_principal(case, case.tools))
        return
    for tool in case.tools:
        _check_tool(case, tool, fitting, findings)


def _check_tool(case: Case, tool: str, entries: "list[PrincipalEntry]", findings: Findings) -> None:
    who = shown(case.principal)
    denying = [entry for entry in entries if entry.denies(tool)]
    if denying:
        findings.deny("principals", f"{who} may not use the tool {shown(tool)}", lambda: _undeny(case, tool, denying))
    if not any(entry.allows(tool) for entry in entries):
        message = f"{who} is not allowed the tool {shown(tool)}"
        findings.deny("principals", message, lambda: _allow_tool(case, tool, entries))


def _check_safe_mode(case: Case, findings: Findings) -> None:
    if not case.policy.document.safe_mode:
        return
    # Only what the site declared can be trusted to read: a caller's word about its own tool counts for nothing.
    effect = case.request.tool_effect if case.facts.tool_bound else "execute"
    if effect != "read":
        message = f"safe mode refuses everything that does not only read; this would {effect}"
        findings.deny("safe-mode", message, lambda: (assigned(case.policy.value, ("safe_mode",), value=False),))


def _check_restricted(case: Case, findings: Findings) -> None:
    restricted = case.policy.tables.restricted
    for name in sorted({case.request.tool, *_programs(case.execution)}):
        if name.casefold() in restricted:
            findings.deny("restricted", f"nobody runs {shown(name)} here", _unrestrict(case, name))


def _programs(execution: Execution) -> tuple[str, ...]:
    """Name what would be started: a script starts its interpreter, whatever it starts then."""
    if isinstance(execution, Argv):
        return (basename(execution.command),)
    if isinstance(execution, Shell):
        return (execution.shell,)
    return (execution.agent.kind,) if isinstance(execution, AgentRun) else ("python", "python3")


def _check_pool(case: Case, findings: Findings) -> None:
    if not case.policy.tables.pools(case.pool):
        message = f"the pool {shown(case.pool)} may not be used"
        findings.deny("pools", message, lambda: _appended(case, "pools", case.pool, ["default"]))


def _check_agents(case: Case, findings: Findings) -> None:
    allowed = case.policy.tables.agents
    if allowed is None:
        return
    for kind in sorted({case.agent, case.request.agent_kind}):
        if not allowed(kind):
            message = f"the agent kind {shown(kind)} may not run"
            findings.deny("agents", message, _cure_agent(case, kind))


def _check_disclosure(case: Case, findings: Findings) -> None:
    wanted, offered = case.request.disclosure, case.policy.document.disclosure
    if wanted not in offered:
        message = f"the disclosure {shown(wanted)} may not be asked for"
        findings.deny("disclosure", message, lambda: _appended(case, "disclosure", wanted, list(offered)))


def _check_text(case: Case, findings: Findings) -> None:
    if any("\0" in text for text in _texts(case.execution)):
        findings.deny("builtin.execution", "a command line or script holds a NUL, which no program can be given")


def _texts(execution: Execution) -> tuple[str, ...]:
    if isinstance(execution, Argv):
        return (execution.command, *execution.args)
    if isinstance(execution, Shell):
        return (execution.script,)
    return (execution.prompt,) if isinstance(execution, AgentRun) else (execution.source, *execution.args)


def _name_principal(case: Case, tools: tuple[str, ...]) -> tuple[Edit, ...]:
    """Add an entry of its own: a longer list in another entry would be for everybody whom that one names."""
    actor = case.request.requested_by
    entry = {"id": escape(actor.id), "kinds": [actor.kind], "tools": {"allow": [escape(tool) for tool in tools]}}
    return (appended(case.policy.value, ("principals",), entry),)


def _allow_tool(case: Case, tool: str, entries: "list[PrincipalEntry]") -> tuple[Edit, ...]:
    own = next((entry for entry in entries if is_literal(entry.id)), None)
    if own is None:
        return _name_principal(case, (tool,))
    return (appended(case.policy.value, ("principals", own.index, "tools", "allow"), escape(tool)),)


def _undeny(case: Case, tool: str, entries: "list[PrincipalEntry]") -> tuple[Edit, ...]:
    found = [
        Remove(("principals", entry.index, "tools", "deny", place))
        for entry in entries
        for place, pattern in enumerate(case.policy.document.principals[entry.index].tools.deny)
        if glob(pattern)(tool)
    ]
    return tuple(reversed(found))  # from the end, so that no removal moves the next one's place


def _unrestrict(case: Case, name: str) -> Cure:
    place = case.policy.tables.restricted[name.casefold()]
    plain = isinstance(case.policy.value["restricted"], list)
    return lambda: (Remove(("restricted", place) if plain else ("restricted", "names", place)),)


def _cure_agent(case: Case, kind: str) -> Cure:
    return lambda: (appended(case.policy.value, ("agents",), escape(kind)),)


def _appended(case: Case, section: str, name: str, default: list[str]) -> tuple[Edit, ...]:
    """Add to a list that the file may have left to its default, which then has to be written out."""
    if section in case.policy.value:
        return (appended(case.policy.value, (section,), escape(name)),)
    return (assigned(case.policy.value, (section,), [*default, escape(name)]),)
