"""Claims about folders; every refusal has its permitted twin."""

import pytest

from tipstaff.policy import Facts

FILES = {
    "workspaces": ["/srv/work/**", "/home/**"],
    "in_place": ["/srv/work/mine/**"],
    "readable": ["/srv/data/**", "/"],
}


@pytest.mark.parametrize(
    ("cwd", "allowed"), [(".", True), ("a/b", True), ("..", False), ("/etc", False), ("a/../../b", False)]
)
@pytest.mark.parametrize(
    "kind", [{"kind": "argv", "command": "ls"}, {"kind": "shell", "script": "ls"}, {"kind": "python", "source": ""}]
)
def test_a_run_starts_inside_its_workspace(ask, kind, cwd, allowed):
    """The working folder is relative and never leads out, for every kind of execution."""
    assert ask({}, execution=kind | {"cwd": cwd}).rules == (("everything",) if allowed else ("builtin.cwd",))


@pytest.mark.parametrize(
    ("files", "rule"),
    [
        ({"workspace": "/srv/work/a"}, None),
        ({"workspace": "/srv/other"}, "files"),
        ({"workspace": "/srv/work/../other"}, "builtin.files"),
        ({"workspace": "work"}, "builtin.files"),
        ({"workspace": "/srv/work/a\0"}, "builtin.files"),
        ({"workspace": "/srv/work/mine/x", "inPlace": True}, None),
        ({"workspace": "/srv/work/a", "inPlace": True}, "files"),
        ({"inPlace": True}, "builtin.files"),
        ({"readable": ["/srv/data/a", "/srv/data"]}, None),
        ({"readable": ["/srv/data/a", "/etc"]}, "files"),
        ({"readable": ["/srv/database"]}, "files"),
    ],
)
def test_a_folder_is_seen_only_where_policy_lists_it(ask, files, rule):
    """A workspace, a change in place and a readable folder each need their own list."""
    assert ask({"files": FILES}, files=files).rules == ((rule,) if rule else ("everything",))


@pytest.mark.parametrize("path", ["/", "/proc", "/proc/self", "/sys/kernel", "/dev/pts", "/run/user/0", "/run"])
def test_the_kernels_own_folders_are_never_granted(ask, path):
    """Whatever the policy lists, no grant contains or lies in /proc, /sys, /dev or /run; its neighbour may be."""
    policy = {"files": {"readable": ["/**"], "workspaces": ["/**"]}}

    assert ask(policy, files={"readable": [path]}).rules == ("builtin.files",)
    assert ask(policy, files={"workspace": path}).rules == ("builtin.files",)
    assert ask(policy, files={"readable": ["/srv"], "workspace": "/process"}).effect == "allow"


@pytest.mark.parametrize(
    ("path", "allowed"),
    [("/home/me", False), ("/home/me/.tipstaff/keys", False), ("/home/me/code", True), ("/home", False)],
)
def test_what_the_door_protects_is_never_granted(ask, path, allowed):
    """A folder that contains or lies in a protected path is refused; one beside it is not."""
    facts = Facts(protected=("/home//me/./.tipstaff/",))
    decision = ask({"files": FILES}, facts, files={"workspace": path})

    assert decision.rules == (("everything",) if allowed else ("builtin.files",))


def test_what_is_granted_is_normal(ask):
    """The decision carries each folder once, in its one spelling."""
    effective = ask(
        {"files": FILES}, files={"workspace": "/srv/work//a/", "readable": ["/srv/data/./a", "/srv/data/a"]}
    ).effective

    assert (effective.workspace, effective.in_place, effective.readable) == ("/srv/work/a", False, ("/srv/data/a",))
