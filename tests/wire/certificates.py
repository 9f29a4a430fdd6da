"""A certificate for 127.0.0.1 and who vouches for it, made for one test."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

A_DAY = timedelta(days=1)


class Certified(NamedTuple):
    """The files that a server and its peers need."""

    certificate: Path
    key: Path
    authority: Path


def certified(folder: Path) -> Certified:
    """Make an authority, and a certificate that it signs."""
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = _made("an authority", authority_key.public_key(), None, authority_key)
    made = _made("a plane", key.public_key(), authority, authority_key)
    files = Certified(folder / "certificate.pem", folder / "key.pem", folder / "authority.pem")
    files.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files.authority.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    files.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    files.key.chmod(0o600)
    return files


def _made(
    name: str, key: ec.EllipticCurvePublicKey, issuer: x509.Certificate | None, signer: ec.EllipticCurvePrivateKey
) -> x509.Certificate:
    subject, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), datetime.now(UTC)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer is not None else subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - A_DAY)
        .not_valid_after(now + A_DAY)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(identifier, critical=False)
    )
    if issuer is not None:
        names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(signer, hashes.SHA256())
