"""The variables that lead a sandbox's programs to its gate. Pure, and imports next to nothing: every run has them."""

from typing import Final

LEADING: Final = ("http_proxy", "https_proxy", "all_proxy")  # curl reads the first in lower case only: CVE-2016-5385
# What a request may set otherwise. Of Node's versions, those before 22.21 and 24 look at no proxy variable.
DEFAULTS: Final = {"NODE_OPTIONS": "--require=/etc/tipstaff-fetch.cjs"}
DIRECT: Final = "localhost,127.0.0.1,::1"  # servers that the command starts itself are inside, and need no gate


def proxy_variables(port: int, credentials: str = "") -> dict[str, str]:
    """Lead every program to the gate at `port` of the loopback; `credentials` are `user:password`, URL-safe."""
    login = f"{credentials}@" if credentials else ""
    gate = dict.fromkeys(LEADING, f"http://{login}127.0.0.1:{port}") | {"no_proxy": DIRECT}
    return gate | {name.upper(): value for name, value in gate.items()} | {"NODE_USE_ENV_PROXY": "1"}
