"""The way to a plane elsewhere: what is safe to speak to, what is an answer, and what may be asked again."""

import asyncio
import socket
from hashlib import sha256
from io import BytesIO

import pytest

from tests.unit.plane.embedded import COMPLETED, PLANE, executed, follow, materialized, receipt
from tests.unit.runner.encrypted import answering, self_signed
from tipstaff.errors import PlaneError, UsageError
from tipstaff.evidence import verify
from tipstaff.runner import http
from tipstaff.runner.address import address_of
from tipstaff.runner.client import UnreachableError
from tipstaff.runner.http import OverHttp


async def test_a_whole_run_over_http(bench):
    """Claim, release, renew and complete give the same over HTTP as in one process."""
    run_id = bench.site.submit()
    client, clock = bench.client(), bench.site.clock
    claim = await client.claim(["bwrap"])
    wire = {"contract": claim.contract, "events": claim.events, "runId": claim.run_id}
    await client.append(claim, follow(wire, [materialized(wire)], clock()), release=True)
    claim, cancel = await client.renew(claim)
    links = follow(wire, [executed(), COMPLETED], clock())
    await client.complete(claim, receipt(wire, clock()), links)

    assert cancel is None
    assert {"release", "renew", "blobs", "log", "checkpoints"} <= client.offers
    assert verify(bench.site.plane.bundle(run_id), [PLANE.public]).verdict == "valid"


async def test_a_plane_that_is_not_there_may_be_asked_again():
    """Nobody at the port is an error that says so, and of the kind that is tried again."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    client = OverHttp(address_of(f"http://127.0.0.1:{port}"), "token", "default")
    with pytest.raises(UnreachableError, match="cannot be reached"):
        await client.claim()
    await client.close()


@pytest.mark.parametrize(
    ("reply", "kind", "words"),
    [
        ((0, b""), UnreachableError, "cannot be reached"),
        ((500, b"{}"), UnreachableError, "status 500"),
        ((503, b'{"error": "busy"}'), UnreachableError, "busy"),
        ((429, b"slow down"), UnreachableError, "cannot be read"),
        ((302, b""), UnreachableError, "no plane"),
        ((404, b'{"error": "nothing here"}'), PlaneError, "nothing here"),
        ((409, b'{"error": "no", "reasons": 7, "code": 7}'), PlaneError, "no"),
        ((409, b'{"message": "conflict"}'), UnreachableError, "on the way answers with status 409"),
        ((401, b'{"error": {"code": 401}}'), UnreachableError, "on the way answers with status 401"),
        ((403, b"<html>"), PlaneError, "not JSON"),
        ((200, b"<html>"), PlaneError, "not JSON"),
        ((200, b"[]"), PlaneError, "not an object"),
        ((200, b"\xff"), PlaneError, "not JSON"),
        ((200, b"{}"), PlaneError, "names no run"),
        ((200, b'{"empty": "yes"}'), PlaneError, "a claim that cannot be read"),
        ((200, b'{"runId": "r", "claimToken": "t", "events": [7]}'), PlaneError, "a claim that cannot be read"),
        ((200, b"[" * 100_000), PlaneError, "not JSON"),
        ((200, b'{"empty": true}'), None, ""),
    ],
)
async def test_an_answer_reads_or_is_our_error(bench, reply, kind, words):
    """Whatever a plane answers to a claim is a claim, nothing, or an error of ours; trouble may be asked again."""
    bench.plane.twist = lambda _method, _path, _body: reply
    if kind is None:
        assert await bench.client().claim() is None
        return
    with pytest.raises(kind, match=words) as refused:
        await bench.client().claim()
    assert isinstance(refused.value, UnreachableError) is (kind is UnreachableError)


async def test_an_answer_is_read_to_a_bound(bench, monkeypatch):
    """A plane cannot fill our memory: what is larger than its kind may be is not read."""
    bench.plane.twist = lambda _method, _path, _body: (200, b'{"empty": true}' + b" " * 5000)
    assert await bench.client().claim() is None
    monkeypatch.setattr(http, "MOST_ANSWER_BYTES", 4096)
    with pytest.raises(PlaneError, match="larger than 4096"):
        await bench.client().claim()


async def test_an_odd_renewal_is_no_renewal(bench):
    """A renewal without a token or with no time is refused; as the plane gives it, it is taken."""
    bench.site.submit()
    client = bench.client()
    claim = await client.claim(["bwrap"])
    assert (await client.renew(claim))[0].token != claim.token
    for odd in (b"{}", b'{"claimToken": 7, "leaseMs": 1}', b'{"claimToken": "t", "leaseMs": 0}'):
        bench.plane.twist = lambda _method, _path, _body, odd=odd: (200, odd)
        with pytest.raises(PlaneError, match="renewal"):
            await client.renew(claim)


async def test_a_content_is_brought_and_fetched_by_the_claim(bench, tmp_path):
    """What is uploaded arrives as it is, with the claim's token; what comes back is hashed."""
    bench.site.submit()
    client = bench.client()
    claim = await client.claim(["bwrap"])
    content = os_bytes(300_000)
    wanted = sha256(content).hexdigest()
    path = tmp_path / "content"
    path.write_bytes(content)

    await client.upload(claim.token, path, wanted)
    await client.upload(claim.token, b"small", sha256(b"small").hexdigest())
    into = BytesIO(b"what was there before" * 100_000)
    await client.fetch(claim.token, wanted, into)
    assert into.getvalue() == content
    assert set(bench.plane.bearers) == {claim.token}


def os_bytes(count):
    """Give bytes that are not all the same."""
    return bytes(index * 31 % 251 for index in range(count))


async def test_other_bytes_than_were_asked_for_are_not_taken(bench):
    """A content that does not fit its digest is refused, on the way there and on the way back."""
    client = bench.client()
    wanted = sha256(b"right").hexdigest()
    bench.plane.twist = lambda method, _path, _body: (200, b"wrong" if method == "GET" else b'{"hash": "wrong"}')
    with pytest.raises(PlaneError, match="another digest"):
        await client.fetch("token", wanted, BytesIO())
    with pytest.raises(PlaneError, match="digest"):
        await client.upload("token", b"right", wanted)
    bench.plane.twist = lambda method, _path, _body: (
        200,
        b"right" if method == "GET" else b'{"hash": "%s"}' % wanted.encode(),
    )
    into = BytesIO()
    await client.fetch("token", wanted, into)
    assert into.getvalue() == b"right"
    await client.upload("token", b"right", wanted)


async def test_a_plane_that_asks_for_patience_is_given_it():
    """What Retry-After says is carried with the error; nonsense is passed over."""
    replies = {"7": 7.0, "soon": 0.0, "999999": 60.0}
    for said, seconds in replies.items():
        async with asyncio.timeout(5):
            server = await asyncio.start_server(_busy(said), "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            client = OverHttp(address_of(f"http://127.0.0.1:{port}"), "token", "default")
            with pytest.raises(UnreachableError) as busy:
                await client.claim()
            await client.close()
            server.close()
            await server.wait_closed()
        assert busy.value.retry_seconds == seconds


def _busy(retry_after):
    async def answer(reader, writer):
        await reader.readuntil(b"}")
        head = f"HTTP/1.1 503 Busy\r\nRetry-After: {retry_after}\r\nContent-Length: 2\r\n\r\n{{}}"
        writer.write(head.encode())
        await writer.drain()
        writer.close()

    return answer


async def test_the_proxy_of_the_environment_is_used_but_not_to_this_machine(bench, monkeypatch):
    """Beyond this machine requests go by the proxy, unless NO_PROXY names the host; to the loopback they never do."""
    bench.plane.twist = lambda _method, _path, _body: (200, b'{"empty": true}')
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
    monkeypatch.setenv("HTTP_PROXY", bench.plane.url)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    far = address_of("http://plane.invalid", plain_http=True)
    for address in (far, address_of(bench.plane.url)):
        client = OverHttp(address, "token", "default")
        assert await client.claim() is None
        await client.close()
    assert [path for path, _ in bench.plane.asked] == ["http://plane.invalid/v1/claims", "/v1/claims"]

    monkeypatch.setenv("NO_PROXY", "plane.invalid")
    for address in (far, address_of(nobody)):
        client = OverHttp(address, "token", "default")
        with pytest.raises(UnreachableError):
            await client.claim()
        await client.close()
    assert len(bench.plane.asked) == 2


@pytest.mark.parametrize("is_trusted", [True, False])
async def test_only_a_certificate_that_the_named_authority_vouches_for_counts(tmp_path, is_trusted):
    """With the plane's own authority it is spoken to; with another's it is not, and nothing is sent."""
    certificate, other = self_signed(tmp_path, "plane"), self_signed(tmp_path, "other")
    async with answering(b'{"empty": true}', certificate) as (address, asked):
        client = OverHttp(address, "token", "default", ca=certificate if is_trusted else other)
        if is_trusted:
            assert await client.claim() is None
        else:
            with pytest.raises(UnreachableError, match=r"(?i)certificate"):
                await client.claim()
        await client.close()

    assert bool(asked) is is_trusted
    with pytest.raises(UsageError, match="certificates"):
        OverHttp(address, "token", "default", ca=tmp_path / "nothing.pem")
