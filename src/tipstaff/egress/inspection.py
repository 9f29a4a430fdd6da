"""Both sides of a session's inspected connections, in the form that the gate's options take.

Holds the session's authority and what the host trusts; speaks TLS by `tls`. Made only where a rule inspects.
"""

import asyncio
from typing import TYPE_CHECKING

from tipstaff.egress import tls
from tipstaff.egress.authority import Authority
from tipstaff.egress.duplex import Duplex

if TYPE_CHECKING:
    import ssl


class Inspection:
    """One session's; `host_bundle` is what `trust.host_bundle` read."""

    def __init__(self, authority: Authority, host_bundle: str) -> None:
        self._authority = authority
        self._host_bundle = host_bundle
        self._context: ssl.SSLContext | None = None

    async def terminate(self, client: Duplex, host: str) -> Duplex:
        """Be `host` towards a client inside."""
        try:
            context = self._authority.server_context(host)
        except ValueError as fault:
            raise tls.TlsError(str(fault)) from None
        return await tls.terminate(client, context)

    async def secure(self, upstream: Duplex, host: str) -> Duplex:
        """Be a client of the real `host`."""
        if self._context is None:
            self._context = await asyncio.to_thread(tls.client_context, self._host_bundle)
        return await tls.secure(upstream, host, self._context)
