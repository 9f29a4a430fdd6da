"""What all connections of one gate share: its terms and options, the accounts of its rules, one pipe."""

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
        self._accounts: dict[EgressRule | None, Account] = {}

    def account(self, rule: EgressRule | None) -> Account:
        """Give the account of a rule, which lasts as long as the run."""
        return self._accounts.setdefault(rule, Account(rule))
