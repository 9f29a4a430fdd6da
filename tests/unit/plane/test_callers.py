"""Callers: a principal does what its role has, to its own runs, in its own name."""

from hashlib import sha256

import pytest

from tests.unit.plane.embedded import ASKING, carry_out, follow, materialized
from tipstaff.errors import InputError, NotFoundError, PlaneError, StoreError
from tipstaff.plane import Queued, Refused, Waiting

COMMAND = {"kind": "argv", "command": "make", "args": ["test"]}
BORIS = {"kind": "human", "id": "boris"}
REQUEST = {"requestedBy": BORIS, "execution": COMMAND}
TIERS = {"tiers": ["bwrap", "process"]}


class Office:
    """A shared plane and its callers by name."""

    def __init__(self, site):
        self.site = site
        self.plane = site.plane
        self._tokens = {}

    def as_(self, name, role="requester"):
        """Act as somebody."""
        if name not in self._tokens:
            self._tokens[name] = self.plane.people.issue(name, role)["token"]
        return self.plane.caller(self._tokens[name])


@pytest.fixture
def office(make_site):
    """A plane that serves several, and lets everybody run everything."""
    return Office(make_site(shared=True))


def finished(office, name="anna", **fields):
    """One run of somebody's, carried out."""
    run_id = office.as_(name).submit({**REQUEST, **fields}).run_id
    carry_out(office.site, office.site.claim(**TIERS))
    return run_id


def test_who_asks_is_who_was_proved(office):
    """A request in another's name is its sender's all the same, and its door is this one."""
    taken = office.as_("anna").submit({**REQUEST, "door": "cli", "tool": "lint", "toolEffect": "read"})

    assert isinstance(taken, Queued)
    assert taken.contract["requestedBy"] == {"kind": "human", "id": "anna"}
    assert taken.contract["door"] == "http"
    assert "tool" not in taken.contract


@pytest.mark.parametrize("request_", [None, [], "x", {"execution": 7}, {"moon": 1}])
def test_what_is_no_request_is_an_error(office, request_):
    """A request that cannot be read leaves nothing."""
    with pytest.raises(InputError):
        office.as_("anna").submit(request_)
    assert office.as_("root", "admin").runs(10) == []


def test_a_run_is_seen_by_its_requester_and_by_those_who_see_all(office):
    """Another requester is told that there is no such run; an auditor sees it."""
    run_id = finished(office)

    assert office.as_("anna").run(run_id)["status"] == "completed"
    assert office.as_("auditor", "auditor").bundle(run_id)["receipt"]["runId"] == run_id
    for look in ("run", "bundle", "why", "status"):
        with pytest.raises(NotFoundError):
            getattr(office.as_("boris"), look)(run_id)
    with pytest.raises(NotFoundError):
        office.as_("boris").since(run_id, 0, 0, 0)
    assert office.as_("boris").runs(10) == []
    assert office.as_("boris").named("run_", 10) == []
    assert [one["runId"] for one in office.as_("anna").runs(10)] == [run_id]


def test_a_refused_request_is_seen_by_its_requester(make_site):
    """A refusal is its requester's, and an auditor's, to read."""
    office = Office(make_site(policy={"rules": []}, shared=True))
    taken = office.as_("anna").submit(REQUEST)
    assert isinstance(taken, Refused)
    name = taken.refusal["id"]

    assert office.as_("anna").refusal(name) == taken.refusal
    assert [one["id"] for one in office.as_("anna").runs(5, refused=True)] == [name]
    assert office.as_("anna").runs(5) == office.as_("boris").runs(5, refused=True) == []
    with pytest.raises(NotFoundError):
        office.as_("boris").refusal(name)


@pytest.mark.parametrize(
    ("role", "step"),
    [
        ("approver", lambda one: one.submit(REQUEST)),
        ("auditor", lambda one: one.submit(REQUEST)),
        ("auditor", lambda one: one.blob_writer()),
        ("auditor", lambda one: one.enroll_token(None, 60)),
        ("requester", lambda one: one.principals()),
        ("requester", lambda one: one.issue("eve", "admin")),
        ("requester", lambda one: one.rotate("root")),
        ("requester", lambda one: one.export()),
        ("requester", lambda one: one.runners()),
        ("requester", lambda one: one.metrics()),
        ("requester", lambda one: one.enroll_token(None, 60)),
        ("enroller", lambda one: one.runs(1)),
        ("enroller", lambda one: one.policy()),
        ("enroller", lambda one: one.revoke_runner("rnr_x")),
        ("approver", lambda one: one.revoke("root")),
    ],
)
def test_what_a_role_does_not_have_is_refused(office, role, step):
    """Each refusal names the capability; an admin may do all of it, as far as it is there."""
    office.as_("root", "admin")
    with pytest.raises(PlaneError) as refused:
        step(office.as_("somebody", role))

    assert (refused.value.status, refused.value.code) == (403, "forbidden")


def test_an_approval_is_the_principals_own(make_site):
    """The actor in the body counts for nothing, and whoever is not named by the policy cannot approve."""
    asking = {"rules": [{**ASKING["rules"][0], "approvals": {"approvers": ["boris"]}}]}
    office = Office(make_site(policy=asking, shared=True))
    taken = office.as_("anna").submit(REQUEST)
    assert isinstance(taken, Waiting)

    with pytest.raises(PlaneError, match="not an approver"):
        office.as_("clara", "approver").approve(taken.run_id, {"actor": BORIS})
    with pytest.raises(PlaneError, match="may not"):
        office.as_("anna").approve(taken.run_id, {"actor": BORIS})
    told = office.as_("boris", "approver").approve(taken.run_id, {"actor": {"kind": "human", "id": "clara"}})
    granted = office.as_("anna").run(taken.run_id)["events"][-1]["event"]

    assert told["status"] == "created"
    assert (granted["actor"]["id"], granted["approval"]["assurance"]) == ("boris", "console")


@pytest.mark.parametrize("step", ["approve", "deny"])
def test_an_answer_is_to_the_contract_that_was_shown(make_site, step):
    """A word on another contract than the run's is refused; on the run's own it counts."""
    asking = {"rules": [{**ASKING["rules"][0], "approvals": {"approvers": ["boris"]}}]}
    office = Office(make_site(policy=asking, shared=True))
    taken = office.as_("anna").submit(REQUEST)
    boris = office.as_("boris", "approver")

    with pytest.raises(PlaneError) as refused:
        getattr(boris, step)(taken.run_id, {"contractHash": "0" * 64})
    assert (refused.value.status, refused.value.code) == (409, "contract_changed")
    told = getattr(boris, step)(taken.run_id, {"contractHash": taken.contract_hash})
    assert told["status"] == ("created" if step == "approve" else "failed")


def test_another_ones_run_is_cancelled_only_by_those_who_may_cancel_all(office):
    """A requester stops its own runs; an admin anybody's."""
    mine, theirs = (office.as_(name).submit(REQUEST).run_id for name in ("anna", "boris"))

    with pytest.raises(NotFoundError):
        office.as_("anna").cancel(theirs, {})
    assert office.as_("anna").cancel(mine, {})["status"] == "cancelled"
    assert office.as_("root", "admin").cancel(theirs, {"actor": BORIS})["status"] == "cancelled"
    assert office.as_("boris").run(theirs)["events"][-1]["event"]["actor"]["id"] == "root"


def test_a_blob_is_its_bringers(office):
    """What anna brought boris cannot read, nor name in a workspace; anna can."""
    writer = office.as_("anna").blob_writer()
    writer.write(b"source code")
    digest = writer.finish()
    manifest = {
        "version": "warrant.manifest.v1", "baseRef": "0" * 40, "bundleHash": digest, "untrackedFiles": [],
        "deniedPatterns": [], "deniedPaths": [],
    }  # fmt: skip

    assert digest == sha256(b"source code").hexdigest()
    assert office.as_("anna").blob(digest).read() == b"source code"
    assert not office.as_("boris").has_blob(digest)
    with pytest.raises(NotFoundError):
        office.as_("boris").blob(digest)
    with pytest.raises(PlaneError, match="has not brought"):
        office.as_("boris").submit({**REQUEST, "workspace": manifest})
    run_id = office.as_("anna").submit({**REQUEST, "workspace": manifest}).run_id
    assert office.as_("anna").run_blob(run_id, digest).read() == b"source code"


def test_a_workspace_that_nobody_brought_is_refused(office):
    """A manifest may not name a blob that is not there."""
    manifest = {
        "version": "warrant.manifest.v1", "baseRef": "0" * 40, "bundleHash": "1" * 64, "untrackedFiles": [],
        "deniedPatterns": [], "deniedPaths": [],
    }  # fmt: skip
    with pytest.raises(PlaneError, match="has not brought"):
        office.as_("anna").submit({**REQUEST, "workspace": manifest})
    assert office.as_("anna").report({**REQUEST, "workspace": manifest})["policyDecision"]["decision"] == "allow"


def test_a_report_keeps_nothing_and_says_what_would_happen(make_site):
    """A denied request is reported with its reasons; there is no refusal and no run."""
    office = Office(make_site(policy={"rules": []}, shared=True))
    report = office.as_("anna").report(REQUEST)

    assert (report["dryRun"], report["policyDecision"]["decision"]) == (True, "deny")
    assert report["reasons"]
    assert office.as_("anna").runs(5, refused=True) == []


def test_content_of_a_run_is_for_its_requester_and_the_auditor(office):
    """An approver reads a run's papers and not what it printed."""
    run_id = finished(office)

    assert office.as_("anna").output(run_id, "stdout") == office.as_("eye", "auditor").output(run_id, "stdout") == b""
    assert office.as_("boss", "approver").run(run_id)["runId"] == run_id
    with pytest.raises(PlaneError, match="may not"):
        office.as_("boss", "approver").output(run_id, "stdout")


def test_what_is_new_is_told_from_where_somebody_was(office):
    """Output and events come from the numbers on that are asked for, until the run has ended."""
    run_id = office.as_("anna").submit(REQUEST).run_id
    assert office.as_("anna").since(run_id, 0, 0, 0)["position"] == 0
    claim = office.site.claim(**TIERS)
    office.plane.append(claim["claimToken"], follow(claim, [materialized(claim)], office.site.clock()), release=True)
    body = {"stream": "stdout", "offset": 0, "data": "aGVsbG8="}
    office.plane.print(claim["claimToken"], body)
    office.plane.print(claim["claimToken"], {**body, "offset": 5})
    told = office.as_("anna").since(run_id, 3, 2, 0)

    assert [(one["offset"], one["data"]) for one in told["output"]] == [(2, b"llo"), (5, b"hello")]
    assert [link["seq"] for link in told["events"]] == [3]
    assert (told["status"], told["ended"]) == ("running", False)
    assert office.as_("anna").since(run_id, 99, 10, 0)["output"] == []


def test_an_approver_follows_without_output(office):
    """Whoever may not have a run's output does not get it while it runs either."""
    run_id = office.as_("anna").submit(REQUEST).run_id
    claim = office.site.claim(**TIERS)
    office.plane.print(claim["claimToken"], {"stream": "stdout", "offset": 0, "data": "aGVsbG8="})

    assert office.as_("boss", "approver").since(run_id, 0, 0, 0)["output"] == []
    assert len(office.as_("boss", "approver").since(run_id, 0, 0, 0)["events"]) == 3
    assert len(office.as_("anna").since(run_id, 0, 0, 0)["output"]) == 1


def test_a_request_is_bounded(office):
    """What would be carried around for as long as the run is kept has a size."""
    with pytest.raises(PlaneError, match="at most"):
        office.as_("anna").submit({**REQUEST, "purpose": "x" * 10 * 1024**2})
    assert office.as_("anna").submit({**REQUEST, "purpose": "x" * 1000}).run_id


def test_a_home_that_is_full_takes_no_content(make_site):
    """Content is held against the cap like everything else."""
    office = Office(make_site(shared=True, most_home_bytes=40 * 1024**2))
    writer = office.as_("anna").blob_writer()
    with pytest.raises(StoreError, match="cap"):
        writer.write(bytes(64 * 1024**2))
    writer.discard()
    small = office.as_("anna").blob_writer()
    small.write(b"little")
    assert small.finish()


def test_output_stays_inside_under_a_closed_disclosure(office):
    """A runner cannot print what the contract does not let leave."""
    office.as_("anna").submit({**REQUEST, "disclosure": "none"})
    claim = office.site.claim(**TIERS)

    with pytest.raises(PlaneError, match="no output"):
        office.plane.print(claim["claimToken"], {"stream": "stdout", "offset": 0, "data": "aGVsbG8="})


def test_everything_is_exported_as_lines(office):
    """An export has each event once, and only those since the time that is named."""
    finished(office)
    lines = list(office.as_("eye", "auditor").export(None))

    assert len(lines) == 6
    assert list(office.as_("eye", "auditor").export("2030-01-01T00:00:00.000Z")) == []
    assert office.as_("eye", "auditor").metrics()["runs"] == {"completed": 1}


def test_nobody_revokes_themselves(office):
    """An admin cannot lock everybody out by mistake."""
    with pytest.raises(PlaneError, match="themselves"):
        office.as_("root", "admin").revoke("root")
