"""A program that gives a secret: what it sees, how it is stopped, and what of it can be seen afterwards."""

import json
import os
import sys
import time
from pathlib import Path

import pytest

from tipstaff.secrets.origins import Program
from tipstaff.secrets.program import MAX_OUTPUT_BYTES, ask

CANARY = "canary-4f1c9a77e2"
GIVES = f'{{"value": "{CANARY}"}}'
LONG = 30.0  # for programs that end by themselves: a loaded machine must not make them late


def shell(script, seconds=LONG, environ=()):
    """A program that is a script of ours; configurations name an argument list, here that of a shell."""
    return Program(("/bin/sh", "-c", script), seconds, tuple(environ))


def python(code, seconds=LONG):
    """A program in Python."""
    return Program((sys.executable, "-I", "-S", "-c", code), seconds)


@pytest.mark.parametrize(
    "printed",
    [
        GIVES,
        f"\n {GIVES} \n\n",
        f'{{"expires": "2999-01-01T00:00:00Z", "value": "{CANARY}"}}',
        f'{{"value": "{CANARY}", "expires": null}}',
    ],
)
def test_one_object_gives_the_value(printed):
    """One JSON object with a text gives that text, exactly; a time to come does not matter."""
    assert ask(shell(f"cat <<'E'\n{printed}\nE"), os.environ) == (CANARY, "")


@pytest.mark.parametrize(
    "printed",
    [
        "", CANARY, f'"{CANARY}"', f'["{CANARY}"]', f"{GIVES} {GIVES}", f"{GIVES} x", GIVES[:-1], '{"value": 7}', "{}",
        '{"value": null}', f'{{"{CANARY}": 1}}', f'{{"value": "{CANARY}", "more": 1}}', f'{{"value": ["{CANARY}"]}}',
        f'{{"value": "{CANARY}", "expires": 5}}', "[" * 100_000,
    ],
)  # fmt: skip
def test_anything_else_gives_nothing(printed, tmp_path):
    """Output that is not exactly such an object is a fault that repeats none of it."""
    (tmp_path / "printed").write_text(printed)

    value, fault = ask(shell(f"cat '{tmp_path}/printed'"), os.environ)

    assert (value, fault) == (None, 'does not print one JSON object {"value": "…"}')


@pytest.mark.parametrize(
    ("expires", "fault"),
    [
        ("2001-01-01T00:00:00Z", "expired"),
        ("tomorrow", "not one such as"),
        ("2999-01-01T00:00:00", "not one such as"),
        ("2999-01-01T00:00:00+02:00", ""),
    ],
)
def test_an_expired_value_is_not_given(expires, fault):
    """A value that has expired, or of which that cannot be told, gives nothing; one that lasts is given."""
    value, told = ask(shell(f"""echo '{{"value": "{CANARY}", "expires": "{expires}"}}'"""), os.environ)

    assert (value is None) is bool(fault)
    assert fault in told


def test_bytes_that_are_no_text_give_nothing():
    """Output that is not UTF-8 is a fault."""
    assert ask(python(r"import os; os.write(1, b'{\"value\": \"\xff\xff\xff\xff\xff\xff\xff\xff\"}')"), {})[0] is None


def test_the_program_sees_only_what_is_listed():
    """Of our environment it has PATH, HOME and what is listed; it has no input, no terminal, no folder of ours."""
    code = (
        "import json,os,sys; print(json.dumps({'value': json.dumps([sorted(os.environ.items()), os.getcwd(),"
        " sys.stdin.read(), os.getsid(0) == os.getpid(), sorted(os.listdir('/proc/self/fd'))])}))"
    )
    ours = {"PATH": "/usr/bin:/bin", "HOME": "/root", "VAULT_ADDR": "x", "OTHER": CANARY, "LD_PRELOAD": "/x.so"}
    listed = Program((sys.executable, "-I", "-S", "-c", code), LONG, ("VAULT_ADDR", "ABSENT"))

    value, _ = ask(listed, ours)
    seen = json.loads(value or "")

    known = [["HOME", "/root"], ["PATH", "/usr/bin:/bin"], ["VAULT_ADDR", "x"]]
    assert [pair for pair in seen[0] if pair[0] != "LC_CTYPE"] == known  # which Python sets by itself
    assert seen[1:4] == ["/", "", True]
    assert len(seen[4]) == 4  # 0, 1, 2, and the one that lists them


def test_no_shell_reads_the_arguments(tmp_path):
    """An argument with the signs of a shell arrives as it is, and runs nothing."""
    nasty = f"$(touch {tmp_path}/ran) ; `touch {tmp_path}/ran` > {tmp_path}/ran"
    code = "import json,sys; print(json.dumps({'value': sys.argv[1]}))"

    assert ask(Program((sys.executable, "-I", "-c", code, nasty), LONG), {}) == (nasty, "")
    assert list(tmp_path.iterdir()) == []


def test_a_plain_name_is_looked_for_in_the_path(tmp_path, monkeypatch):
    """A plain name is found in PATH alone, never in the folder where we happen to be."""
    give = tmp_path / "give-a-secret"
    give.write_text(f"#!/bin/sh\necho '{GIVES}'\n")
    give.chmod(0o700)
    monkeypatch.chdir(tmp_path)

    assert ask(Program(("give-a-secret",), LONG), {"PATH": f"{tmp_path}:/usr/bin:/bin"}) == (CANARY, "")
    for path in ({"PATH": "/usr/bin:/bin"}, {"PATH": ".:/usr/bin"}, {"PATH": ""}, {}):
        value, fault = ask(Program(("give-a-secret",), LONG), path)
        assert value is None
        assert "No such file" in fault


@pytest.mark.parametrize("argv", [("/nowhere/program",), ("/etc/hostname",), ("/",), ("x" * 5000,)])
def test_what_cannot_be_run_is_said(argv):
    """A program that is not there, or is none, is a fault with the system's reason."""
    value, fault = ask(Program(argv, LONG), {"PATH": "/usr/bin:/bin"})

    assert value is None
    assert fault.startswith("cannot be run: ")


@pytest.mark.parametrize(
    ("ending", "fault"), [("exit 3", "ended with exit code 3"), ("kill -9 $$", "ended with signal 9"), ("true", "")]
)
def test_a_failed_program_gives_nothing(ending, fault):
    """Whatever it printed, a program that fails gives no value; one that ends well does."""
    value, told = ask(shell(f"echo '{GIVES}'; {ending}"), os.environ)

    assert (value, told) == ((None, fault) if fault else (CANARY, ""))


@pytest.mark.parametrize(
    "script",
    [
        "sleep 60",
        f"echo '{GIVES}'; exec sleep 60",
        "trap '' TERM INT HUP; while :; do :; done",
        "exec <&- >&- 2>&-; sleep 60",
    ],
)
def test_a_program_that_hangs_is_stopped(script):
    """One that does not end is killed when its time is up, and gives nothing, whatever it printed before."""
    start = time.monotonic()

    assert ask(shell(script, seconds=0.1), os.environ) == (None, "does not answer within 0.1 seconds")
    assert time.monotonic() - start < 20


def test_its_whole_group_is_killed(tmp_path):
    """What the program started goes with it: when it is stopped, and also when it ended well."""
    background = f"(sleep 2; touch '{tmp_path}/late') & echo $! > '{tmp_path}/pid'"
    assert ask(shell(f"{background}; exec yes"), os.environ)[0] is None
    assert gone(tmp_path / "pid")

    assert ask(shell(f"{background}; echo '{GIVES}'"), os.environ) == (CANARY, "")
    assert gone(tmp_path / "pid")
    assert not (tmp_path / "late").exists()


def gone(pid_file):
    """Wait for a process to be dead: its parent is now somebody who may take a moment to notice."""
    status = Path("/proc", pid_file.read_text().strip(), "stat")
    for _ in range(200):
        try:
            if status.read_text().rpartition(")")[2].split()[0] in "ZX":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


def test_a_grandchild_cannot_keep_us(tmp_path):
    """A process that left the group and keeps the pipes open does not delay a value that was printed."""
    script = f"setsid sleep 30 & echo $! > '{tmp_path}/pid'; echo '{GIVES}'"
    start = time.monotonic()

    assert ask(shell(script), os.environ) == (CANARY, "")
    assert time.monotonic() - start < 20
    os.kill(int((tmp_path / "pid").read_text()), 9)


def test_output_is_bounded():
    """A program that floods stdout is stopped; one that floods stderr is only not listened to."""
    value, fault = ask(shell("exec yes"), os.environ)
    assert (value, fault) == (None, f"prints more than {MAX_OUTPUT_BYTES} bytes")

    assert ask(shell(f"head -c 3000000 /dev/zero >&2; echo '{GIVES}'"), os.environ) == (CANARY, "")


def test_a_long_value_in_pieces_is_whole():
    """A value of 64 KiB that is printed in pieces, each character escaped, arrives whole."""
    code = (
        'import sys,time\nsys.stdout.write(\'{"value": "\')\nfor _ in range(64):\n'
        " sys.stdout.write('\\\\u0061' * 1024); sys.stdout.flush(); time.sleep(0.001)\nsys.stdout.write('\"}')"
    )

    assert ask(python(code), {}) == ("a" * 65536, "")


def test_what_it_says_is_shown_in_one_line():
    """The first line of stderr is in the fault, cut and without anything that moves a terminal."""
    value, fault = ask(shell(r"printf '\n  no \033[2Jtoken\nsecond line\n' >&2; exit 1"), os.environ)
    assert (value, fault) == (None, "ended with exit code 1; it says: no ?[2Jtoken")

    _, fault = ask(shell("head -c 9000 /dev/zero | tr '\\0' x >&2; exit 1"), os.environ)
    assert fault == "ended with exit code 1; it says: " + "x" * 200


@pytest.mark.parametrize(
    ("script", "withheld"),
    [
        (f"echo 'got {CANARY}' >&2; echo '{GIVES}'; exit 1", True),
        ('echo "bad token $TOKEN" >&2; exit 1', True),
        ('printf "first\\nbad token $TOKEN" >&2; exit 1', True),
        ('echo "bad token" >&2; exit 1', False),
    ],
)
def test_a_complaint_with_a_secret_is_not_shown(script, withheld):
    """A line that holds the value, or a variable that the program was given, is not shown; another is."""
    value, fault = ask(shell(script, environ=["TOKEN"]), {**os.environ, "TOKEN": "token-value-canary"})

    assert value is None
    assert "canary" not in fault
    assert ("not shown" in fault) is withheld


def test_no_descriptor_and_no_process_is_left():
    """However a program ended, we hold no descriptor of it, and no dead child."""
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - only how many
    for script, seconds in (("sleep 60", 0.05), ("exit 1", LONG), (f"echo '{GIVES}'", LONG), ("exec yes", LONG)):
        ask(shell(script, seconds), os.environ)
    ask(Program(("/nowhere",)), {})

    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 - only how many
    assert not [child for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split() if zombie(child)]


def zombie(child):
    """Say whether a child is dead and nobody has waited for it."""
    return Path("/proc", child, "stat").read_text().rpartition(")")[2].split()[0] == "Z"
