"""Where a run starts and which folders of the host it would see.

The working folder is relative and stays in the workspace. A folder of the host is granted only when the policy's
globs cover it and it neither contains nor lies in a protected path.
"""

from typing import NamedTuple

from tipstaff.model.execution import AgentRun
from tipstaff.policy.case import Case, Cure, Findings, shown
from tipstaff.policy.paths import PROTECTED, PathPattern, meets, normal_path, stays_inside, tidy
from tipstaff.policy.patterns import escape
from tipstaff.policy.remedy import appended


class Granted(NamedTuple):
    """The folders that a run may see."""

    workspace: str | None = None
    in_place: bool = False
    readable: tuple[str, ...] = ()


def check(case: Case, findings: Findings) -> Granted:
    """Judge the working folder and the host's folders."""
    _check_cwd(case, findings)
    files, tables = case.request.files, case.policy.tables
    workspace = None
    if files.workspace is not None:
        workspace = _folder(case, findings, files.workspace, tables.workspaces, "workspaces")
    if files.in_place:
        _check_in_place(case, findings, workspace)
    readable = [_folder(case, findings, path, tables.readable, "readable") for path in files.readable]
    return Granted(workspace, files.in_place, tuple(sorted({path for path in readable if path is not None})))


def _check_cwd(case: Case, findings: Findings) -> None:
    if not isinstance(case.execution, AgentRun) and not stays_inside(case.execution.cwd):
        message = f"the working folder {shown(case.execution.cwd)} is not a relative path inside the workspace"
        findings.deny("builtin.cwd", message)


def _check_in_place(case: Case, findings: Findings, workspace: str | None) -> None:
    if case.request.files.workspace is None:
        findings.deny("builtin.files", "working in place needs a workspace")
    elif workspace is not None and not any(pattern.covers(workspace) for pattern in case.policy.tables.in_place):
        message = f"{shown(workspace)} may not be changed in place"
        findings.deny("files", message, _cure(case, "in_place", workspace))


def _folder(case: Case, findings: Findings, text: str, patterns: tuple[PathPattern, ...], section: str) -> str | None:
    """Give `text` in its normal form, or None after writing down that it has none."""
    try:
        path = normal_path(text)
    except ValueError as fault:
        findings.deny("builtin.files", f"{shown(text)}: {fault}")
        return None
    for protected in (*PROTECTED, *case.facts.protected):
        if meets(path, tidy(protected)):
            findings.deny("builtin.files", f"{shown(path)} contains or lies in {shown(protected)}, which is protected")
    if not any(pattern.covers(path) for pattern in patterns):
        findings.deny("files", f"{shown(path)} is not covered by `files.{section}`", _cure(case, section, path))
    return path


def _cure(case: Case, section: str, path: str) -> Cure:
    return lambda: (appended(case.policy.value, ("files", section), escape(path)),)
