"""What a plane elsewhere says is believed as far as its pinned key signed it, never as a path, and up to a bound."""

import json
from collections.abc import Iterator

import pytest

from tests.unit.plane.embedded import STRANGER
from tests.unit.remote.played import PRINTED, Played, client_of, on, played
from tests.unit.remote.scripted import Reply
from tipstaff.errors import InputError
from tipstaff.evidence.seal import signed
from tipstaff.remote import wire
from tipstaff.remote.plane import RemotePlane

ODD_IDS = ["../../person/repository", "/etc", "run_1", "run_..", "", 5, None]


@pytest.fixture
def plane(tmp_path) -> Iterator[Played]:
    """A plane with a run that ended and two that wait."""
    with played(tmp_path / "plane", asking=True) as made:
        yield made


@pytest.fixture
def client(plane, tmp_path) -> Iterator[RemotePlane]:
    """A client that has pinned its key."""
    with client_of(plane, tmp_path) as found:
        yield found


def test_what_is_true_is_told(plane, client):
    """The twin of all below: an honest plane's runs, output and waiting runs are told as they are."""
    told = client.run(plane.run_id)

    assert (told["status"], told["proved"], told["ending"]) == ("completed", True, "exited")
    assert (client.output(plane.run_id, "stdout"), client.output(plane.run_id, "stderr")) == (PRINTED, b"")
    assert [one["runId"] for one in client.waiting()] == plane.waits
    assert client.history()[-1]["id"] == plane.run_id
    assert client.named(plane.run_id[:12]) == [plane.run_id]
    assert client.run(plane.waits[0])["proved"] is False


@pytest.mark.parametrize("name", ODD_IDS)
def test_an_id_that_is_none_is_refused_wherever_it_comes_from(plane, client, name):
    """A plane that calls a run by a path, or by anything else than an id, is not listened to."""
    plane.twist = on("/v1/runs", lambda _: {"runs": [{**plane.site.plane.history(1)[0], "id": name, "runId": name}]})
    with pytest.raises(InputError, match=r"not the id of one|the id of a run"):
        client.history()
    plane.twist = on("/v1/names", lambda _: {"names": [name]})
    if isinstance(name, str):
        with pytest.raises(InputError, match="not the id of one"):
            client.named("")
    plane.twist = on("/v1/runs", lambda _: {"runId": name, "status": "created"})
    with pytest.raises(InputError, match="not the id of one"):
        client.submit({})
    plane.twist = on("/v1/approvals", lambda said: {**said, "waiting": [{**said["waiting"][0], "runId": name}]})
    with pytest.raises(InputError, match="another run"):
        client.waiting()


@pytest.mark.parametrize("name", [one for one in ODD_IDS if isinstance(one, str)])
def test_an_id_that_is_none_is_not_asked_for(client, name):
    """No word but a whole id becomes a part of an address."""
    for ask in (client.run, client.bundle, client.why, client.changes, client.refusal, client.status):
        with pytest.raises(InputError, match="not the id of one"):
            ask(name)


@pytest.mark.parametrize("hidden", ["receipt", "contract", "other run", "other contract"])
def test_a_forged_word_on_a_run_does_not_count(plane, client, hidden):
    """What is told of a run that ended is its proof's, whatever the plane says beside it."""

    def forge(said):
        match hidden:
            case "receipt":
                said["receipt"] |= {"status": "failed", "exitCode": 9}
                return {**said, "status": "failed", "ending": "lost", "exitCode": 9, "failureMessage": "forged"}
            case "contract":
                return {**said, "contract": {**said["contract"], "task": {"prompt": "forged"}}}
            case "other run":
                return {**said, "id": plane.waits[0], "runId": plane.waits[0]}
        return {**said, "contract": plane.site.plane.run(plane.waits[0])["contract"]}

    plane.twist = on(f"/v1/runs/{plane.run_id}", forge)
    if hidden == "receipt":
        told = client.run(plane.run_id)
        assert (told["status"], told["exitCode"], told["receipt"]["status"]) == ("completed", 0, "completed")
        assert "failureMessage" not in told
    else:
        with pytest.raises(InputError):
            client.run(plane.run_id)


@pytest.mark.parametrize("forged", ["the receipt", "another run's"])
def test_output_without_its_proof_is_not_shown(plane, client, forged):
    """A log counts only under a bundle that the pinned key signed, of this very run."""
    if forged == "the receipt":
        plane.twist = on("/bundle", lambda said: {**said, "receipt": {**said["receipt"], "exitCode": 9}})
        asked, wrong = plane.run_id, "does not hold"
    else:
        plane.twist = on("/bundle", lambda _: plane.site.plane.bundle(plane.run_id))
        asked, wrong = plane.waits[0], "another run"

    with pytest.raises(InputError, match=wrong):
        client.output(asked, "stdout")


@pytest.mark.parametrize(("content", "wrong"), [(PRINTED, ""), (b"all passed\n", "other bytes"), (b"x" * 4096, "more")])
def test_a_log_is_taken_by_its_digest_and_no_longer_than_the_receipt_says(plane, client, content, wrong):
    """Other bytes than the receipt names are refused, and of too many no more is read than there can be."""
    plane.twist = lambda asked, said: {"": content} if "/blobs/" in asked.path else said

    if wrong:
        with pytest.raises(InputError, match=wrong):
            client.output(plane.run_id, "stdout")
    else:
        assert client.output(plane.run_id, "stdout") == PRINTED


def unsigned(one):
    """Leave the signatures out."""
    return {**one, "contract": {**one["contract"], "signatures": []}}


def by_a_stranger(one):
    """Have another key sign, under its own name."""
    bare = {name: value for name, value in one["contract"].items() if name != "signatures"}
    return {**one, "contract": signed(bare, STRANGER, "plane")}


def of_another(one):
    """Show a contract that the plane signed for another run."""
    other = json.loads(json.dumps(one))
    other["runId"] = other["id"] = "run_00000000-0000-4000-8000-000000000009"
    return other


def without_hash(one):
    """Leave out what would be approved."""
    return {name: value for name, value in one.items() if name != "contractHash"}


def other_hash(one):
    """Ask for an approval of something else."""
    return {**one, "contractHash": "0" * 64}


@pytest.mark.parametrize("forge", [unsigned, by_a_stranger, of_another, without_hash, other_hash])
def test_nobody_is_shown_a_contract_that_the_plane_did_not_sign_for_this_run(plane, client, forge):
    """What waits for people is refused unless the pinned key signed this contract, for this run, under this hash."""
    assert len(client.waiting()) == 2
    plane.twist = on("/v1/approvals", lambda said: {**said, "waiting": [forge(one) for one in said["waiting"]]})

    with pytest.raises(InputError):
        client.waiting()


@pytest.mark.parametrize(("most", "path"), [(wire.MOST_JSON_BYTES, "/v1/runs"), (wire.MOST_BUNDLE_BYTES, "/bundle")])
def test_an_answer_has_a_bound(plane, client, monkeypatch, most, path):
    """JSON is read up to a bound, which is larger for a bundle; behind it nothing is read."""
    assert (wire.MOST_JSON_BYTES, wire.MOST_BUNDLE_BYTES) == (64 * 2**20, 256 * 2**20)
    monkeypatch.setattr(wire, "MOST_BUNDLE_BYTES" if path == "/bundle" else "MOST_JSON_BYTES", most // 2**10)
    plane.twist = on(path, lambda _: Reply(200, b'{"a":"' + b"x" * (most // 2**10) + b'"}'))

    with pytest.raises(InputError, match="more than"):
        client.bundle(plane.run_id) if path == "/bundle" else client.history()


def test_many_small_values_are_refused_before_they_are_read(plane, client, monkeypatch):
    """An answer of millions of empty lists, each of which takes far more memory than bytes, is not taken apart."""
    monkeypatch.setattr(wire, "MOST_COMMAS", 1000)
    plane.twist = on("/v1/runs", lambda _: Reply(200, b'{"runs":[' + b"[]," * 1001 + b"[]]}"))

    with pytest.raises(InputError, match="more than 1000 values"):
        client.history()
