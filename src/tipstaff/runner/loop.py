"""The runner beside its plane: takes a contract, makes sure that it is one, carries it out, signs for what happened.

A contract counts only if the pinned plane key signed it, for this pool and for now. Every claim ends in a receipt; what
goes wrong with the plane or in ourselves is raised, and the plane closes the run as lost. While a run goes on its lease
is renewed, which is also how a runner hears that somebody wants it stopped.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tipstaff.errors import PlaneError
from tipstaff.evidence.report import Findings
from tipstaff.evidence.seal import Seal, signed
from tipstaff.isolation.tier import Ended
from tipstaff.keys import PublicKey, Signer
from tipstaff.model.times import milliseconds
from tipstaff.runner.client import Claim, PlaneClient
from tipstaff.runner.lease import Lease
from tipstaff.session import Host, Outside, Session

Json = dict[str, Any]


class Done(msgspec.Struct, frozen=True):
    """One run, carried out."""

    run_id: str
    receipt: Json
    ended: Ended
    refusals: tuple[str, ...] = ()  # what was refused while it ran
    changes: Sequence[Json] = ()  # what it changed in its workspace


class Runner:
    """One runner of one pool. `outside` says what each run shares with whoever asked for it."""

    def __init__(
        self,
        client: PlaneClient,
        host: Host,
        key: Signer,
        plane_keys: Sequence[PublicKey],
        outside: Callable[[str], Outside],
    ) -> None:
        self._client = client
        self._host = host
        self._key = key
        self._plane_keys = {one.key_id: one for one in plane_keys}
        self._outside = outside

    async def claim(self) -> Claim | None:
        """Take one run, if there is one."""
        return await self._client.claim(list(self._host.tiers))

    async def carry_out(self, claim: Claim) -> Done:
        """Carry a run out, to its countersigned receipt."""
        self._refuse_forged(claim)
        outside = self._outside(claim.run_id)
        session = Session(self._host, claim.contract, claim.events, claim.secrets)
        lease = Lease(self._client, claim)
        async with lease.kept(session, outside):
            told = await session.carry_out(outside, lease)
        receipt = signed(told.receipt, self._key, "runner")
        countersigned = await self._client.complete(lease.claim, receipt, told.events)
        return Done(claim.run_id, countersigned, told.ended, told.refusals, told.changes)

    def _refuse_forged(self, claim: Claim) -> None:
        """Refuse a contract that our plane did not sign, or that is not for here and now."""
        findings = Findings()
        seal = Seal(claim.contract, "contract", ("plane", "org"), findings)
        seal.check(2, "plane", self._plane_keys.get(seal.key_id("plane")))
        if findings.sorted():
            raise PlaneError("the contract is not signed by our plane", status=403, code="contract_forged")
        if self._host.clock() > milliseconds(claim.contract["expiresAt"]):
            raise PlaneError(f"the contract of {claim.run_id} has expired", status=409, code="contract_expired")
        if claim.contract["runId"] != claim.run_id or claim.events[0]["prev"] != seal.digest:
            raise PlaneError("the contract is another run's", status=409, code="contract_forged")
