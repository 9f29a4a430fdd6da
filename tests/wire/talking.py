"""A tiny HTTP client on the standard library: one request, one reply, one connection. Nothing of the project in it.

Started as a program it asks from wherever it was started, such as another network: `talk_from` does that.
"""

import base64
import http.client
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

Json = dict[str, Any]
PATIENCE_SECONDS = 40


class Reply(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]  # names in small letters
    body: bytes

    @property
    def json(self) -> Any:
        """Read the body."""
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """Give the code of a refusal; empty where there is none."""
        return str(self.json.get("code") or "") if self.body[:1] == b"{" else ""


def talk(
    url: str,
    method: str,
    path: str,
    body: Json | bytes | None = None,
    token: str | None = None,
    **headers: str,
) -> Reply:
    """Ask once. A body that is not bytes goes as JSON; `token` goes as a bearer."""
    where = urlsplit(url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port or 80, timeout=PATIENCE_SECONDS)
    sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    said = {"Content-Type": "application/octet-stream" if isinstance(body, bytes) else "application/json"}
    said |= {"Authorization": f"Bearer {token}"} if token is not None else {}
    try:
        connection.request(method, path, sent, {**said, **{name.replace("_", "-"): it for name, it in headers.items()}})
        answer = connection.getresponse()
        return Reply(answer.status, {name.lower(): it for name, it in answer.getheaders()}, answer.read())
    finally:
        connection.close()


def talk_from(before: Sequence[str], url: str, method: str, path: str, **more: Any) -> Reply:
    """Ask once, as a program with these words in front of it; `more` is what `talk` takes."""
    asked: Json = {"url": url, "method": method, "path": path, **more}
    if isinstance(body := asked.get("body"), bytes):
        asked |= {"body": base64.b64encode(body).decode(), "bytes": True}
    ended = subprocess.run(
        [*before, sys.executable, "-I", str(Path(__file__))],
        input=json.dumps(asked).encode(), capture_output=True, timeout=PATIENCE_SECONDS + 10, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    said = json.loads(ended.stdout)
    return Reply(said["status"], said["headers"], base64.b64decode(said["body"]))


def _main() -> None:
    asked = json.load(sys.stdin)
    if asked.pop("bytes", False):
        asked["body"] = base64.b64decode(asked["body"])
    reply = talk(**asked)
    said = {"status": reply.status, "headers": reply.headers, "body": base64.b64encode(reply.body).decode()}
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    _main()
