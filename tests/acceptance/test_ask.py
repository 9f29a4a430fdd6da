"""A connection whose rule says `ask` is held until somebody answers: the real program, a real server, real answers."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.acceptance.beside import started, until

TIPSTAFF = str(Path(sys.executable).with_name("tipstaff"))
HOST = "asked.example.test"
POLICY = """
version: tipstaff.policy.v1
name: asking
principals: [{id: "*"}]
rules:
  - {id: rest, effect: allow, when: any, reason: a test}
pools: ["*"]
network:
  hosts:
    - {id: ask-first, host: %s, ports: [%d], addresses: ["127.0.0.1"], ask: true}
tiers: {tolerate: {memory: weaker, cpu: unenforceable, pids: weaker}}
"""
Ended = subprocess.CompletedProcess[str]


class Greeting(BaseHTTPRequestHandler):
    """Answers whatever is asked, in two words."""

    def do_GET(self) -> None:
        """Greet."""
        self.send_response(200)
        self.send_header("Content-Length", "11")
        self.end_headers()
        self.wfile.write(b"hello there")

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


class Site(NamedTuple):
    """A home whose policy asks before one host is reached, and a server that stands for it."""

    folder: Path
    environ: dict[str, str]
    port: int

    def __call__(self, *arguments: object) -> Ended:
        """Run the program to its end."""
        return subprocess.run(
            [TIPSTAFF, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=self.environ,
            cwd=self.folder,
            check=False,
            timeout=60,
            text=True,
        )

    @contextmanager
    def fetching(self, *options: str) -> "Iterator[subprocess.Popen[str]]":
        """Have a run fetch the page, in a process of its own; what it wrote is in its file `bundle.json` afterwards."""
        url = f"http://{HOST}:{self.port}/"
        command = ["/usr/bin/curl", "-sS", "-f", "--max-time", "50", url]
        words = [TIPSTAFF, "run", "--allow-host", f"{HOST}:{self.port}", "--bundle", "bundle.json", *options, "--"]
        with started([*words, *command], self.environ, self.folder) as process:
            yield process

    def question(self) -> dict[str, Any]:
        """Wait until the run asks."""
        return until(self.questions)[0]

    def questions(self) -> list[dict[str, Any]]:
        """List what is asked; nothing while there is no home."""
        listed: list[dict[str, Any]] = json.loads(self("approvals", "--json").stdout or "{}").get("questions", [])
        return listed

    def bundle(self) -> dict[str, Any]:
        """Read the bundle of the run."""
        value: dict[str, Any] = json.loads((self.folder / "bundle.json").read_text())
        return value

    def connections(self) -> list[dict[str, Any]]:
        """List what the chain says of the network."""
        events = [link["event"] for link in self.bundle()["events"]]
        return [event for event in events if event["type"] == "network.connected" and "opened" not in event]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A home and a server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Greeting)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    port = server.server_address[1]
    (tmp_path / "policy.yaml").write_text(POLICY % (HOST, port))
    places = {"TIPSTAFF_HOME": str(tmp_path / "home"), "TIPSTAFF_POLICY": str(tmp_path / "policy.yaml")}
    yield Site(tmp_path, {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **places}, port)
    server.shutdown()
    server.server_close()
    thread.join(10)


def test_a_held_connection_goes_on_when_somebody_approves(site):
    """The run says what it waits for, a yes from another process lets it through, and the proof holds only with it."""
    with site.fetching() as process:
        asked = site.question()
        listed = site("approvals").stdout
        unseen = site("approve", "last")
        approved = site("approve", asked["runId"], "--yes")
        output, said = process.communicate(timeout=60)

    assert (asked["place"], asked["rule"]) == (f"{HOST}:{site.port}", "ask-first")
    assert f"wants to reach {HOST}:{site.port} (rule ask-first)" in listed
    assert f"/usr/bin/curl -sS -f --max-time 50 http://{HOST}:{site.port}/" in listed
    assert "there is no terminal to ask on" in unseen.stderr
    assert approved.stdout == f"{asked['runId']} may reach {HOST}:{site.port}\n", approved.stderr
    assert (process.returncode, output) == (0, "hello there"), said
    wish = f"tipstaff: {asked['runId']} wants to reach {HOST}:{site.port} (rule ask-first); tipstaff approve"
    assert said.count(wish) == 1
    connected = site.connections()
    assert [event["decision"] for event in connected] == ["allowed"]
    place = {"host": HOST, "port": site.port, "rule": "ask-first"}
    assert connected[0]["approval"]["question"] == place
    assert site("verify", "bundle.json").stdout.startswith("valid"), site("verify", "bundle.json").stdout
    assert "24. " in verified_without_approval(site)
    assert site("approvals").stdout == "nothing waits for approval\n"


def verified_without_approval(site: Site) -> str:
    """Cut the approval out, and say what the verifier says."""
    bundle = site.bundle()
    for link in bundle["events"]:
        link["event"].pop("approval", None)
    (site.folder / "cut.json").write_text(json.dumps(bundle))
    ended = site("verify", "cut.json")
    assert ended.returncode == 1
    return ended.stdout


def test_a_denied_connection_is_refused(site):
    """A no from another process refuses the connection with 403, and the run goes on to its receipt."""
    with site.fetching("--quiet") as process:
        asked = site.question()
        denied = site("deny", "last", "--host", asked["place"], "--reason", "not on a Friday")
        output, said = process.communicate(timeout=60)

    assert denied.stdout == f"{asked['runId']} may not reach {HOST}:{site.port}\n", denied.stderr
    assert (process.returncode, output) == (22, "")
    assert "403" in said
    assert "wants to reach" not in said
    assert [event["decision"] for event in site.connections()] == ["blocked"]
    assert "not on a Friday" in site.connections()[0]["reason"]
    assert site("verify", "bundle.json").stdout.startswith("valid")


def test_nobody_answers_in_time(site):
    """When the time for answers is over the connection is refused, and nobody can answer any more."""
    with site.fetching("--approval-timeout", "0.5") as process:
        output, said = process.communicate(timeout=60)

    assert (process.returncode, output) == (22, "")
    assert "refused while it ran" in said
    assert "nobody answered in time" in site.connections()[0]["reason"]
    run_id = site.bundle()["receipt"]["runId"]
    late = site("approve", run_id, "--yes")
    assert late.returncode != 0
    assert "does not wait for approval" in late.stderr


def test_a_run_that_is_stopped_while_it_asks_leaves_its_receipt(site):
    """Ctrl-C ends a run that waits for an answer; its proof says that nothing was reached, and the question is void."""
    with site.fetching() as process:
        asked = site.question()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)

    assert process.returncode == 130
    assert [event["decision"] for event in site.connections()] == ["blocked"]
    assert site("verify", "bundle.json").stdout.startswith("valid")
    assert site.questions() == []
    assert site("approve", asked["runId"], "--yes").returncode != 0
