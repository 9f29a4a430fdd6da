"""The imports of a run, without what the standard library takes along only in case.

asyncio asks for OpenSSL, and msgspec for typing_extensions, where they are installed; no run needs either to start.
What is only used when something is described, quoted or has gone wrong is loaded at its first use. Changes when things
are imported, never what.
"""

import os
import sys
from _thread import RLock
from importlib.util import find_spec, module_from_spec
from types import ModuleType

_ABSENT = ("ssl", "typing_extensions")  # asked for in a `try`
_LATER: dict[str, dict[str, object]] = {  # with the names that others look up while they are imported
    "gettext": {"gettext": lambda text: text, "ngettext": lambda one, many, count: one if count == 1 else many},
    "inspect": {},
    "ipaddress": {},
    "platform": {"system": lambda: os.uname().sysname},
    "textwrap": {},
    "tokenize": {},
    "urllib.parse": {"quote_from_bytes": lambda data, safe="/": sys.modules["urllib.parse"].quote(data, safe)},
}
_loading = RLock()
TYPE_CHECKING = False  # as in tipstaff/__init__.py: type checkers take it as true
if TYPE_CHECKING:
    from typing import Any


def import_lean() -> None:
    """Import asyncio and msgspec for those who import them later."""
    for name, ready in _LATER.items():
        _defer(name, ready)
    absent = [name for name in _ABSENT if name not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]  # None is the import system's word for: absent
    try:
        import asyncio  # noqa: F401, PLC0415 - imported for those who import it later

        import msgspec  # noqa: F401, PLC0415 - as above
    finally:
        for name in absent:
            del sys.modules[name]


class _Later(ModuleType):
    """A module that is loaded when a name of its own is first looked up; LazyLoader's are by any `import`, in 3.11."""

    def __getattr__(self, name: str) -> "Any":
        if name == "__path__":  # which the import system asks of any module, and only packages have
            raise AttributeError(name)
        with _loading:
            if type(self) is _Later and self.__spec__ is not None and self.__spec__.loader is not None:
                self.__class__ = ModuleType  # type: ignore[assignment]  # it is one from here on
                self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def _defer(name: str, ready: dict[str, object]) -> None:
    spec = find_spec(name)
    if name not in sys.modules and spec is not None:
        module = sys.modules[name] = module_from_spec(spec)
        module.__dict__.update(ready)
        module.__class__ = _Later
        package, _, own = name.rpartition(".")
        if package:
            setattr(sys.modules[package], own, module)
