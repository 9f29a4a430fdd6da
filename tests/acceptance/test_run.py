"""`tipstaff run` as a process: what a stranger is shown first."""

import base64
import json
import re
import subprocess
import sys
import time

import pytest

ENDED = re.compile(r"tipstaff: (run_\S+) (.*); receipt: tipstaff show \1\n\Z")


def test_an_allowed_run_passes_everything_through(tipstaff):
    """Output, errors and exit code are the command's; our lines say who allowed it and where its receipt is."""
    ended = tipstaff("run", "--", "sh", "-c", "echo out; echo err >&2; exit 3")

    said = ended.stderr.decode()
    assert (ended.returncode, ended.stdout) == (3, b"out\n")
    assert said.startswith("err\ntipstaff: allowed by inside-the-sandbox of policy local, tier bwrap\n")
    assert [ending for _, ending in ENDED.findall(said)] == ["exited 3"]


def test_the_command_may_follow_without_dashes(tipstaff):
    """The first word that is no option begins the command; what comes after is the command's own, options too."""
    assert tipstaff("run", "--quiet", "echo", "--json", "--", "-x").stdout == b"--json -- -x\n"
    assert tipstaff("run", "--quiet", "--", "echo", "--", "-x").stdout == b"-- -x\n"


def test_quiet_says_nothing_but_refusals(tipstaff):
    """With --quiet our own lines are gone, but a refusal is told."""
    assert tipstaff("run", "--quiet", "--", "true").stderr == b""
    assert b"denied by policy local" in tipstaff("run", "--quiet", "--env", "SECRET", "--", "true").stderr


def test_a_bundle_proves_a_run(tipstaff, tmp_path):
    """The bundle of a run is valid, and any edit makes it invalid."""
    assert tipstaff("run", "--bundle", "b.json", "--", "echo", "hi").stdout == b"hi\n"
    assert tipstaff("verify", "b.json").returncode == 0

    bundle = tmp_path / "b.json"
    honest = bundle.read_text()
    for before, after in (('"exitCode": 0', '"exitCode": 1'), ("completed", "cancelled"), ("echo", "date")):
        assert before in honest
        bundle.write_text(honest.replace(before, after))
        assert tipstaff("verify", "b.json").returncode == 1
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []


def test_a_refusal_has_reasons_and_proof(tipstaff):
    """What policy denies exits 126 with each reason on its own line, the next step, and a signed refusal."""
    ended = tipstaff("run", "--bundle", "r.json", "--env", "AWS_SECRET_ACCESS_KEY", "--env", "LD_PRELOAD=x", "--", "id")

    said = ended.stderr.decode().splitlines()
    assert (ended.returncode, ended.stdout) == (126, b"")
    assert said[0] == "tipstaff: denied by policy local; nothing was run"
    assert said[1].startswith("tipstaff:   builtin.environment: `LD_PRELOAD`")
    assert said[2].startswith("tipstaff:   env.inherit: `AWS_SECRET_ACCESS_KEY`")
    assert re.match(r"tipstaff: next: tipstaff why ref_\S+ ", said[3])
    assert tipstaff("verify", "r.json").returncode == 0


@pytest.mark.parametrize(
    "command",
    [
        ["cat", "/etc/shadow"],
        ["ls", "/root"],
        ["sh", "-c", "echo > /etc/x"],
        ["python3", "-c", "import socket; socket.create_connection(('127.0.0.1', 22))"],
    ],
)
def test_the_machine_is_out_of_reach(tipstaff, command):
    """The password file, root's home, the system's settings and its ports cannot be reached from inside."""
    assert tipstaff("run", "--", *command).returncode not in {0, 125, 126, 127}


def test_time_ends_the_whole_tree(tipstaff, marker, processes):
    """A command beyond its time exits 124 within two seconds, and nothing that it started is left."""
    began = time.monotonic()

    ended = tipstaff("run", "--timeout", "1", "--", "sh", "-c", f"setsid sleep {marker} & sleep {marker}")

    assert ended.returncode == 124
    assert time.monotonic() - began < 4  # 2 s on a machine that does nothing else
    assert processes(marker) == []


def test_memory_ends_a_command(tipstaff):
    """A command that takes more memory than it was given exits 137; one that takes less does not."""
    taking = "x = b'a' * {}"

    assert tipstaff("run", "--memory", "64M", "--", "python3", "-c", taking.format(10**9)).returncode == 137
    assert tipstaff("run", "--memory", "256M", "--", "python3", "-c", taking.format(10**7)).returncode == 0


def test_a_workspace_stays_as_it_was(tipstaff, workspace):
    """A command sees the workspace and may remove all of it, and on the host nothing has changed."""
    ended = tipstaff("run", "--quiet", "--workspace", ".", "--", "sh", "-c", "cat file; rm -rf *; ls", cwd=workspace)

    assert (ended.returncode, ended.stdout) == (0, b"content\n")
    assert (workspace / "file").read_text() == "content\n"
    assert (workspace / "inner" / "deep").read_text() == "deep\n"


def test_in_place_changes_the_workspace(tipstaff, workspace):
    """With --in-place, and only so, the command works on the folder itself."""
    assert tipstaff("run", "--workspace", workspace, "--in-place", "--", "rm", "-r", "inner").returncode == 0
    assert sorted(path.name for path in workspace.iterdir()) == ["file"]


def test_only_what_is_named_can_be_read(tipstaff, workspace):
    """A file of the host is visible if, and only if, --read names it."""
    path = workspace / "file"

    assert tipstaff("run", "--quiet", "--read", path, "--", "cat", path).stdout == b"content\n"
    assert tipstaff("run", "--quiet", "--", "cat", path).returncode == 1


def test_variables_are_those_that_were_given(tipstaff, environ):
    """The command has the variables that were named, with a value or from here, and none other of ours."""
    environ |= {"TERM": "dumb", "PRIVATE": "canary"}

    ended = tipstaff("run", "--quiet", "--env", "A=b c", "--env", "TERM", "--", "env")

    lines = ended.stdout.decode().splitlines()
    assert {"A=b c", "TERM=dumb"} <= set(lines)
    assert "canary" not in ended.stdout.decode()


def test_scripts_and_programs_run(tipstaff, tmp_path):
    """A shell script, a Python file with arguments, and a Python program from stdin are carried out."""
    (tmp_path / "job.py").write_text("import sys; print(sys.argv[1:])")

    assert tipstaff("run", "--quiet", "--shell", "echo a | tr a b").stdout == b"b\n"
    assert tipstaff("run", "--quiet", "--python", "job.py", "--", "x", "y z").stdout == b"['x', 'y z']\n"
    assert tipstaff("run", "--quiet", "--python", "-", stdin=b"print(6 * 7)").stdout == b"42\n"


def test_json_tells_everything_at_the_end(tipstaff):
    """With --json stdout is one object; output that is not UTF-8 is there as base64 too."""
    ended = tipstaff("run", "--json", "--shell", "printf 'a\\377'; echo err >&2; exit 3")

    told = json.loads(ended.stdout)
    assert (ended.returncode, ended.stderr) == (3, b"")
    assert (told["decision"], told["tier"], told["ending"], told["exitCode"]) == ("allow", "bwrap", "exited", 3)
    assert base64.b64decode(told["stdoutBase64"]) == b"a\xff"
    assert (told["stdout"], told["stderr"], told["truncated"]) == ("a\ufffd", "err\n", False)
    assert {verdict["clause"] for verdict in told["enforcement"]} >= {"network", "memory", "time", "files"}
    assert told["receipt"]["runId"] == told["runId"]
    assert told["usage"]["wallMs"] >= 0
    assert (told["refusals"], told["refusal"]) == ([], None)


def test_json_tells_a_refusal_too(tipstaff):
    """A denial as JSON has its reasons, no run, and the signed refusal."""
    ended = tipstaff("run", "--json", "--env", "SECRET", "--", "true")

    told = json.loads(ended.stdout)
    assert (ended.returncode, told["runId"], told["ending"], told["exitCode"]) == (126, None, "refused", 126)
    assert told["reasons"] == ["env.inherit: `SECRET` may not be inherited from the runner's host"]
    assert told["refusal"]["rules"] == ["env.inherit"]


def test_kept_output_is_capped_and_passing_output_is_not(tipstaff):
    """What passes through is whole, whatever is kept; what is kept says that it was cut."""
    script = "head -c 300000 /dev/zero | tr '\\0' x"

    assert len(tipstaff("run", "--quiet", "--max-output", "1K", "--shell", script).stdout) == 300_000
    told = json.loads(tipstaff("run", "--json", "--max-output", "1K", "--shell", script).stdout)
    assert (told["truncated"], told["streams"]["stdout"]["bytes"]) == (True, 300_000)
    assert len(told["stdout"]) < 2000


def test_too_much_output_can_end_a_run(tipstaff):
    """With --kill-output an endless command ends with 141, after so much and no more."""
    ended = tipstaff("run", "--kill-output", "4K", "--", "yes")

    assert (ended.returncode, len(ended.stdout)) == (141, 4096)


def test_nothing_heavy_is_imported(environ):
    """A run imports no web framework, no grpc, mcp, pydantic, asyncpg or rich; and no YAML for the shipped policy."""
    script = (
        "import sys; from tipstaff.doors.cli import main; code = main(['run', '--quiet', '--', 'true']); "
        "print(code, *sys.modules)"
    )

    ended = subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True, check=True, timeout=60)

    code, *modules = ended.stdout.decode().split()
    heavy = {
        *("aiohttp", "asyncpg", "django", "fastapi", "flask", "grpc", "httpx", "jinja2", "litestar", "mcp", "pydantic"),
        *("requests", "rich", "sqlalchemy", "starlette", "uvicorn", "yaml", "ssl", "typing_extensions"),
    }
    assert code == "0"
    assert heavy & set(modules) == set()
