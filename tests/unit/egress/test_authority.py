"""Claims about the certificate authority of one session."""

import ipaddress
import ssl
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from tipstaff.egress.authority import BEFORE_SECONDS, CONTEXTS, Authority

NAME = "api.example.com"
HOSTS = (NAME, "*.example.org", "192.0.2.7", "2001:db8::7")
SIGNABLE = (NAME, "a.b.example.org", "192.0.2.7", "2001:db8::7")


def leaf(authority: Authority, host: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(leaf_pem(authority, host).encode())


def leaf_pem(authority: Authority, host: str) -> str:
    return authority._leaf(authority._ready(), host)


def root(authority: Authority) -> x509.Certificate:
    return x509.load_pem_x509_certificate(authority.certificate_pem.encode())


def general_name(host: str) -> x509.DNSName | x509.IPAddress:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def accepted(authority: Authority, host: str) -> bool:
    """Ask a verifier as strict as browsers and rustls are."""
    verifier = PolicyBuilder().store(Store([root(authority)])).build_server_verifier(general_name(host))
    try:
        verifier.verify(leaf(authority, host), [])
    except VerificationError:
        return False
    return True


def verified(folder, authority: Authority, host: str) -> str:
    """Ask OpenSSL, at its strictest."""
    (folder / "root").write_text(authority.certificate_pem)
    (folder / "leaf").write_text(leaf_pem(authority, host))
    command = ["openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", "root", "leaf"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=30)
    return done.stdout + done.stderr


@pytest.mark.parametrize("host", SIGNABLE)
@pytest.mark.parametrize("hosts", [HOSTS, ("*",)])
def test_a_strict_verifier_accepts_what_it_signs(hosts, host):
    """Names, names below a wildcard and addresses get certificates that a strict verifier accepts."""
    assert accepted(Authority(hosts), host)


@pytest.mark.parametrize(
    ("hosts", "host"),
    [
        (HOSTS, "example.com"),
        (HOSTS, "192.0.2.8"),
        (HOSTS, "2001:db8::8"),
        ((NAME,), "192.0.2.7"),
        (("192.0.2.7",), NAME),
        ((), NAME),
    ],
)
def test_its_certificate_is_good_for_no_other_host(tmp_path, hosts, host):
    """Even with its key, nobody could sign for a host that no inspected rule names: verifiers refuse it."""
    authority = Authority(hosts)

    assert not accepted(authority, host)
    assert "subtree violation" in verified(tmp_path, authority, host)


@pytest.mark.parametrize("host", SIGNABLE)
def test_openssl_accepts_it_at_its_strictest(tmp_path, host):
    """OpenSSL has nothing to say against it, with `verify -x509_strict`."""
    assert verified(tmp_path, Authority(HOSTS), host) == "leaf: OK\n"


@pytest.mark.parametrize("host", [*SIGNABLE, "API.example.com."])
def test_it_makes_contexts_for_the_hosts_of_its_rules(host):
    """A host that a pattern covers gets a context for TLS 1.2 and later, and the same one when it is asked again."""
    authority = Authority(HOSTS)
    context = authority.server_context(host)

    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert authority.server_context(host) is context


@pytest.mark.parametrize("host", ["example.com", "example.org", "192.0.2.8", "127.1", "a b", ""])
def test_it_makes_contexts_for_no_other_host(host):
    """A host that no pattern covers, or that is none, gets no context."""
    with pytest.raises(ValueError, match=r"."):
        Authority(HOSTS).server_context(host)


def test_certificates_say_what_they_are_for():
    """The authority signs certificates and no authorities; a server's certificate serves, and signs no certificates."""
    authority = Authority(HOSTS)
    top, server = root(authority), leaf(authority, NAME)

    assert top.extensions.get_extension_for_class(x509.BasicConstraints).value == x509.BasicConstraints(
        ca=True, path_length=0
    )
    assert top.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    assert not server.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not server.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    assert list(server.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
        ExtendedKeyUsageOID.SERVER_AUTH
    ]
    assert (
        server.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
        == top.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    )


@pytest.mark.parametrize("now", [1_700_000_000.5, 2_524_608_000.0, 2_524_607_999.0])
def test_certificates_live_as_long_as_was_asked(now):
    """They hold from a little before now until the given time has passed, also over the turn to 2050."""
    authority = Authority(HOSTS, life_seconds=60, now=lambda: now)
    for certificate in (root(authority), leaf(authority, NAME)):
        assert certificate.not_valid_before_utc == datetime.fromtimestamp(int(now - BEFORE_SECONDS), UTC)
        assert certificate.not_valid_after_utc == datetime.fromtimestamp(int(now + 60), UTC)


def test_no_two_sessions_share_anything():
    """Two authorities have different keys, names and serial numbers; so have two servers' serial numbers."""
    one, other = root(Authority(HOSTS)), root(Authority(HOSTS))
    authority = Authority(HOSTS)

    assert one.public_key() != other.public_key()
    assert one.subject != other.subject
    assert one.serial_number != other.serial_number
    assert leaf(authority, NAME).serial_number != leaf(authority, NAME).serial_number


def test_nothing_is_made_before_it_is_needed():
    """A session that meets no inspected connection pays for no keys."""
    authority = Authority(HOSTS)
    assert authority._made is None

    assert authority.certificate_pem == authority.certificate_pem
    assert authority._made is not None


def test_the_file_that_held_the_key_is_gone():
    """A context leaves no descriptor behind: the file in memory through which OpenSSL got the key has no other name."""
    authority = Authority(HOSTS)
    authority.server_context(NAME)
    before = sorted(Path("/proc/self/fd").iterdir())

    authority.server_context("x.example.org")

    assert sorted(Path("/proc/self/fd").iterdir()) == before


def test_many_names_below_a_wildcard_are_not_all_kept():
    """A client that asks for any number of names does not fill the memory."""
    authority = Authority(("*.example.org",))
    for number in range(CONTEXTS + 5):
        authority.server_context(f"n{number}.example.org")

    assert len(authority._contexts) == CONTEXTS


def test_the_builder_of_certificates_is_not_imported():
    """Importing the authority does not import `cryptography.x509`, which takes longer than everything else here."""
    code = "import sys, tipstaff.egress.authority; print('cryptography.x509' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)

    assert done.stdout == "False\n"
