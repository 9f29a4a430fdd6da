"""What a plane elsewhere says, held against what it signed: only the keys that were pinned for its address count.

A bundle or a refusal is checked whole. A contract that nobody has carried out yet has one signature, the plane's, and
it is checked before a person is shown the contract. Where there is a proof, what is told of a run is taken from the
proof; what no proof covers stays the plane's word. Pure.
"""

from typing import Any

from tipstaff.errors import InputError
from tipstaff.evidence import verify
from tipstaff.evidence.report import Findings
from tipstaff.evidence.seal import Seal
from tipstaff.evidence.trust import Trust
from tipstaff.keys import KnownKeys
from tipstaff.remote import shapes

Json = dict[str, Any]
_OF_THE_PROOF = ("ending", "exitCode", "failureMessage", "actualTier")  # not to be had from anywhere else


def refuse_unproved(document: Json, known: KnownKeys, what: str, url: str) -> None:
    """Refuse a bundle or a refusal whose proof does not hold."""
    report = verify(document, known=known)
    if report.verdict != "valid":
        problems = "; ".join(map(str, report.problems)) or report.verdict
        raise InputError(f"the proof of {what} from the plane {url} does not hold: {problems}")


def refuse_other_run(bundle: Json, run_id: str, url: str) -> None:
    """Refuse a bundle that is not of this run, however well it is proved."""
    receipt, contract = shapes.receipt_of(bundle.get("receipt")), shapes.contract_of(bundle.get("contract"))
    if {receipt["runId"], contract["runId"]} != {run_id}:
        raise InputError(f"the plane {url} gives the proof of another run than {run_id}")


def refuse_unsigned(contract: Json, known: KnownKeys, url: str) -> None:
    """Refuse a contract that the plane's pinned key did not sign."""
    findings, trust = Findings(), Trust(known=known)
    seal = Seal(contract, "contract", ("plane", "org"), findings)
    key = trust.find(seal.key_id("plane"))
    seal.check(2, "plane", key)
    if key is not None:
        trust.check(key, "plane", [contract["issuedAt"]], findings)
    problems = findings.sorted()
    if problems or key is None or contract["issuer"]["keyId"] != key.key_id:
        why = "; ".join(map(str, problems)) or "it names another issuer"
        raise InputError(f"the plane {url} shows a contract that its pinned key did not sign: {why}")


def with_proof(told: Json, bundle: Json) -> Json:
    """Tell of a run what its bundle says, which was checked, and only the rest in the plane's own words."""
    contract, receipt = shapes.contract_of(bundle["contract"]), bundle["receipt"]
    last = bundle["events"][-1]["event"]
    proved = {
        "status": receipt["status"],
        "ending": receipt.get("ending"),
        "exitCode": receipt.get("exitCode"),
        "failureMessage": last.get("message"),
        "actualTier": receipt["runner"].get("isolation"),
        "principal": contract["requestedBy"]["id"],
        "execution": contract["execution"],
        "door": contract.get("door"),
        "contract": contract,
        "contractHash": receipt["contractHash"],
        "events": bundle["events"],
        "receipt": receipt,
    }
    rest = {name: value for name, value in told.items() if name not in _OF_THE_PROOF}
    return {**rest, **{name: value for name, value in proved.items() if value is not None}, "proved": True}
