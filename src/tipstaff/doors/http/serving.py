"""Serving: a socket, uvicorn on it, and an orderly end.

Plain HTTP is for this machine only, unless the operator says otherwise in so many words: tokens pass here. The ready
line comes when the plane listens, not before. SIGTERM and SIGINT end it: what waits is told at once, what works is
finished, and the exit code is 0.
"""

import asyncio
import contextlib
import os
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Generator
from typing import Any, Final

import uvicorn
from uvicorn.config import Config

from tipstaff.doors.http.accepting import Accepting
from tipstaff.doors.http.app import build
from tipstaff.doors.http.protocol import BoundedProtocol
from tipstaff.doors.http.settings import Settings, Tls
from tipstaff.doors.http.waking import Bell
from tipstaff.errors import RefusedError, UsageError
from tipstaff.plane import Plane

KEEP_ALIVE_SECONDS: Final = 75
GRACE_SECONDS: Final = 10
BACKLOG: Final = 1024
Ready = Callable[[str], None]


class Server(uvicorn.Server):
    """Uvicorn, which says when it listens and ends as a service should."""

    def __init__(self, config: Config, bell: Bell, accepting: Accepting, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._bell = bell
        self._accepting = accepting
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002 - uvicorn's shape
        """Listen, then say so; connections are taken by us, who count them."""
        await super().startup([])
        if self.started:
            self._accepting.begin(self._protocol)
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more, and end."""
        self._accepting.end()
        await super().shutdown(sockets)

    def _protocol(self) -> BoundedProtocol:
        return BoundedProtocol(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """End by SIGTERM or SIGINT; uvicorn's own way would raise the signal again when all is done."""
        loop = asyncio.get_running_loop()
        own = threading.current_thread() is threading.main_thread()  # no other thread hears signals
        signals = (signal.SIGTERM, signal.SIGINT) if own else ()
        for one in signals:
            loop.add_signal_handler(one, self.stop)
        try:
            yield
        finally:
            for one in signals:
                loop.remove_signal_handler(one)

    def stop(self) -> None:
        """Begin to end: whoever waits is told now."""
        self._bell.close()
        self.should_exit = True


def serve(plane: Plane, settings: Settings, bell: Bell, ready: Ready) -> None:
    """Serve a plane until a signal ends it; `ready` hears the URL once it listens."""
    server, listening = server_of(plane, settings, bell, ready)
    server.run(sockets=[listening])


def server_of(plane: Plane, settings: Settings, bell: Bell, ready: Ready) -> tuple[Server, socket.socket]:
    """Make a server and take its address."""
    refuse_plain(settings)
    context = tls_context(settings.tls) if settings.tls else None
    listening = listener(settings.host, settings.port)
    url = url_of(settings, listening)
    config = Config(
        build(plane, settings, bell),
        http=BoundedProtocol,
        ws="none",
        loop="uvloop",
        lifespan="on",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    return Server(config, bell, Accepting(listening, settings, context), lambda: ready(url)), listening


def refuse_plain(settings: Settings) -> None:
    """Refuse to have tokens pass in the clear between machines."""
    if settings.tls is None and not settings.is_local and not settings.plain_http:
        raise RefusedError(
            f"{settings.host} can be reached by other machines, and plain HTTP would show them every token",
            hint="give --tls-cert FILE and --tls-key FILE, or say --plain-http if something in front does TLS",
        )


def tls_context(tls: Tls) -> ssl.SSLContext:
    """Make what TLS needs: 1.2 at least, the certificate and its key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(tls.certificate, tls.key, password=_no_password)
    except (OSError, ssl.SSLError, ValueError) as error:
        reason = (os.strerror(error.errno) if isinstance(error, FileNotFoundError | PermissionError) and error.errno
                  else "they are no PEM files that belong together, or the key has a passphrase")  # fmt: skip
        raise UsageError(f"the certificate {tls.certificate} and the key {tls.key} cannot be used: {reason}") from error
    return context


def _no_password() -> str:
    raise ValueError("the key has a passphrase")  # else OpenSSL would ask on the terminal, of a service


def listener(host: str, port: int) -> socket.socket:
    """Take the address; port 0 is any that is free."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        taken = socket.socket(family, kind, protocol)
    except OSError as error:
        raise UsageError(f"the address {host} cannot be used: {error.strerror}") from error
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(address)
        taken.listen(BACKLOG)
    except OSError as error:
        taken.close()
        hint = "choose another --port"
        raise UsageError(f"{host}:{port} cannot be listened at: {error.strerror}", hint=hint) from error
    taken.setblocking(False)  # noqa: FBT003 - the standard library's own way
    return taken


def url_of(settings: Settings, listening: socket.socket) -> str:
    """Say where the plane is, with the port that it really has."""
    address: Any = listening.getsockname()
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{'https' if settings.tls else 'http'}://{host}:{address[1]}"
