"""Principals: one name, one role, one token that is shown once; and the tokens that runners enrol with."""

import pytest

from tests.unit.plane.embedded import PLANE, RUNNER, STRANGER
from tipstaff.errors import InputError, NotFoundError, PlaneError, SigningKeyError
from tipstaff.plane.people import ROLES

MINUTE_MS = 60_000


@pytest.fixture
def shared(make_site):
    """A plane that serves several."""
    return make_site(shared=True)


@pytest.fixture
def people(shared):
    """Its principals."""
    return shared.plane.people


def test_a_token_proves_its_principal(people):
    """The token that was issued names its principal; any other, none."""
    issued = people.issue("anna", "requester")

    assert people.who(issued["token"]).name == "anna"
    assert [people.who(token) for token in (None, "", "x", issued["token"] + "x", issued["token"][:-1])] == [None] * 5


def test_a_token_is_not_kept(shared, people):
    """Nothing in the database holds a token's text."""
    token = people.issue("anna", "admin")["token"]
    enroll = people.enroll_token(None, 60)["token"]
    dump = "\n".join(map(str, shared.store.database.all("SELECT * FROM principals")))
    dump += "\n".join(map(str, shared.store.database.all("SELECT * FROM enroll_tokens")))

    assert token not in dump
    assert enroll not in dump


def test_a_rotated_token_is_void_and_the_new_one_is_good(people):
    """Rotation gives another token at once."""
    before = people.issue("anna", "requester")["token"]
    after = people.rotate("anna")["token"]

    assert people.who(before) is None
    assert people.who(after).name == "anna"


def test_a_revoked_principal_is_nobody_and_its_name_stays_taken(people):
    """Who is revoked is not known by any token, and nobody else gets the name."""
    token = people.issue("anna", "requester")["token"]
    people.revoke("anna")

    assert people.who(token) is None
    with pytest.raises(PlaneError, match="already"):
        people.issue("anna", "admin")
    with pytest.raises(NotFoundError):
        people.rotate("anna")


@pytest.mark.parametrize(
    ("name", "role", "kind"),
    [("", "admin", "human"), ("a" * 129, "admin", "human"), ("a\nb", "admin", "human"), ("run:1", "admin", "human"),
     (" a", "admin", "human"), ("a", "king", "human"), ("a", "admin", "ghost"), (7, "admin", "human")],
)  # fmt: skip
def test_an_odd_principal_is_refused(people, name, role, kind):
    """A name that cannot be shown, an unknown role or kind is an error."""
    with pytest.raises(InputError):
        people.issue(name, role, kind)


def test_an_auditor_writes_nothing():
    """The auditor's capabilities are all of reading."""
    assert all(one.split(":")[1].startswith("read") for one in ROLES["auditor"])


def enroll(shared, token, key=RUNNER, pool="default"):
    """Enrol by a token."""
    return shared.plane.enroll_by_token({"enrollToken": token, "publicKeyPem": key.public.pem, "pool": pool})


def test_an_enrolment_token_takes_in_one_runner_and_tells_the_planes_key(shared, people):
    """Enrolment gives an id, a token and the key to pin; the token is then used."""
    token = people.enroll_token(None, 60)["token"]
    told = enroll(shared, token, STRANGER)

    assert told["planePublicKeyPem"] == PLANE.public.pem
    assert shared.plane.claim({"runnerToken": told["runnerToken"], "pool": "default"})["empty"]
    with pytest.raises(PlaneError) as refused:
        enroll(shared, token, RUNNER)
    assert (refused.value.status, refused.value.code) == (401, "enroll_token")


def test_a_runner_that_lost_the_answer_may_ask_again(shared, people):
    """The same key with the same token gets the same answer."""
    token = people.enroll_token(None, 60)["token"]

    assert enroll(shared, token, STRANGER) == enroll(shared, token, STRANGER)


def test_an_enrolment_token_runs_out(shared, people):
    """After its time a token is none; before, it is one."""
    token = people.enroll_token(None, 60)["token"]
    shared.clock.now += 2 * MINUTE_MS

    with pytest.raises(PlaneError, match="has run out"):
        enroll(shared, token)


def test_an_enrolment_token_may_be_bound_to_a_pool(shared, people):
    """A token for one pool does not open another."""
    token = people.enroll_token("linux", 60)["token"]

    with pytest.raises(PlaneError) as refused:
        enroll(shared, token, STRANGER)
    assert refused.value.code == "other_pool"
    assert enroll(shared, token, STRANGER, "linux")["pool"] == "linux"


def test_the_planes_own_key_does_not_enrol(shared, people):
    """A runner must not sign with the plane's key, and one that is no key enrols nothing."""
    token = people.enroll_token(None, 60)["token"]

    with pytest.raises(InputError):
        enroll(shared, token, PLANE)
    with pytest.raises((InputError, SigningKeyError)):
        shared.plane.enroll_by_token({"enrollToken": token, "publicKeyPem": "no key", "pool": "default"})
    assert enroll(shared, token, STRANGER)["runnerId"]


def test_a_key_that_is_enrolled_is_not_enrolled_again(shared, people):
    """Keys are public: whoever names another runner's gets neither its id nor its token."""
    enroll(shared, people.enroll_token(None, 60)["token"], STRANGER)

    with pytest.raises(PlaneError) as refused:
        enroll(shared, people.enroll_token(None, 60)["token"], STRANGER)
    assert (refused.value.status, refused.value.code) == (409, "runner_exists")
