"""Leases: a runner takes a run, keeps it by saying that it lives, and is told when to stop.

The number of the attempt is the fence: whatever comes with the token of an earlier attempt, or of a lease that was
renewed, is refused. Secrets are read before anything is written, so that the chain never tells of a release that did
not happen. Which runs are lost is the business of `lost`.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from tipstaff.errors import InputError, PlaneError, SecretError, SigningKeyError
from tipstaff.evidence.seal import signed
from tipstaff.keys import PublicKey
from tipstaff.model.noun import VERSION_CHECKPOINT, VERSION_CLAIM
from tipstaff.model.times import timestamp
from tipstaff.plane.approvals import shortfalls
from tipstaff.plane.authority import Authority
from tipstaff.plane.bounds import refuse_forged_cancel
from tipstaff.plane.chains import Chains
from tipstaff.plane.contents import keep_contents, refuse_foreign_artifacts
from tipstaff.plane.permitted import why_not
from tipstaff.plane.refusals import failed, refuse_run
from tipstaff.plane.tokens import Claim, Tokens
from tipstaff.store import Run, Runner
from tipstaff.store.runs import FIRST, Line

Json = dict[str, Any]
OFFERS: Final = ("release", "renew", "blobs", "log", "ask", "checkpoints", "events-in-complete")
SEEN_MS: Final = 10_000  # how often it is written down that a runner lives
MOST_LABELS: Final = 64
LONGEST_TEXT: Final = 256
NONCE: Final = re.compile(r"[0-9a-f]{16,64}\Z")
TRANSFER_MS: Final = 1_800_000  # for contents to come and go, over a run's own time
SLACK_MS: Final = 60_000  # for a runner that cannot renew: over its own timeout


class Leases:
    """Everything that a runner does between claim and completion."""

    def __init__(self, authority: Authority, tokens: Tokens, chains: Chains) -> None:
        self._authority = authority
        self._store = authority.store
        self._tokens = tokens
        self._chains = chains

    def enroll(self, public_key_pem: str, pool: str) -> Json:
        """Make a runner known; the same key in the same pool is the same runner, with the same token."""
        try:
            key = PublicKey.parse(public_key_pem)
        except SigningKeyError as error:
            raise InputError(f"the runner's key cannot be used: {error.message}") from error
        if key in {signer.public for signer in (self._authority.key, *self._authority.older)}:
            raise InputError("a runner's key must not be the plane's")  # one key for both would prove neither
        wanted = Runner(self._authority.new_id("rnr"), key, pool)
        runner = self._store.runners.enroll(wanted, self._authority.time())
        return {"runnerId": runner.runner_id, "runnerToken": self._tokens.runner(runner.runner_id)}

    def claim(self, body: Json) -> Json:
        """Give the run whose turn it is of those that fit, or say that there is none."""
        runner = self.runner(body)
        said = _texts(body, "tiers")
        self._note(runner, body, said)
        if runner.drain:
            return {**self._nothing(), "drain": True}
        # One that says nothing of tiers has none: it may have what demands none.
        line = Line(runner.pool, self._authority.owner_name, said, weakest=said is None and self._authority.shared)
        now, after = self._authority.time(), FIRST
        while found := self._store.runs.waiting(line, now, after):
            after, run = found
            if not self._still_permitted(run):
                continue
            if (secrets := self._secrets(run)) is not None and (claim := self._take(run, runner, secrets, body)):
                return claim
        return self._nothing()

    def _nothing(self) -> Json:
        """Say that there is no run; to a runner of another process, what else this plane can do."""
        return {"empty": True, "offers": OFFERS} if self._authority.shared else {"empty": True}

    def renew(self, token: object) -> Json:
        """Prolong a lease. The token changes; asking again with the one before gives the same token."""
        claim = self._tokens.read_claim(token)
        with self._store.database.transaction():
            run = self._store.runs.get(claim.run_id)
            was_lost = run.lease_serial == claim.serial + 1  # the reply, with the token that holds now
            claim = claim._replace(serial=claim.serial + 1)
            self.refuse_stale(run, claim if was_lost else claim._replace(serial=claim.serial - 1))
            now, until = self._authority.time(), self._longest(run)
            self._store.runs.change(run, lease_serial=claim.serial, lease_until=until)
        return {"claimToken": self._tokens.claim(claim), "leaseMs": max(1, until - now), **cancel_of(run)}

    def _longest(self, run: Run) -> int:
        """Say how long a lease may be prolonged now: not for ever, and not at all once the run is to be stopped."""
        usual = self._authority.time() + self._authority.lease_ms
        if run.cancel_actor is not None and run.lease_until is not None:
            return run.lease_until
        # The plane's last word on a run that is held was the claim.
        return min(usual, run.plane_time + int(run.contract["limits"]["timeMs"]) + TRANSFER_MS)

    def append(self, token: object, links: Any, *, release: bool, contents: Sequence[bytes] = ()) -> Json:
        """Take a runner's events. With `release` the command is let run next: what is known now must survive.

        So must whatever is signed for: to a runner elsewhere, that is every message.
        """
        if self._authority.shared:
            self._chains.prepare(self.holder(token), self._store.database)
        with self._store.database.transaction(durable=release or self._authority.shared):
            run = self.holder(token)
            keep_contents(self._authority, run, contents)
            told = self._chains.extension(run, links, self._authority.time() if self._authority.shared else None)
            self.refuse_invented(run, told.links)
            if self._authority.shared:
                refuse_forged_cancel(run, told.links)
            lasting = told.lasting
            self._store.runs.add_events(run.run_id, lasting)
            run = self._store.runs.change(
                run,
                event_count=run.event_count + len(lasting),
                events_head=lasting[-1]["hash"] if lasting else run.events_head,
                ending=told.ending,
                state=_state(run, told.links, release=release),
                released=run.released or release,
                updated_at=self._authority.time(run),
            )
        return {"ok": True, **cancel_of(run), **self._checkpoint(run)}

    def _checkpoint(self, run: Run) -> Json:
        """Sign for what is kept of the chain, so that neither side can tell it differently later.

        Only for what survives power loss, and only for what stays whatever the receipt says: no ending is held to it.
        """
        if not self._authority.shared:
            return {}
        seen = {
            "version": VERSION_CHECKPOINT,
            "runId": run.run_id,
            "contractHash": run.contract_hash,
            "eventCount": run.event_count,
            "eventsHead": run.events_head,
            "ts": timestamp(self._authority.time(run)),
        }
        return {"checkpoint": signed(seen, self._authority.signer(run.contract), "plane")}

    def refuse_other(self, token: object, run_id: str) -> None:
        """Refuse a token that was given for another run than the path names."""
        if self._tokens.read_claim(token).run_id != run_id:
            raise PlaneError("this token is for another run", status=401, code="token_unknown")

    def runner_of(self, token: object) -> str:
        """Name the runner that a token of this plane was given to, or nobody; what it is good for is not asked."""
        with suppress(PlaneError):
            return self._tokens.read_claim(token).runner_id
        with suppress(PlaneError):
            return self._tokens.read_runner(token)
        return ""

    def run_of(self, token: object) -> str:
        """Name the run that a token is for."""
        return self._tokens.read_claim(token).run_id

    def refuse_invented(self, run: Run, links: list[Json]) -> None:
        """Refuse events that carry an approval which nobody gave, or name content that this run did not bring."""
        if self._authority.shared:
            refuse_foreign_artifacts(self._authority, run, links)
        if any("approval" in link["event"] for link in links):
            from tipstaff.plane import questions  # noqa: PLC0415 - few runs ask while they run

            questions.refuse_invented(self._authority, run, links)

    def holder(self, token: object) -> Run:
        """Give the run that a token holds now; inside a transaction where that must not change."""
        claim = self._tokens.read_claim(token)
        run = self._store.runs.get(claim.run_id)
        self.refuse_stale(run, claim)
        return run

    def refuse_stale(self, run: Run, claim: Claim) -> None:
        """Refuse a claim that does not hold the run as it is now."""
        if not run.claimed:
            raise PlaneError(f"run {run.run_id} is {run.state}", status=409, code="not_claimed")
        if claim != (run.run_id, run.attempt, run.lease_serial, run.runner_id):
            raise PlaneError(f"this claim on run {run.run_id} has been replaced", status=409, code="claim_stale")
        if self._authority.shared and self._store.runners.is_revoked(claim.runner_id):
            raise PlaneError("this runner is not enrolled any more", status=401, code="runner_unknown")

    def runner(self, body: Json) -> Runner:
        """Give the runner whose token a body carries."""
        runner = self._store.runners.get(self._tokens.read_runner(body.get("runnerToken")))
        if runner is None:
            raise PlaneError("this runner is not enrolled any more", status=401, code="runner_unknown")
        if body.get("pool", runner.pool) != runner.pool:
            raise PlaneError(f"this runner was enrolled for the pool {runner.pool!r}", status=403, code="other_pool")
        return runner

    def _secrets(self, run: Run) -> list[Json] | None:
        """Read every secret of the contract. One that is not there ends the run; then there is None."""
        if not run.contract["secrets"]:
            return []
        self._store.database.take_time()  # a source may be a program
        try:
            return self._read(run.contract)
        except SecretError as error:
            cause = failed("secrets.missing", "secret_release_denied", str(error))
        with self._store.database.transaction(durable=True):
            now = self._store.runs.get(run.run_id)
            if now.state == "created":
                refuse_run(self._authority, now, cause)
        return None

    def _read(self, contract: Json) -> list[Json]:
        values = {secret["name"]: self._authority.read_secret(secret["name"]) for secret in contract["secrets"]}
        if missing := sorted(name for name, value in values.items() if value is None):
            raise SecretError(f"there is no secret {', '.join(missing)}", hint="see: tipstaff secrets list")
        if told := sorted(name for name, value in values.items() if value and _tells(contract, value)):
            raise SecretError(
                f"the command itself holds the value of {', '.join(told)}, where it is recorded",
                hint="name the variable in the command instead, in single quotes",
            )
        _refuse_unfit(contract, values)
        return [{"name": name, "value": value} for name, value in values.items()]

    def _take(self, seen: Run, runner: Runner, secrets: list[Json], body: Json) -> Json | None:
        """Claim a run that was seen waiting; None when another was faster, or an approval has run out."""
        knows = _knows(body)
        # A runner that does not say when it releases the command may do so at once.
        with self._store.database.transaction(durable="release" not in knows):
            run = seen if self._store.runs.is_still(seen) else self._store.runs.get(seen.run_id)
            now = self._authority.time(run)
            if run.state != "created" or now > run.expires_at or shortfalls(self._authority, run):
                return None
            lease = self._authority.lease_ms if "renew" in knows else run.contract["limits"]["timeMs"] + SLACK_MS
            if self._authority.shared:
                self._store.runs.took_turn(run.pool, run.turn)
            run = self._authority.extend(
                run,
                _claim_events(run, runner),
                state="claimed",
                attempt=run.attempt + 1,
                lease_serial=run.lease_serial + 1,
                lease_until=now + lease,
                runner_id=runner.runner_id,
                released=False,
            )
            events = list(self._store.runs.events(run.run_id))
        claim = Claim(run.run_id, run.attempt, run.lease_serial, runner.runner_id)
        return {
            "runId": run.run_id,
            "contract": run.contract,
            "claimToken": self._tokens.claim(claim),
            "attempt": run.attempt,
            "leaseMs": lease,
            "events": events,
            "secrets": secrets,
            **({"offers": OFFERS, **self._proof(run, runner, body)} if self._authority.shared else {}),
        }

    def _proof(self, run: Run, runner: Runner, body: Json) -> Json:
        """Sign for the claim, to a runner that named a number which nobody used before.

        A contract alone proves neither that its approvals were given, nor that this runner has it, nor the time.
        """
        nonce = body.get("nonce")
        if not (isinstance(nonce, str) and NONCE.match(nonce)):
            return {}
        said = {
            "version": VERSION_CLAIM,
            "nonce": nonce,
            "ts": timestamp(self._authority.time(run)),
            "runId": run.run_id,
            "contractHash": run.contract_hash,
            "attempt": run.attempt,
            "runnerId": runner.runner_id,
            "runnerKeyId": runner.key.key_id,
            "eventCount": run.event_count,
            "eventsHead": run.events_head,
        }
        return {"proof": signed(said, self._authority.signer(run.contract), "plane")}

    def _note(self, runner: Runner, body: Json, tiers: list[str] | None) -> None:
        """Write down that a runner lives, now and then."""
        now = self._authority.time()
        if self._authority.shared and now - (runner.last_seen_at or 0) > SEEN_MS:
            labels = (_texts(body, "labels") or [])[:MOST_LABELS]
            with self._store.database.transaction():
                self._store.runners.seen(runner.runner_id, now, labels, tiers)

    def _still_permitted(self, run: Run) -> bool:
        """Judge a run again where the policy, or its requester, is not what it was; one that may not run is ended."""
        cause = why_not(self._authority, run) if self._authority.shared else None
        if cause is None:
            return True
        with self._store.database.transaction(durable=True):
            now = self._store.runs.get(run.run_id)
            if now.state == "created":
                refuse_run(self._authority, now, cause)
        self._authority.wake(f"run:{run.run_id}")
        return False


def _refuse_unfit(contract: Json, values: dict[str, str | None]) -> None:
    """Refuse to release what no header could carry, where a header has to."""
    from tipstaff.secrets.inject import fault_of_injected  # noqa: PLC0415 - most runs have no secret

    for secret in contract["secrets"]:
        value = values[secret["name"]]
        if secret.get("lease", {}).get("way") == "inject" and value and (fault := fault_of_injected(value)):
            raise SecretError(f"the secret {secret['name']} cannot be put into a header: {fault}", hint="set another")


def _tells(value: Any, secret: str) -> bool:
    """Say whether a secret stands in a contract, which is kept: then it is none any more."""
    if isinstance(value, str):
        return secret in value
    parts = (*value, *value.values()) if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(_tells(part, secret) for part in parts)


def _knows(body: Json) -> list[Any]:
    """List what the runner says that it can do: `renew` its lease, say when it will `release` the command."""
    said = body.get("knows")
    return said if isinstance(said, list) else []


def _claim_events(run: Run, runner: Runner) -> list[Json]:
    claimed = {"type": "run.claimed", "runnerId": runner.runner_id, "runnerKeyId": runner.key.key_id}
    released = [
        {"type": "secret.released", "name": secret["name"], "scope": secret["scope"]}
        for secret in run.contract["secrets"]
    ]
    return [claimed | {"attempt": run.attempt + 1}, *released]


def _state(run: Run, fresh: list[Json], *, release: bool) -> str:
    if release or run.state == "running" or any(acted(link) for link in fresh):
        return "running"
    return "provisioning" if fresh else run.state


def acted(link: Json) -> bool:
    """Say whether a runner's event tells of more than a workspace that stands."""
    return bool(link["event"]["type"] != "workspace.materialized")


def cancel_of(run: Run) -> Json:
    """Say who wants a run stopped, if somebody does."""
    return {"cancel": run.cancel_actor} if run.cancel_actor else {}


def _texts(body: Json, name: str) -> list[str] | None:
    """Read a list of short texts; None where there is none."""
    said = body.get(name)
    if type(said) is not list:
        return None
    return [one for one in said if type(one) is str and len(one) <= LONGEST_TEXT]
