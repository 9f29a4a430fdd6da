"""Blobs, in and out: streamed, bounded, and only for who may have them."""

import os
from hashlib import sha256

import pytest

from tests.unit.doors.http.conftest import Serve

SIZES = [0, 1, 65536, 65537, 1024 * 1024 - 1, 1024 * 1024, 3 * 1024 * 1024 + 5]


@pytest.mark.parametrize("size", SIZES)
def test_what_comes_in_goes_out_the_same(served, size):
    """Bytes of any size come back under their sha-256, to who brought them."""
    content = os.urandom(size)
    reply = served.ask("POST", "/v1/blobs", "requester", content=content)
    digest = sha256(content).hexdigest()
    assert (reply.status_code, reply.json()) == (200, {"hash": digest})
    back = served.ask("GET", f"/v1/blobs/{digest}", "requester")
    assert (back.status_code, back.content, back.headers["content-length"]) == (200, content, str(size))
    head = served.ask("HEAD", f"/v1/blobs/{digest}", "requester")
    assert (head.status_code, head.content) == (200, b"")


def test_a_blob_without_a_length_is_taken_too(served):
    """A chunked body is as good as one whose length is known."""
    pieces = [b"a" * 100_000, b"b" * 100_000]
    reply = served.ask("POST", "/v1/blobs", "requester", content=iter(pieces))
    assert reply.json()["hash"] == sha256(b"".join(pieces)).hexdigest()


def test_somebody_elses_blob_is_not_there(served):
    """Who did not bring a blob cannot have it by its digest, nor learn that it is there; an auditor may."""
    digest = served.ask("POST", "/v1/blobs", "admin", content=b"admin's own").json()["hash"]
    for method in ("GET", "HEAD"):
        assert served.ask(method, f"/v1/blobs/{digest}", "requester").status_code == 404
        assert served.ask(method, f"/v1/blobs/{digest}", None).status_code == 401
        assert served.ask(method, f"/v1/blobs/{digest}", "auditor").status_code == 200


def test_a_blob_over_the_cap_is_413_and_leaves_nothing(serve: Serve, tmp_path):
    """A blob that is too large is refused and not kept; one that just fits is kept."""
    with serve(most_blob_bytes=200_000) as served:
        fits, large = os.urandom(200_000), os.urandom(200_001)
        assert served.ask("POST", "/v1/blobs", content=fits).status_code == 200
        reply = served.ask("POST", "/v1/blobs", content=large)
        assert (reply.status_code, reply.json()["code"]) == (413, "too_large")
        assert served.ask("GET", f"/v1/blobs/{sha256(large).hexdigest()}").status_code == 404
        assert not list((tmp_path / "home" / "blobs").glob("*.part"))


def test_a_runner_brings_and_fetches_with_its_claim(served):
    """A claim's token brings blobs for its run and fetches them; a made-up one does neither."""
    content = b"a runner's"
    digest = sha256(content).hexdigest()
    served.submit()
    headers = {"authorization": f"Bearer {served.claim(served.enroll())['claimToken']}"}
    assert served.http.post("/v1/blobs", content=content, headers=headers).json() == {"hash": digest}
    assert served.http.get(f"/v1/blobs/{digest}", headers=headers).content == content
    assert served.http.head(f"/v1/blobs/{digest}", headers=headers).status_code == 200
    foreign = served.ask("POST", "/v1/blobs", "admin", content=b"not of this run").json()["hash"]
    assert served.http.get(f"/v1/blobs/{foreign}", headers=headers).status_code == 404
    wrong = {"authorization": "Bearer " + headers["authorization"][7:-4] + "0000"}
    assert served.http.get(f"/v1/blobs/{digest}", headers=wrong).status_code == 401
    assert served.http.post("/v1/blobs", content=content, headers=wrong).status_code == 401


@pytest.mark.parametrize("opened", [True, False])
def test_blobs_are_open_to_old_peers_only_where_the_settings_say_so(serve: Serve, opened):
    """Without a token a blob of a claimed run is given only with `open_blobs`, and nothing else is."""
    with serve(open_blobs=opened) as served:
        content = b"a file of the workspace"
        digest = served.ask("POST", "/v1/blobs", "requester", content=content).json()["hash"]
        other = served.ask("POST", "/v1/blobs", "requester", content=b"of no run").json()["hash"]
        manifest = {
            "version": "warrant.manifest.v1", "baseRef": "0" * 40, "bundleHash": digest, "untrackedFiles": [],
            "deniedPatterns": [], "deniedPaths": [],
        }  # fmt: skip
        run = served.submit(workspace=manifest)["runId"]
        assert served.ask("GET", f"/v1/blobs/{digest}", None).status_code == (404 if opened else 401)
        assert served.claim(served.enroll())["runId"] == run
        assert served.ask("GET", f"/v1/blobs/{digest}", None).status_code == (200 if opened else 401)
        assert served.ask("GET", f"/v1/blobs/{other}", None).status_code == (404 if opened else 401)
        assert served.ask("GET", f"/v1/runs/{run}/blobs/{digest}", "requester").content == content
        assert served.ask("GET", f"/v1/runs/{run}/blobs/{other}", "requester").status_code == 404
