"""A plane and a runner as processes of their own, on loopback.

How many runs a second, how soon a watcher sees an act, how long a claim takes behind a long queue, and whether the
plane grows. Everything shares this machine: the plane, the runner, its sandboxes, and whoever asks here. Nothing is
left out of a run: submitted over HTTP, claimed, carried out in bubblewrap, its receipt verified, countersigned, stored.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from bench.figure import Figure
from tipstaff.home import Home
from tipstaff.keys import PrivateKey
from tipstaff.local.serving import open_serving, plane_policy

Json = dict[str, Any]
WARM_UP = 100
TIMED = 400
WHOLE = 5000
QUEUED = 10_000
CLAIMS = 300
ACTS = 40
READY_SECONDS = 30
PATIENCE_SECONDS = 300
MIB = 1 << 20
PROGRAM = str(Path(sys.executable).parent / "tipstaff")
COMMAND = {"kind": "argv", "command": "true", "log": {"stderr": "capture"}}
ACTING = "i=0; while [ $i -lt {count} ]; do date +%s%N; sleep 0.1; i=$((i+1)); done"


def figures() -> Iterator[Figure]:
    """Measure everything about a plane and a runner."""
    with tempfile.TemporaryDirectory() as folder, Site.open(Path(folder)) as site:
        with site.runner():
            yield from _throughput(site)
            yield _latency(site)
        yield _queue(site)


def _throughput(site: "Site") -> Iterator[Figure]:
    site.run_many(WARM_UP)
    started, cpu = time.perf_counter(), site.cpu_seconds()
    site.run_many(TIMED)
    taken, used = time.perf_counter() - started, {k: v - cpu[k] for k, v in site.cpu_seconds().items()}
    detail = {f"{name}_cpu_ms_per_run": round(value * 1000 / TIMED, 2) for name, value in used.items()}
    yield Figure("plane_runs_per_second", TIMED / taken, "runs/s", at_least=50, detail=detail)
    before = site.plane_memory_bytes()
    site.run_many(WHOLE - WARM_UP - TIMED)
    grown = (site.plane_memory_bytes() - before) / MIB
    detail = {"before_mib": round(before / MIB, 1), "runs": WHOLE}
    yield Figure("plane_growth_mib", grown, "MiB over 5 000 runs", at_most=16, is_gate=False, detail=detail)


def _latency(site: "Site") -> Figure:
    """Print the time inside the sandbox, and look at the clock when a watcher of the plane sees it."""
    run_id = site.submit({"kind": "shell", "script": ACTING.format(count=ACTS), "log": {"stderr": "capture"}})
    taken = [
        (seen - int(line)) / 1e6
        for seen, text in site.follow(run_id)
        for line in text.split()
        if line.isdecimal() and len(line) > 16  # noqa: PLR2004 - nanoseconds since 1970 have 19 digits
    ]
    detail = {"p95_ms": round(quantiles(taken, n=20)[-1], 1), "acts": len(taken)}
    return Figure("event_latency_ms", median(taken), "ms", at_most=50, is_gate=False, detail=detail)


def _queue(site: "Site") -> Figure:
    """Claim as a runner does, with one run queued each time, then behind ten thousand."""
    short = []
    for _ in range(CLAIMS):
        site.submit(COMMAND, pool="queue")
        short.append(site.claim("queue"))
    with open_serving(site.home, plane_policy(site.home)) as plane:
        caller = plane.caller(site.token)
        assert caller is not None  # noqa: S101 - the token was made above
        for _ in range(QUEUED):
            caller.submit({"execution": COMMAND, "pool": "queue"})
    long = [site.claim("queue") for _ in range(CLAIMS)]
    p99 = {"short": quantiles(short, n=100)[-1], "long": quantiles(long, n=100)[-1]}
    detail = {f"{name}_p99_ms": round(value * 1000, 2) for name, value in p99.items()}
    detail |= {"short_p50_ms": round(median(short) * 1000, 2), "long_p50_ms": round(median(long) * 1000, 2)}
    return Figure("claim_p99_ratio", p99["long"] / p99["short"], "of an empty queue", 0, 3, False, detail)  # noqa: FBT003 - no gate


class Site:
    """A plane on a free port of loopback, and whoever asks it."""

    def __init__(self, home: Home, url: str, process: "subprocess.Popen[str]") -> None:
        self.home = home
        self.token = _said(["plane", "token", "bench", "--role", "admin", "--home", str(home.root)])
        self._url = url
        self._process = process
        self._runner: subprocess.Popen[str] | None = None
        self._connection = self._connect()
        self._pools: dict[str, str] = {}
        self._done = 0

    @classmethod
    @contextmanager
    def open(cls, folder: Path) -> "Iterator[Site]":
        """Make a plane, and serve it."""
        home = Home(folder / "plane")
        _said(["plane", "init", "--home", str(home.root)])
        serving = ["plane", "start", "--home", str(home.root), "--port", "0", "--json"]
        with _started(serving, "stdout") as (process, line):
            yield cls(home, json.loads(line)["url"], process)

    @contextmanager
    def runner(self) -> Iterator[None]:
        """Have a runner beside it, four runs at once."""
        token = _said(["plane", "enroll-token", "--home", str(self.home.root)])
        data = str(self.home.root.parent / "runner")
        _said(["runner", "enroll", "--plane", self._url, "--data", data], TIPSTAFF_ENROLL_TOKEN=token)
        with _started(["runner", "start", "--data", data, "--concurrency", "4"], "stderr") as (process, _):
            self._runner = process
            yield

    def submit(self, execution: Json, pool: str = "default") -> str:
        """Ask for a run."""
        run_id: str = self._post("/v1/runs", {"request": {"execution": execution, "pool": pool}})["runId"]
        return run_id

    def run_many(self, count: int) -> None:
        """Ask for runs, and wait until each has its receipt."""
        for _ in range(count):
            self.submit(COMMAND)
        self._done += count
        waited = time.monotonic() + PATIENCE_SECONDS
        while self._get("/v1/metrics")["metrics"]["runs"].get("completed", 0) < self._done:
            if time.monotonic() > waited:
                raise TimeoutError("the runs did not end in time")
            time.sleep(0.2)  # each look costs the plane something

    def claim(self, pool: str) -> float:
        """Claim a run; gives how long that took."""
        if pool not in self._pools:
            enroll = self._post("/v1/enroll-tokens", {})["token"]
            pem = PrivateKey.generate().public.pem
            told = self._post("/v1/runners/enroll", {"enrollToken": enroll, "publicKeyPem": pem, "pool": pool})
            self._pools[pool] = told["runnerToken"]
        body = {"runnerToken": self._pools[pool], "pool": pool, "tiers": ["bwrap"], "knows": ["renew", "release"]}
        started = time.perf_counter()
        told = self._post("/v1/claims", body)
        taken = time.perf_counter() - started
        if "runId" not in told:
            raise LookupError("there was nothing to claim")
        return taken

    def follow(self, run_id: str) -> Iterator[tuple[int, str]]:
        """Watch a run: the time at which each piece of output is seen, and its text."""
        from base64 import b64decode  # noqa: PLC0415 - only here

        connection = self._connect()
        connection.request("GET", f"/v1/runs/{run_id}/follow", headers=self._headers())
        kind = ""
        for raw in connection.getresponse():
            line = raw.decode().strip()
            if line.startswith("event:"):
                kind = line.partition(":")[2].strip()
            elif line.startswith("data:") and kind == "output":
                seen = time.time_ns()
                yield seen, b64decode(json.loads(line.partition(":")[2])["data"]).decode()
            if kind == "end":
                break
        self._done += 1
        connection.close()

    def plane_memory_bytes(self) -> int:
        """Say how much memory the plane holds."""
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def cpu_seconds(self) -> dict[str, float]:
        """Say how much processor time each has used; the runner's with its sandboxes, as far as they have ended."""
        runner = self._runner.pid if self._runner is not None else 0
        return {"plane": _cpu(self._process.pid), "runner": _cpu(runner), "asking": time.process_time()}

    def _connect(self) -> HTTPConnection:
        host, _, port = self._url.removeprefix("http://").rpartition(":")
        return HTTPConnection(host, int(port), timeout=60)

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}

    def _post(self, path: str, body: Json) -> Json:
        return self._ask("POST", path, json.dumps(body))

    def _get(self, path: str) -> Json:
        return self._ask("GET", path, None)

    def _ask(self, method: str, path: str, body: str | None) -> Json:
        while True:
            self._connection.request(method, path, body, self._headers())
            reply = self._connection.getresponse()
            data = json.loads(reply.read())
            if reply.status == 429:  # noqa: PLR2004 - too many at once: as anybody does, wait a little
                time.sleep(0.05)
                continue
            if reply.status != 200:  # noqa: PLR2004 - HTTP's word for yes
                raise RuntimeError(f"{method} {path}: {reply.status} {data}")
            found: Json = data
            return found


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _said(arguments: list[str], **environ: str) -> str:
    done = subprocess.run([PROGRAM, *arguments], env={**os.environ, **environ}, capture_output=True, check=True)  # noqa: S603 - a program of ours
    return done.stdout.decode().strip()


@contextmanager
def _started(arguments: list[str], ready: str) -> "Iterator[tuple[subprocess.Popen[str], str]]":
    """Start one of our programs, wait for its first line on a stream, and stop it at the end."""
    quiet: Json = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([PROGRAM, *arguments], text=True, **{**quiet, ready: subprocess.PIPE}) as process:  # noqa: S603 - a program of ours
        stream = getattr(process, ready)
        first = stream.readline()
        threading.Thread(target=stream.read, daemon=True).start()  # a pipe that nobody reads would stop whoever writes
        try:
            yield process, first
        finally:
            process.terminate()
            process.wait(READY_SECONDS)
