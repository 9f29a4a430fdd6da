"""The variables that a request asks for: their names, and what may be inherited from the runner's host.

Some names are ours: they find programs, load code into every process or say whom to trust, and the run gets them from
us. A request that sets one is refused, not corrected, so that nobody believes it was set.
"""

import re
from collections.abc import Iterator
from typing import Final

from tipstaff.policy.case import Case, Cure, Findings, shown
from tipstaff.policy.patterns import any_of, escape
from tipstaff.policy.remedy import appended

MARKER: Final = "__WARRANT_SECRET__:"  # how the protocol spells a secret's place; as a literal it is a forgery

FINDING: Final = ("PATH", "HOME")  # where programs and their settings are found
LOADING: Final = (  # code or settings that every process of a kind takes in as it starts
    "LD_*", "GLIBC_TUNABLES", "GCONV_PATH", "BASH_ENV", "ENV", "IFS", "BASH_FUNC_*", "SHELLOPTS", "BASHOPTS", "PS4",
)  # fmt: skip
ROUTING: Final = ("*_proxy",)  # in any case; the gate is the only way out and says so itself
TRUSTING: Final = (
    "SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "PIP_CERT",
    "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "CODEX_CA_CERTIFICATE", "AWS_CA_BUNDLE",
    "CARGO_HTTP_CAINFO", "DENO_CERT", "NIX_SSL_CERT_FILE", "npm_config_cafile", "HTTPLIB2_CA_CERTS",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
)  # fmt: skip
OURS: Final = FINDING + LOADING + TRUSTING + ("TIPSTAFF_*",)

_ours = any_of(OURS)
_routes = any_of(ROUTING)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}\Z")


def is_ours(name: str) -> bool:
    """Say whether no request may set the variable `name`."""
    return _ours(name) or _routes(name.lower())


def fault_of_name(name: str) -> str | None:
    """Say why `name` cannot be a variable of a run, or None when it can."""
    if not _NAME.match(name):
        return f"{shown(name)} is not a name for a variable"
    return f"{shown(name)} is set by Tipstaff itself" if is_ours(name) else None


def check(case: Case, findings: Findings) -> tuple[str, ...]:
    """Judge the variables and give the names that may be inherited."""
    environment = case.execution.env
    for fault in _faults(case):
        findings.deny("builtin.environment", fault)
    for name in environment.inherit:
        if not case.policy.tables.inherit(name):
            message = f"{shown(name)} may not be inherited from the runner's host"
            findings.deny("env.inherit", message, _cure_inherit(case, name))
    return tuple(sorted(set(environment.inherit)))


def _faults(case: Case) -> Iterator[str]:
    environment = case.execution.env
    names = (*environment.vars, *environment.inherit, *(mapped.env for mapped in environment.secrets), *case.secrets)
    yield from (fault for name in names if (fault := fault_of_name(name)))
    for name, value in environment.vars.items():
        if "\0" in value:
            yield f"the value of {shown(name)} holds a NUL"
        if value.startswith(MARKER):
            yield f"the value of {shown(name)} is written like a secret's place; ask for the secret by name"


def _cure_inherit(case: Case, name: str) -> Cure:
    return lambda: (appended(case.policy.value, ("env", "inherit"), escape(name)),)
