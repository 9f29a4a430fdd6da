"""A plane's key is pinned at first use; whoever answers later with other keys is refused."""

import pytest

from tipstaff.errors import InputError, RefusedError, SigningKeyError
from tipstaff.home import Home
from tipstaff.keys import PrivateKey
from tipstaff.keys.known import KnownKey, KnownKeys, write_known_keys
from tipstaff.remote.pins import Pins

URL = "https://plane.example.com"
FIRST, SECOND = PrivateKey.generate().public, PrivateKey.generate().public


def published(*keys):
    """Say what a plane with these keys publishes."""
    return lambda: {"keys": [{"keyId": key.key_id, "publicKeyPem": key.pem, "role": "plane"} for key in keys]}


@pytest.fixture
def pins(tmp_path):
    """The pins of an empty home."""
    return Pins(Home(tmp_path / "home"))


def test_the_first_use_pins(pins, tmp_path):
    """What a plane publishes first is pinned, in a file of the home's that only its owner may write."""
    assert [key.raw for key in pins.settle(URL, published(FIRST))] == [FIRST.raw]
    assert [key.raw for key in pins.keys(URL)] == [FIRST.raw]
    assert (tmp_path / "home" / "known-planes.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("same", [True, False])
def test_another_key_later_is_refused(pins, same):
    """A plane that has its pinned key still is taken, one with another key alone is refused, and nothing is changed."""
    pins.settle(URL, published(FIRST))
    if same:
        assert [key.raw for key in pins.settle(URL, published(SECOND, FIRST))] == [FIRST.raw]
        return

    with pytest.raises(RefusedError, match="another key than when it was first used"):
        pins.settle(URL, published(SECOND))

    assert [key.raw for key in pins.keys(URL)] == [FIRST.raw]


def test_another_address_has_its_own_pin(pins):
    """A pin is for one address, and says nothing about any other."""
    pins.settle(URL, published(FIRST))

    assert [key.raw for key in pins.settle("https://other.example.com", published(SECOND))] == [SECOND.raw]
    assert [key.raw for key in pins.keys(URL)] == [FIRST.raw]


def test_a_key_is_pinned_on_purpose(pins, tmp_path):
    """A key from a file takes the place of the one before."""
    pins.settle(URL, published(FIRST))
    (tmp_path / "new.pem").write_text(SECOND.pem)

    pins.pin_file(URL, str(tmp_path / "new.pem"))

    assert [key.raw for key in pins.settle(URL, published(SECOND))] == [SECOND.raw]


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"keys": []},
        {"keys": "x"},
        {"keys": [{"publicKeyPem": 5}]},
        {"keys": [{"publicKeyPem": "x"}]},
        {"keys": [{"publicKeyPem": FIRST.pem, "role": "runner"}]},
        {"keys": [{"publicKeyPem": FIRST.pem}] * 65},
    ],
)
def test_a_plane_without_a_key_is_refused(pins, said):
    """What does not say a plane's key pins nothing."""
    with pytest.raises((InputError, SigningKeyError)):
        pins.settle(URL, lambda: said)

    assert pins.keys(URL) == []


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"version":"other","planes":{}}', b"\xff"])
def test_a_damaged_file_is_an_error(pins, tmp_path, content):
    """A damaged file is never taken for an empty one."""
    pins.settle(URL, published(FIRST))
    (tmp_path / "home" / "known-planes.json").write_bytes(content)

    with pytest.raises(InputError, match="damaged"):
        pins.settle(URL, published(FIRST))


def test_a_file_that_others_may_write_is_refused(pins, tmp_path):
    """Who could write the file could pin a key of theirs."""
    pins.settle(URL, published(FIRST))
    (tmp_path / "home" / "known-planes.json").chmod(0o666)

    with pytest.raises(InputError, match="can be written by other users"):
        pins.settle(URL, published(FIRST))


def test_only_pinned_keys_count_for_a_plane(pins, tmp_path):
    """The home's own known planes prove nothing of this one; its people's keys stay known."""
    person, other = PrivateKey.generate().public, PrivateKey.generate().public
    entries = (
        KnownKey(public_key_pem=other.pem, role="plane", name="this home"),
        KnownKey(public_key_pem=person.pem, role="approver", name="boris"),
    )
    Home(tmp_path / "home").make()
    write_known_keys(tmp_path / "home" / "known-keys.json", KnownKeys(entries))

    trusted = pins.trusted([FIRST])

    assert trusted.find(FIRST, "plane") is not None
    assert trusted.find(other, "plane") is None
    assert trusted.find(person, "approver") is not None


def test_a_revoked_key_is_not_trusted_again(pins, tmp_path):
    """A key that the home knows as revoked is refused, although it is pinned."""
    Home(tmp_path / "home").make()
    revoked = KnownKey(public_key_pem=FIRST.pem, role="plane", revoked_at="2026-01-01T00:00:00.000Z")
    write_known_keys(tmp_path / "home" / "known-keys.json", KnownKeys((revoked,)))

    with pytest.raises(InputError, match="was revoked"):
        pins.trusted([FIRST])


def test_every_pinned_key_is_added_to_the_known_ones(pins):
    """Each key is known as a plane's, under its address; without a file nothing is added."""
    person = KnownKeys((KnownKey(public_key_pem=SECOND.pem, role="approver", name="boris"),))
    assert pins.known(person) == (person, {})
    pins.settle(URL, published(FIRST))

    known, added = pins.known(person)

    assert added == {FIRST.key_id: URL}
    assert known.find(FIRST, "plane") is not None
    assert known.find(FIRST, "runner") is None
    assert known.entries[0] == person.entries[0]


@pytest.mark.parametrize("role", ["plane", "runner"])
def test_what_is_known_of_a_key_stands(pins, role):
    """A pin neither replaces what is known of its key nor brings a revoked key back, in whatever role."""
    pins.settle(URL, published(FIRST))
    revoked = KnownKeys((KnownKey(public_key_pem=FIRST.pem, role=role, revoked_at="2026-01-01T00:00:00.000Z"),))
    ending = KnownKeys((KnownKey(public_key_pem=FIRST.pem, role="plane", not_after="2026-01-01T00:00:00.000Z"),))

    assert pins.known(revoked) == (revoked, {})
    assert pins.known(ending) == (ending, {})
