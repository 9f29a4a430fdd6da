"""From a wish to a Request."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipstaff.doors.asking import Asked, request_of
from tipstaff.doors.folders import Surroundings
from tipstaff.errors import UsageError
from tipstaff.model import Argv, Python, Shell, parse_request

KIB = 1024


@pytest.fixture
def around(tmp_path):
    """An empty machine but for our home."""
    return Surroundings(tmp_path / "home")


@pytest.fixture
def parsed(around):
    """Spell a wish, and read it as the plane would."""
    return lambda **wishes: parse_request(request_of(Asked(**wishes), around, "ada"))


def test_a_command_becomes_a_request(parsed, tmp_path):
    """Everything that can be asked for arrives where policy looks for it."""
    (tmp_path / "work").mkdir()
    (tmp_path / "data").touch()

    request = parsed(
        argv=("make", "a b", "", "two\nlines"),
        workspace=str(tmp_path / "work"),
        in_place=True,
        read=(str(tmp_path / "data"),),
        env={"COLOR": "1"},
        inherit=("LANG",),
        tier="bwrap",
        timeout="2m",
        memory="64M",
        cpus="0.5",
        pids="9",
        disk="1G",
        max_output="1K",
        kill_output="2K",
        purpose="to see",
        allow_hosts=(
            "example.com",
            "example.org:443",
            "[::1]",
            "[::1]:80,opaque",
            "2001:db8::5",
            "a:1,inspect,address=::1",
        ),
        secrets=("TOKEN",),
    )

    execution = request.effective
    assert isinstance(execution, Argv)
    assert (execution.command, execution.args) == ("make", ("a b", "", "two\nlines"))
    assert (execution.env.vars, execution.env.inherit) == ({"COLOR": "1"}, ("LANG",))
    assert (execution.log.stderr, execution.log.max_bytes) == ("capture", 2048)
    assert (request.files.workspace, request.files.in_place) == (str(tmp_path / "work"), True)
    assert request.files.readable == (str(tmp_path / "data"),)
    limits = request.limits
    assert (limits.time_ms, limits.memory_bytes, limits.cpu_millis) == (120_000, 64 * KIB * KIB, 500)
    assert (limits.pids, limits.disk_bytes, limits.output_bytes) == (9, KIB**3, KIB)
    assert (request.isolation, request.purpose, request.secret_names) == ("bwrap", "to see", ("TOKEN",))
    assert [(rule.host, rule.ports, rule.opaque, rule.inspect, rule.addresses) for rule in request.egress.rules] == [
        ("example.com", (), False, False, ()),
        ("example.org", (443,), False, False, ()),
        ("[::1]", (), False, False, ()),
        ("[::1]", (80,), True, False, ()),
        ("2001:db8::5", (), False, False, ()),
        ("a", (1,), False, True, ("::1",)),
    ]


def test_little_is_asked_where_little_is_said(parsed):
    """A bare command asks for no folder, no host, no secret, no variable and no limit."""
    request = parsed(argv=("true",))

    assert request == parse_request(
        {
            "requestedBy": {"kind": "human", "id": "ada"},
            "execution": {"kind": "argv", "command": "true", "log": {"stderr": "capture"}},
        }
    )


@pytest.mark.parametrize(
    ("who", "kind", "name"),
    [
        (None, "human", "ada"),
        ("bob", "human", "bob"),
        ("agent:coder", "agent", "coder"),
        ("service:ci", "service", "ci"),
        ("team:coder", "human", "team:coder"),
        ("agent:", "human", "agent:"),
    ],
)
def test_who_asks_has_a_kind(parsed, who, kind, name):
    """A name may carry its kind; a name without one is a person's, and without a name it is the user."""
    actor = parsed(argv=("true",), principal=who).requested_by

    assert (actor.kind, actor.id) == (kind, name)


def test_scripts_and_programs_carry_their_source(parsed):
    """A shell script and a Python program travel as they are, the latter with arguments."""
    script = parsed(shell="a | b\n").execution  # noqa: S604 - a field of ours, no call of a shell
    assert isinstance(script, Shell)
    assert script.script == "a | b\n"
    program = parsed(python="print(1)", argv=("x",)).execution
    assert isinstance(program, Python)
    assert (program.source, program.args) == ("print(1)", ("x",))


def test_large_is_not_too_large(parsed):
    """A hundred thousand arguments, an argument of just under 128 KiB and a script of a MiB are all taken."""
    assert len(parsed(argv=("echo", *["x"] * 100_000)).effective.args) == 100_000
    assert parsed(argv=("echo", "x" * (128 * KIB - 1)))
    script = parsed(shell="#" * KIB * KIB).effective
    assert len(script.script) == KIB * KIB


@pytest.mark.parametrize(
    ("wishes", "reason"),
    [
        ({}, "there is no command to run; for example"),
        ({"argv": ("", "x")}, "there is no command to run"),
        ({"argv": ("ls",), "shell": "ls"}, "more than one thing to run"),
        ({"python": "1", "shell": "ls"}, "more than one thing to run"),
        ({"argv": ("ls", "a\0b")}, "argument 1 holds a NUL"),
        ({"argv": ("ls", "a", "\udcff")}, r"argument 2 is not UTF-8: b'\\xff'; pass such bytes by file or stdin"),
        ({"argv": ("\udcff",)}, "the command is not UTF-8"),
        ({"argv": ("ls", "x" * 128 * KIB)}, "argument 1 is larger than 128 KiB.*by file or stdin"),
        ({"argv": ("ls", "é" * 64 * KIB)}, "argument 1 is larger than 128 KiB"),
        ({"shell": "a\0b"}, "--shell holds a NUL"),
        ({"shell": "#" * (8 * KIB * KIB + 1)}, "--shell: the source is larger than 8 MiB"),
        ({"argv": ("ls",), "env": {"A": "\udcff"}}, "--env A is not UTF-8"),
        ({"argv": ("ls",), "env": {"A": "x" * 128 * KIB}}, "the value of A is larger than 128 KiB"),
        ({"argv": ("ls",), "in_place": True}, "--in-place needs a workspace"),
        ({"argv": ("ls",), "memory": "lots"}, "--memory: 'lots' is not a size such as"),
        ({"argv": ("ls",), "allow_hosts": ("a:http",)}, "--allow-host: 'a:http' has no port between"),
        ({"argv": ("ls",), "allow_hosts": ("a:65536",)}, "has no port between"),
        ({"argv": ("ls",), "allow_hosts": ("a,secret",)}, "--allow-host: 'secret' is not known; after the host"),
        ({"argv": ("ls",), "allow_hosts": ("a,address=",)}, "--allow-host: 'address=' is not known"),
        ({"argv": ("ls",), "principal": "\udcff"}, "--as is not UTF-8"),
        ({"argv": ("ls",), "principal": ""}, "--as names nobody"),
        ({"argv": ("ls",), "secrets": ("",)}, "--secret names nothing"),
    ],
)
def test_what_cannot_be_meant_is_refused(parsed, wishes, reason):
    """A wish that no program could be given is told in words, before anything is asked of policy."""
    with pytest.raises(UsageError, match=reason):
        parsed(**wishes)


@given(st.lists(st.text(st.characters(codec=None, exclude_categories=[])), max_size=5))
def test_any_command_is_a_request_or_an_error(tmp_path_factory, argv):
    """Whatever the arguments are, there is a request that holds exactly them, or our own error."""
    around = Surroundings(tmp_path_factory.getbasetemp() / "home")
    try:
        request = parse_request(request_of(Asked(argv=tuple(argv)), around, "ada"))
    except UsageError:
        return
    assert isinstance(request.execution, Argv)
    assert [request.execution.command, *request.execution.args] == argv
