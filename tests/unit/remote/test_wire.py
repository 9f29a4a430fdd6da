"""What answers mean: one error of ours each, that says what to do and never holds the token."""

import datetime as dt
import socket
import ssl
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.unit.remote.scripted import Reply, json_reply, scripted
from tipstaff.errors import InputError, NotFoundError, PlaneError, StoreError, TipstaffError
from tipstaff.remote.address import address_of
from tipstaff.remote.answers import BusyPlaneError, DeniedError, UnreachableError
from tipstaff.remote.wire import Wire

TOKEN = "tip_never-to-be-seen"  # noqa: S105 - a test's own


def wire_to(url: str) -> Wire:
    """Make a wire with a token."""
    return Wire(address_of(url, TOKEN))


def failing(reply: Reply) -> TipstaffError:
    """Ask a plane that answers so, once, and give the error."""
    with scripted(lambda _: reply) as plane, wire_to(plane.url) as wire, pytest.raises(TipstaffError) as caught:
        wire.post("/v1/runs", {})
    assert TOKEN not in f"{caught.value!r} {caught.value}"
    assert len(plane.asked) == 1
    return caught.value


def test_the_token_goes_in_its_header():
    """A request carries the token as a bearer, and no compressed answer is asked for."""
    with scripted(lambda _: json_reply({"ok": True})) as plane, wire_to(plane.url) as wire:
        assert wire.get("/v1/health") == {"ok": True}

    assert plane.asked[0].headers["authorization"] == f"Bearer {TOKEN}"
    assert plane.asked[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (400, InputError, "no such field; field x"),
        (401, PlaneError, "does not know the token; put it into TIPSTAFF_TOKEN"),
        (403, DeniedError, "no such field; because"),
        (404, NotFoundError, "no such field"),
        (409, PlaneError, "no such field; because"),
        (413, PlaneError, "no such field"),
        (422, InputError, "no such field"),
        (429, BusyPlaneError, "asked too often: no such field; try again in 7 s"),
        (500, PlaneError, "failed: no such field; its log says more, under req-1"),
        (502, PlaneError, "failed: no such field"),
        (503, BusyPlaneError, "is not ready"),
    ],
)
def test_each_status_has_its_sentence(status, kind, words):
    """A refusal is an error of its kind, with the plane's words and with advice."""
    said = {"error": "no such field", "code": "x", "reasons": ["because"], "issues": [{"message": "field x"}]}
    if status in {400, 422}:
        del said["reasons"]
    error = failing(json_reply(said, status, Retry_After="7", X_Request_Id="req-1"))

    assert type(error) is kind
    assert words in str(error)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"error": 5}', b'{"a":1,"a":2}', b"\xff", b"x" * 100_000])
@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 418, 429, 500, 504])
def test_any_refusal_is_told(status, body):
    """A refusal whose body is none of a plane's is still one error with a sentence."""
    assert failing(Reply(status, body)).message


def test_what_a_plane_says_is_bounded():
    """A plane that says very much is quoted in part."""
    assert len(str(failing(json_reply({"error": "long " * 5000}, 409)))) < 3000


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(status):
    """An answer that points elsewhere is an error, and nobody else is asked."""
    with scripted(lambda _: json_reply({})) as other:
        error = failing(json_reply({}, status, Location=f"{other.url}/v1/runs"))

    assert "not followed" in str(error)
    assert other.asked == []


@pytest.mark.parametrize("body", [b"", b"hello", b"[]", b'{"a":1,"a":2}', b'{"a":NaN}', b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_object_is_refused(body):
    """A success that is no JSON object, read strictly, is an error."""
    with (
        scripted(lambda _: Reply(200, body)) as plane,
        wire_to(plane.url) as wire,
        pytest.raises(InputError, match="does not answer as a plane"),
    ):
        wire.get("/v1/health")


def test_a_plane_that_is_not_there_is_told():
    """Where nobody listens, the error says so, and what to look at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with wire_to(url) as wire, pytest.raises(UnreachableError, match="Connection refused; does it run"):
            wire.get("/v1/health")


def test_what_is_only_read_is_asked_again_after_a_cut():
    """A question that was cut short is asked again, up to a few times."""
    replies = iter([Reply(200, b'{"ok":true}', cut=3), json_reply({"ok": True})])
    with scripted(lambda _: next(replies)) as plane, wire_to(plane.url) as wire:
        assert wire.get("/v1/health") == {"ok": True}

    assert len(plane.asked) == 2


def test_what_changes_something_is_sent_once():
    """A request whose answer was cut short is not sent again, and the error says how to find out."""
    with (
        scripted(lambda _: Reply(200, b'{"runId":"x"}', cut=3)) as plane,
        wire_to(plane.url) as wire,
        pytest.raises(UnreachableError, match="see whether it was taken: tipstaff history"),
    ):
        wire.post("/v1/runs", {})

    assert len(plane.asked) == 1


@pytest.mark.parametrize(("status", "there"), [(200, True), (404, False), (405, False)])
def test_a_plane_has_what_it_says(status, there):
    """Whether a blob is there is told by the status; a plane that does not know the question has it not."""
    with scripted(lambda _: Reply(status, b"")) as plane, wire_to(plane.url) as wire:
        assert wire.has("/v1/blobs/x") is there


def test_a_proxy_is_not_asked_for_this_machine(monkeypatch):
    """What is on this machine is asked directly, whatever proxy the environment names."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with scripted(lambda _: json_reply({"ok": True})) as plane, wire_to(plane.url) as wire:
        assert wire.get("/v1/health") == {"ok": True}


def test_certificates_that_are_none_are_told(tmp_path):
    """A file without certificates is an error before anything is sent."""
    path = tmp_path / "ca.pem"
    path.write_text("no certificate")

    with pytest.raises(StoreError, match="holds no certificates"):
        Wire(address_of("https://plane.example.com", TOKEN, str(path)))


@pytest.fixture
def certificate(tmp_path):
    """A certificate for this machine that vouches for itself, with its key: PEM files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a test")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (tmp_path / "cert.pem").write_bytes(made.public_bytes(Encoding.PEM))
    (tmp_path / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return tmp_path / "cert.pem", tmp_path / "key.pem"


@pytest.mark.parametrize("known", [True, False])
def test_a_certificate_has_to_be_vouched_for(certificate, known):
    """A plane with TLS is asked only where its certificate is vouched for; else nothing is sent to it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with scripted(lambda _: json_reply({"ok": True}), context) as plane:
        address = address_of(plane.url, TOKEN, str(certificate[0]) if known else None)
        with Wire(address) as wire:
            if known:
                assert wire.get("/v1/health") == {"ok": True}
                return
            with pytest.raises(UnreachableError, match="certificate"):
                wire.get("/v1/health")

    assert plane.asked == []
