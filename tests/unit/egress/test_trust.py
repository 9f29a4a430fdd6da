"""Claims about whom a sandbox trusts."""

import ssl

import pytest

from tipstaff.egress import trust
from tipstaff.egress.authority import Authority
from tipstaff.errors import InputError, NotFoundError
from tipstaff.policy.checks.environment import TRUSTING

FOLDERS = {"SSL_CERT_DIR", "GIT_SSL_CAPATH"}  # these name folders, which nobody needs beside the file


@pytest.fixture(scope="module")
def authorities() -> tuple[str, str]:
    return Authority().certificate_pem, Authority().certificate_pem


def test_every_variable_that_no_request_may_set_is_set_by_us():
    """Each variable that names a file of authorities, and that requests may not set, names ours."""
    assert set(TRUSTING) - FOLDERS <= set(trust.trust_variables("/somewhere"))
    assert set(trust.trust_variables("/somewhere").values()) == {"/somewhere"}


def test_the_bundle_has_the_host_s_authorities_and_ours(authorities):
    """Programs take the file to replace what they knew, so that it holds both."""
    path, content = trust.bundle(*authorities)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=content)

    assert path == trust.BUNDLE
    assert context.cert_store_stats()["x509_ca"] == 2


def test_the_host_s_own_variable_is_honoured(tmp_path, authorities):
    """A runner whose host names another file of authorities has that one, and not the system's."""
    named, usual = tmp_path / "named.pem", tmp_path / "usual.pem"
    named.write_text(authorities[0])
    usual.write_text(authorities[1])

    assert trust.host_bundle({"SSL_CERT_FILE": str(named)}, (str(usual),)) == authorities[0]
    assert trust.host_bundle({}, (str(tmp_path / "absent"), str(usual))) == authorities[1]


@pytest.mark.parametrize("named", [True, False])
def test_a_host_without_authorities_is_told_what_to_do(tmp_path, named):
    """A file that is named and not there is an error, and never replaced by another one; so is having none at all."""
    environ = {"SSL_CERT_FILE": str(tmp_path / "absent")} if named else {}

    with pytest.raises(NotFoundError, match="ca-certificates"):
        trust.host_bundle(environ, () if not named else trust.HOST_BUNDLES)


def test_only_certificates_are_taken_from_the_host_s_file(authorities):
    """A key, a comment or anything else that stands in the file does not reach the sandbox."""
    key = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMG\n-----END PRIVATE KEY-----\n"
    text = f"# Müller's root\r\n{key}{authorities[0]}".replace("\n", "\r\n") + key + authorities[1]

    assert trust.certificates(text, "x") == authorities[0] + authorities[1]


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\0\0", b"-----BEGIN CERTIFICATE-----\n"])
def test_a_file_without_certificates_is_refused(tmp_path, content):
    """A file that holds no certificate is named as such, and not taken for an empty list."""
    path = tmp_path / "broken.pem"
    path.write_bytes(content)

    with pytest.raises(InputError, match="holds no certificate"):
        trust.host_bundle({"SSL_CERT_FILE": str(path)})


def test_a_file_without_end_is_refused():
    """A file that is no file of authorities does not fill the memory."""
    with pytest.raises(InputError, match="more than"):
        trust.host_bundle({"SSL_CERT_FILE": "/dev/zero"})
