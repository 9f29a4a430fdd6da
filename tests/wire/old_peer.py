"""A client and a runner of the other implementation, emulated from the protocol's text: only its fields, only its ways.

The client captures a repository with git. The runner polls every second, knows no renewal, reads blobs without saying
who it is, runs the contract as a plain child process, and sends its events in two posts before its receipt.
"""

import fnmatch
import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.acceptance.repositories import git
from tests.wire.old_words import Json, OldChain, OldKey, hash_of, key_id, now
from tests.wire.talking import Reply, talk

POLL_SECONDS = 1.0
DENIED = (".env", ".env.*", "*.pem", "*.key", "id_rsa*", "id_ed25519*")
GONE = "0" * 64
MOCK = """
import os, sys
task = sys.argv[1]
print("mock agent received task: " + task, flush=True)
with open("MOCK_AGENT.md", "a") as note:
    seen = "present" if "MOCK_SECRET" in os.environ else "absent"
    note.write("## task\\n" + task + "\\n\\nsecret:" + seen + "\\n")
if "fail" in task:
    sys.exit("mock agent failing as instructed")
print("mock agent done")
"""


class OldClient:
    """Whoever asks, with a bearer token."""

    def __init__(self, url: str, token: str) -> None:
        self.url, self.token = url, token

    def ask(self, method: str, path: str, body: Json | bytes | None = None) -> Reply:
        """Ask the plane something."""
        return talk(self.url, method, path, body, self.token)

    def upload(self, data: bytes) -> str:
        """Store a blob; gives its name."""
        reply = self.ask("POST", "/v1/blobs", data)
        assert (reply.status, reply.json) == (200, {"hash": hashlib.sha256(data).hexdigest()}), reply
        return str(reply.json["hash"])

    def capture(self, folder: Path) -> Json:
        """Capture a repository: its history, what is not committed, what git does not know."""
        packed = folder.parent / f"{folder.name}.bundle"
        git(folder, "bundle", "create", "--quiet", str(packed), "HEAD", "--all")
        diff = subprocess.run(
            ["/usr/bin/git", "diff", "--binary", "HEAD"], cwd=folder, capture_output=True, check=True, timeout=30
        ).stdout
        listed = git(folder, "ls-files", "--others", "--exclude-standard", "-z").split("\0")
        names = sorted(name for name in listed if name)
        denied = [name for name in names if any(fnmatch.fnmatch(Path(name).name, one) for one in DENIED)]
        taken = {name: (folder / name).read_bytes() for name in names if name not in denied}
        manifest: Json = {
            "version": "warrant.manifest.v1",
            "baseRef": git(folder, "rev-parse", "HEAD"),
            "bundleHash": self.upload(packed.read_bytes()),
            "untrackedFiles": [
                {"path": name, "hash": self.upload(data), "bytes": len(data)} for name, data in taken.items()
            ],
            "deniedPatterns": list(DENIED),
            "deniedPaths": denied,
        }
        return manifest | ({"dirtyDiffHash": self.upload(diff)} if diff else {})

    def request(self, prompt: str, workspace: Json | None, agent: str = "mock", **fields: Any) -> Json:
        """Write a request with every field that the protocol asks for, and no other."""
        return {
            "requestedBy": {"kind": "human", "id": "demo@example.com"},
            "agentKind": agent,
            "prompt": prompt,
            "pool": "default",
            "secretNames": [],
            "workspace": workspace,
            "network": {"defaultDeny": True, "allowHosts": []},
            "budget": {},
            "disclosure": "minimal-context",
            **fields,
        }

    def submit(self, request: Json) -> Json:
        """Ask for a run."""
        reply = self.ask("POST", "/v1/runs", {"request": request})
        assert reply.status == 200, reply
        said: Json = reply.json
        return said

    def ended(self, run_id: str, seconds: float = 60) -> Json:
        """Wait until a run has ended; gives what the plane says of it."""
        until, said = time.monotonic() + seconds, dict[str, Any]()
        while time.monotonic() < until:
            said |= self.ask("GET", f"/v1/runs/{run_id}").json
            if said["status"] in {"completed", "failed", "cancelled"}:
                return said
            time.sleep(0.1)
        raise AssertionError(f"{run_id} has not ended: {said}")

    def bundle(self, run_id: str) -> Json:
        """Fetch the proof."""
        said: Json = self.ask("GET", f"/v1/runs/{run_id}/bundle").json
        return said


class OldRunner:
    """Whoever runs, in one pool."""

    def __init__(self, url: str, folder: Path, pool: str = "default") -> None:
        self.url, self.folder, self.pool = url, folder, pool
        self.key = OldKey()
        self.runner_id = self.token = ""

    def post(self, path: str, body: Json) -> Reply:
        """Say something to the plane."""
        return talk(self.url, "POST", path, body)

    def enroll(self, token: str) -> Reply:
        """Become known to the plane."""
        reply = self.post("/v1/runners/enroll", {"enrollToken": token, "publicKeyPem": self.key.pem, "pool": self.pool})
        if reply.status == 200:
            self.runner_id, self.token = reply.json["runnerId"], reply.json["runnerToken"]
        return reply

    def claim(self, seconds: float = 20) -> Json:
        """Poll until there is something to do."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            reply = self.post("/v1/claims", {"runnerToken": self.token, "pool": self.pool})
            assert reply.status == 200, reply
            if not reply.json.get("empty"):
                said: Json = reply.json
                return said
            time.sleep(POLL_SECONDS)
        raise AssertionError("there was nothing to claim")

    def carry_out(self, claim: Json) -> Reply:
        """Do what a contract says, and leave a receipt."""
        contract, run_id = claim["contract"], claim["runId"]
        chain, told = OldChain(claim["events"]), len(claim["events"])
        folder = self._materialised(contract["workspace"], run_id)
        chain.add("workspace.materialized", manifestHash=hash_of(contract["workspace"]))
        self._tell(claim, chain, told)
        told += 1
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.folder)}
        words, hashed = _command(contract)
        values = {one["name"]: one["value"] for one in claim["secrets"]}
        ran = subprocess.run(
            words,
            cwd=folder,
            env={**environ, **values},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=30,
        )
        chain.add("command.executed", argvHash=hash_of(hashed), exitCode=ran.returncode)
        self._artifacts(claim, chain, folder, ran.stdout)
        if ran.returncode:
            said = f"agent exited with code {ran.returncode}"
            chain.add("run.failed", failure="session_failed", message=said)
        else:
            chain.add("run.completed")
        self._tell(claim, chain, told)
        receipt = self.receipt(claim, chain)
        return self.post(f"/v1/runs/{run_id}/complete", {"claimToken": claim["claimToken"], "receipt": receipt})

    def receipt(self, claim: Json, chain: OldChain) -> Json:
        """Write the receipt of what a chain tells, and sign it."""
        contract, events = claim["contract"], [link["event"] for link in chain.links]
        made = [one for one in events if one["type"] == "artifact.created"]
        crossed = [one for one in events if one["type"] == "boundary.crossed"]
        ends = {"run.completed": "completed", "run.failed": "failed", "run.cancelled": "cancelled"}
        return self.key.signed(
            {
                "version": "warrant.receipt.v1",
                "runId": claim["runId"],
                "contractHash": chain.links[0]["prev"],
                "runner": {
                    "runnerId": self.runner_id,
                    "keyId": key_id(self.key.pem),
                    "pool": self.pool,
                    "attestationTier": "mock",
                    "isolation": "process",
                },
                "startedAt": chain.links[0]["ts"],
                "endedAt": now(),
                "status": ends[events[-1]["type"]],
                "eventsHead": chain.links[-1]["hash"],
                "eventCount": len(chain.links),
                "workspaceIn": {
                    "baseRef": contract["workspace"]["baseRef"],
                    "manifestHash": hash_of(contract["workspace"]),
                },
                "workspaceOut": {
                    "diffHash": next((one["hash"] for one in made if one["kind"] == "diff"), ""),
                    "artifactHashes": [one["hash"] for one in made],
                },
                "secretsReleased": [
                    {"name": link["event"]["name"], "scope": link["event"]["scope"], "ts": link["ts"]}
                    for link in chain.of("secret.released")
                ],
                "networkAccessed": [],
                "modelsUsed": [],
                "boundaryDisclosures": [
                    {name: one[name] for name in ("direction", "contentHash", "dataClass")} for one in crossed
                ],
            },
            "runner",
        )

    def _tell(self, claim: Json, chain: OldChain, since: int) -> None:
        body = {"claimToken": claim["claimToken"], "events": chain.links[since:]}
        reply = self.post(f"/v1/runs/{claim['runId']}/events", body)
        assert reply.status == 200, reply
        assert reply.json["ok"] is True

    def _fetched(self, digest: str) -> bytes:
        reply = talk(self.url, "GET", f"/v1/blobs/{digest}")
        assert reply.status == 200, reply
        return reply.body

    def _materialised(self, manifest: Json, run_id: str) -> Path:
        folder = self.folder / run_id
        if "bundleHash" not in manifest:  # there is nothing in it
            folder.mkdir(parents=True)
            git(folder, "init", "--quiet")
            git(folder, "commit", "--quiet", "--allow-empty", "--message", "nothing")
            return folder
        self.folder.mkdir(parents=True, exist_ok=True)
        packed = self.folder / f"{run_id}.bundle"
        packed.write_bytes(self._fetched(manifest["bundleHash"]))
        git(self.folder, "clone", "--quiet", str(packed), str(folder))
        git(folder, "checkout", "--quiet", manifest["baseRef"])
        if "dirtyDiffHash" in manifest:
            (self.folder / "dirty").write_bytes(self._fetched(manifest["dirtyDiffHash"]))
            git(folder, "apply", str(self.folder / "dirty"))
        for file in manifest["untrackedFiles"]:
            (folder / file["path"]).parent.mkdir(parents=True, exist_ok=True)
            (folder / file["path"]).write_bytes(self._fetched(file["hash"]))
        return folder

    def _artifacts(self, claim: Json, chain: OldChain, folder: Path, log: bytes) -> None:
        base = claim["contract"]["workspace"]["baseRef"] if (folder / ".git" / "packed-refs").exists() else "HEAD"
        git(folder, "add", "--all")
        for name in git(folder, "diff", "--cached", "--name-only", "-z", base).split("\0"):
            path = folder / name
            if name:
                there = hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else GONE
                chain.add("file.changed", path=name, contentHash=there)
        diff = subprocess.run(
            ["/usr/bin/git", "diff", "--cached", "--binary", base],
            cwd=folder, capture_output=True, check=True, timeout=30,
        ).stdout  # fmt: skip
        for kind, data_class, data in (("diff", "code-diff", diff), ("log", "session-log", log)):
            if not data:
                continue
            reply = talk(self.url, "POST", "/v1/blobs", data, claim["claimToken"])
            assert reply.status == 200, reply
            chain.add("artifact.created", kind=kind, hash=reply.json["hash"])
            chain.add("boundary.crossed", direction="out", contentHash=reply.json["hash"], dataClass=data_class)


def _command(contract: Json) -> tuple[list[str], Json]:
    """Give the words to start, and what is hashed of them."""
    execution = contract["execution"]
    if execution["kind"] == "shell":
        hashed = {"kind": "shell", "shell": execution.get("shell", "sh"), "script": execution["script"], "cwd": "."}
        return ["/bin/sh", "-c", execution["script"]], hashed
    words = [sys.executable, "-c", MOCK, execution["prompt"]]
    return words, {"kind": "argv", "cmd": "mock-agent", "args": [execution["prompt"]], "cwd": "."}
