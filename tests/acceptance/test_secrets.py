"""Secrets in real runs: given to the command, or put into its requests without ever being inside."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.outing import Outing, Went
from tests.acceptance.web import HOST, Web, basic

VALUE = "ghp_Real0Value1Real2Value3Real4Value5Re"
ENV = "example-4d0c1b7a9e5f"
Go = Callable[..., Went]


@pytest.fixture(scope="module", autouse=True)
def supplied(outing: Outing, web: Web) -> None:
    """Have secrets in the store, and a web that knows one of them."""
    web.credential = f"Bearer {VALUE}"
    for name, value in (("TOKEN", VALUE), ("GIVEN", ENV)):
        assert outing.run("secrets", "set", name, stdin=value.encode()).returncode == 0


@pytest.fixture(autouse=True)
def forgetful(web) -> None:
    """Have the web forget what was asked before."""
    web.asked.clear()


def injecting(outing: Outing, web: Web, **lease: object) -> str:
    """Write a policy that puts TOKEN into requests to the web, and gives GIVEN to the command."""
    hosts = [
        {"host": host, "addresses": ["127.0.0.1"], "ports": [web.https, web.http]} for host in (HOST, "other.example")
    ]
    token = {"name": "TOKEN", "way": "inject", "header": "Authorization", "hosts": [HOST]}
    return outing.policy(network={"hosts": hosts}, secrets=[token | lease, {"name": "GIVEN"}])


@pytest.fixture
def go(outing: Outing, web: Web) -> Go:
    """Run a script with TOKEN; its first argument is the place of the web."""

    def go(script: str, *more: str, **lease: object) -> Went:
        return outing.go(
            "--policy", injecting(outing, web, **lease), "--secret", "TOKEN",
            "--allow-host", web.flag(), "--allow-host", web.flag(port=web.http),
            "--allow-host", web.flag("inspect", host="other.example"),
            "--", "sh", "-c", script, "sh", web.url(""), *more,
        )  # fmt: skip

    return go


def test_a_secret_that_is_given_is_seen_by_the_command_and_by_nobody_else(outing):
    """The command has the value in its variable; what it prints of it is taken out, and the receipt says so."""
    went = outing.go("--secret", "GIVEN", "--", "sh", "-c", 'echo "${#GIVEN} $GIVEN"; echo "$GIVEN" >&2')

    assert went.text == f"{len(ENV)} [REDACTED:GIVEN]"
    assert went.said.startswith("[REDACTED:GIVEN]\n")
    assert went.leaks == [("GIVEN", "stderr"), ("GIVEN", "stdout")]
    assert {"type": "secret.released", "name": "GIVEN", "scope": "session"} in went.events
    assert outing.go("--", "sh", "-c", 'echo "<$GIVEN>"').text == "<>"


def test_a_secret_that_is_injected_authenticates(go, web):
    """The command sends a placeholder that looks like the vendor's key, and the server gets the value."""
    went = go('echo "$TOKEN"; curl -s -H "Authorization: Bearer $TOKEN" "$1/private"')

    placeholder, answer = went.text.split("\n")
    assert (placeholder[:4], len(placeholder), answer) == ("ghp_", len(VALUE), "welcome")
    assert placeholder != VALUE
    assert [asked.headers["authorization"] for asked in web.asked] == [f"Bearer {VALUE}"]
    assert went.leaks == []
    assert [(tried["depth"], tried["decision"]) for tried in went.attempts] == [("inspected", "allowed")]


def test_a_request_without_a_placeholder_is_not_touched(go, web):
    """What the command sends of its own goes out as it is, and nothing is added to it."""
    went = go('curl -s -H "Authorization: Bearer mine" "$1/private"; curl -s "$1/private"')

    assert went.text.split("\n") == ["who are you?"] * 2
    assert [asked.headers.get("authorization") for asked in web.asked] == ["Bearer mine", None]


@pytest.mark.parametrize(("login", "sent"), [("user:$TOKEN", ("user", VALUE)), ("$TOKEN:", (VALUE, ""))])
def test_a_login_is_taken_apart(go, web, login, sent):
    """In a login of Basic the placeholder stands for the password or for the user, and is put in anew."""
    web.credential, before = basic(*sent), web.credential
    went = go(f'curl -s -u "{login}" "$1/private"')
    web.credential = before

    assert went.text == "welcome"


def test_git_logs_in(go, web):
    """A program that makes a login of its own from the variable is served, too."""
    (web.files / "info").mkdir(exist_ok=True)
    went = go('git -c http.extraHeader="Authorization: Bearer $TOKEN" ls-remote "$1/private"; true')

    assert web.asked, went.said
    assert {asked.headers["authorization"] for asked in web.asked} == {f"Bearer {VALUE}"}


ASTRAY = {
    "another host": 'curl -s -H "Authorization: Bearer $TOKEN" "$2/private"',
    "plain HTTP": 'curl -s -H "Authorization: Bearer $TOKEN" "$3/private"',
    "another header": 'curl -s -H "X-Api-Key: $TOKEN" "$1/private"',
    "a cookie": 'curl -s -H "Cookie: a=$TOKEN" "$1/private"',
    "the query": 'curl -s "$1/private?token=$TOKEN"',
    "the path": 'curl -s "$1/$TOKEN"',
    "the path, encoded": 'curl -s "$1/$(printf %s "$TOKEN" | sed "s/_/%5F/")"',
    "a body": 'curl -s -d "token=$TOKEN" "$1/private"',
    "a body in chunks": 'printf "a%s" "$TOKEN" | curl -s -T - -X POST "$1/private"',
    "a body, base64": 'printf %s "x$TOKEN" | base64 -w0 | curl -s --data-binary @- "$1/private"',
    "a header, base64": 'curl -s -H "X-Key: $(printf %s "$TOKEN" | base64 -w0)" "$1/private"',
    "a header, hex": 'curl -s -H "X-Key: $(printf %s "$TOKEN" | od -An -tx1 -v | tr -d " \\n")" "$1/private"',
    "a header's name": 'curl -s -H "$TOKEN: x" "$1/private"',
    "twice": 'curl -s -H "Authorization: Bearer $TOKEN" -H "Authorization: Bearer $TOKEN" "$1/private"',
    "both places": 'curl -s -H "Authorization: Bearer $TOKEN" "$1/private?again=$TOKEN"',
}


@pytest.mark.parametrize("place", ASTRAY)
def test_a_placeholder_astray_goes_nowhere(go, web, place):
    """In another place or for another host a placeholder stops its request, which is told; nothing of it arrives."""
    went = go(f'echo "$TOKEN"; {ASTRAY[place]}', web.url("", host="other.example"), web.plain_url(""))

    placeholder, _, answer = went.text.partition("\n")
    assert "blocked by tipstaff egress policy" in answer
    assert "TOKEN" in went.said
    assert not web.seen(placeholder)
    assert not web.seen(VALUE)
    (tried,) = went.attempts
    assert tried["reason"]
    assert (tried["decision"] == "blocked") is (tried["bytesOut"] == 0)
    assert VALUE not in json.dumps(went.bundle)


ASK = """
ask() { curl -s --path-as-is -o /dev/null -w '%{http_code}\\n' -H "Authorization: Bearer $TOKEN" "$@"; }
place=$1/private
"""


@pytest.mark.parametrize(
    ("lease", "script", "codes"),
    [
        ({"uses": 2}, "ask $place; ask $place; ask $place", "200 200 403"),
        ({"ttl": "5s"}, "ask $place; sleep 6; ask $place", "200 403"),
        ({"methods": ["GET"]}, "ask $place; ask -X DELETE $place", "200 403"),
        (
            {"paths": ["/private*"]},
            "ask $place; ask $1/hello; ask $place/../hello; ask $place%2f..%2fa",
            "200 403 403 403",
        ),
    ],
)
def test_a_lease_holds(go, web, lease, script, codes):
    """A secret goes out as often, as long, by the methods and to the paths that its lease has, and not once more."""
    went = go(ASK + script, **lease)

    assert went.text.split() == codes.split()
    assert "the secret TOKEN" in went.said
    assert len(web.asked) == codes.split().count("200")


def test_an_echo_is_masked_and_told(go):
    """A server that gives the value back gives it to nobody: it is masked in head and body, and the receipt says so."""
    went = go('echo "$TOKEN"; curl -si -H "Authorization: Bearer $TOKEN" "$1/echo"')

    assert VALUE not in went.text
    assert went.text.count("*" * len(VALUE)) == 2
    assert went.leaks == [("TOKEN", "egress")]


# Asks for a page with the placeholder, and says whether what came holds a text of that digest, however it is spelled.
SEEN = """
import base64, binascii, gzip, hashlib, subprocess, sys
place, placeholder, wanted = sys.argv[1:]
command = ["curl", "-si", "--suppress-connect-headers", "-H", f"Authorization: Bearer {placeholder}", place]
said = subprocess.run(command, stdout=-1).stdout
head, _, body = said.partition(b"\\r\\n\\r\\n")
def spelled():
    yield from (said, body[::-1])
    if body.startswith(b"\\x1f\\x8b"):
        yield gzip.decompress(body)
    for line in body.split(b"\\n"):
        for read in (base64.b64decode, binascii.unhexlify):
            try:
                yield read(line)
            except binascii.Error:
                pass
size = len(placeholder)
found = [text[start : start + size] for text in spelled() for start in range(len(text) - size + 1)]
print(wanted in [hashlib.sha256(one).hexdigest() for one in found], b"*" in said, head.split()[1].decode())
"""


@pytest.mark.parametrize("page", ["echo", "chunks", "encoded", "packed", "status"])
def test_an_echo_in_any_form_does_not_get_inside(go, page):
    """In chunks of a byte, in other spellings, compressed or in the status line: the value does not come back."""
    wanted = hashlib.sha256(VALUE.encode()).hexdigest()
    went = go(f'python3 -c "$2" "$1/{page}" "$TOKEN" {wanted}', SEEN)

    found, masked, code = went.text.split()
    assert found == "False"
    assert (masked, code) == (("False", "502") if page == "packed" else ("True", "103" if page == "status" else "200"))
    assert went.leaks == ([] if page == "packed" else [("TOKEN", "egress")])


def test_an_echo_that_comes_later_is_masked_too(go):
    """What a host was sent once it may give back at any time: answers to requests without a secret are masked, too."""
    digest = "sha256sum | cut -d' ' -f1"
    went = go(
        f'curl -s -H "Authorization: Bearer $TOKEN" "$1/private"; curl -s "$1/last" | head -1 | tr -d "\\n" | {digest}'
    )

    welcome, found = went.text.split()
    assert welcome == "welcome"
    assert found != hashlib.sha256(f"Bearer {VALUE}".encode()).hexdigest()
    assert found == hashlib.sha256(b"Bearer " + b"*" * len(VALUE)).hexdigest()


def test_an_injected_secret_needs_its_host(outing, web):
    """A run that asks for an injected secret and not for its host is refused, with the reason."""
    ended = outing.run("run", "--policy", injecting(outing, web), "--secret", "TOKEN", "--", "true")

    assert ended.returncode == 126
    assert b"`TOKEN` goes into requests to box.example, which this run does not ask to reach" in ended.stderr


@pytest.mark.parametrize("path", ["/nowhere/authorities.pem", "/dev/null"])
def test_without_authorities_no_secret_goes_out(outing, web, path):
    """Where servers cannot be verified nothing runs that would send a secret, and the file is named."""
    words = ["run", "--policy", injecting(outing, web), "--secret", "TOKEN", "--allow-host", web.flag()]
    ended = outing.run(*words, "--", "curl", "-s", web.url("/private"), SSL_CERT_FILE=path)

    assert ended.returncode == 125
    assert path.encode() in ended.stderr
    assert web.asked == []


def configured(folder: Path, source: object) -> dict[str, str]:
    """Make a home whose only secret has this source; gives the variables to use it."""
    home = folder / "home"
    home.mkdir(mode=0o700)
    (home / "secrets.yaml").write_text(json.dumps({"secrets": {"TOKEN": source}}))
    (home / "secrets.yaml").chmod(0o600)
    return {"TIPSTAFF_HOME": str(home)}


HANGING = 'trap "" TERM; echo started >&2; sleep 300'
SOURCES = {
    "hanging": ({"exec": ["sh", "-c", HANGING], "seconds": 1}, " 1 s"),
    "failing": ({"exec": ["sh", "-c", "echo no vault >&2; exit 3"]}, "no vault"),
    "garbage": ({"exec": ["echo", "not JSON"]}, "JSON"),
    "missing program": ({"exec": ["/nowhere/program"]}, "/nowhere/program"),
    "missing file": ({"file": "/nowhere/token"}, "/nowhere/token"),
    "missing variable": ({"environment": "NOWHERE_SET"}, "NOWHERE_SET is not set"),
    "short": ({"exec": ["echo", '{"value": "short"}']}, "shorter than 8 bytes"),
}


@pytest.mark.parametrize("source", SOURCES)
def test_a_source_that_fails_releases_nothing(outing, tmp_path, source):
    """A program that hangs or prints garbage, a file or variable that is not there: a sentence, and nothing runs."""
    spelled, words = SOURCES[source]
    home = configured(tmp_path, spelled)
    ended = outing.run("run", "--bundle", tmp_path / "b.json", "--secret", "TOKEN", "--", "touch", "ran", **home)

    assert ended.returncode == 126
    assert words in ended.stderr.decode()
    assert b"the secret TOKEN cannot be given" in ended.stderr
    assert "secret.released" not in (tmp_path / "b.json").read_text()
    working = {"exec": ["echo", '{"value": "example-77aa88bb"}']}
    (tmp_path / "home" / "secrets.yaml").write_text(json.dumps({"secrets": {"TOKEN": working}}))
    assert outing.run("run", "--secret", "TOKEN", "--", "true", **home).returncode == 0


@pytest.mark.parametrize("damage", ["flipped", "cut", "emptied", "another key", "no key"])
def test_a_damaged_store_releases_nothing(outing, tmp_path, damage):
    """A store that was changed, or whose key is not the one, gives nothing; the run is refused with a sentence."""
    home = {"TIPSTAFF_HOME": str(tmp_path / "home")}
    assert outing.run("secrets", "set", "TOKEN", stdin=VALUE.encode(), **home).returncode == 0
    assert outing.run("run", "--secret", "TOKEN", "--", "true", **home).returncode == 0
    store, key = _store(tmp_path / "home")
    data = store.read_bytes()
    if damage == "no key":
        key.unlink()
    elif damage == "another key":
        key.write_bytes(_another(key, outing, tmp_path))
    else:
        middle = len(data) // 2
        flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        store.write_bytes({"flipped": flipped, "cut": data[:middle], "emptied": b""}[damage])
    ended = outing.run("run", "--bundle", tmp_path / "b.json", "--secret", "TOKEN", "--", "true", **home)

    assert ended.returncode == 126, ended.stderr
    assert b"secrets." in ended.stderr
    assert b"Traceback" not in ended.stderr
    assert "secret.released" not in (tmp_path / "b.json").read_text()


def _store(home: Path) -> tuple[Path, Path]:
    """Find the files of the store: what is sealed, and the key."""
    found = sorted(path for path in home.iterdir() if path.name.startswith("secrets") and path.is_file())
    key = next(path for path in found if "key" in path.name)
    return next(path for path in found if path != key and "lock" not in path.name), key


def _another(key: Path, outing: Outing, folder: Path) -> bytes:
    outing.run("secrets", "set", "A", stdin=VALUE.encode(), TIPSTAFF_HOME=str(folder / "other"))
    return (folder / "other" / key.name).read_bytes()
