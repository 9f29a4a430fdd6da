"""Questions of runs at work: a runner asks whether a place may be reached, a person answers, and the answer is signed.

1. Only the runner that holds the run asks, only for a place that a rule of the contract covers with `ask`, and for so
   many places in one run. Asking again is how it looks for the answer; giving up makes a question that waits a no.
2. A yes is an approval with the question in it, covered by its signature: by the approver's own key, or vouched for as
   for runs. It says yes to nothing else. Where the run itself needed approval, only its approvers count, one is enough.
3. A question is answered once, and is void when its run is no longer at work.
4. What a runner writes into the chain as the approval of a connection is the one that was given here, or is refused.
"""

from typing import Any, Final

import msgspec

from tipstaff.canonical import canonical, digest
from tipstaff.errors import InputError, PlaneError
from tipstaff.evidence.approval import approve as sign_approval
from tipstaff.evidence.seal import signed
from tipstaff.model.decision import Requirement
from tipstaff.model.noun import VERSION_ANSWER, to_wire
from tipstaff.model.records import Place
from tipstaff.model.times import timestamp
from tipstaff.plane.approvals import Vouched, actor_of, checked, reason_of, refuse_useless, requirements
from tipstaff.plane.authority import Authority
from tipstaff.policy.hosts import covers, normal_host
from tipstaff.policy.patterns import any_of
from tipstaff.store import Run
from tipstaff.store.questions import Asked, Question

Json = dict[str, Any]
MOST_QUESTIONS: Final = 32
SECOND_MS: Final = 1000
# Who may answer where the run itself needed nobody's approval: any person, also the one who asked for the run.
ANYBODY: Final = Requirement(rule="network.ask", approvers=("*",), separate=False)


def ask(authority: Authority, run: Run, body: Json) -> Json:
    """Take a runner's question, or give its answer; `run` is the one that it holds."""
    asked = _asked(run.run_id, {name: body.get(name) for name in ("host", "port", "rule")})
    found = authority.store.questions.get(asked)
    if found is None:
        _refuse_uncalled(run, asked)
    if found is None or (found.state == "waiting" and body.get("giveUp") is True):
        found = _noted(authority, asked, give_up=body.get("giveUp") is True)
    return {
        "answer": found.state,
        **({"approval": found.approval} if found.approval else {}),
        **({"reason": found.reason} if found.reason else {}),
        **(_signed(authority, run, found) if authority.shared and found.state != "waiting" else {}),
    }


def _signed(authority: Authority, run: Run, found: Question) -> Json:
    """Sign an answer: whoever stands between the plane and a runner must not open a place."""
    said = {
        "version": VERSION_ANSWER,
        "runId": run.run_id,
        "host": found.asked.host,
        "port": found.asked.port,
        "rule": found.asked.rule,
        "answer": found.state,
        **({"approvalHash": digest(found.approval)} if found.approval else {}),
        "ts": timestamp(authority.time(run)),
    }
    return {"signed": signed(said, authority.signer(run.contract), "plane")}


def answer(authority: Authority, run_id: str, body: Json, by: Vouched = "same-uid") -> Json:
    """Take a person's answer: an `approval` that they signed, or `question`, `actor` and `answer`."""
    with authority.store.database.transaction():
        run = _at_work(authority, run_id)
        approval = _yes(authority, run, body, by) if "approval" in body or body.get("answer") == "yes" else None
        asked = _asked(run_id, approval["question"] if approval else body.get("question"))
        reason = None if approval else _no(run, body)
        if authority.store.questions.get(asked) is None:
            raise PlaneError(f"run {run_id} does not ask for {spell(asked)}", status=404, code="not_asked")
        if not authority.store.questions.answer(asked, authority.time(run), approval=approval, reason=reason):
            raise PlaneError(f"that question about {spell(asked)} was answered", status=409, code="not_waiting")
    said = "yes" if approval else "no"
    return {"runId": run_id, "host": asked.host, "port": asked.port, "rule": asked.rule, "answer": said}


def waiting(authority: Authority) -> list[Json]:
    """List the questions of runs at work that nobody has answered, oldest first."""
    store = authority.store
    runs = {run.run_id: run for run in store.runs.open() if run.claimed}
    return [_line(runs[one.asked.run_id], one) for one in store.questions.waiting() if one.asked.run_id in runs]


def refuse_invented(authority: Authority, run: Run, links: list[Json]) -> None:
    """Refuse events whose approval is not the one that was given for that very place."""
    reached = (link["event"] for link in links if link["event"]["type"] == "network.connected")
    for event in (event for event in reached if "approval" in event):
        asked = Asked(run.run_id, *(event.get(name) for name in ("host", "port", "rule")))
        is_place = type(asked.host) is str and type(asked.port) is int and type(asked.rule) is str
        found = authority.store.questions.get(asked) if is_place else None
        given = found.approval if found else None
        if given is None or canonical(given) != canonical(event["approval"]):
            raise PlaneError("an event carries an approval that was not given", status=403, code="approval_unknown")


def spell(asked: Asked) -> str:
    """Spell a place as people write it."""
    return f"[{asked.host}]:{asked.port}" if ":" in asked.host else f"{asked.host}:{asked.port}"


def _asked(run_id: str, value: Any) -> Asked:
    try:
        place = msgspec.convert(value, Place)
        if normal_host(place.host) != place.host:
            raise InputError(f"the host is not in its one spelling, {normal_host(place.host)}")
    except ValueError as error:  # also a ValidationError
        raise InputError(f"the question is malformed: {error}") from error
    return Asked(run_id, place.host, place.port, place.rule)


def _refuse_uncalled(run: Run, asked: Asked) -> None:
    """Refuse a question for which the contract has no rule that asks, or that it denies."""
    egress = run.contract.get("egress") or {}
    rules = [rule for rule in egress.get("rules") or () if rule.get("ask") is True and _names(rule, asked)]
    if not rules or any(covers(pattern, asked.host) for pattern in egress.get("deny") or ()):
        raise PlaneError(f"no rule of the contract asks for {spell(asked)}", status=403, code="not_permitted")


def _names(rule: Json, asked: Asked) -> bool:
    has_port = not rule.get("ports") or asked.port in rule["ports"]
    return has_port and covers(rule["host"], asked.host) and asked.rule == (rule.get("rule") or rule["host"])


def _noted(authority: Authority, asked: Asked, *, give_up: bool) -> Question:
    """Write a question down, or that nobody waits for its answer any longer."""
    questions = authority.store.questions
    with authority.store.database.transaction():
        run = _at_work(authority, asked.run_id)
        if questions.get(asked) is None:
            if len(questions.of_run(run.run_id)) >= MOST_QUESTIONS:
                message = f"run {run.run_id} has already asked for {MOST_QUESTIONS} places"
                raise PlaneError(message, status=429, code="too_many_questions")
            questions.add(asked, authority.time(run))
        if give_up:
            questions.answer(asked, authority.time(run), reason="nobody answered in time")
        found = questions.get(asked)
    if found is None:
        raise RuntimeError("a question was removed inside the transaction that wrote it")
    return found


def _at_work(authority: Authority, run_id: str) -> Run:
    run = authority.store.runs.get(run_id)
    if not run.claimed:
        raise PlaneError(f"run {run_id} is {run.state}: it asks nothing", status=409, code="not_waiting")
    return run


def _yes(authority: Authority, run: Run, body: Json, by: Vouched) -> Json:
    """Give the approval, checked: signed, by somebody who counts, and of one question."""
    document = body["approval"] if "approval" in body else _vouched(authority, run, body, by)
    approval = checked(authority, document, by)
    if approval.question is None or approval.public_key_pem is None:
        raise InputError("the approval does not say which question it answers, or carries no key")
    refuse_useless(authority, run, approval, _wanted(run))
    given: Json = {**document, "question": to_wire(approval.question)}
    if given != document:
        raise InputError("the approval's question has other members than host, port and rule")
    return given


def _vouched(authority: Authority, run: Run, body: Json, by: Vouched) -> Json:
    asked = _asked(run.run_id, body.get("question"))
    lasts = min(one.expires_seconds for one in _wanted(run)) * SECOND_MS
    question = {"host": asked.host, "port": asked.port, "rule": asked.rule}
    expires = timestamp(authority.time(run) + lasts)
    return sign_approval(run.contract_hash, actor_of(body), authority.key, by, expires, question=question)


def _no(run: Run, body: Json) -> str:
    """Say who says no: somebody who could have said yes."""
    actor = actor_of(body)
    if body.get("answer") != "no":
        raise InputError("the answer is neither yes nor no")
    if actor.kind == "agent" or not any(any_of(one.approvers)(actor.id) for one in _wanted(run)):
        raise PlaneError(f"{actor.id!r} is not an approver of run {run.run_id}", status=403, code="not_approver")
    return f"{actor.id!r} denied it{reason_of(body)}"


def _wanted(run: Run) -> list[Requirement]:
    return requirements(run) or [ANYBODY]


def _line(run: Run, question: Question) -> Json:
    asked = question.asked
    return {
        "runId": run.run_id,
        "host": asked.host,
        "port": asked.port,
        "rule": asked.rule,
        "place": spell(asked),
        "askedAt": timestamp(question.asked_at),
        "principal": run.principal,
        "contractHash": run.contract_hash,
        "contract": run.contract,
        "consentRequirements": run.requirements or [],
    }
