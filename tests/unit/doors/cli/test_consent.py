"""An approval is signed by the approver's own key where there is one, and says how sure it is."""

from typing import Any

import pytest

from tipstaff.doors.cli.consent import consent, consent_to_place, signer_of
from tipstaff.errors import InputError, NotFoundError, SigningKeyError
from tipstaff.evidence.seal import payload_digest
from tipstaff.home import Home
from tipstaff.keys import KnownKey, PrivateKey
from tipstaff.keys.files import save
from tipstaff.keys.known import update_known_keys
from tipstaff.model.noun import Actor

ADA = Actor(kind="human", id="ada")
PASSPHRASE = "correct horse"  # noqa: S105 - a passphrase of a key that lives for one test
CONTRACT: dict[str, Any] = {"runId": "run_1", "signatures": []}
SHOWN = payload_digest(CONTRACT)
ASKING = {
    "runId": "run_1",
    "contract": CONTRACT,
    "contractHash": SHOWN,
    "consentRequirements": [{"expiresSeconds": 60}],
}


class Desk:
    """A plane's desk that only keeps what it is given."""

    def __init__(self) -> None:
        self.given: dict[str, Any] = {}

    def approve(self, run_id: str, body: dict[str, Any]) -> dict[str, Any]:
        """Take an approval."""
        self.given = body
        return {"runId": run_id, "status": "created", "missing": []}

    def answer(self, run_id: str, body: dict[str, Any]) -> dict[str, Any]:
        """Take an answer."""
        self.given = body
        return {"runId": run_id, "answer": "yes"}


@pytest.fixture
def home(tmp_path, monkeypatch) -> Home:
    """A home without keys, and no ssh-agent."""
    monkeypatch.setenv("TIPSTAFF_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    home = Home(tmp_path / "home")
    home.make()
    return home


def never(prompt: str) -> str:
    """Be asked for a passphrase although there is none."""
    raise AssertionError(prompt)


def test_without_a_key_the_plane_vouches(home):
    """Who has no key of their own approves by name, and the plane alone says so."""
    desk = Desk()

    assert consent(desk, ASKING, ADA, None, never)["status"] == "created"
    assert desk.given == {"actor": {"kind": "human", "id": "ada"}, "contractHash": SHOWN}
    assert not home.keys.exists()


@pytest.mark.parametrize(("trusted", "assurance"), [(True, "key"), (False, "same-uid")])
def test_an_own_key_signs_the_contract(home, trusted, assurance):
    """A key with the approver's name signs the contract's hash; it proves the person only where the home knows it."""
    desk, key = Desk(), PrivateKey.generate()
    save(key, home.keys, "ada")
    if trusted:
        entry = KnownKey(public_key_pem=key.public.pem, role="approver", name="ada")
        update_known_keys(home.known_keys, lambda known: known.trust(entry))

    consent(desk, ASKING, ADA, None, never)

    approval = desk.given["approval"]
    assert (approval["keyId"], approval["contractHash"]) == (key.public.key_id, SHOWN)
    assert desk.given["contractHash"] == SHOWN
    assert (approval["assurance"], approval["actor"]) == (assurance, {"kind": "human", "id": "ada"})


def test_a_key_known_as_anothers_proves_nothing(home):
    """A key that the home knows under another name is not taken as proof of this one."""
    desk, key = Desk(), PrivateKey.generate()
    save(key, home.keys, "ada")
    entry = KnownKey(public_key_pem=key.public.pem, role="approver", name="bob")
    update_known_keys(home.known_keys, lambda known: known.trust(entry))

    consent(desk, ASKING, ADA, None, never)

    assert desk.given["approval"]["assurance"] == "same-uid"


def test_an_encrypted_key_asks_for_its_passphrase(home):
    """The passphrase is asked for by name; a wrong one approves nothing."""
    desk = Desk()
    save(PrivateKey.generate(), home.keys, "ada", PASSPHRASE.encode())

    with pytest.raises(SigningKeyError, match="passphrase is wrong"):
        consent(desk, ASKING, ADA, None, lambda _: "wrong")
    assert desk.given == {}
    consent(desk, ASKING, ADA, None, lambda prompt: PASSPHRASE if "ada.key.pem" in prompt else "")
    assert "approval" in desk.given


@pytest.mark.parametrize("name", ["absent", "../plane", "", "a/b"])
def test_a_named_key_must_be_there(home, name):
    """A key that was named and is not there, or is no name of a key, is an error: never another way to approve."""
    desk = Desk()
    save(PrivateKey.generate(), home.root, "plane")

    if name:
        with pytest.raises(NotFoundError, match="there is no key"):
            consent(desk, ASKING, ADA, name, never)
        assert desk.given == {}
    else:
        consent(desk, ASKING, ADA, name or None, never)
        assert "actor" in desk.given


QUESTION: dict[str, Any] = {
    "runId": "run_1",
    "host": "api.example.com",
    "port": 443,
    "rule": "ask-first",
    "contract": CONTRACT,
    "contractHash": SHOWN,
    "consentRequirements": [],
}
PLACE = {"host": "api.example.com", "port": 443, "rule": "ask-first"}


@pytest.mark.parametrize("keyed", [True, False])
def test_a_place_is_approved_by_an_own_key_or_by_name(home, keyed):
    """One's own key signs the place, under the hash of the contract that was shown; without one the plane vouches."""
    desk = Desk()
    if keyed:
        save(PrivateKey.generate(), home.keys, "ada")

    consent_to_place(desk, QUESTION, ADA, signer_of(ADA, None, never))

    if keyed:
        approval = desk.given["approval"]
        assert (approval["question"], approval["contractHash"]) == (PLACE, SHOWN)
    else:
        by_name = {"answer": "yes", "question": PLACE, "actor": {"kind": "human", "id": "ada"}}
        assert desk.given == {**by_name, "contractHash": SHOWN}


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize(
    "other", [{"contractHash": "c" * 64}, {"contract": {**CONTRACT, "more": 1}}, {"runId": "run_2"}]
)
def test_another_contract_than_the_one_shown_is_not_approved(home, keyed, other):
    """What was shown is what is approved: where hash, contract and run do not belong together, nobody says yes."""
    desk = Desk()
    if keyed:
        save(PrivateKey.generate(), home.keys, "ada")

    with pytest.raises(InputError, match="another contract than the one that was shown"):
        consent(desk, {**ASKING, **other}, ADA, None, never)
    with pytest.raises(InputError, match="another contract than the one that was shown"):
        consent_to_place(desk, {**QUESTION, **other}, ADA, signer_of(ADA, None, never))

    assert desk.given == {}
