"""Times, sizes, durations and commands at a glance."""

import pytest

from tipstaff.doors.cli.history import TITLES, ended, row_of, table
from tipstaff.doors.cli.wording import command_of, duration, moment, shortened, size

LINE = {
    "id": "run_0123456789",
    "createdAt": "2026-03-01T12:00:00.000Z",
    "principal": "anna",
    "status": "completed",
    "tier": "bwrap",
    "execution": {"kind": "argv", "command": "echo", "args": ["hi"]},
}


@pytest.mark.parametrize(
    ("amount", "spelled"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (20 * 2**20, "20 MiB"), (2**70, "1048576 PiB")],
)
def test_a_size_has_the_unit_that_fits(amount, spelled):
    """Bytes are shown with the largest unit that leaves at least one of it."""
    assert size(amount) == spelled


@pytest.mark.parametrize(
    ("milliseconds", "spelled"),
    [(0, "0 ms"), (999, "999 ms"), (1500, "1.5 s"), (60_000, "1 min"), (93_600_000, "26 h")],
)
def test_a_duration_has_the_unit_that_fits(milliseconds, spelled):
    """Milliseconds are shown with the largest unit that leaves at least one of it."""
    assert duration(milliseconds) == spelled


def test_a_moment_is_a_time_to_the_second():
    """A time of the protocol loses what nobody reads."""
    assert moment("2026-03-01T12:00:00.123Z") == "2026-03-01 12:00:00"


@pytest.mark.parametrize(
    ("execution", "spelled"),
    [
        ({"kind": "argv", "command": "ls", "args": ["a b", ""]}, "ls 'a b' ''"),
        ({"kind": "argv", "command": "ls"}, "ls"),
        ({"kind": "shell", "script": "a | b"}, "sh -c 'a | b'"),
        ({"kind": "shell", "script": "x", "shell": "bash"}, "bash -c x"),
        ({"kind": "python", "source": "print(1)", "args": ["x"]}, "python3 -c 'print(1)' x"),
        ({"kind": "agent", "agent": {"kind": "coder"}, "prompt": "do it"}, "agent coder 'do it'"),
        ({"kind": "argv", "command": "a\nb\x1b"}, "$'a\\nb\\x1b'"),
        ({"kind": "new"}, "(unknown)"),
        (None, "(unknown)"),
    ],
)
def test_every_execution_is_one_safe_line(execution, spelled):
    """Whatever is run is shown as one command line, quoted and escaped."""
    assert command_of(execution) == spelled


@pytest.mark.parametrize(("width", "expected"), [(5, "hello"), (4, "hel…")])
def test_a_cut_shows(width, expected):
    """A text that is too wide ends with a sign that it was cut; one that fits is whole."""
    assert shortened("hello", width) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"ending": "exited", "exitCode": 0}, "exited 0"),
        ({"ending": "exited", "exitCode": 3, "status": "failed"}, "exited 3"),
        ({"ending": "timed-out", "status": "failed"}, "timed-out"),
        ({"status": "failed"}, "refused"),
        ({"status": "refused"}, "refused"),
        ({"status": "cancelled"}, "cancelled"),
        ({"status": "awaiting_approval"}, "waits for approval"),
        ({"status": "running"}, "is running"),
    ],
)
def test_every_state_has_a_word(fields, expected):
    """Each way in which a run stands or ended is said in its own words."""
    assert ended({**LINE, **fields}) == expected


def test_the_table_is_aligned_and_as_wide_as_the_terminal():
    """Columns start at the same place in every line, and the last one is cut where the terminal ends."""
    long = {**LINE, "principal": "somebody-else", "execution": {"kind": "argv", "command": "x" * 500}}
    lines = table([row_of(LINE), row_of(long)], 120)

    assert lines[0].split() == " ".join(TITLES).split()
    assert lines[1].index("echo hi") == lines[2].index("xxx") == lines[0].index("what")
    assert len(lines[2]) == 120
    assert lines[2].endswith("…")


def test_a_name_cannot_move_the_table():
    """Control characters in what others chose are shown as escapes inside the cell."""
    row = row_of({**LINE, "principal": "a\x1b[2Jb", "execution": {"kind": "argv", "command": "\u202ex"}})

    assert row[2] == "a\\x1b[2Jb"
    assert row[5] == "$'\\u202ex'"
