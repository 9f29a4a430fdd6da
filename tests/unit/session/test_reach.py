"""The way out of one run: what its plan is told, when the gate is made, and what is written down."""

import asyncio
import socket
import subprocess
import sys
from typing import Any

import pytest

from tipstaff.errors import NotFoundError, UsageError
from tipstaff.session.held import Held
from tipstaff.session.reach import CLOSED, USUAL, Reach, usual_way

pytestmark = pytest.mark.anyio
NOTHING = Held({}, {}, bytes)


def contract(tier="bwrap", hosts=(), **more):
    """Write as much of a contract as a way out looks at."""
    rules = [{"host": host, "rule": "r"} if isinstance(host, str) else host for host in hosts]
    return {
        "tier": tier,
        "network": {"defaultDeny": True, "allowHosts": [rule["host"] for rule in rules]},
        "egress": {"rules": rules},
        "limits": {"timeMs": 1000},
        **more,
    }


@pytest.mark.parametrize(
    ("written", "way"),
    [
        (contract(), USUAL),
        (contract(hosts=["a.example"]), USUAL),
        (contract(hosts=[{"host": "a.example", "inspect": True}]), None),
        (contract(hosts=[{"host": "a.example", "paths": ["/x"]}]), None),
        (contract(execution={"env": {"egressProxy": False}}), CLOSED),
        (contract("process"), CLOSED),
        (contract("process", ["a.example"]), None),
        (contract("process", network={"defaultDeny": False, "allowHosts": []}), None),
    ],
)
def test_a_way_out_is_known_ahead_unless_it_is_the_sessions_own(written, way):
    """Every run in a network of its own has a gate; what is made for one session alone cannot be known before."""
    assert usual_way(written) == way


async def test_the_process_tier_gets_a_gate_behind_a_password():
    """On the host's loopback the gate has a password, which only the command's variables hold."""
    first, second = (Reach(contract("process", ["a.example"]), NOTHING, {}, print) for _ in range(2))

    assert first.way.on_trust
    assert first.way.port != second.way.port
    assert f"@127.0.0.1:{first.way.port}" in first.way.environ["https_proxy"]
    assert first.way.environ["https_proxy"] != second.way.environ["https_proxy"]
    for one in (first, second):
        await one.close()


def test_an_inspected_run_has_an_authority_of_its_own(tmp_path):
    """The sandbox is told to trust the host's authorities and one that no other run has; without any it is refused."""
    written = contract(hosts=[{"host": "a.example", "inspect": True}])
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    environ = {"SSL_CERT_FILE": str(bundle)}
    ways = [Reach(written, NOTHING, environ, print).way for _ in range(2)]

    assert ways[0].environ["SSL_CERT_FILE"] == ways[0].files[0][0]
    assert ways[0].files[0][1] != ways[1].files[0][1]
    assert all("AAAA" in way.files[0][1] for way in ways)
    with pytest.raises(NotFoundError, match="cannot be read"):
        Reach(written, NOTHING, {"SSL_CERT_FILE": "/nowhere"}, print)


@pytest.mark.parametrize(("hosts", "refused"), [(["a.example"], True), ([], False)])
def test_a_proxy_that_cannot_be_spoken_to_is_told_before_the_run(hosts, refused):
    """A run that may reach hosts does not start where the machine's own proxy cannot be used; others do not mind."""
    environ = {"https_proxy": "socks5://proxy.example:1080"}
    if refused:
        with pytest.raises(UsageError, match="https_proxy"):
            Reach(contract(hosts=hosts), NOTHING, environ, print)
    else:
        assert Reach(contract(hosts=hosts), NOTHING, environ, print).way == USUAL


@pytest.fixture
async def door():
    """A reach that is open, its port, and what it wrote down."""
    told: list[dict[str, Any]] = []
    made = Reach(contract(hosts=["a.example"]), NOTHING, {}, told.append)
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0)
    made.listen(listener)
    yield made, listener.getsockname()[1], told
    await made.close()


async def test_the_gate_answers_the_first_who_knocks(door):
    """A refused attempt is answered, written down, and says what would allow it."""
    made, port, told = door
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"CONNECT b.example:443 HTTP/1.1\r\nHost: b.example:443\r\n\r\n")
    answer = await reader.read()
    writer.close()
    await asyncio.sleep(0.05)

    assert answer.startswith(b"HTTP/1.1 403 ")
    assert [(said["host"], said["port"], said["decision"]) for said in told] == [("b.example", 443, "blocked")]
    assert made.refusals == ("b.example:443: no rule allows b.example:443; to allow it: --allow-host b.example:443",)


async def test_a_run_that_reaches_nothing_makes_no_gate(door):
    """Until somebody knocks there is no gate, and closing leaves nothing open."""
    made, port, told = door
    assert made._gate is None
    await made.close()

    with socket.socket() as client:
        assert client.connect_ex(("127.0.0.1", port)) != 0
    assert told == []


def test_a_run_without_hosts_imports_no_gate():
    """Neither the gate nor TLS nor redaction is imported for a way out that nobody takes."""
    script = (
        "import sys; from tipstaff.session.reach import *; from tipstaff.session.held import Held\n"
        "contract = {'tier': 'bwrap', 'network': {'allowHosts': ['a']}, 'egress': {'rules': []}}\n"
        "Reach(contract, Held({}, {}, bytes), {}, print)\n"
        "ours = ('tipstaff.egress.', 'tipstaff.secrets')\n"
        "print(*sorted(name for name in sys.modules if name.startswith(ours)))"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, check=True)

    assert ended.stdout == b"tipstaff.egress.variables\n"
