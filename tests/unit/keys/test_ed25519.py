"""Ed25519 keys: names, spellings, signatures, and what is refused."""

import base64
import json
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, rsa, x25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from tipstaff.errors import SigningKeyError
from tipstaff.keys import PrivateKey, PublicKey
from tipstaff.keys.ed25519 import SMALL_ORDER, decode_signature

OTHER = Path(__file__).resolve().parents[2] / "vectors" / "other"
KEY = PrivateKey.from_seed(bytes(range(32)))
PRIME = 2**255 - 19


def foreign_keys():
    """Private keys of other kinds."""
    yield rsa.generate_private_key(65537, 2048)
    yield ec.generate_private_key(ec.SECP256R1())
    yield ed448.Ed448PrivateKey.generate()
    yield x25519.X25519PrivateKey.generate()
    yield dsa.generate_private_key(2048)


@pytest.mark.parametrize("name", [path.name for path in OTHER.glob("*.bundle.json")])
def test_key_ids_are_those_of_the_protocol(name):
    """The ids that another implementation wrote down are those that we compute from its keys."""
    bundle = json.loads((OTHER / name).read_bytes())

    assert PublicKey.parse(bundle["keys"]["planePublicKeyPem"]).key_id == bundle["contract"]["issuer"]["keyId"]
    assert PublicKey.parse(bundle["keys"]["runnerPublicKeyPem"]).key_id == bundle["receipt"]["runner"]["keyId"]


def test_the_vectors_of_rfc_8032():
    """The second test vector of RFC 8032 gives its public key and its signature."""
    key = PrivateKey.from_seed(bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"))
    signature = bytes.fromhex(
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    )

    assert key.public.raw.hex() == "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
    assert base64.b64decode(key.sign(b"\x72")) == signature


@pytest.mark.parametrize(
    "spell",
    [
        lambda pem: pem,
        lambda pem: pem.replace("\n", "\r\n"),
        lambda pem: pem.replace("\n", "\r\n").rstrip(),
        lambda pem: f"\n\n  {pem}  \n",
        lambda pem: pem.rstrip("\n"),
    ],
)
def test_the_spelling_does_not_change_the_key_id(spell):
    """Line ends and space around a PEM text do not make another key id, nor another key."""
    key = PublicKey.parse(spell(KEY.public.pem))

    assert (key, key.key_id, key.pem, hash(key)) == (
        KEY.public,
        KEY.public.key_id,
        KEY.public.pem,
        hash(KEY.public),
    )


def test_an_openssh_line_is_a_public_key():
    """The line that ssh-keygen writes is accepted, with a comment or without."""
    raw = KEY.public._key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()

    assert PublicKey.parse(raw) == PublicKey.parse(f"{raw} boris@laptop\n") == KEY.public


def test_keys_of_other_kinds_are_refused():
    """RSA, elliptic curves, Ed448, X25519 and DSA are refused, public and private, in PEM and in OpenSSH's form."""
    for foreign in foreign_keys():
        pem = foreign.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
        with pytest.raises(SigningKeyError, match="not an Ed25519 key"):
            PublicKey.parse(pem)
        with pytest.raises(SigningKeyError, match="not Ed25519"):
            PrivateKey.parse(foreign.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    line = rsa.generate_private_key(65537, 2048).public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    with pytest.raises(SigningKeyError, match="not an Ed25519 key"):
        PublicKey.parse(line.decode())


@given(text=st.text() | st.text().map("ssh-{}".format) | st.text().map("-----BEGIN PUBLIC KEY-----\n{}".format))
def test_any_text_is_a_key_or_an_error(text):
    """Text that is no public key gives our own error."""
    with pytest.raises(SigningKeyError):
        PublicKey.parse(text)


@given(offset=st.integers(0, 112), byte=st.integers(0, 255))
def test_a_damaged_pem_is_a_key_or_an_error(offset, byte):
    """A public key with one other byte is another key or our own error; never anything else."""
    data = KEY.public.pem.encode()
    text = (data[:offset] + bytes([byte]) + data[offset + 1 :]).decode("latin-1")
    with suppress(SigningKeyError):
        assert PublicKey.parse(text).raw


@given(data=st.binary() | st.binary().map(b"-----BEGIN PRIVATE KEY-----\n".__add__), passphrase=st.none() | st.binary())
def test_any_bytes_are_a_private_key_or_an_error(data, passphrase):
    """Bytes that are no private key give our own error, with a passphrase or without."""
    with pytest.raises(SigningKeyError):
        PrivateKey.parse(data, passphrase)


def test_too_long_a_text_is_refused_unread():
    """A megabyte is no public key, even if one stands at its end."""
    with pytest.raises(SigningKeyError, match="too long"):
        PublicKey.parse("x" * 1_000_000 + KEY.public.pem)


@pytest.mark.parametrize("passphrase", [None, b"correct horse", "pässword".encode()])
def test_a_private_key_survives_its_pem(passphrase):
    """A key read from its PEM signs as before, encrypted or not."""
    again = PrivateKey.parse(KEY.pem(passphrase), passphrase)

    assert again.public == KEY.public
    assert again.sign(b"message") == KEY.sign(b"message")
    assert (b"ENCRYPTED" in KEY.pem(passphrase)) is (passphrase is not None)


@pytest.mark.parametrize(
    ("made_with", "read_with", "message"),
    [
        (b"right", b"wrong", "passphrase is wrong"),
        (b"right", None, "is encrypted: its passphrase is needed"),
        (b"right", b"", "private key"),
        (None, b"right", "is not encrypted"),
    ],
)
def test_a_passphrase_is_needed_exactly_where_there_is_one(made_with, read_with, message):
    """A wrong passphrase, a missing one and one too many are each told."""
    with pytest.raises(SigningKeyError, match=message):
        PrivateKey.parse(KEY.pem(made_with), read_with)


def test_a_private_key_does_not_show_itself():
    """The repr of keys has the key id and nothing of the private half."""
    assert repr(KEY) == f"PrivateKey({KEY.public.key_id})"
    assert repr(KEY.public) == f"PublicKey({KEY.public.key_id})"


def test_new_keys_differ():
    """Two keys that are made are two keys."""
    assert PrivateKey.generate().public != PrivateKey.generate().public


@given(message=st.binary())
def test_what_was_signed_verifies_and_nothing_else(message):
    """A signature fits its message and its key only."""
    signature = KEY.sign(message)

    assert KEY.public.verifies(message, signature)
    assert not KEY.public.verifies(message + b"\0", signature)
    assert not PrivateKey.from_seed(bytes(32)).public.verifies(message, signature)


@given(text=st.text() | st.binary(min_size=64, max_size=64).map(lambda data: base64.b64encode(data).decode()))
def test_any_text_is_a_signature_or_not(text):
    """Whether a text is a well-formed signature is answered, and only base64 of 64 bytes that re-encodes is."""
    decoded = decode_signature(text)

    assert decoded is None or (len(decoded) == 64 and base64.b64encode(decoded).decode() == text)
    assert KEY.public.verifies(b"x", text) is False


# Points of small order: the curve is -x² + y² = 1 + d x² y², over the integers modulo PRIME.


def double(point):
    """Add a point to itself."""
    x, y = point
    d = -121665 * pow(121666, -1, PRIME)
    bottom = d * x * x * y * y
    return 2 * x * y * pow(1 + bottom, -1, PRIME) % PRIME, (y * y + x * x) * pow(1 - bottom, -1, PRIME) % PRIME


def order_divides_eight(y):
    """Say whether the points with this y are on the curve, and eight times them is the neutral one."""
    d = -121665 * pow(121666, -1, PRIME)
    square = (y * y - 1) * pow(d * y * y + 1, -1, PRIME) % PRIME
    x = pow(square, (PRIME + 3) // 8, PRIME)
    if (x * x - square) % PRIME:
        x = x * pow(2, (PRIME - 1) // 4, PRIME) % PRIME
    return (x * x - square) % PRIME == 0 and double(double(double((x, y)))) == (0, 1)


def test_the_list_of_small_points_is_right():
    """Every listed point has an order that divides eight, in one of its two spellings where there are two."""
    values = {int.from_bytes(point, "little") for point in SMALL_ORDER}

    assert all(order_divides_eight(y % PRIME) for y in values)
    # Five different y make the eight points; those below 2^255 - PRIME can also be written with PRIME added.
    assert {y % PRIME for y in values} == {y for y in values if y < PRIME}
    assert len({y % PRIME for y in values}) == 5
    assert values == {y % PRIME for y in values} | {y % PRIME + PRIME for y in values if y % PRIME + PRIME < 2**255}
    assert not order_divides_eight(int.from_bytes(KEY.public.raw, "little") % 2**255)


@pytest.mark.parametrize("sign", [0, 0x80])
@pytest.mark.parametrize("point", sorted(SMALL_ORDER))
def test_points_of_small_order_are_no_keys(point, sign):
    """With such a point one signature would fit any message: it is refused, raw and as PEM."""
    raw = point[:-1] + bytes([point[-1] | sign])
    pem = KEY.public.pem.replace(
        base64.b64encode(bytes.fromhex("302a300506032b6570032100") + KEY.public.raw).decode(),
        base64.b64encode(bytes.fromhex("302a300506032b6570032100") + raw).decode(),
    )

    assert pem != KEY.public.pem
    for make in (lambda: PublicKey(raw), lambda: PublicKey.parse(pem)):
        with pytest.raises(SigningKeyError, match="small order"):
            make()


def test_a_signature_fits_nothing_near_it():
    """A signature fits its key and its message, in its spelling, and no other."""
    one, other = PrivateKey.from_seed(b"\1" * 32), PrivateKey.from_seed(b"\2" * 32)
    signature = one.sign(b"message")

    assert one.public.verifies(b"message", signature)
    assert not other.public.verifies(b"message", signature)
    assert not one.public.verifies(b"messagf", signature)
    assert not one.public.verifies(b"message", other.sign(b"message"))
    assert not one.public.verifies(b"message", signature + "\n")
