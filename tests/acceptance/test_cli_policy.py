"""Claims about `tipstaff policy`, made with the real program: its words, its exit codes, its patience."""

import json
import os
import shutil
import subprocess
import sys

import pytest

POLICY = """\
version: tipstaff.policy.v1
name: team
principals:
  - id: builder # the build agent
rules:
  - id: read-the-repository
    effect: allow
    reason: reading is harmless
    when: {argv: [[git, [status, diff, log], "..."]]}
    match: [[git, status]]
    no_match: [[git, push]]
  - id: deploy
    effect: ask
    when: {argv: [[deploy]]}
    approvals: {approvers: [alice]}
"""


def request(command, *args, who="builder"):
    """A request to run one command line, as JSON."""
    execution = {"kind": "argv", "command": command, "args": list(args)}
    return json.dumps({"requestedBy": {"kind": "agent", "id": who}, "execution": execution})


def patched(folder, output):
    """Apply what `explain` printed, as people do."""
    program = ["patch", "-p0"] if shutil.which("patch") else ["git", "apply", "-p0"]
    subprocess.run(program, input=output.encode(), cwd=folder, check=True, capture_output=True)


@pytest.fixture
def tipstaff(tmp_path):
    """The real program, run in an empty folder that holds a policy."""
    (tmp_path / "policy.yaml").write_text(POLICY)

    def run(*args, stdin=""):
        data = stdin if isinstance(stdin, bytes) else stdin.encode()
        environment = os.environ | {"TIPSTAFF_HOME": str(tmp_path / "home"), "PYTHONUTF8": "1"}
        done = subprocess.run(
            [sys.executable, "-m", "tipstaff", "policy", *args],
            input=data, cwd=tmp_path, env=environment, capture_output=True, check=False,
        )  # fmt: skip
        assert b"Traceback" not in done.stderr
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    return run


def test_check_says_what_a_policy_means(tipstaff):
    """A sound policy is put in words and exits 0; a tier that cannot hold it exits 1."""
    code, out, _ = tipstaff("check", "policy.yaml")
    weak, said, _ = tipstaff("check", "policy.yaml", "--tier", "process", "--json")

    assert code == 0
    assert "  read-the-repository: whoever is named may run `git status|diff|log …`\n" in out
    assert "  disk: weaker, which the policy tolerates" in out
    assert weak == 1
    assert {one["clause"] for one in json.loads(said)["clauses"] if one["answer"] == "refused"} >= {"network", "memory"}


def test_check_names_the_place_of_a_fault(tipstaff, tmp_path):
    """A policy that does not load exits 65 and says where and what, in text and in JSON."""
    (tmp_path / "bad.yaml").write_text(POLICY.replace("effect: allow", "efect: allow"))

    code, _, err = tipstaff("check", "bad.yaml")
    json_code, out, _ = tipstaff("check", "bad.yaml", "--json")

    assert code == json_code == 65
    assert "bad.yaml:7:5: unknown key `efect`; did you mean `effect`?" in err
    assert "bad.yaml:7:5" in json.loads(out)["error"]["message"]


def test_shipped_policies_can_be_named(tipstaff):
    """A policy named `shipped:NAME` is like any other; a name that is not shipped is an error that lists them."""
    assert tipstaff("test", "shipped:local")[0] == 0
    code, _, err = tipstaff("check", "shipped:nothing")

    assert code == 66
    assert "local" in err


@pytest.mark.parametrize(
    ("asked", "code"), [(request("git", "status"), 0), (request("git", "push"), 1), (request("deploy"), 2)]
)
def test_explain_exits_by_the_decision(tipstaff, asked, code):
    """Allowed is 0, denied 1, asked 2; the decision in JSON says the same."""
    effect = ("allow", "deny", "ask")[code]

    assert tipstaff("explain", "policy.yaml", "-", stdin=asked)[0] == code
    json_code, out, _ = tipstaff("explain", "policy.yaml", "-", "--json", stdin=asked)
    assert json_code == code
    assert json.loads(out)["decision"]["effect"] == effect


def test_what_explain_prints_can_be_piped_into_patch(tipstaff, tmp_path):
    """The output of `explain` is a patch for `patch -p0`; after it the same request is allowed."""
    asked = request("ls", "-l", "a b", who="no: #1")
    code, out, _ = tipstaff("explain", "policy.yaml", "-", stdin=asked)
    assert code == 1

    patched(tmp_path, out)

    assert tipstaff("explain", "policy.yaml", "-", stdin=asked)[0] == 0
    assert "# the build agent" in (tmp_path / "policy.yaml").read_text()


def test_every_line_of_the_patch_is_needed(tipstaff, tmp_path):
    """With any added line of the patch left out, the program still refuses the request."""
    asked = request("ls", who="stranger")
    _, out, _ = tipstaff("explain", "policy.yaml", "-", stdin=asked)
    patched(tmp_path, out)
    lines = (tmp_path / "policy.yaml").read_text().splitlines(keepends=True)
    added = [line for line in lines if line not in POLICY.splitlines(keepends=True)]
    assert len(added) == 2

    for line in added:
        (tmp_path / "policy.yaml").write_text("".join(one for one in lines if one != line))
        assert tipstaff("explain", "policy.yaml", "-", stdin=asked)[0] == 1


def test_what_no_policy_allows_is_said(tipstaff):
    """A request that leaves its workspace is denied, and no patch is offered."""
    asked = json.loads(request("git", "status"))
    asked["execution"]["cwd"] = "../.."

    code, out, _ = tipstaff("explain", "policy.yaml", "-", stdin=json.dumps(asked))

    assert code == 1
    assert "no policy can allow it: " in out
    assert "+++" not in out


def test_facts_are_believed(tipstaff, tmp_path):
    """Who the door proved counts more than who the request says it is."""
    (tmp_path / "facts.json").write_text('{"authenticated": "mallory"}')
    (tmp_path / "request.json").write_text(request("git", "status"))

    assert tipstaff("explain", "policy.yaml", "request.json")[0] == 0
    assert tipstaff("explain", "policy.yaml", "request.json", "--facts", "facts.json")[0] == 1


def test_test_lists_every_example(tipstaff, tmp_path):
    """Each example is listed with its place; one that fails exits 1, although such a file does not load elsewhere."""
    (tmp_path / "failing.yaml").write_text(
        POLICY.replace("no_match: [[git, push]]", "no_match: [[git, log], [git, push]]")
    )

    code, out, _ = tipstaff("test", "policy.yaml")
    failing, said, _ = tipstaff("test", "failing.yaml")

    assert (code, out.splitlines()[-1]) == (0, "2 examples, 0 failed")
    assert failing == 1
    assert "FAIL failing.yaml:11:16: read-the-repository no_match: [git, log]" in said
    assert "ok   failing.yaml:11:28: read-the-repository no_match: [git, push]" in said
    assert tipstaff("check", "failing.yaml")[0] == 65


def test_diff_is_like_diff(tipstaff, tmp_path):
    """The same policy in another layout is 0, another policy is 1, and the words say which way."""
    (tmp_path / "wider.yaml").write_text(POLICY.replace("log]", "log, show]"))

    assert tipstaff("diff", "policy.yaml", "policy.yaml")[0] == 0
    code, out, _ = tipstaff("diff", "policy.yaml", "wider.yaml")
    assert code == 1
    assert out.splitlines() == [
        "wider:     rules.read-the-repository.when.argv: `[git, [status, diff, log, show], ...]` is added",
        "narrower:  rules.read-the-repository.when.argv: `[git, [status, diff, log], ...]` is removed",
    ]


def test_export_refuses_to_lose_anything_in_silence(tipstaff, tmp_path):
    """What the other format cannot say is an error unless it is asked for; then the JSON alone is on stdout."""
    code, out, err = tipstaff("export", "policy.yaml")
    lossy, text, _ = tipstaff("export", "policy.yaml", "--lossy")

    assert (code, out) == (1, "")
    assert "lost: rules: `read-the-repository`" in err
    assert lossy == 0
    (tmp_path / "warrant.json").write_text(text)
    assert tipstaff("check", "warrant.json")[0] == 0


BAD = {
    "nothing": b"",
    "binary": bytes(range(256)),
    "not UTF-8": b"name: \xff\xfe",
    "deep": b"[" * 200_000,
    "deep JSON": b'{"a":' * 100_000,
    "large": b"a: " + b"x" * (10 * 1024 * 1024),
    "a list": b"[1, 2]",
    "a number": b"1",
    "escapes": b'version: "\\x1b[31m\\u202e"',
    "huge number": b'{"version": ' + b"9" * 10_000 + b"}",
    "NaN": b'{"requestedBy": NaN}',
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_files_are_refused_in_one_sentence(tipstaff, tmp_path, bad):
    """Whatever the bytes of a policy or a request are, the answer is exit 65 and one printable line with the name."""
    (tmp_path / "bad").write_bytes(BAD[bad])

    for args in (("check", "bad"), ("explain", "policy.yaml", "bad")):
        code, out, err = tipstaff(*args)
        assert (code, out) == (65, "")
        assert err.startswith("tipstaff: bad:")
        assert err.removesuffix("\n").isprintable()


@pytest.mark.parametrize(("name", "code"), [("missing", 66), ("folder", 65), ("policy.yaml/x", 65)])
def test_files_that_cannot_be_read_are_told(tipstaff, tmp_path, name, code):
    """A missing file is 66; a folder or a file in the place of a folder is 65."""
    (tmp_path / "folder").mkdir()

    assert tipstaff("check", name)[0] == code
    assert tipstaff("explain", "policy.yaml", name)[0] == code


def test_text_of_a_request_cannot_reach_the_terminal(tipstaff):
    """Control and direction-changing characters of a request are shown as escapes."""
    _, out, err = tipstaff("explain", "policy.yaml", "-", stdin=request("ls\x1b[31m", "\u202e", who="x\u202e\x07"))

    assert all(line.isprintable() for line in (out + err).splitlines())
