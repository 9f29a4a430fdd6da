"""Keys in an ssh-agent: a real one, with real keys, and false ones that hang, close or lie."""

import os
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.vectors.story import ASKED, CLAIMED, COMPLETED, CREATED, PLANE, Run
from tipstaff.errors import SigningKeyError
from tipstaff.evidence import verify
from tipstaff.evidence.approval import approve
from tipstaff.keys import PrivateKey
from tipstaff.keys.agent import AgentKey, agent_keys
from tipstaff.model.noun import Actor

KEY = PrivateKey.from_seed(bytes([7]) * 32)
SECONDS = 0.3  # how long a test waits for an agent that does not answer


def ssh(*arguments: str | Path, agent: Path | None = None) -> str:
    """Run one of OpenSSH's programs; that it is missing is a failure, not a skip."""
    program = shutil.which(str(arguments[0]))
    assert program is not None, "install openssh-client"
    environment = {**os.environ, "SSH_AUTH_SOCK": str(agent or "")}
    command = [program, *map(str, arguments[1:])]
    return subprocess.run(command, env=environment, capture_output=True, check=True, timeout=30, text=True).stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with an Ed25519 key, an RSA key, and a certificate of the first."""
    path: Path = tmp_path_factory.mktemp("ssh")
    for kind in ("ed25519", "rsa"):
        ssh("ssh-keygen", "-q", "-t", kind, "-N", "", "-C", f"a {kind} key", "-f", path / kind)
    return path


@pytest.fixture
def agent(tmp_path) -> Iterator[Path]:
    """A real ssh-agent, ended by its process id."""
    program = shutil.which("ssh-agent")
    assert program is not None, "install openssh-client"
    path = tmp_path / "agent"
    with subprocess.Popen([program, "-D", "-a", str(path)], stdout=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 10
        while not path.exists():
            assert time.monotonic() < deadline, "ssh-agent did not start"
            time.sleep(0.01)
        yield path
        process.terminate()


def test_only_ed25519_keys_are_listed(agent, folder):
    """Of an agent's keys those of our kind are listed, with their comments; an empty agent has none."""
    assert agent_keys(str(agent)) == []
    ssh("ssh-add", "-q", folder / "rsa", agent=agent)
    assert agent_keys(str(agent)) == []
    ssh("ssh-add", "-q", folder / "ed25519", agent=agent)

    assert [key.comment for key in agent_keys(str(agent))] == ["a ed25519 key"]
    assert (folder / "ed25519.pub").read_text().split()[1] in ssh("ssh-add", "-L", agent=agent)


def test_a_certificate_does_not_disturb(agent, folder):
    """An agent that holds a certificate beside its key lists the key."""
    ssh("ssh-keygen", "-q", "-s", folder / "rsa", "-I", "id", "-n", "boris", "-z", "77", folder / "ed25519.pub")
    ssh("ssh-add", "-q", folder / "ed25519", agent=agent)

    assert "CERT" in ssh("ssh-add", "-l", agent=agent)
    assert len(agent_keys(str(agent))) == 1
    (folder / "ed25519-cert.pub").unlink()


def test_an_approval_is_signed_by_an_agent(agent, folder):
    """An approval that a key in an agent signed verifies like any other; changed, it does not."""
    ssh("ssh-add", "-q", folder / "ed25519", agent=agent)
    (key,) = agent_keys(str(agent))
    actor = Actor(kind="human", id="boris@example.com")

    def granted(contract_hash: str) -> dict[str, object]:
        approval = approve(contract_hash, actor, key, "hardware", "2026-03-02T00:00:00.000Z")
        return {"type": "consent.granted", "actor": {"kind": "human", "id": actor.id}, "approval": approval}

    def lowered(contract_hash: str) -> dict[str, object]:
        event = granted(contract_hash)
        assert isinstance(event["approval"], dict)
        return {**event, "approval": {**event["approval"], "assurance": "key"}}

    reports = [
        verify(Run(events=(CREATED, ASKED, consent, CLAIMED, COMPLETED)).bundle(), [PLANE.public])
        for consent in (granted, lowered)
    ]
    assert [report.verdict for report in reports] == ["valid", "invalid"]
    assert [problem.number for problem in reports[1].problems] == [24]


def test_a_key_that_left_the_agent_cannot_sign(agent, folder):
    """A key that was removed from the agent is refused by it, and the message says how to look."""
    ssh("ssh-add", "-q", folder / "ed25519", agent=agent)
    (key,) = agent_keys(str(agent))
    assert key.public.verifies(b"message", key.sign(b"message"))
    ssh("ssh-add", "-q", "-D", agent=agent)

    with pytest.raises(SigningKeyError, match="ssh-add -l"):
        key.sign(b"message")


@pytest.mark.parametrize("path", ["absent", "file", "x" * 300])
def test_no_agent_is_said(tmp_path, path):
    """A socket that is not there, is no socket or has too long a name is a clear error."""
    (tmp_path / "file").touch()

    with pytest.raises(SigningKeyError, match="SSH_AUTH_SOCK"):
        agent_keys(str(tmp_path / path))


# False agents

Answer = Callable[[socket.socket], None]


def string(data: bytes) -> bytes:
    """A length-prefixed string."""
    return struct.pack(">I", len(data)) + data


def saying(data: bytes) -> Answer:
    """Answer with these bytes."""
    return lambda connection: connection.sendall(data)


def signature(key: PrivateKey, algorithm: bytes = b"ssh-ed25519", message: bytes = b"message") -> bytes:
    """An agent's answer with a signature."""
    raw = key._key.sign(message)
    return string(bytes([14]) + string(string(algorithm) + string(raw)))


@pytest.fixture
def false_agent(tmp_path) -> Iterator[Callable[[Answer], str]]:
    """Start a server that reads one request and answers as it is told."""
    done = threading.Event()
    threads: list[threading.Thread] = []

    def start(answer: Answer) -> str:
        path = str(tmp_path / "false")
        server = socket.socket(socket.AF_UNIX)
        server.bind(path)
        server.listen()

        def serve() -> None:
            with server:
                connection, _ = server.accept()
                with connection:
                    connection.recv(4096)
                    answer(connection)
                    if answer is hang:
                        done.wait(10)

        threads.append(threading.Thread(target=serve))
        threads[-1].start()
        return path

    yield start
    done.set()
    for thread in threads:
        thread.join()


def hang(_connection: socket.socket) -> None:
    """Say nothing, and keep the connection."""


GARBAGE = {
    "closes": b"",
    "closes in the length": b"\0\0",
    "closes in the answer": b"\0\0\0\x09\x0c",
    "too long": b"\xff\xff\xff\xff",
    "nothing": b"\0\0\0\0",
    "failure": string(b"\x05"),
    "another answer": string(b"\x63hello"),
    "text": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "cut identity": string(b"\x0c" + struct.pack(">I", 1) + b"\0\0\0\x33short"),
    "cut length": string(b"\x0c" + struct.pack(">I", 1) + b"\0\0"),
    "cut blob": string(b"\x0c" + struct.pack(">I", 1) + string(b"\0\0\0\xff") + string(b"")),
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE)
def test_garbage_is_a_clear_error(false_agent, data):
    """An agent that closes, refuses or answers with garbage is told to be so, when it lists and when it signs."""
    with pytest.raises(SigningKeyError, match="ssh-agent"):
        agent_keys(false_agent(saying(data)), SECONDS)


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE)
def test_garbage_instead_of_a_signature_is_a_clear_error(false_agent, data):
    """The same when it should sign."""
    with pytest.raises(SigningKeyError, match="ssh-agent"):
        AgentKey(false_agent(saying(data)), KEY.public, "", SECONDS).sign(b"message")


def test_an_agent_that_hangs_is_given_up(false_agent):
    """An agent that does not answer in time is given up, and the message says so."""
    path = false_agent(hang)
    started = time.monotonic()

    with pytest.raises(SigningKeyError, match="timed out"):
        agent_keys(path, SECONDS)
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (signature(KEY), None),
        (signature(PrivateKey.from_seed(bytes(32))), "is not by key"),
        (signature(KEY, message=b"another"), "is not by key"),
        (signature(KEY, algorithm=b"ssh-rsa"), "another kind"),
        (string(bytes([14]) + string(string(b"ssh-ed25519") + string(b"short"))), "another kind"),
        (string(bytes([14]) + string(b"")), "another kind"),
        (string(bytes([14])), "another kind"),
    ],
)
def test_an_agents_signature_is_checked(false_agent, answer, complaint):
    """A signature is used only if it is the asked key's, on the asked message."""
    key = AgentKey(false_agent(saying(answer)), KEY.public, "", SECONDS)
    if complaint is None:
        assert key.public.verifies(b"message", key.sign(b"message"))
    else:
        with pytest.raises(SigningKeyError, match=complaint):
            key.sign(b"message")


def test_keys_of_the_wrong_length_are_passed_over(false_agent):
    """An identity that calls itself Ed25519 with another length is not one; a sound one beside it is listed."""
    odd = string(string(b"ssh-ed25519") + string(b"short")) + string(b"odd")
    empty = string(b"") + string(b"empty")
    sound = string(string(b"ssh-ed25519") + string(KEY.public.raw)) + string(b"\xff sound")
    path = false_agent(saying(string(b"\x0c" + struct.pack(">I", 3) + odd + empty + sound)))

    assert [(key.public, key.comment) for key in agent_keys(path, SECONDS)] == [(KEY.public, "\ufffd sound")]
