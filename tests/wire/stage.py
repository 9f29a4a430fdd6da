"""Planes and runners as real processes, each with folders of its own; everything started is ended by its id.

`Stage` makes a plane's home, starts, kills and restarts it on its port, enrols runners and starts them, and runs the
command line against them. A `before` puts words in front of a program: how a test moves it into a namespace. Logs are
kept beside the homes and shown when something does not come up.
"""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.wire.talking import Json, Reply, talk, talk_from

TIPSTAFF = str(Path(sys.executable).with_name("tipstaff"))
START_SECONDS = 40.0
STOP_SECONDS = 30.0
URL = re.compile(r"plane ready at (https?://\S+)")
READY = re.compile(r"runner (rnr_\S+) ready")
PATIENT = "{failures: 100000}"  # limits of a plane that does not mind wrong tokens: tests send many
POLICY = """
version: tipstaff.policy.v1
name: wire
principals:
  - id: "*"
rules:
  - {id: inside, effect: allow, when: any}
pools: ["*"]
secrets:
  - name: "*"
tiers:
  default: bwrap
  minimum: MINIMUM
  tolerate: {disk: weaker, memory: weaker, cpu: unenforceable}
disclosure: [none, metadata-only, redacted, minimal-context, full]
"""


class Program:
    """One program that was started, with what it says."""

    def __init__(self, words: Sequence[str], environ: Mapping[str, str], log: Path) -> None:
        self.log = log
        with log.open("wb") as said:
            self.process = subprocess.Popen(
                words, env=environ, cwd=log.parent, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                start_new_session=True,
            )  # fmt: skip

    @property
    def alive(self) -> bool:
        """Say whether it runs."""
        return self.process.poll() is None

    @property
    def text(self) -> str:
        """Give all that it said."""
        return self.log.read_text(errors="replace")

    def heard(self, pattern: re.Pattern[str], seconds: float = START_SECONDS) -> re.Match[str]:
        """Wait until it says something."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if found := pattern.search(self.text):
                return found
            if not self.alive:
                break
            time.sleep(0.02)
        raise AssertionError(f"{self.log.name} did not say {pattern.pattern!r}:\n{self.text[-4000:]}")

    def kill(self) -> None:
        """End it as a power cut would."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Ask it to end, and wait; gives its exit code."""
        if self.alive:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.log.name} did not end:\n{self.text[-4000:]}") from None


class Stage:
    """A plane, its runners and its clients, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "plane"
        self.url = self.admin = ""
        self.plane: Program | None = None
        self.runners: dict[str, Program] = {}
        self.started: list[Program] = []
        self.through: Sequence[str] = ()  # words in front of whoever asks the plane: where it can be reached from
        self._options: list[str] = []
        self._tokens: dict[str, str] = {}
        (folder / "person").mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for program in reversed(self.started):
            if program.alive:
                program.kill()
        if error is not None and self.started:
            print("\n".join(f"--- {one.log.name}\n{one.text[-3000:]}" for one in self.started[-6:]))  # noqa: T201 - for whoever looks into a failure

    def environ(self, **more: str) -> dict[str, str]:
        """The variables of somebody whose home is this folder's."""
        home = {"TIPSTAFF_HOME": str(self.folder / "home"), "HOME": str(self.folder / "person")}
        return {"PATH": "/usr/sbin:/usr/bin:/bin", **home, **more}

    def call(
        self, *words: object, before: Sequence[str] = (), stdin: bytes = b"", code: int | None = 0, **environ: str
    ) -> subprocess.CompletedProcess[bytes]:
        """Run the command line to its end; `code` None takes any exit code."""
        ended = subprocess.run(
            [*before, TIPSTAFF, *map(str, words)], input=stdin, env=self.environ(**environ), cwd=self.folder / "person",
            capture_output=True, timeout=120, check=False,
        )  # fmt: skip
        assert code is None or ended.returncode == code, (words, ended.returncode, ended.stdout, ended.stderr)
        return ended

    def begin(self, name: str, *words: object, before: Sequence[str] = (), **environ: str) -> Program:
        """Start the command line and leave it running."""
        log = self.folder / f"{len(self.started):03}-{name}.log"
        program = Program([*before, TIPSTAFF, *map(str, words)], self.environ(**environ), log)
        self.started.append(program)
        return program

    # The plane

    def init_plane(self, *, policy: str = POLICY, minimum: str = "bwrap", secrets: Json | None = None, **settings: Any):
        """Make a plane's home; `settings` go into its plane.yaml, `secrets` into its sealed store."""
        written = self.folder / "policy.yaml"
        written.write_text(policy.replace("MINIMUM", minimum))
        ended = self.call("plane", "init", "--home", self.home, "--policy", written, "--port", "0")
        self.admin = ended.stdout.decode().split()[-1]
        for name, value in (secrets or {}).items():
            self.call("secrets", "set", name, stdin=value.encode(), TIPSTAFF_HOME=str(self.home))
        self.settle(**settings)
        return self

    def settle(self, **settings: Any) -> None:
        """Put settings into the plane's plane.yaml."""
        path = self.home / "plane.yaml"
        kept = [line for line in path.read_text().splitlines() if line.split(":")[0] not in settings]
        path.write_text("\n".join([*kept, *(f"{name}: {value}" for name, value in settings.items()), ""]))

    def start_plane(self, *options: str, before: Sequence[str] = (), host: str = "127.0.0.1", **environ: str) -> Self:
        """Start the plane: on a free port first, then on the same again."""
        port = self.url.rsplit(":", 1)[1] if self.url else "0"
        self._options = list(options) or self._options
        words = ["plane", "start", "--home", self.home, "--host", host, "--port", port, *self._options]
        self.plane = self.begin("plane", *words, before=before, **environ)
        self.url = self.plane.heard(URL)[1].rstrip("/.,")
        return self

    def token(self, name: str, role: str = "requester", *, kind: str = "human", before: Sequence[str] = ()) -> str:
        """Make a principal, if it is not there yet; gives its token."""
        if name not in self._tokens:
            words = ["plane", "token", name, "--role", role, "--kind", kind, "--home", self.home]
            self._tokens[name] = self.call(*words, before=before).stdout.decode().strip()
        return self._tokens[name]

    def enroll_token(self, pool: str | None = None, *, before: Sequence[str] = ()) -> str:
        """Make a token for one enrolment."""
        chosen = ["--pool", pool] if pool else []
        words = ["plane", "enroll-token", "--home", self.home, *chosen]
        return self.call(*words, before=before).stdout.decode().strip()

    def ask(self, method: str, path: str, body: Json | bytes | None = None, token: str | None = None) -> Reply:
        """Ask the plane something, as its admin if nobody else is named."""
        if self.through:
            return talk_from(self.through, self.url, method, path, body=body, token=token or self.admin)
        return talk(self.url, method, path, body, token or self.admin)

    # Runners

    def data(self, name: str) -> Path:
        """Where a runner keeps its things."""
        return self.folder / f"runner-{name}"

    def start_runner(
        self, name: str = "one", *options: str, before: Sequence[str] = (), ready: bool = True, **environ: str
    ) -> Program:
        """Start a runner; one that is not enrolled yet is enrolled first."""
        known = "TIPSTAFF_ENROLL_TOKEN" in environ or (self.data(name) / "identity.json").exists()
        told = {} if known else {"TIPSTAFF_ENROLL_TOKEN": self.enroll_token()}
        words = ["runner", "start", "--plane", self.url, "--data", self.data(name), *options]
        program = self.runners[name] = self.begin(f"runner-{name}", *words, before=before, **told, **environ)
        if ready:
            program.heard(READY)
        return program

    # Runs

    def submit(self, script: str, token: str | None = None, **fields: Any) -> str:
        """Ask for a shell script; gives the run's id."""
        reply = self.ask("POST", "/v1/runs", {"request": shell(script, **fields)}, token)
        assert reply.status == 200, reply
        return str(reply.json["runId"])

    def seen(self, run_id: str) -> Json:
        """What the plane says of a run."""
        said: Json = self.ask("GET", f"/v1/runs/{run_id}").json
        return said

    def until(self, run_id: str, *states: str, seconds: float = 60) -> Json:
        """Wait until a run is in one of these states; without any, until it has ended."""
        wanted, until = states or ("completed", "failed", "cancelled"), time.monotonic() + seconds
        said: Json = {}
        while time.monotonic() < until:
            said = self.seen(run_id)
            if said.get("status") in wanted:
                return said
            time.sleep(0.05)
        raise AssertionError(f"{run_id} did not come to {wanted}: {said.get('status')} {said.get('failureMessage')}")

    def bundle(self, run_id: str) -> Json:
        """Fetch a run's proof."""
        reply = self.ask("GET", f"/v1/runs/{run_id}/bundle")
        assert reply.status == 200, reply
        said: Json = reply.json
        return said

    def plane_key(self) -> Path:
        """Write the plane's published key into a file."""
        path = self.folder / "plane.pub.pem"
        path.write_text(self.ask("GET", "/v1/keys").json["keys"][0]["publicKeyPem"])
        return path


def shell(script: str, **fields: Any) -> Json:
    """Write a request for a shell script."""
    execution = {"kind": "shell", "script": script}
    return {"requestedBy": {"kind": "human", "id": "somebody"}, "execution": execution, **fields}
