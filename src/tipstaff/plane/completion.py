"""Completion: a runner's receipt is verified, then countersigned, then kept with its last events; and a lost one's.

Verification comes first and burns nothing: a receipt that can be mended may be sent again. The same receipt sent twice
gets the same answer. Events, receipt, journal and head are one transaction that survives power loss.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from tipstaff.canonical import digest
from tipstaff.errors import CanonicalError, PlaneError
from tipstaff.evidence.bundle import BundleCheck
from tipstaff.evidence.chain import Chain
from tipstaff.evidence.copies import copies
from tipstaff.evidence.report import Findings
from tipstaff.evidence.seal import payload_digest, signed, signed_as
from tipstaff.evidence.trust import Trust
from tipstaff.model.noun import VERSION_BUNDLE, VERSION_RECEIPT
from tipstaff.model.times import timestamp
from tipstaff.plane.authority import Authority
from tipstaff.plane.chains import Chains, fold
from tipstaff.plane.contents import keep_contents
from tipstaff.plane.leases import Leases
from tipstaff.plane.tokens import Claim, Tokens
from tipstaff.store import Run

Json = dict[str, Any]
LATE: Final = frozenset({"claim_stale", "not_claimed", "completed"})
MOST_ATTACHED_BYTES: Final = 4 * 1024**2
COUNTERSIGNATURE: Final = 14  # the check that cannot hold yet
LOST_EXIT_CODE: Final = 125


class Completion:
    """Ends runs that a runner holds or held."""

    def __init__(self, authority: Authority, tokens: Tokens, chains: Chains, leases: Leases) -> None:
        self._authority = authority
        self._store = authority.store
        self._tokens = tokens
        self._chains = chains
        self._leases = leases

    def complete(self, token: object, receipt: Any, links: Any = (), contents: Sequence[bytes] = ()) -> Json:
        """End a run by its runner's receipt; `links` are events that were not sent before, `contents` what they name.

        What comes too late changes nothing, and is kept beside the run for whoever wants to know.
        """
        if type(receipt) is not dict:
            raise _unverified(["the receipt is not an object"])
        claim = self._tokens.read_claim(token)
        try:
            return self._completed(claim, receipt, links, contents)
        except PlaneError as error:
            if error.code in LATE and self._authority.shared:
                self._attach(claim, receipt, links)
            raise

    def _attach(self, claim: Claim, receipt: Json, links: Any) -> None:
        document = {"receipt": receipt, "events": list(links) if isinstance(links, list | tuple) else []}
        if len(msgspec.json.encode(document)) > MOST_ATTACHED_BYTES:
            document = {"receipt": receipt, "events": []}
        if len(msgspec.json.encode(document)) <= MOST_ATTACHED_BYTES:
            with self._store.database.transaction():
                now = self._authority.time()
                self._store.attachments.add(claim.run_id, claim.attempt, claim.runner_id, now, document)

    def _completed(self, claim: Claim, receipt: Json, links: Any, contents: Sequence[bytes]) -> Json:
        with self._store.database.alone():  # the remembered chains are one caller's at a time
            run = self._store.runs.get(claim.run_id)
            if run.receipt is not None:
                return _again(run, claim, receipt)
            self._leases.refuse_stale(run, claim)
            keep_contents(self._authority, run, contents)
            told = self._chains.extension(run, list(links) if type(links) is tuple else links)
            self._leases.refuse_invented(run, told.links)
            self._chains.forget(run.run_id)  # from here on the folded chain is ours, and nobody adds to it
        payload = self._verified(run, receipt, told.chain)
        countersigned = signed_as(receipt, payload, self._authority.signer(run.contract), "plane")
        with self._store.database.transaction(durable=True):
            if not self._store.runs.is_still(run):
                raise PlaneError(f"run {run.run_id} has changed meanwhile", status=409, code="claim_stale")
            self._store.runs.add_events(run.run_id, told.links)
            ended = {"event_count": told.chain.count, "events_head": told.chain.head, "ending": None}
            self._keep(run, countersigned, payload, **ended)
        return countersigned

    def close_lost(self, run: Run, message: str) -> None:
        """End a run whose runner is gone; inside a durable transaction that read it."""
        event = {"type": "run.failed", "failure": "runner_lost", "message": message}
        run = self._authority.extend(run, [event])
        chain = fold(self._store.runs.events(run.run_id)).chain
        receipt = signed(lost_receipt(run, chain), self._authority.signer(run.contract), "plane")
        self._keep(run, receipt, payload_digest(receipt), failure_message=message)
        self._chains.forget(run.run_id)

    def _keep(self, run: Run, receipt: Json, payload: str, **changes: Any) -> None:
        """Keep a receipt, and say so in the journal."""
        now = self._authority.time(run)
        self._store.runs.change(run, receipt=receipt, state=receipt["status"], updated_at=now, **changes)
        if self._authority.shared:
            self._store.live.forget(run.run_id)
        self._authority.record("receipt", payload, now)

    def _verified(self, run: Run, receipt: Json, chain: Chain) -> str:
        """Make every check that `evidence.verify` makes, on the events as they were folded; gives what to sign."""
        roles = [one.get("signer") for one in receipt.get("signatures", ()) if type(one) is dict]
        if roles != ["runner"]:
            raise _unverified(["the receipt is not signed by the runner alone"])
        findings, trust = Findings(), Trust([self._authority.signer(run.contract).public])
        check = BundleCheck(bundle_of(self._authority, run, receipt, []), chain, trust, findings)
        check.run(None)
        if problems := [str(one) for one in findings.sorted() if one.number != COUNTERSIGNATURE]:
            raise _unverified(problems)
        return check.receipt_digest


def _again(run: Run, claim: Claim, receipt: Json) -> Json:
    """Give the receipt that the same runner left before, if this is the same."""
    kept = run.receipt or {}
    same_runner = (run.attempt, run.runner_id) == (claim.attempt, claim.runner_id)
    if not same_runner or _digest(receipt) != payload_digest(kept):
        raise PlaneError(f"run {run.run_id} has ended with another receipt", status=409, code="completed")
    return kept


def bundle_of(authority: Authority, run: Run, receipt: Json, events: list[Json]) -> Json:
    """Put a bundle together."""
    keys = {"planePublicKeyPem": authority.signer(run.contract).public.pem}
    runner = authority.store.runners.key(run.runner_id) if run.runner_id else None
    if runner is not None:
        keys["runnerPublicKeyPem"] = runner.pem
    return {"version": VERSION_BUNDLE, "contract": run.contract, "receipt": receipt, "events": events, "keys": keys}


def lost_receipt(run: Run, chain: Chain) -> Json:
    """Write the receipt of a run whose runner was lost: what its events said, and that nobody signed for them."""
    claimed = chain.claimed
    if claimed is None:
        raise ValueError("a run that nobody claimed cannot be lost")
    return {
        "version": VERSION_RECEIPT,
        "runId": run.run_id,
        "contractHash": run.contract_hash,
        "runner": {
            "runnerId": claimed.runner_id,
            "keyId": claimed.runner_key_id,
            "pool": run.pool,
            "attestationTier": "mock",
            "isolation": run.tier,
        },
        "startedAt": chain.first_time,
        "endedAt": timestamp(run.plane_time),
        "status": "failed",
        "ending": "lost",
        "exitCode": chain.commands[-1][1] if chain.commands else LOST_EXIT_CODE,
        "eventsHead": run.events_head,
        "eventCount": run.event_count,
        "workspaceIn": {
            "baseRef": run.contract["workspace"]["baseRef"],
            "manifestHash": digest(run.contract["workspace"]),
        },
        **copies(chain),
    }


def _digest(receipt: Json) -> str:
    try:
        return payload_digest(receipt)
    except CanonicalError as error:
        raise _unverified([error.message]) from error


def _unverified(problems: list[str]) -> PlaneError:
    return PlaneError(
        "the receipt does not verify, and was not taken", status=422, code="receipt_invalid", reasons=tuple(problems)
    )
