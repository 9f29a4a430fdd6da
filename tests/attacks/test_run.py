"""Attacks by whoever writes requests, and by commands on whoever looks at them afterwards."""

import asyncio
import contextlib
import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.acceptance.test_embedded import asking, verdict
from tests.unit.policy.conftest import open_policy
from tipstaff.errors import TipstaffError
from tipstaff.home import Home
from tipstaff.isolation import places
from tipstaff.local.embedded import open_local
from tipstaff.local.policies import choose_policy
from tipstaff.session import Outside

TIPSTAFF = str(Path(sys.executable).with_name("tipstaff"))


@pytest.fixture
def home(tmp_path) -> Home:
    """A home of its own for each test."""
    return Home(tmp_path / "home")


@pytest.fixture
async def local(home):
    """That home, opened under the shipped default."""
    async with open_local(home, choose_policy(home, None, {})) as opened:
        yield opened


def executing(**fields):
    """Ask for `id`, with other fields of its execution."""
    request = asking("id")
    return request | {"execution": request["execution"] | fields}


def granting(**files):
    """Ask for `id` with files of the host."""
    return asking("id", files=files)


HOSTILE = {
    "folder above": executing(cwd="../.."),
    "folder absolute": executing(cwd="/etc"),
    "folder by descriptor": executing(cwd="/proc/self/fd/3"),
    "folder with NUL": executing(cwd="a\0b"),
    "name with equals": executing(env={"vars": {"A=B": "1"}}),
    "name with newline": executing(env={"vars": {"A\nB": "1"}}),
    "name empty": executing(env={"vars": {"": "1"}}),
    "value with NUL": executing(env={"vars": {"A": "x\0y"}}),
    "loader": executing(env={"vars": {"LD_PRELOAD": "/x"}}),
    "shell start": executing(env={"vars": {"BASH_ENV": "/x"}}),
    "shell function": executing(env={"vars": {"BASH_FUNC_id%%": "() { echo x; }"}}),
    "path": executing(env={"vars": {"PATH": "/x"}}),
    "separator": executing(env={"vars": {"IFS": "/"}}),
    "inherit everything": executing(env={"inherit": ["*"]}),
    "inherit a secret": executing(env={"inherit": ["AWS_SECRET_ACCESS_KEY"]}),
    "argument with NUL": executing(args=["a\0b"]),
    "argument that is no text": executing(args=["\udcff"]),
    "no command": executing(command=""),
    "workspace relative": granting(workspace="work"),
    "workspace with dots": granting(workspace="/tmp/../root"),  # noqa: S108 - a name to refuse
    "workspace by descriptor": granting(workspace="/proc/self/fd/3"),
    "workspace by process": granting(workspace="/proc/self/cwd"),
    "workspace with NUL": granting(workspace="/srv\0"),
    "everything": granting(workspace="/"),
    "everything twice": granting(workspace="//"),
    "services": granting(readable=["/run"]),
    "services by link": granting(readable=["/var/run"]),
    "devices": granting(readable=["/dev/sda"]),
    "kernel": granting(readable=["/sys/kernel"]),
    "programs": granting(readable=["/usr"]),
    "in place of nothing": granting(inPlace=True),
    "open network": asking("id", network={"defaultDeny": False}),
    "no sandbox": asking("id", isolation="none"),
    "no limit": asking("id", limits={"memoryBytes": 0}),
    "negative limit": asking("id", limits={"pids": -1}),
    "half a limit": asking("id", limits={"pids": 1.5}),
    "endless limit": asking("id", limits={"memoryBytes": 1 << 70}),
    "unknown field": asking("id", frobnicate=1),
    "unknown kind": asking("id") | {"execution": {"kind": "exec", "command": "id"}},
    "escapes for a name": asking("id") | {"requestedBy": {"kind": "human", "id": "\x1b]0;x\x07"}},
    "nobody": asking("id") | {"requestedBy": {"kind": "human", "id": ""}},
    "root for a kind": asking("id") | {"requestedBy": {"kind": "root", "id": "x"}},
    "not an object": [],
    "nothing": None,
}


@pytest.mark.anyio
async def test_hostile_requests_never_run(local, tmp_path):
    """No request that plays with names, paths, variables or limits is run, whatever is said of it; a plain one is."""
    ran, raised = [], 0
    for name, request in HOSTILE.items():
        try:
            outcome = await local.run(request)
        except TipstaffError:
            raised += 1
            continue
        if outcome.ending not in {"refused", "setup-failed"} or outcome.stdout:
            ran.append(name)

    assert (ran, raised > 0) == ([], True)
    (tmp_path / "work").mkdir()
    assert (await local.run(granting(workspace=str(tmp_path / "work")))).ok


@pytest.mark.anyio
async def test_the_homes_own_places_are_no_grant(local, home):
    """Neither keys nor records nor what spawners keep, nor anything above them, can be granted in any way."""
    (home.root / "beside").mkdir()
    scratch, state = places.scratch_folder(), places.state_folder(os.environ)
    wanted = [
        str(home.root),
        str(home.keys),
        str(home.root / "beside"),
        scratch,
        f"{scratch}/x",
        state,
        f"{state}/owners",
    ]

    for path in (*wanted, str(Path(scratch).parent)):
        for files in ({"workspace": path}, {"workspace": path, "inPlace": True}, {"readable": [path]}):
            outcome = await local.run(granting(**files))
            assert (outcome.ending, "protected" in outcome.reasons[0]) == ("refused", True), path

    neighbour = home.root.parent / "neighbour"
    neighbour.mkdir()
    assert (await local.run(granting(workspace=str(neighbour), readable=[]))).ok


@pytest.mark.anyio
async def test_a_restricted_program_stays_restricted_by_any_name(home):
    """A restricted program is refused by its name, its path, a longer path and from a script; its neighbour runs."""
    policy = open_policy(
        restricted={"names": ["id"], "mask": True}, tiers={"tolerate": {"memory": "weaker", "cpu": "unenforceable"}}
    )
    tricks = [
        asking("id"),
        asking("/usr/bin/id"),
        asking("/usr/bin/../bin/id"),
        asking("../usr/bin/id"),
        asking("/proc/self/root/usr/bin/id"),
        asking("env", "id"),
        asking("sh", "-c", "i'd'; /bin/id; exec /usr/bin/i?; cp /usr/bin/id x && ./x"),
        asking("python3", "-c", "import os; os.execv('/usr/bin/id', ['whoami'])"),
    ]
    async with open_local(home, policy) as local:
        outcomes = [await local.run(request) for request in tricks]
        neighbour = await local.run(asking("whoami"))

    assert [outcome.stdout for outcome in outcomes] == [b""] * len(tricks)
    assert neighbour.ok


LATE = (
    "trap '' TERM HUP INT; "
    "(setsid sh -c 'trap \"\" TERM; (while :; do echo x >> late; sleep 0.02; done) & sleep 60' &) ; "
    "(sh -c 'kill -STOP $$; echo x >> late' &); sleep 60"
)


@pytest.mark.anyio
@pytest.mark.parametrize("how", ["time", "cancel", "output"])
async def test_nothing_is_written_after_the_end(local, tmp_path, how):
    """However a run is ended, processes that left, ignore signals or were stopped write nothing after its receipt."""
    work = tmp_path / "work"
    work.mkdir()
    cancel = asyncio.Event()
    script = {"output": f"(while :; do echo yyyyyyyy; sleep 0.01; done) & {LATE}"}.get(how, LATE)
    request = asking("sh", "-c", script, files={"workspace": str(work), "inPlace": True}, limits={"timeMs": 1500})
    if how == "output":
        request["execution"]["log"]["maxBytes"] = 500
    running = asyncio.create_task(local.run(request, outside=Outside(cancel=cancel)))
    if how == "cancel":
        await asyncio.sleep(1)
        cancel.set()

    outcome = await running
    size = (work / "late").stat().st_size
    await asyncio.sleep(0.5)

    assert outcome.ending == {"time": "timed-out", "cancel": "cancelled", "output": "output-limit"}[how]
    assert (work / "late").stat().st_size == size > 0
    assert verdict(local, outcome.run_id).verdict == "valid"


@pytest.mark.anyio
async def test_a_fork_bomb_takes_nobody_with_it(local):
    """While a fork bomb goes off in one run, another one beside it ends well, and the bomb ends with its time."""
    bomb = asking("sh", "-c", "b() { b | b & }; b; sleep 60", limits={"pids": 32, "timeMs": 2500})
    burning = asyncio.create_task(local.run(bomb))
    await asyncio.sleep(0.7)

    beside = await local.run(asking("echo", "still here"))

    assert beside.stdout == b"still here\n"
    assert (await burning).ending in {"timed-out", "exited"}


@pytest.mark.anyio
@pytest.mark.timeout(100)
async def test_three_hundred_runs_at_once_are_all_proved(local):
    """Three hundred runs asked for at once, every tenth of them hostile, all end as they should, each with a proof."""
    requests = [
        asking("sh", "-c", "kill -9 -1; kill -9 $$") if n % 10 == 9 else asking("echo", str(n)) for n in range(300)
    ]

    outcomes = await asyncio.gather(*(local.run(request) for request in requests))

    assert len({outcome.run_id for outcome in outcomes}) == 300
    for number, outcome in enumerate(outcomes):
        expected = b"" if number % 10 == 9 else f"{number}\n".encode()
        assert (outcome.stdout, outcome.ok) == (expected, number % 10 != 9)
    assert {verdict(local, outcome.run_id).verdict for outcome in outcomes[::20]} == {"valid"}


# --- whoever looks ----------------------------------------------------------------------------------------------------

TRICK = "a\x1b]0;owned\x07b\x1b]52;c;aGk=\x07\x1b[2J\x1b[21t\x9b6n\u202egpj\u200b\x1bP+q\x1b\\\r\x1b[8mhidden"
COLOUR = re.compile(rb"\x1b\[[0-9;:]*[mK]")


class Person:
    """Somebody at a terminal, with a home of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = {
            "TIPSTAFF_HOME": str(folder / "home"),
            "HOME": str(folder),
            "PATH": "/usr/bin:/bin",
            "TERM": "xterm",
        }

    def sees(self, *words: str, typing: bytes = b"") -> bytes:
        """Give what a terminal is sent by one command."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [TIPSTAFF, *words], stdin=theirs, stdout=theirs, stderr=theirs, env=self.environ, cwd=self.folder,
            start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        seen = bytearray()
        try:
            while chunk := _read(ours):
                seen += chunk
                if typing and b"Enter:" in seen:
                    time.sleep(0.3)  # what is typed before the question stands is thrown away
                    os.write(ours, typing)
                    typing = b""
            process.wait(10)
        finally:
            process.kill()
            os.close(ours)
        return bytes(seen)


def _read(terminal: int) -> bytes:
    """Read what there is; nothing when the other side is gone, or silent for too long."""
    try:
        return os.read(terminal, 65536) if select.select([terminal], [], [], 20)[0] else b""
    except OSError:
        return b""


@pytest.fixture
def person(tmp_path) -> Person:
    """Somebody at a terminal."""
    return Person(tmp_path)


def obeyed(seen: bytes) -> list[bytes]:
    """List what a terminal would do, beyond writing text in colours."""
    text = COLOUR.sub(b"", seen).decode(errors="replace")
    return [char.encode() for char in text if not (char.isprintable() or char in "\r\n\t")]


ASKING = """
version: tipstaff.policy.v1
name: asking
principals: [{id: "*"}]
rules:
  - {id: look, effect: ask, when: any, reason: somebody looks first, approvals: {approvers: ["*"]}}
tiers: {tolerate: {memory: weaker, cpu: unenforceable}}
"""


def test_a_question_cannot_be_dressed_up(person):
    """What a person is asked shows every trick in the command as text, and only a typed yes lets it run."""
    (person.folder / "policy.yaml").write_text(ASKING)
    words = ("run", "--as", "agent:bot", "--policy", "policy.yaml")

    denied = person.sees(*words, "--purpose", TRICK, "--", "echo", TRICK, typing=b"n\n")
    allowed = person.sees(*words, "--", "echo", "ran", typing=b"y\n")

    question = denied.partition(b"Enter:")[0]
    assert b"\\x1b]0;owned" in question
    assert obeyed(question) == []
    assert b"\nran\r\n" in allowed.partition(b"Enter:")[2]


def test_no_trick_in_a_command_is_obeyed_by_who_looks_later(person, tmp_path):
    """History, the account of a run, why, its log and mistakes at the command line show tricks as text only."""
    (tmp_path / TRICK.replace("/", "-")).mkdir()
    script = "printf '%s' \"$1\"; printf '%s' \"$1\" >&2; exit 3"
    first = person.sees("run", "--purpose", TRICK, "--as", "agent:bot", "--", "sh", "-c", script, "sh", TRICK)
    run = re.findall(rb"run_[0-9a-f-]{36}", first)[0].decode()
    looks = [
        ("history",),
        ("show", run),
        ("why", run),
        ("show", TRICK),
        ("run", "--workspace", TRICK, "--", "true", TRICK),
        ("run", "--read", f"/nowhere/{TRICK}", "--", "true"),
        ("run", "--env", TRICK, "--", "true"),
        ("run", "--tier", TRICK, "--", "true"),
        ("run", f"--{TRICK}", "--", "true"),
        ("bundle", f"../{TRICK}"),
        (TRICK,),
    ]

    for words in looks:
        seen = person.sees(*words)
        assert obeyed(seen) == [], words
        assert seen.strip()
    for printed in (first, person.sees("log", run)):  # what a command printed may ring, and its text may turn
        assert b"owned" in printed
        assert not re.search("[\x1b\x80-\x9f]", COLOUR.sub(b"", printed).decode())


@pytest.mark.parametrize("command", ["show", "log", "why", "bundle", "approve", "deny"])
@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "run_../../x", "/etc/passwd", "%2e%2e%2f", "run_\n", "", "*", "' OR 1=1 --"]
)
def test_the_name_of_a_run_is_only_a_name(person, command, name):
    """No path, pattern or statement in the place of a run's name leads to anything."""
    ended = subprocess.run(
        [TIPSTAFF, command, name], stdin=subprocess.DEVNULL, env=person.environ, cwd=person.folder, capture_output=True,
        timeout=60, check=False,
    )  # fmt: skip

    assert (ended.returncode != 0, ended.stdout) == (True, b"")
    assert b"Traceback" not in ended.stderr
    assert b"root:" not in ended.stderr


def test_a_proof_is_not_written_through_a_link(person):
    """A command that works in place cannot lead the bundle that is written beside it to another file."""
    work, victim = person.folder / "work", person.folder / "victim"
    work.mkdir()
    victim.write_text("precious")
    script = f"for f in .b.json.*; do rm -f $f; ln -s {victim} $f; done"

    for what in ("true", script):
        subprocess.run(
            [TIPSTAFF, "run", "--workspace", "work", "--in-place", "--bundle", "work/b.json", "--shell", what],
            env=person.environ, cwd=person.folder, capture_output=True, timeout=60, check=True,
        )  # fmt: skip
        assert (work / "b.json").stat().st_size > 1000
        assert victim.read_text() == "precious"
        with contextlib.suppress(FileNotFoundError):
            (work / "b.json").unlink()
