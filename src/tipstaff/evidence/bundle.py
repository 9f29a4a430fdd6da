"""The checks on a bundle, numbered as in docs/evidence-format.md and run in that order.

Digests are taken over the JSON as it arrived; the typed views are only for looking things up, and where one could not
be made (check 0) the checks that need it are passed over, because the document is refused already.
"""

from collections import Counter
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from tipstaff.canonical import digest
from tipstaff.errors import CanonicalError, InputError, SigningKeyError
from tipstaff.evidence.approval import ApprovalCheck
from tipstaff.evidence.chain import Chain
from tipstaff.evidence.checkpoints import check_checkpoints
from tipstaff.evidence.reached import check_places, check_questions
from tipstaff.evidence.reading import View, typed
from tipstaff.evidence.report import MOST_PER_CHECK, Findings
from tipstaff.evidence.seal import Seal
from tipstaff.evidence.trust import Trust
from tipstaff.keys import PublicKey
from tipstaff.model import events as e
from tipstaff.model.contract import Contract
from tipstaff.model.noun import VERSION_BUNDLE, VERSION_CONTRACT, VERSION_MANIFEST, VERSION_RECEIPT
from tipstaff.model.receipt import BundleKeys, Receipt
from tipstaff.model.tiers import rank

FIELDS = frozenset({"version", "contract", "receipt", "events", "keys"})


class BundleCheck:
    """One bundle, taken apart."""

    def __init__(self, fields: Mapping[str, Any], chain: Chain, trust: Trust, findings: Findings) -> None:
        self._findings = findings
        self._chain = chain
        self._trust = trust
        self._fields = fields
        self._raw_contract = self._object("contract")
        self._raw_receipt = self._object("receipt")
        self.contract = self._view(self._raw_contract, Contract, "contract")
        self.receipt = self._view(self._raw_receipt, Receipt, "receipt")
        self._contract_seal = Seal(self._raw_contract, "contract", ("plane", "org"), findings)
        self._receipt_seal = Seal(self._raw_receipt, "receipt", ("runner", "plane", "org"), findings)
        self._raw_keys = self._object("keys")
        self._keys = self._view(self._raw_keys, BundleKeys, "keys", unknown=15)
        self.plane = self._key("planePublicKeyPem", self._keys.plane_public_key_pem if self._keys else None)
        self.runner = self._key("runnerPublicKeyPem", self._keys.runner_public_key_pem if self._keys else None)
        self.notes: list[str] = []

    @property
    def receipt_digest(self) -> str:
        """What the receipt's signatures are over; empty where it has no canonical form."""
        return self._receipt_seal.digest

    def run(self, artifacts: Mapping[str, bytes] | None) -> None:
        """Run every check; problems go to the findings."""
        self._check_versions()  # 1
        self._check_contract_signature()  # 2
        self._check_same_run()  # 3, 4, 6
        self._check_runner_key()  # 5, 7, 19
        self._check_chain()  # 8, 9
        self._check_ending()  # 10
        self._check_workspace()  # 11
        self._check_copies()  # 12, 13, 16, 17, 18, 26
        self._receipt_seal.check(14, "plane", self.plane)
        self._check_unhashed()  # 15
        self._check_permitted()  # 20
        self._check_tier()  # 21
        self._check_times()  # 22
        self._check_approvals()  # 24
        self._check_artifacts(artifacts)  # 25
        self._check_checkpoints()  # 31
        self._check_trust()  # 27

    # Taking apart

    def _object(self, name: str) -> dict[str, Any]:
        value = self._fields.get(name)
        if type(value) is dict:
            return value
        self._findings.add(0, "this is not there, or not an object", name)
        return {}

    def _view(self, value: dict[str, Any], kind: type[View], place: str, unknown: int = 0) -> View | None:
        if not value:
            return None
        try:
            return typed(value, kind)
        except InputError as error:
            number = unknown if "unknown field" in error.message else 0
            self._findings.add(number, error.message, place)
            return None

    def _key(self, name: str, pem: str | None) -> PublicKey | None:
        """Read a key of the bundle: it must be spelled as we would spell it, since no hash covers the spelling."""
        if pem is None:
            return None
        try:
            key = PublicKey.parse(pem)
        except SigningKeyError as error:
            self._findings.add(15, error.message, f"keys.{name}")
            return None
        if key.pem != pem:
            self._findings.add(15, "this key is not spelled as SPKI PEM with one newline at its end", f"keys.{name}")
        return key

    # The checks

    def _check_versions(self) -> None:
        raw = self._raw_contract.get("workspace")
        workspace = raw if type(raw) is dict else {}
        for place, value, wanted in (
            ("version", self._fields.get("version"), VERSION_BUNDLE),
            ("contract.version", self._raw_contract.get("version"), VERSION_CONTRACT),
            ("receipt.version", self._raw_receipt.get("version"), VERSION_RECEIPT),
            ("contract.workspace.version", workspace.get("version"), VERSION_MANIFEST),
        ):
            if value != wanted:
                self._findings.add(1, f"the version is not {wanted}", place)

    def _check_contract_signature(self) -> None:
        self._contract_seal.check(2, "plane", self.plane)
        if self.contract and self.plane and self.contract.issuer.key_id != self.plane.key_id:
            self._findings.add(2, "the contract names another key as its issuer's", "contract.issuer.keyId")

    def _check_same_run(self) -> None:
        run_id = self._raw_receipt.get("runId")
        if type(run_id) is not str or run_id != self._raw_contract.get("runId"):
            self._findings.add(3, "the receipt is for another run than the contract", "receipt.runId")
        if self._raw_receipt.get("contractHash") != self._contract_seal.digest:
            self._findings.add(4, "the receipt names another contract", "receipt.contractHash")
        if self.contract and self.receipt and self.receipt.runner.pool != self.contract.runner.pool:
            self._findings.add(6, "the receipt is from another pool than the contract's", "receipt.runner.pool")

    def _check_runner_key(self) -> None:
        """A lost run has no runner's signature: then the claim must name the runner, and the plane vouches."""
        lost = self.receipt is not None and self.receipt.lost
        if self.receipt and not (lost and self.runner is None):
            if self.runner is None or self.receipt.runner.key_id != self.runner.key_id:
                self._findings.add(5, "the receipt names another key than the runner's", "receipt.runner.keyId")
            elif self.runner == self.plane:
                self._findings.add(5, "one key signs for the runner and for the plane", "keys")
        if lost:
            self.notes.append("the runner was lost: what its events say, the plane alone vouches for")
        if lost and self._receipt_seal.key_id("runner"):
            self._findings.add(7, "a runner that was lost cannot have signed", "receipt.signatures")
        elif not lost:
            self._receipt_seal.check(7, "runner", self.runner)
        claimed = self._chain.claimed
        if claimed is None:
            self._findings.add(19, "no run.claimed says which runner took the run", "events")
        elif self.receipt and (claimed.runner_id, claimed.runner_key_id) != (
            self.receipt.runner.runner_id,
            self.receipt.runner.key_id,
        ):
            self._findings.add(19, "another runner claimed the run than the one of the receipt", "receipt.runner")

    def _check_chain(self) -> None:
        if type(self._fields.get("events")) is not list:
            self._findings.add(0, "this is not there, or not a list", "events")
        if self._chain.genesis != self._contract_seal.digest:
            self._findings.add(8, "the chain does not begin with the contract's hash", "events[0].prev")
        if self._raw_receipt.get("eventsHead") != self._chain.head:
            self._findings.add(9, "the last event is not the one that the receipt names", "receipt.eventsHead")
        count = self._raw_receipt.get("eventCount")
        if count != self._chain.count or type(count) is not int:
            self._findings.add(9, f"there are {self._chain.count} events, not as many as this", "receipt.eventCount")

    def _check_ending(self) -> None:
        ending = e.ENDINGS.get(type(self._chain.last)) if self._chain.last is not None else None
        if ending is None or ending != self._raw_receipt.get("status"):
            said = f"says {ending}" if ending else "is no ending"
            self._findings.add(10, f"this does not fit the last event, which {said}", "receipt.status")
        if self.receipt is None:
            return
        if self.receipt.lost is not (self._failure() == "runner_lost"):
            self._findings.add(10, "a run is lost if, and only if, its last event says runner_lost", "receipt.ending")
        codes = [code for _, code in self._chain.commands[-1:]]
        if self.receipt.exit_code is not None and codes not in ([], [self.receipt.exit_code]):
            self._findings.add(10, f"the last command ended with {codes[0]}", "receipt.exitCode")

    def _failure(self) -> str:
        return self._chain.last.failure if isinstance(self._chain.last, e.RunFailed) else ""

    def _check_workspace(self) -> None:
        if self.contract is None or self.receipt is None:
            return
        manifest_hash = _digest(self._raw_contract["workspace"])
        if self.receipt.workspace_in.base_ref != self.contract.workspace.base_ref:
            self._findings.add(11, "the receipt started from another commit", "receipt.workspaceIn.baseRef")
        if self.receipt.workspace_in.manifest_hash != manifest_hash:
            self._findings.add(11, "the receipt started from another manifest", "receipt.workspaceIn.manifestHash")
        if self._chain.manifests.keys() - {manifest_hash}:
            self._findings.add(11, "an event materialized another manifest than the contract's", "events")

    def _check_copies(self) -> None:
        """What the receipt says again must be what the events said: nothing more, nothing less."""
        if (receipt := self.receipt) is None:
            return
        chain = self._chain
        artifacts = [content for _, content in chain.artifacts]
        disclosures = [(r.direction, r.content_hash, r.data_class) for r in receipt.boundary_disclosures]
        for number, name, copy, events in (
            (12, "secretsReleased", [(r.name, r.scope, r.ts) for r in receipt.secrets_released], chain.secrets),
            (16, "networkAccessed", {(r.host, r.decision) for r in receipt.network_accessed}, [*chain.network]),
            (17, "boundaryDisclosures", disclosures, chain.disclosures),
            (18, "workspaceOut.artifactHashes", receipt.workspace_out.artifact_hashes, artifacts),
            (26, "modelsUsed", {(r.provider, r.model) for r in receipt.models_used}, [*chain.models]),
        ):
            if Counter(copy) != Counter(events):
                self._findings.add(number, "this is not what the events say", f"receipt.{name}")
        diff = receipt.workspace_out.diff_hash
        if diff and ("diff", diff) not in chain.artifacts:
            self._findings.add(13, "no event created this diff", "receipt.workspaceOut.diffHash")

    def _check_unhashed(self) -> None:
        for name in sorted(self._fields.keys() - FIELDS):
            self._findings.add(15, "this field is covered by no hash", name[:64])
        for name in sorted(name for name, pem in self._raw_keys.items() if pem is None):
            self._findings.add(15, "a key that is not there is left out, not null", f"keys.{name[:64]}")
        self._check_org()

    def _check_org(self) -> None:
        """An org key that signs nothing, or an org signature without its key, is an addition that no hash covers."""
        pem = self._keys.org_public_key_pem if self._keys else None
        org = self._key("orgPublicKeyPem", pem)
        signing = [seal for seal in (self._contract_seal, self._receipt_seal) if seal.key_id("org")]
        if pem is not None and not signing:
            self._findings.add(15, "this key signs nothing here", "keys.orgPublicKeyPem")
        for seal in signing:
            seal.check(15, "org", org)
        if org is not None and signing:
            self._trust.check(org, "org", self._times(), self._findings)

    def _check_permitted(self) -> None:
        if self.contract is None:
            return
        permitted = {(claim.name, claim.scope) for claim in self.contract.secrets}
        for name, scope, _ in self._chain.secrets:
            if (name, scope) not in permitted:
                self._findings.add(20, f"the secret {name[:64]!r} was released without being in the contract", "events")
        permitted_command = _command_hash(self.contract)
        if permitted_command and any(executed != permitted_command for executed, _ in self._chain.commands):
            self._findings.add(20, "another command was executed than the contract's", "events")
        check_places(self.contract, self._chain, self._findings)

    def _check_tier(self) -> None:
        """A contract without a minimum that names a tier means that tier."""
        minimum = self.contract and (self.contract.minimum_tier or self.contract.isolation)
        if self.receipt is None or not minimum or self._ran_nothing_for_want():
            return  # a host that cannot isolate well enough says so, and runs nothing
        actual = self.receipt.runner.isolation or "process"
        ranks = rank(actual), rank(minimum)
        if ranks[0] is None or ranks[1] is None:
            unknown = (actual if ranks[0] is None else minimum)[:64]
            message = f"how strong the tier {unknown!r} is, this version does not know"
            self._findings.add(21, message, "receipt.runner.isolation", certain=False)
        elif ranks[0] < ranks[1]:
            self._findings.add(21, f"the run was isolated by {actual}, below {minimum}", "receipt.runner.isolation")

    def _ran_nothing_for_want(self) -> bool:
        return self._failure() == "capability_mismatch" and not self._chain.commands

    def _check_times(self) -> None:
        if self.contract is None or self.receipt is None:
            return
        chain = self._chain
        if chain.first_time and self.receipt.started_at != chain.first_time:
            self._findings.add(22, "this is not the time of the first event", "receipt.startedAt")
        if chain.first_time and chain.first_time < self.contract.issued_at:
            self._findings.add(22, "the first event is dated before the contract", "events[0].ts")
        # A lost run was ended by the plane, whose clock is not the runner's.
        if not self.receipt.lost and self.receipt.ended_at < chain.last_runner_time:
            self._findings.add(22, "the runner's last event is dated after this", "receipt.endedAt")
        if chain.claimed_at and chain.claimed_at > self.contract.expires_at:
            self._findings.add(22, "the run was claimed after its contract had expired", "contract.expiresAt")

    def _check_approvals(self) -> None:
        approvals = ApprovalCheck(self._contract_seal.digest, self._chain.claimed_at, self._trust, self._findings)
        for seq, ts, consent in self._chain.consents:
            self.notes.extend(approvals.check(consent, ts, f"events[{seq}]"))
        if self.contract is not None:
            self.notes.extend(check_questions(self.contract, self._chain, approvals))
        if (more := len(self.notes) - MOST_PER_CHECK) > 0:
            self.notes[MOST_PER_CHECK:] = [f"{more} more notes on approvals"]

    def _check_artifacts(self, artifacts: Mapping[str, bytes] | None) -> None:
        if artifacts is None or self.receipt is None:
            return
        for wanted in dict.fromkeys(self.receipt.workspace_out.artifact_hashes):
            content = artifacts.get(wanted)
            if content is None:
                self._findings.add(25, "this artifact was not given", wanted[:64])
            elif sha256(content).hexdigest() != wanted:
                self._findings.add(25, "this artifact has another content", wanted[:64])

    def _check_checkpoints(self) -> None:
        checkpoints = self._raw_receipt.get("checkpoints")
        if checkpoints is not None:
            run_id = self._raw_contract.get("runId")
            check_checkpoints(
                checkpoints, (run_id, self._contract_seal.digest), self._chain, self.plane, self._findings
            )

    def _check_trust(self) -> None:
        if self.plane is not None:
            self._trust.check(self.plane, "plane", self._times(), self._findings)
        if self.runner is not None and self.receipt is not None:
            # A stolen key can set its own clock back, but not the plane's, which dated the claim.
            times = tuple(when for when in (self._chain.claimed_at, self.receipt.ended_at) if when)
            self._trust.check_vouched(self.runner, "runner", times, self._findings)

    def _times(self) -> tuple[str, ...]:
        """When the plane signed: the contract at its issue, the receipt at its end."""
        issued = (self.contract.issued_at,) if self.contract else ()
        ended = (self.receipt.ended_at,) if self.receipt else ()
        return issued + ended


def _command_hash(contract: Contract) -> str:
    """Give the argvHash of the contract's command; empty where an agent decides what is started."""
    fallback = {"kind": "shell", "script": contract.task.prompt} if contract.agent.kind == "command" else {}
    execution = contract.execution or fallback
    cwd = execution.get("cwd") or "."
    if execution.get("kind") == "shell":
        script, shell = execution.get("script"), execution.get("shell") or "sh"
        return _digest({"kind": "shell", "shell": shell, "script": script, "cwd": cwd})
    if execution.get("kind") == "argv":
        command, args = execution.get("command"), execution.get("args") or []
        return _digest({"kind": "argv", "cmd": command, "args": args, "cwd": cwd})
    if execution.get("kind") == "python":
        source, args = execution.get("source"), execution.get("args") or []
        return _digest({"kind": "python", "source": source, "args": args, "cwd": cwd})
    return ""


def _digest(value: Any) -> str:
    try:
        return digest(value)
    except CanonicalError:  # the seal of the object around it has said so
        return ""
