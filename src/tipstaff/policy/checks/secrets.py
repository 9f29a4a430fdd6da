"""Which secrets may be released, and on which terms: each name that is asked for needs a grant of its own."""

from tipstaff.model.decision import SecretLease
from tipstaff.policy.case import Case, Cure, Findings, shown
from tipstaff.policy.compiled import SecretEntry
from tipstaff.policy.patterns import escape
from tipstaff.policy.remedy import Edit, appended

MILLISECONDS = 1000


def check(case: Case, findings: Findings) -> tuple[SecretLease, ...]:
    """Judge the secrets and give their leases."""
    leases = []
    for name in sorted(set(case.secrets)):
        named = [entry for entry in case.policy.tables.secrets if entry.matches(name)]
        fitting = [entry for entry in named if entry.principals(case.principal) and entry.pools(case.pool)]
        if fitting:
            leases.append(_lease(name, fitting[0]))
        else:
            message = f"{shown(name)} may not be released to {shown(case.principal)} in the pool {shown(case.pool)}"
            findings.deny("secrets", message, _cure(case, name, named))
    return tuple(leases)


def _lease(name: str, entry: SecretEntry) -> SecretLease:
    grant = entry.grant
    return SecretLease(
        name=name,
        scope=grant.scope,
        way=grant.way,
        header=grant.header,
        hosts=grant.hosts,
        methods=grant.methods,
        paths=grant.paths,
        uses=grant.uses,
        ttl_seconds=None if grant.ttl is None else max(1, grant.ttl // MILLISECONDS),
        rule=f"secrets:{grant.name}",
    )


def _cure(case: Case, name: str, named: list[SecretEntry]) -> Cure:
    def cure() -> tuple[Edit, ...]:
        value = case.policy.value
        # On the terms of the entry that has the name, but for this requester in this pool alone.
        terms = value["secrets"][named[0].index] if named else {}
        own = {"name": escape(name), "pools": [escape(case.pool)], "principals": [escape(case.principal)]}
        return (appended(value, ("secrets",), terms | own),)

    return cure
