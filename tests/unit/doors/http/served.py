"""A plane that really serves: its home, a real server on a free port in a thread of its own, a token for each role."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from tipstaff.doors.http.edge import Edged
from tipstaff.doors.http.serving import Server, server_of
from tipstaff.doors.http.settings import Settings
from tipstaff.doors.http.waking import Bell
from tipstaff.home import Home
from tipstaff.keys import PrivateKey
from tipstaff.local.serving import make_plane, open_serving, plane_policy
from tipstaff.plane import Plane
from tipstaff.policy.shipped import text_of

Json = dict[str, Any]
ROLES = ("admin", "requester", "approver", "enroller", "auditor")
START_SECONDS = 20
REQUEST: Json = {"execution": {"kind": "shell", "script": "echo hello"}, "pool": "default"}
ASKING = """
  - id: ask-for-deploys
    effect: ask
    reason: a deployment needs a person's word
    when: {pools: [deploy]}
    match: [{pool: deploy, prompt: make}]
    approvals: {approvers: ["*"], quorum: 1, separate: true, expires: 1h}
"""


class Served:
    """One plane at work."""

    def __init__(self, plane: Plane, server: Server, url: str, tokens: dict[str, str]) -> None:
        self.plane = plane
        assert isinstance(server.config.app, Edged)
        self.front = server.config.app.front
        self.seats = server._accepting._seats
        self.url = url
        self.tokens = tokens
        self.http = httpx2.Client(base_url=url, timeout=30)

    def ask(self, method: str, path: str, role: str | None = "admin", **more: Any) -> httpx2.Response:
        """Ask as somebody, or as nobody."""
        headers = dict(more.pop("headers", {}))
        if role is not None:
            headers["authorization"] = f"Bearer {self.tokens[role]}"
        return self.http.request(method, path, headers=headers, **more)

    def submit(self, role: str = "requester", **changes: Any) -> Json:
        """Ask for a run that is allowed."""
        reply = self.ask("POST", "/v1/runs", role, json={"request": {**REQUEST, **changes}})
        assert reply.status_code == 200, reply.text
        told: Json = reply.json()
        return told

    def enroll(self, pool: str = "default") -> str:
        """Make a runner known; gives its token."""
        token = self.plane.people.enroll_token(pool, 60)["token"]
        body = {"enrollToken": token, "publicKeyPem": PrivateKey.generate().public.pem, "pool": pool}
        reply = self.http.post("/v1/runners/enroll", json=body)
        assert reply.status_code == 200, reply.text
        return str(reply.json()["runnerToken"])

    def claim(self, runner_token: str, **more: Any) -> Json:
        """Ask for a run as a runner."""
        body = {"runnerToken": runner_token, "tiers": ["bwrap"], "knows": ["renew", "release"], **more}
        reply = self.http.post("/v1/claims", json=body)
        assert reply.status_code == 200, reply.text
        told: Json = reply.json()
        return told


def make_home(root: Path) -> Home:
    """Make a plane's home that lets deployments wait for people."""
    home = Home(root)
    home.make()
    text = text_of("plane").replace("\n# In which pools", ASKING + "\n# In which pools", 1)
    home.policy.write_text(text, encoding="utf-8")
    home.policy.chmod(0o600)
    make_plane(home)
    return home


@contextmanager
def serving(root: Path, **changes: Any) -> Iterator[Served]:
    """Serve a new plane from `root`; `changes` are settings."""
    home = make_home(root)
    settings = msgspec.structs.replace(Settings(port=0), **changes)
    bell = Bell()
    with open_serving(home, plane_policy(home), lease_ms=settings.lease_seconds * 1000, wake=bell.ring) as plane:
        tokens = {role: plane.people.issue(role, role)["token"] for role in ROLES}
        heard = threading.Event()
        urls: list[str] = []

        def ready(url: str) -> None:
            urls.append(url)
            heard.set()

        server, listening = server_of(plane, settings, bell, ready)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        assert heard.wait(START_SECONDS)
        served = Served(plane, server, urls[0], tokens)
        try:
            yield served
        finally:
            server.should_exit = True
            bell.hush()
            thread.join(START_SECONDS)
            assert not thread.is_alive()
            served.http.close()
