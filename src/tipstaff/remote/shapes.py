"""What a plane says about its runs, in the words that commands know, or refused.

Another implementation says less, and a hostile one says anything: what a command will look at is checked here, what is
missing but harmless gets its plain meaning. Pure.
"""

from typing import Any, Final

from tipstaff.errors import InputError
from tipstaff.evidence.reading import typed
from tipstaff.evidence.seal import payload_digest
from tipstaff.model.contract import Contract
from tipstaff.model.ids import is_refusal_id, is_run_id
from tipstaff.model.receipt import Receipt

Json = dict[str, Any]
LINE_TEXTS: Final = ("id", "status", "createdAt", "updatedAt", "principal", "door")
_EXECUTIONS: Final[dict[str, dict[str, type]]] = {
    "argv": {"command": str},
    "shell": {"script": str},
    "python": {"source": str},
    "agent": {"prompt": str, "agent": dict},
}
_BOUNDS: Final = ("timeMs", "memoryBytes", "cpuMillis", "pids", "diskBytes")


def line_of(value: Any) -> Json:
    """Read one line of a list."""
    line = _object(value, "a run")
    line = {"door": "http", "updatedAt": line.get("createdAt"), **line}
    line.setdefault("id", line.get("runId") or line.get("refusalId"))
    line.setdefault("principal", _name(line.get("requestedBy")))
    if "requirements" in line:
        line["consentRequirements"] = line.pop("requirements")
    for name in LINE_TEXTS:
        if not isinstance(line.get(name), str):
            raise InputError(f"the plane does not say the {name} of a run")
    whole_id(line["id"])
    if "execution" in line:
        line["execution"] = execution_of(line["execution"])
    return line


def whole_id(value: Any) -> str:
    """Read the id of a run or of a refused request: nothing else becomes a part of an address, or a folder's name."""
    if not (is_run_id(value) or is_refusal_id(value)):
        raise InputError(f"the plane calls a run {str(value)[:64]!r}, which is not the id of one")
    return str(value)


def run_of(value: Any, run_id: str) -> Json:
    """Read everything about one run."""
    whole = {"policy": "", **line_of(value)}
    if whole["id"] != run_id:
        raise InputError(f"the plane tells of another run than {run_id}")
    events = whole["events"] = events_of(whole.get("events"))
    if events and events[0].get("prev") != hash_of(whole.get("contract")):
        raise InputError("the plane tells events that do not begin with the contract that it shows")
    whole["contract"] = contract_of(whole["contract"])
    if whole["contract"]["runId"] != run_id:
        raise InputError(f"the plane shows the contract of another run than {run_id}")
    if "receipt" in whole:
        receipt_of(whole["receipt"])
    if "refusal" in whole:
        _object(whole["refusal"], "the refusal")
    return whole


def waiting_of(value: Any) -> Json:
    """Read one run that waits for people, or one question of a run at work."""
    one = dict(_object(value, "what waits"))
    if text_of(one, "contractHash") != hash_of(one.get("contract")):
        raise InputError("the plane asks for an approval of another contract than it shows")
    one["contract"] = contract_of(one.get("contract"))
    if not is_run_id(one.get("runId")) or one["contract"]["runId"] != one["runId"]:
        raise InputError("the plane asks for an approval of another run than it shows the contract of")
    one["consentRequirements"] = [requirement_of(item) for item in list_of(one, "requirements", "consentRequirements")]
    return one


def events_of(value: Any) -> list[Json]:
    """Read a chain, as far as it is looked at without being checked."""
    if not isinstance(value, list):
        raise InputError("the plane does not say what happened in a run")
    for link in value:
        event = _object(_object(link, "an event").get("event"), "an event")
        if not isinstance(event.get("type"), str):
            raise InputError("the plane tells an event of no type")
    return value


def receipt_of(value: Any) -> Json:
    """Read a receipt."""
    receipt = _object(value, "the receipt")
    typed(receipt, Receipt)
    return receipt


def contract_of(value: Any) -> Json:
    """Read a contract; one of another implementation says nothing of what ours adds."""
    contract = _object(value, "the contract")
    typed(contract, Contract)
    limits = _object(contract.get("limits", {}), "the limits")
    if not all(type(limits[name]) is int for name in _BOUNDS if name in limits):
        raise InputError("the plane tells limits that are no numbers")
    files = _object(contract.get("files", {}), "the files")
    tier = contract.get("tier") or contract.get("isolation") or "the runner's choice"
    execution = execution_of(contract.get("execution"))
    return {**contract, "files": files, "limits": limits, "tier": tier, "execution": execution}


def hash_of(value: Any) -> str:
    """Give the hash of a contract as it arrived."""
    return payload_digest(_object(value, "the contract"))


def execution_of(value: Any) -> Json:
    """Read what would run, as far as it is shown; what is of no known kind is shown as unknown."""
    execution = value if isinstance(value, dict) else {}
    wanted = _EXECUTIONS.get(str(execution.get("kind")), {})
    fits = all(isinstance(execution.get(name), kind) for name, kind in wanted.items())
    arguments = execution.get("args", [])
    if not wanted or not fits or not isinstance(arguments, list) or not all(isinstance(one, str) for one in arguments):
        return {}
    if execution["kind"] == "agent" and not isinstance(execution["agent"].get("kind"), str):
        return {}
    return execution


def list_of(value: Json, *names: str) -> list[Any]:
    """Read a list under the first of these names that is there."""
    found = next((value[name] for name in names if name in value), None)
    if not isinstance(found, list):
        raise InputError(f"the plane's answer has no list of {names[0]}")
    return found


def text_of(value: Json, name: str) -> str:
    """Read a text."""
    found = value.get(name)
    if not isinstance(found, str):
        raise InputError(f"the plane's answer has no {name}")
    return found


def requirement_of(value: Any) -> Json:
    """Read who must approve; old peers have only a sentence for it."""
    if isinstance(value, str):
        return {"rule": value, "approvers": ["an approver"], "quorum": 1, "separate": False, "assurance": "same-uid"}
    one = {"quorum": 1, "separate": True, "assurance": "same-uid", "expiresSeconds": 86_400, **_object(value, "a rule")}
    approvers = one.get("approvers")
    if not isinstance(approvers, list) or not all(isinstance(name, str) for name in approvers):
        raise InputError("the plane does not say who must approve")
    if not isinstance(one.get("rule"), str) or type(one["expiresSeconds"]) is not int:
        raise InputError("the plane does not say by which rule somebody must approve")
    return one


def _name(value: Any) -> Any:
    return value.get("id") if isinstance(value, dict) else value


def _object(value: Any, what: str) -> Json:
    if not isinstance(value, dict):
        raise InputError(f"the plane's answer about {what} is no object")
    return value
