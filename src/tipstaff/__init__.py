"""Tipstaff executes what AI agents ask for: by policy, in a sandbox, with signed receipts.

The public names are those in `__all__`, and a test asserts the list; everything else may change without notice.
A name is imported when it is first used, so that `import tipstaff` costs next to nothing.
"""

TYPE_CHECKING = False  # type checkers take it as true; importing `typing` for it would triple the cost of this module
if TYPE_CHECKING:
    from tipstaff.doors.python import Box, arun, open, run  # noqa: A004 - `tipstaff.open()` reads well
    from tipstaff.errors import TipstaffError
    from tipstaff.evidence import Problem, Report, verify
    from tipstaff.model import Decision, Request, parse_request
    from tipstaff.model.outcome import Outcome
    from tipstaff.policy import Policy, decide, load_policy

__version__ = "0.1.0"

__all__ = [
    "Box",
    "Decision",
    "Outcome",
    "Policy",
    "Problem",
    "Report",
    "Request",
    "TipstaffError",
    "__version__",
    "arun",
    "decide",
    "load_policy",
    "open",
    "parse_request",
    "run",
    "verify",
]

_HOMES = {
    "Box": "tipstaff.doors.python",
    "Decision": "tipstaff.model",
    "Outcome": "tipstaff.model.outcome",
    "Policy": "tipstaff.policy",
    "Problem": "tipstaff.evidence",
    "Report": "tipstaff.evidence",
    "Request": "tipstaff.model",
    "TipstaffError": "tipstaff.errors",
    "arun": "tipstaff.doors.python",
    "decide": "tipstaff.policy",
    "load_policy": "tipstaff.policy",
    "open": "tipstaff.doors.python",
    "parse_request": "tipstaff.model",
    "run": "tipstaff.doors.python",
    "verify": "tipstaff.evidence",
}


def __getattr__(name: str) -> object:
    """Import a public name from the module that makes it (PEP 562), once."""
    if name not in _HOMES:
        raise AttributeError(f"module 'tipstaff' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - a program that uses no public name does not pay for it

    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the lazy names too, so that completion finds them."""
    return sorted({*globals(), *__all__})
