"""Claims about TLS over a duplex; an `Authority` of our own stands in for those of the Internet."""

import asyncio
import contextlib
import re
import socket
import ssl
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.egress.world import wires
from tipstaff.egress import trust
from tipstaff.egress.authority import Authority
from tipstaff.egress.duplex import Ahead, Duplex, Wire
from tipstaff.egress.tls import MAX_WAITING_BYTES, Secured, TlsError, client_context, secure, terminate

HOST = "api.example.com"
MANY_BYTES = 3 << 20
STANDING_IN = Authority()
SERVER, CLIENT = STANDING_IN.server_context(HOST), client_context(STANDING_IN.certificate_pem)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority(("*", "127.0.0.1"))


class Dribble:
    """A duplex that gives one byte at a time."""

    def __init__(self, below: Wire) -> None:
        self.below = below
        self.write, self.end, self.abort = below.write, below.end, below.abort

    async def read(self, _: int, /) -> bytes:
        return await self.below.read(1)


@contextlib.asynccontextmanager
async def secured(authority: Authority, host: str = HOST):
    """Two ends of one protected connection: the client's and the server's."""
    async with wires() as (near, far):
        yield await asyncio.gather(
            secure(near, host, client_context(authority.certificate_pem)),
            terminate(far, authority.server_context(host)),
        )


async def outcomes(near: Duplex, far: Duplex, trusted: Authority, serving: Authority, host: str = HOST):
    """Let both sides try, and say what each of them says."""
    tries = (
        secure(near, HOST, client_context(trusted.certificate_pem)),
        terminate(far, serving.server_context(host)),
    )
    done = await asyncio.gather(*tries, return_exceptions=True)
    return [str(one) if isinstance(one, TlsError) else type(one).__name__ for one in done]


async def all_of(duplex: Duplex, max_bytes: int = 10_000) -> bytes:
    parts = []
    while part := await duplex.read(max_bytes):
        parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize("host", [HOST, "127.0.0.1", "2001:db8::7"])
async def test_what_one_side_writes_the_other_reads(authority, host):
    """Bytes pass both ways at once, much more than any buffer holds, until each side says that it ends."""
    async with secured(authority, host) as (client, server):

        async def side(duplex: Secured, letter: bytes) -> bytes:
            async def send() -> None:
                await duplex.write(letter * MANY_BYTES)
                await duplex.end()

            return (await asyncio.gather(all_of(duplex), send()))[0]

        came = await asyncio.gather(side(client, b"c"), side(server, b"s"))

        assert list(came) == [b"s" * MANY_BYTES, b"c" * MANY_BYTES]


async def test_the_handshake_may_come_in_any_pieces(authority):
    """A hello that arrives byte by byte, or was read ahead by somebody, is put together."""
    async with wires() as (near, far):
        ahead = Ahead(Dribble(far))

        async def serve() -> Secured:
            ahead.give_back(await far.read(7))
            return await terminate(ahead, authority.server_context(HOST))

        client, server = await asyncio.gather(
            secure(Dribble(near), HOST, client_context(authority.certificate_pem)), serve()
        )
        await client.write(b"hello")

        assert await server.read(100) == b"hello"


async def test_only_one_protocol_is_offered(authority):
    """Both sides agree on HTTP/1.1, also where the client would rather have HTTP/2."""
    async with wires() as (near, far):
        context = ssl.create_default_context(cadata=authority.certificate_pem)
        context.set_alpn_protocols(["h2", "http/1.1"])
        client, _ = await asyncio.gather(secure(near, HOST, context), terminate(far, authority.server_context(HOST)))

        assert client._engine.selected_alpn_protocol() == "http/1.1"


async def test_one_side_may_end_first(authority):
    """Whoever has ended still reads everything that the other side sends, also what had come before."""
    async with secured(authority) as (client, server):
        await server.write(b"before ")
        await client._take_in()  # it is here, and nobody has read it
        await client.end()
        assert await all_of(server) == b""
        await server.write(b"and after")
        await server.end()

        assert await all_of(client, 3) == b"before and after"


async def test_nothing_can_be_written_after_the_end(authority):
    """A write after the end is an error, and a second end is none."""
    async with secured(authority) as (client, _):
        await client.end()
        await client.end()

        with pytest.raises(TlsError, match="shutdown"):
            await client.write(b"more")


@pytest.mark.parametrize("announced", [True, False])
async def test_an_end_must_be_announced(authority, announced):
    """A connection that just stops is an error, so that nobody takes a part for the whole; an announced end is none."""
    async with secured(authority) as (client, server):
        await server.write(b"part")
        await (server if announced else server.below).end()
        assert await client.read(100) == b"part"

        if announced:
            assert await client.read(100) == b""
        else:
            with pytest.raises(TlsError, match="without TLS being closed") as caught:
                await client.read(100)
            assert caught.value.truncated


async def test_an_aborted_connection_wakes_its_reader(authority):
    """Whoever waits for bytes when the connection is aborted gets an OSError, and does not wait for ever."""
    async with secured(authority) as (client, _):
        reading = asyncio.create_task(client.read(1))
        await asyncio.sleep(0)
        client.abort()

        with pytest.raises(OSError, match=r"."):
            await reading


async def test_bytes_that_were_changed_are_an_error(authority):
    """What somebody puts in between is not taken for data."""
    async with secured(authority) as (client, server):
        await server.below.write(b"\x17\x03\x03\x00\x20" + b"x" * 32)

        with pytest.raises(TlsError, match="TLS broke off") as caught:
            await client.read(100)
        assert not caught.value.truncated


async def test_whoever_is_not_read_waits(authority):
    """A writer whose other side does not read waits, with little in memory."""
    async with secured(authority) as (client, _):
        writing = asyncio.create_task(client.write(bytes(MANY_BYTES)))
        await asyncio.sleep(0.05)

        assert not writing.done()
        assert client._outgoing.pending <= MAX_WAITING_BYTES
        writing.cancel()


async def test_a_client_that_trusts_us_is_served(authority):
    """The twin of the faults below: both sides agree."""
    async with wires() as (near, far):
        assert await outcomes(near, far, authority, authority) == ["Secured", "Secured"]


async def test_a_client_that_does_not_trust_us_is_told_of(authority):
    """Where a client does not know the session's authority, both sides say so."""
    async with wires() as (near, far):
        client, server = await outcomes(near, far, Authority(), authority)

    assert client == f"the certificate of {HOST} is not accepted: unable to get local issuer certificate"
    assert server.startswith("the client does not trust the session's own certificate authority (")


async def test_a_certificate_of_another_host_is_not_accepted(authority):
    """A trusted server under another name is refused."""
    async with wires() as (near, far):
        client, _ = await outcomes(near, far, authority, authority, "other.example.com")

    assert client.startswith(f"the certificate of {HOST} is not accepted: Hostname mismatch")


async def test_a_certificate_that_has_expired_is_not_accepted():
    """A server whose certificate was good yesterday is refused."""
    old = Authority(life_seconds=60, now=lambda: time.time() - 86_400)
    async with wires() as (near, far):
        client, _ = await outcomes(near, far, old, old)

    assert client == f"the certificate of {HOST} is not accepted: certificate has expired"


def test_a_context_that_verifies_nothing_is_refused():
    """No caller can turn verification off by mistake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False

    async def attempt() -> None:
        async with wires() as (near, _):
            await secure(near, HOST, context)

    with pytest.raises(ValueError, match="verifies nothing"):
        asyncio.run(attempt())


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x00\x05hello", b"\0" * 64, b""])
@pytest.mark.parametrize("serving", [True, False])
async def test_garbage_is_an_error_with_a_sentence(authority, sent, serving):
    """A client or a server that does not speak TLS, or goes away, gives one error that says who it was."""
    async with wires() as (near, far):
        await far.write(sent)
        await far.end()
        attempt = (
            terminate(near, authority.server_context(HOST))
            if serving
            else secure(near, HOST, client_context(authority.certificate_pem))
        )
        with pytest.raises(TlsError, match="client" if serving else HOST):
            await attempt


@given(st.binary(max_size=300).map(lambda tail: b"\x16\x03\x01" + tail) | st.binary(max_size=300), st.booleans())
@settings(max_examples=60)
def test_no_bytes_give_another_error(sent, serving):
    """Whatever a client or a server sends in the place of a handshake, there is one kind of error."""

    async def attempt() -> None:
        async with wires() as (near, far):
            await far.write(sent)
            await far.end()
            with pytest.raises(TlsError):
                await (terminate(near, SERVER) if serving else secure(near, HOST, CLIENT))

    asyncio.run(attempt())


@pytest.mark.parametrize("serving", [True, False])
async def test_silence_is_an_error_in_time(authority, serving):
    """A side that sends nothing is not waited for longer than was said."""
    async with wires() as (near, _):
        attempt = (
            terminate(near, authority.server_context(HOST), seconds=0.02)
            if serving
            else secure(near, HOST, client_context(authority.certificate_pem), seconds=0.02)
        )
        with pytest.raises(TlsError, match="in time"):
            await attempt


async def test_a_reset_is_an_error_with_a_sentence(authority):
    """A server that resets the connection is named."""
    async with wires() as (near, far):
        far.abort()

        with pytest.raises(TlsError, match=HOST):
            await secure(near, HOST, client_context(authority.certificate_pem))


# Real clients, each of which reads another variable; every one asks for a file called `info/refs`.
ANSWER = "0123456789012345678901234567890123456789\trefs/heads/main\n"
URLLIB = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read().decode(), end='')"
HTTPS = "require('https').get(process.argv[1], r => r.pipe(process.stdout)).on('error', e => console.error(e.code))"
CLIENTS = {
    "curl": ("CURL_CA_BUNDLE", ["curl", "-sS", "--max-time", "20", "SITE/info/refs"]),
    "git": ("GIT_SSL_CAINFO", ["git", "ls-remote", "SITE", "refs/heads/main"]),
    "node": ("NODE_EXTRA_CA_CERTS", ["node", "-e", HTTPS, "SITE/info/refs"]),
    "urllib": ("SSL_CERT_FILE", [sys.executable, "-c", URLLIB, "SITE/info/refs"]),
}


@contextlib.asynccontextmanager
async def site(authority: Authority):
    """A small web site at a free port of the loopback, and the requests that it has got."""
    requests: list[bytes] = []
    context = authority.server_context("127.0.0.1")

    async def visit(sock: socket.socket) -> None:
        wire = Wire(sock)
        try:
            duplex = await terminate(wire, context)
            head = b""
            while b"\r\n\r\n" not in head and (part := await duplex.read(4096)):
                head += part
            requests.append(head)
            body = b"ref: refs/heads/main\n" if b"/HEAD" in head else ANSWER.encode()
            fields = f"Content-Length: {len(body)}\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
            await duplex.write(b"HTTP/1.1 200 OK\r\n" + fields.encode() + body)
            await duplex.end()
        except OSError:
            pass  # the client says why
        finally:
            wire.close()

    async def accept() -> None:
        async with asyncio.TaskGroup() as visits:
            while True:
                sock, _ = await asyncio.get_running_loop().sock_accept(listener)
                visits.create_task(visit(sock))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0)
        accepting = asyncio.create_task(accept())
        yield f"https://127.0.0.1:{listener.getsockname()[1]}", requests
        accepting.cancel()
        await asyncio.wait([accepting])


async def run(command: list[str], environ: dict[str, str]) -> tuple[str, str]:
    """Run a client in a small environment of its own."""
    child = await asyncio.create_subprocess_exec(
        *command,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nowhere", **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    async with asyncio.timeout(30):
        out, err = await child.communicate()
    return out.decode(), err.decode()


@pytest.fixture
def variables(narrow, tmp_path) -> dict[str, str]:
    path = tmp_path / "authorities.pem"
    path.write_text(trust.bundle("", narrow.certificate_pem)[1])
    return trust.trust_variables(str(path))


@pytest.fixture(scope="module")
def narrow() -> Authority:
    """An authority with name constraints, as sessions have them."""
    return Authority(("127.0.0.1", "*.example.com"))


@pytest.mark.parametrize("client", CLIENTS)
async def test_real_clients_trust_the_bundle(narrow, client, variables):
    """With the variables of the sandbox, curl, git, node and Python accept a server of the session's authority."""
    async with site(narrow) as (address, requests):
        out, err = await run([part.replace("SITE", address) for part in CLIENTS[client][1]], variables)

    assert (out, err) == (ANSWER, "")
    assert requests != []


@pytest.mark.parametrize("client", CLIENTS)
async def test_each_client_reads_a_variable_of_its_own(narrow, client, variables):
    """Without its variable a client refuses the server, which gets no request."""
    left = {name: value for name, value in variables.items() if name not in {CLIENTS[client][0], "SSL_CERT_FILE"}}
    async with site(narrow) as (address, requests):
        out, err = await run([part.replace("SITE", address) for part in CLIENTS[client][1]], left)

    assert out == ""
    assert re.search("cert|verify", err, re.IGNORECASE)
    assert [head for head in requests if head] == []


async def test_a_client_may_ask_for_new_keys(narrow):
    """A client that asks for new keys in the middle (TLS 1.3) gets them, and then its answer."""
    async with site(narrow) as (address, _):
        child = await asyncio.create_subprocess_exec(
            "openssl", "s_client", "-tls1_3", "-connect", address.removeprefix("https://"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            async with asyncio.timeout(30):
                out = await child.stdout.readuntil(b"Verify return code")
                for line in (b"GET /info/refs HTTP/1.1\r\n", b"K\n", b"K\n"):
                    child.stdin.write(line)
                    await asyncio.sleep(0.05)  # a command of its is one read of its input
                child.stdin.write(b"\r\n")
                out += await child.stdout.read()
        finally:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.communicate()

    assert b"KEYUPDATE" in out
    assert ANSWER in out.decode()


async def test_answers_that_nobody_reads_do_not_pile_up(authority):
    """A side that asks for answers and reads none is dropped, before they fill the memory."""
    async with secured(authority) as (client, server):
        writing = asyncio.create_task(server.write(bytes(MANY_BYTES)))
        await asyncio.sleep(0.02)
        assert not writing.done()
        server._outgoing.write(bytes(MAX_WAITING_BYTES + 1))  # as OpenSSL does when new keys are asked for

        with pytest.raises(TlsError, match="does not read them"):
            await asyncio.gather(server.read(1), client.write(b"x"))
        writing.cancel()
