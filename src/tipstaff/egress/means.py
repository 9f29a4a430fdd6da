"""What all connections of one gate share: its terms and options, the accounts of its rules, one pipe."""

from collections.abc import Iterable, Iterator

from tipstaff.egress.asking import Asking
from tipstaff.egress.attempt import Account
from tipstaff.egress.dial import Dialler
from tipstaff.egress.options import Options
from tipstaff.egress.relay import Pipe
from tipstaff.egress.terms import Terms
from tipstaff.model.network import EgressRule


class Means:
    """One gate's, for the length of a run."""

    def __init__(self, terms: Terms, options: Options, dialler: Dialler) -> None:
        self.terms = terms
        self.options = options
        self.dialler = dialler
        self.asking = Asking(options.ask)
        self.pipe = Pipe()
        self._open = Account(None, None)  # of an open network
        self._accounts = {
            rule: Account(rule.max_bytes, rule.max_connections, within) for rule, within in _grants(terms)
        }

    def account(self, rule: EgressRule | None) -> Account:
        """Give the account of a rule, which lasts as long as the run."""
        return self._open if rule is None else self._accounts[rule]


def _grants(terms: Terms) -> Iterator[tuple[EgressRule, Account]]:
    """Give each rule the account of its grant: who asks for several hosts below one grant gets its bounds once."""
    groups: dict[str, list[EgressRule]] = {}
    for rule in terms.rules:
        groups.setdefault(rule.rule or rule.host, []).append(rule)
    for rules in groups.values():
        grant = Account(_most(rule.max_bytes for rule in rules), _most(rule.max_connections for rule in rules))
        yield from ((rule, grant) for rule in rules)


def _most(bounds: Iterable[int | None]) -> int | None:
    given = list(bounds)
    return None if None in given else max(bound for bound in given if bound is not None)
