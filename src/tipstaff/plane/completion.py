"""Completion: a runner's receipt is verified, then countersigned, then kept with its last events; and a lost one's.

Verification comes first and burns nothing: a receipt that can be mended may be sent again. The same receipt sent twice
gets the same answer. Events, receipt, journal and head are one transaction that survives power loss.
"""

from collections.abc import Sequence
from typing import Any, Final

from tipstaff.canonical import digest
from tipstaff.errors import CanonicalError, PlaneError
from tipstaff.evidence.bundle import BundleCheck
from tipstaff.evidence.chain import Chain
from tipstaff.evidence.copies import copies
from tipstaff.evidence.report import Findings
from tipstaff.evidence.seal import payload_digest, signed, signed_as
from tipstaff.evidence.trust import Trust
from tipstaff.model.noun import VERSION_BUNDLE, VERSION_RECEIPT
from tipstaff.model.receipt import Receipt
from tipstaff.model.times import timestamp
from tipstaff.plane.authority import Authority
from tipstaff.plane.bounds import MOST_RECEIPT_BYTES, fault_of_time, refuse_forged_cancel, size_of
from tipstaff.plane.chains import Chains, Extension
from tipstaff.plane.contents import keep_contents
from tipstaff.plane.leases import Leases
from tipstaff.plane.tokens import Claim, Tokens
from tipstaff.store import Run

Json = dict[str, Any]
LATE: Final = frozenset({"claim_stale", "not_claimed", "completed"})
MOST_ATTACHED_BYTES: Final = 4 * 1024**2
MOST_NAMED: Final = 20
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
        if self._authority.shared:
            _refuse_large(receipt)
        claim = self._tokens.read_claim(token)
        try:
            return self._completed(claim, receipt, links, contents)
        except PlaneError as error:
            if error.code in LATE and self._authority.shared:
                self._attach(claim, receipt, links)
            raise

    def _attach(self, claim: Claim, receipt: Json, links: Any) -> None:
        document = {"receipt": receipt, "events": list(links) if isinstance(links, list | tuple) else []}
        if (size_of(document) or MOST_ATTACHED_BYTES) >= MOST_ATTACHED_BYTES:
            document = {"receipt": receipt, "events": []}
        with self._store.database.transaction():
            now = self._authority.time()
            self._store.attachments.add(claim.run_id, claim.attempt, claim.runner_id, now, document)

    def prepare(self, run: Run) -> None:
        """Fold a long chain before the transaction that will end its run, so that nobody waits for it."""
        self._chains.prepare(run, self._store.database)

    def _completed(self, claim: Claim, receipt: Json, links: Any, contents: Sequence[bytes]) -> Json:
        run, told = self._taken(claim, receipt, links, contents)
        if told is None:
            return run.receipt or {}
        try:
            return self._ended(run, receipt, told)
        finally:
            self._chains.give_back(run.run_id)

    def _taken(
        self, claim: Claim, receipt: Json, links: Any, contents: Sequence[bytes]
    ) -> tuple[Run, Extension | None]:
        """Look at the events that come with a receipt; gives None beside a run that has this receipt already.

        The chain is then ours: a receipt that is refused must not make it fold anew, nor one that is long make others
        wait while it is verified.
        """
        shared = self._authority.shared
        if shared:
            self._prepare_held(claim)
        with self._store.database.alone():  # the remembered chains are one caller's at a time
            run = self._store.runs.get(claim.run_id)
            if run.receipt is not None:
                _refuse_another(run, claim, receipt)
                return run, None
            self._leases.refuse_stale(run, claim)
            keep_contents(self._authority, run, contents)
            now = self._authority.time() if shared else None
            told = self._chains.extension(run, list(links) if type(links) is tuple else links, now)
            self._leases.refuse_invented(run, told.links)
            if shared:
                refuse_forged_cancel(run, told.links)
            self._chains.take(run.run_id)
        return run, told

    def _prepare_held(self, claim: Claim) -> None:
        run = self._store.runs.get(claim.run_id)
        if run.receipt is None:
            self._leases.refuse_stale(run, claim)
            self.prepare(run)

    def _ended(self, run: Run, receipt: Json, told: Extension) -> Json:
        payload = self._verified(run, receipt, told.chain)
        countersigned = signed_as(receipt, payload, self._authority.signer(run.contract), "plane")
        with self._store.database.transaction(durable=True):
            if not self._store.runs.is_still(run):
                raise PlaneError(f"run {run.run_id} has changed meanwhile", status=409, code="claim_stale")
            self._store.runs.add_events(run.run_id, told.links)
            ended = {"event_count": told.chain.count, "events_head": told.chain.head, "ending": None}
            self._keep(run, countersigned, payload, **ended)
        self._chains.forget(run.run_id)
        return countersigned

    def close_lost(self, run: Run, message: str) -> None:
        """End a run whose runner is gone; inside a durable transaction that read it."""
        event = {"type": "run.failed", "failure": "runner_lost", "message": message}
        chain = self._chains.lasting(run)
        run = self._authority.extend(run, [event])
        for link in self._store.runs.events(run.run_id, chain.count):
            chain.add(link)
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
        signatures = receipt.get("signatures")
        roles = [one.get("signer") for one in signatures if type(one) is dict] if type(signatures) is list else []
        if roles != ["runner"]:
            raise _unverified(["the receipt is not signed by the runner alone"])
        if (receipt.get("eventCount"), receipt.get("eventsHead")) != (chain.count, chain.head):
            # Said first: what else there is to check may take as long as the chain is.
            raise _unverified([f"9. the receipt is for another chain than this one of {chain.count} events"])
        findings, trust = Findings(), Trust([self._authority.signer(run.contract).public])
        check = BundleCheck(bundle_of(self._authority, run, receipt, []), chain, trust, findings)
        check.run(None)
        if problems := [str(one) for one in findings.sorted() if one.number != COUNTERSIGNATURE]:
            raise _unverified(problems)
        if self._authority.shared and (problems := _doubts(check.receipt, chain, self._authority.time(run))):
            raise _unverified(problems)
        return check.receipt_digest


def _refuse_large(receipt: Json) -> None:
    if (size := size_of(receipt)) is None:
        raise _unverified(["the receipt is not JSON"])
    if size > MOST_RECEIPT_BYTES:
        raise _unverified([f"the receipt has {size} bytes, and may have {MOST_RECEIPT_BYTES}"])


def _doubts(receipt: Receipt | None, chain: Chain, now: int) -> list[str]:
    """List what a verifier cannot know, and a plane that serves several does not sign for.

    The end is dated by a clock near the plane's, and a stream's copy is content that the run brought itself: who could
    name any digest could have anybody's content shown as what the run printed. Those who show a receipt rely on all
    three numbers of its usage.
    """
    if receipt is None:
        return ["0. the receipt cannot be read"]
    fault = fault_of_time(receipt.ended_at, chain.claimed_at, now)
    brought = {content for _, content in chain.artifacts}
    foreign = [name for name, one in receipt.streams.items() if one.kept and one.bytes and one.kept not in brought]
    return [
        *(["receipt.usage does not tell all"] if receipt.usage and not receipt.usage.complete else []),
        *([f"receipt.endedAt is {fault}: set the runner's clock"] if fault else []),
        *(f"receipt.streams: no event created what is kept of {name[:64]!r}" for name in foreign[:MOST_NAMED]),
    ]


def _refuse_another(run: Run, claim: Claim, receipt: Json) -> None:
    """Refuse a receipt for a run that has one, unless the same runner left the same before."""
    kept = run.receipt or {}
    same_runner = (run.attempt, run.runner_id) == (claim.attempt, claim.runner_id)
    if not same_runner or _digest(receipt) != payload_digest(kept):
        raise PlaneError(f"run {run.run_id} has ended with another receipt", status=409, code="completed")


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
