"""An approval by the person at this command line: signed by a key of their own where there is one.

1. The key that is named, else the one in the home's keys that has the approver's name, else one of the ssh-agent's that
   the home knows as the approver's. 2. A key that the home knows as this person's proves it (`key`); any other signs
   too, but says no more than that somebody with this user id agreed (`same-uid`). 3. With no key at all the plane
   itself vouches for that. 4. Whatever is said is said of the contract that was shown, by its hash: the plane is not
   asked for it again. Asks for a passphrase only by the function that is handed in.
"""

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from tipstaff.errors import InputError, NotFoundError, SigningKeyError
from tipstaff.evidence.approval import approve
from tipstaff.evidence.seal import payload_digest
from tipstaff.home import Home, locate
from tipstaff.keys import Signer
from tipstaff.keys.files import SUFFIX, is_encrypted, load
from tipstaff.keys.known import read_known_keys
from tipstaff.model.noun import Actor
from tipstaff.model.times import timestamp

if TYPE_CHECKING:
    from tipstaff.model.decision import Assurance

Json = dict[str, Any]
AskPassphrase = Callable[[str], str]  # a prompt → what was typed
KEY_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}\Z")
MILLISECONDS: Final = 1000
USUAL_SECONDS: Final = 86_400  # how long an answer holds where no rule says so; its run ends before
OFFICIAL: Final = ("plane", "runner")  # these keys are the home's own, and nobody's to approve with


class Approving(Protocol):
    """What is needed of a plane."""

    def approve(self, run_id: str, body: Json) -> Json:
        """Take an approval."""


class Answering(Protocol):
    """What is needed of a plane for the question of a run at work."""

    def answer(self, run_id: str, body: Json) -> Json:
        """Take an answer."""


def consent(plane: Approving, asking: Json, actor: Actor, key_name: str | None, ask_passphrase: AskPassphrase) -> Json:
    """Approve what was shown, as `actor`; gives the plane's answer: the run's status, and what is still missing."""
    return consent_by(plane, asking, actor, signer_of(actor, key_name, ask_passphrase))


def consent_by(plane: Approving, asking: Json, actor: Actor, signer: Signer | None) -> Json:
    """Approve what was shown: by a signature, or, where there is no key, by the actor's word."""
    contract_hash = shown_hash(asking)
    if signer is None:
        body: Json = {"actor": {"kind": actor.kind, "id": actor.id}}
    else:
        body = {"approval": _signed(asking, contract_hash, actor, signer)}
    return plane.approve(asking["runId"], {**body, "contractHash": contract_hash})


def consent_to_place(plane: Answering, question: Json, actor: Actor, signer: Signer | None) -> Json:
    """Say yes to one place that a run at work wants to reach, under the contract that was shown."""
    place, contract_hash = place_of(question), shown_hash(question)
    if signer is None:
        body: Json = {"answer": "yes", "question": place, "actor": {"kind": actor.kind, "id": actor.id}}
    else:
        body = {"approval": _signed(question, contract_hash, actor, signer, question=place)}
    return plane.answer(question["runId"], {**body, "contractHash": contract_hash})


def shown_hash(asking: Json) -> str:
    """Give the hash of the contract that somebody was shown; refused where it is not the one that is asked about."""
    contract_hash = payload_digest(asking["contract"])
    if asking["contractHash"] != contract_hash or asking["contract"]["runId"] != asking["runId"]:
        raise InputError(f"{asking['runId']} asks for an approval of another contract than the one that was shown")
    return contract_hash


def place_of(question: Json) -> Json:
    """Give what a question is about, as it is signed."""
    return {name: question[name] for name in ("host", "port", "rule")}


def signer_of(actor: Actor, key_name: str | None, ask_passphrase: AskPassphrase) -> Signer | None:
    """Find the key that `actor` signs with, unlocked; None where the plane has to vouch."""
    home = locate(os.environ)
    path = own_key(home, actor.id, key_name)
    return _unlocked(path, ask_passphrase) if path is not None else _agent_key(home, actor.id)


def own_key(home: Home, who: str, key_name: str | None) -> Path | None:
    """Find the private key that `who` would sign with; one that was named must be there."""
    name = key_name or who
    path = home.keys / (name + SUFFIX)
    if KEY_NAME.match(name) and name not in OFFICIAL and os.path.lexists(path):
        return path
    if key_name is not None:
        raise NotFoundError(
            f"there is no key '{key_name}' in {home.keys}", hint="make one with: tipstaff keys new NAME"
        )
    return None


def needs_passphrase(path: Path | None) -> bool:
    """Say whether a passphrase will be asked for."""
    return path is not None and is_encrypted(path)


def _unlocked(path: Path, ask_passphrase: AskPassphrase) -> Signer:
    passphrase = ask_passphrase(f"Passphrase for {path.name}: ").encode() if needs_passphrase(path) else None
    return load(path, passphrase)


def _agent_key(home: Home, who: str) -> Signer | None:
    """Find a key in the ssh-agent that the home knows as the approver's; an agent that is not there has none."""
    socket_path = os.environ.get("SSH_AUTH_SOCK", "")
    known = read_known_keys(home.known_keys)
    mine = [entry.public for entry in known.entries if entry.role == "approver" and entry.name == who]
    if not socket_path or not mine:
        return None
    from tipstaff.keys.agent import agent_keys  # noqa: PLC0415 - sockets are needed only here

    try:
        return next((key for key in agent_keys(socket_path) if key.public in mine), None)
    except SigningKeyError:
        return None


def _signed(asking: Json, contract_hash: str, actor: Actor, signer: Signer, **more: Json) -> Json:
    entry = read_known_keys(locate(os.environ).known_keys).find(signer.public, "approver")
    assurance: Assurance = "key" if entry is not None and entry.name == actor.id else "same-uid"
    lasts = min((one["expiresSeconds"] for one in asking["consentRequirements"]), default=USUAL_SECONDS)
    expires_at = timestamp(time.time_ns() // 1_000_000 + lasts * MILLISECONDS)
    return approve(contract_hash, actor, signer, assurance, expires_at, **more)
