"""The keys of a home: made once, by whoever comes first, and kept apart."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tipstaff.errors import SigningKeyError
from tipstaff.home import Home
from tipstaff.local.identity import identity_of


@pytest.fixture
def home(tmp_path):
    """A home that was just made."""
    home = Home(tmp_path / "home")
    home.make()
    return home


def test_the_first_use_makes_two_keys(home):
    """Plane and runner sign with keys of their own, and the second use finds the same."""
    first, second = identity_of(home), identity_of(home)

    assert first.plane.public != first.runner.public
    assert (first.plane.public, first.runner.public) == (second.plane.public, second.runner.public)


def test_what_this_home_signed_this_home_knows(home):
    """The plane's own key is among the known keys, as a plane's and as nobody else's."""
    identity = identity_of(home)

    assert identity.known.find(identity.plane.public, "plane") is not None
    assert identity.known.find(identity.plane.public, "approver") is None


def test_all_who_come_at_once_find_one_pair(home):
    """However many start at the same moment, one pair of keys is made."""
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: identity_of(home), range(16)))

    assert len({one.plane.public for one in found}) == 1
    assert len({one.runner.public for one in found}) == 1


@pytest.mark.parametrize(("mode", "refused"), [(0o644, True), (0o600, False)])
def test_a_key_that_others_can_read_is_refused(home, mode, refused):
    """A private key that is readable by others is refused with the command that mends it; a private one is used."""
    identity_of(home)
    path = home.keys / "plane.key.pem"
    path.chmod(mode)

    if refused:
        with pytest.raises(SigningKeyError, match="chmod 600"):
            identity_of(home)
    else:
        assert identity_of(home).plane.public.key_id


def test_a_damaged_key_is_refused(home):
    """A key file that holds no key is an error that names the file, never a new key in its place."""
    identity_of(home)
    path = home.keys / "runner.key.pem"
    path.write_text("garbage")

    with pytest.raises(SigningKeyError, match=r"runner\.key\.pem"):
        identity_of(home)

    assert path.read_text() == "garbage"
