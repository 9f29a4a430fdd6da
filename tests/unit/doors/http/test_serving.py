"""Serving: TLS, which addresses are refused, and an orderly end."""

import socket
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

from tests.unit.doors.http.conftest import Serve
from tipstaff.doors.http.serving import listener, refuse_plain, tls_context, url_of
from tipstaff.doors.http.settings import Settings, Tls
from tipstaff.errors import RefusedError, UsageError

NONE = NoEncryption()


def certificate(folder: Path, name: str = "plane", encryption: KeySerializationEncryption = NONE) -> Tls:
    """Make a certificate for 127.0.0.1 that signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "plane")])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, SHA256())
    )
    paths = folder / f"{name}.pem", folder / f"{name}.key"
    paths[0].write_bytes(signed.public_bytes(Encoding.PEM))
    paths[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
    return Tls(str(paths[0]), str(paths[1]))


def test_tls_is_served_from_the_files_given(serve: Serve, tmp_path):
    """With a certificate the plane speaks TLS, to whoever trusts it, and to nobody in the clear."""
    tls = certificate(tmp_path)
    with serve(tls=tls) as served:
        assert served.url.startswith("https://127.0.0.1:")
        trusting = ssl.create_default_context(cafile=tls.certificate)
        with httpx2.Client(verify=trusting) as client:
            assert client.get(f"{served.url}/v1/health").json()["ok"] is True
        with pytest.raises(httpx2.HTTPError), httpx2.Client() as client:
            client.get(f"{served.url}/v1/health")
        with pytest.raises(httpx2.HTTPError), httpx2.Client() as client:
            client.get(f"{served.url.replace('https', 'http')}/v1/health")


def test_tls_is_new_enough(tmp_path):
    """Nothing older than TLS 1.2 is spoken."""
    assert tls_context(certificate(tmp_path)).minimum_version == ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize("fault", ["missing", "nonsense", "other-key", "passphrase"])
def test_files_that_cannot_be_used_are_named(tmp_path, fault):
    """A certificate or key that does not work is an error that names both, and nobody is asked for a passphrase."""
    good, other = certificate(tmp_path), certificate(tmp_path, "other")
    locked = certificate(tmp_path, "locked", BestAvailableEncryption(b"secret"))
    (tmp_path / "nonsense").write_text("nonsense")
    bad = {
        "missing": Tls(good.certificate, str(tmp_path / "missing")),
        "nonsense": Tls(str(tmp_path / "nonsense"), good.key),
        "other-key": Tls(good.certificate, other.key),
        "passphrase": locked,
    }[fault]
    with pytest.raises(UsageError, match="cannot be used") as raised:
        tls_context(bad)
    assert bad.key in str(raised.value)
    assert tls_context(good).get_ca_certs() == []


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "plane.example.com"])  # noqa: S104 - what is refused
def test_plain_http_beyond_this_machine_is_refused(host):
    """Tokens do not pass in the clear between machines unless the operator says so; TLS, or loopback, is taken."""
    with pytest.raises(RefusedError, match="plain HTTP"):
        refuse_plain(Settings(host=host))
    refuse_plain(Settings(host=host, plain_http=True))
    refuse_plain(Settings(host=host, tls=Tls("a", "b")))
    refuse_plain(Settings(host="127.0.0.1"))


def test_a_port_that_is_taken_is_said_to_be():
    """Two planes cannot have one port; port 0 is any that is free, and the real one is told."""
    with listener("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        assert url_of(Settings(port=0), first) == f"http://127.0.0.1:{port}"
        with pytest.raises(UsageError, match=f"127.0.0.1:{port} cannot be listened at"):
            listener("127.0.0.1", port)
    with pytest.raises(UsageError, match="cannot be used"):
        listener("no such host.invalid", 1)


def test_an_address_of_version_six_is_spelled_with_brackets():
    """A URL can be copied as it is."""
    with socket.socket(socket.AF_INET6) as taken:
        taken.bind(("::1", 0))
        assert url_of(Settings(host="::1"), taken) == f"http://[::1]:{taken.getsockname()[1]}"


def test_the_server_does_not_say_what_it_is(serve: Serve):
    """No header names the software or its version."""
    with serve() as served:
        assert "server" not in served.ask("GET", "/v1/health").headers
