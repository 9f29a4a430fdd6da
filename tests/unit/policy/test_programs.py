"""Claims about programs and command line patterns."""

import pytest

from tipstaff.policy.programs import ArgvPattern, is_launcher, launcher_fault


@pytest.mark.parametrize(
    ("command", "strict", "broad"),
    [
        ("git", True, True),
        ("/usr/bin/git", True, True),
        ("/bin/git", True, True),
        ("/opt/git", False, True),
        ("./git", False, True),
        ("/usr/bin/../../tmp/git", False, True),
        ("gitk", False, False),
        ("GIT", False, False),
    ],
)
def test_what_permits_is_strict_and_what_forbids_is_broad(command, strict, broad):
    """A permitting pattern knows a program by its place in the system, a forbidding one at any path."""
    pattern = ArgvPattern(("git", "status"))

    assert pattern.matches(command, ("status",), broad=False) is strict
    assert pattern.matches(command, ("status",), broad=True) is broad


@pytest.mark.parametrize(
    ("pattern", "args", "fits"),
    [
        (("git",), (), True),
        (("git",), ("push",), False),
        (("git", "status"), (), False),
        (("git", "status"), ("status", "-s"), False),
        (("git", "status", "..."), ("status", "-s"), True),
        (("git", "status", "..."), ("status",), True),
        (("git", ("status", "di*")), ("diff",), True),
        (("git", ("status", "di*")), ("push",), False),
        (("git", "a", r"\..."), ("a", "..."), True),
        (("git", "a", r"\..."), ("a", "b"), False),
        (("git", ""), ("",), True),
    ],
)
def test_a_pattern_is_the_whole_command_line(pattern, args, fits):
    """Every argument is matched, unless the pattern ends with three dots."""
    assert ArgvPattern(pattern).matches("git", args, broad=False) is fits


def test_a_path_in_a_pattern_is_that_path_when_it_permits():
    """A permitting pattern with a path fits that path alone, a forbidding one fits the name anywhere."""
    pattern = ArgvPattern(("/opt/bin/tool",))

    assert pattern.matches("/opt/bin/tool", (), broad=False)
    assert not pattern.matches("tool", (), broad=False)
    assert pattern.matches("tool", (), broad=True)


@pytest.mark.parametrize(
    ("pattern", "launcher"),
    [
        (("bash", "-c", "ls"), "bash"),
        (("bash",), "bash"),
        (("/bin/sh", "x"), "sh"),
        (("python3.12", "job.py"), "python3.12"),
        ((("git", "env"), "x"), "env"),
        (("*", "x"), "sh"),
        (("ba*", "x", "..."), "bash"),
        (("?ython3", "x"), "python*"),
        (("bash", "..."), None),
        (("*", "..."), None),
        (("git", "status"), None),
        (("git-*", "x"), None),
    ],
)
def test_a_launcher_cannot_be_constrained(pattern, launcher):
    """A pattern on the arguments of a program that runs programs is found out; one on the whole of it is fine."""
    assert launcher_fault(pattern) == launcher


@pytest.mark.parametrize(("name", "launches"), [("sudo", True), ("python3", True), ("find", True), ("git", False)])
def test_launchers_are_known_by_name(name, launches):
    """Shells, wrappers and interpreters are launchers, ordinary tools are not."""
    assert is_launcher(name) is launches
