"""Whom the programs in a sandbox trust where TLS is terminated: the variables that say so, and the file that they name.

Every program has its own variable for its certificate authorities, and most take it to replace the host's: so the file
that they all name holds the host's authorities and the session's own. Only certificates are taken from the host's
file, whatever else is in it. Pure but for reading that file. Does not put anything into the sandbox.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tipstaff.errors import InputError, NotFoundError

BUNDLE: Final = "/tmp/.tipstaff-authorities.pem"  # noqa: S108 - inside the sandbox, whose /tmp is its own
NAMING: Final = (  # the variables that name a file of authorities
    "SSL_CERT_FILE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
    "CODEX_CA_CERTIFICATE", "AWS_CA_BUNDLE", "CARGO_HTTP_CAINFO", "DENO_CERT", "NIX_SSL_CERT_FILE",
    "npm_config_cafile", "HTTPLIB2_CA_CERTS", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
)  # fmt: skip
HOST_VARIABLE: Final = "SSL_CERT_FILE"
HOST_BUNDLES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Alpine, Arch
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/etc/ssl/cert.pem",
)
MAX_BYTES: Final = 16 << 20
_CERTIFICATE: Final = re.compile(
    r"-----BEGIN CERTIFICATE-----\r?\n[A-Za-z0-9+/=\r\n]+-----END CERTIFICATE-----", re.ASCII
)


def host_bundle(environ: Mapping[str, str], places: tuple[str, ...] = HOST_BUNDLES) -> str:
    """Read the authorities that the host trusts; NotFoundError where there are none to be found."""
    named = environ.get(HOST_VARIABLE)
    path = named or next((place for place in places if Path(place).is_file()), None)
    if path is None:
        raise NotFoundError(
            "this host has no file of certificate authorities, so that inspected connections cannot be verified",
            hint=f"install its `ca-certificates`, or name a file in {HOST_VARIABLE}",
        )
    return certificates(_text(path), path)


def certificates(text: str, source: str) -> str:
    """Keep the certificates of a PEM file, and nothing else that stands in it."""
    found = _CERTIFICATE.findall(text)
    if not found:
        raise InputError(f"{source} holds no certificate", hint=f"name a file of authorities in {HOST_VARIABLE}")
    return "".join(certificate.replace("\r", "") + "\n" for certificate in found)


def bundle(host: str, authority_pem: str) -> tuple[str, str]:
    """Give the file that a sandbox needs for inspected connections: where it lies inside, and its content."""
    return BUNDLE, host + authority_pem


def trust_variables(path: str = BUNDLE) -> dict[str, str]:
    """Name the file of authorities to every program that asks for one."""
    return dict.fromkeys(NAMING, path)


def _text(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as fault:
        raise NotFoundError(
            f"{path}, the file of this host's certificate authorities, cannot be read ({fault.strerror})",
            hint=f"install `ca-certificates`, or name a readable file in {HOST_VARIABLE}",
        ) from fault
    if len(content) > MAX_BYTES:
        raise InputError(f"{path} is no file of certificate authorities: it has more than {MAX_BYTES} bytes")
    return content.decode("ascii", "replace")  # comments may be in any encoding; certificates are ASCII
