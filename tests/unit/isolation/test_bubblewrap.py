"""The arguments of bubblewrap, read word by word."""

import pytest

from tipstaff.isolation import bubblewrap
from tipstaff.isolation.bubblewrap import Room, System

SYSTEM = System(("/usr", "/etc/alternatives"), (("usr/bin", "/bin"),), ("/etc/passwd", "/etc/group"), ("/proc/keys",))


def pairs(words: list[str], option: str) -> list[tuple[str, ...]]:
    """Every use of an option that takes a source and a place."""
    return [tuple(words[place + 1 : place + 3]) for place, word in enumerate(words) if word == option]


def test_nothing_but_what_is_listed_is_bound():
    """The only binds are the system's, the kernel's, the grants and the workspace; only the last can be written."""
    words = bubblewrap.arguments(Room("/stage/w", (("/stage/r", "/data"),)), SYSTEM)

    assert pairs(words, "--bind") == [("/stage/w", "/workspace")]
    assert pairs(words, "--ro-bind") == [
        ("/usr", "/usr"),
        ("/etc/alternatives", "/etc/alternatives"),
        ("/proc/sys", "/proc/sys"),
        ("/dev/null", "/proc/keys"),
        ("/stage/r", "/data"),
    ]
    assert not {"--dev-bind", "--share-net", "--cap-add", "--block-fd", "--bind-try", "--setenv"} & set(words)


@pytest.mark.parametrize(
    "option",
    ["--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session", "--clearenv"],
)
def test_every_sandbox_is_closed(option):
    """The options that close a sandbox are always there."""
    assert option in bubblewrap.arguments(Room("/w"), SYSTEM)


def test_the_root_is_read_only_before_the_workspace_comes():
    """Root and /dev are closed after the last folder was made in them; nothing is mounted after the workspace."""
    words = bubblewrap.arguments(Room("/w", (("/r", "/data"),)), SYSTEM)
    place = words.index("--bind") + 2

    assert [words[at + 1] for at, word in enumerate(words) if word == "--remount-ro"] == ["/dev", "/"]
    assert words.index("/dev/shm") < words.index("--remount-ro")  # noqa: S108 - inside the sandbox
    assert words.index("/data") < words.index("/", words.index("/data")) < place
    assert not {"--ro-bind", "--bind", "--tmpfs", "--dir", "--file", "--symlink"} & set(words[place:])


def test_every_temporary_folder_has_a_size():
    """Each tmpfs is preceded by its size and its rights."""
    words = bubblewrap.arguments(Room("/w", scratch_bytes=111, shared_bytes=222), SYSTEM)
    sizes = {words[at + 1]: words[at - 3] for at, word in enumerate(words) if word == "--tmpfs"}

    assert sizes == {"/dev/shm": "222", "/tmp": "111", "/home": "111"}  # noqa: S108 - inside the sandbox


def test_a_folder_of_the_system_can_be_replaced():
    """The folder /usr is taken from elsewhere when names in it are masked."""
    words = bubblewrap.arguments(Room("/w", replaced=(("/usr", "/stage/usr"),)), SYSTEM)

    assert ("/stage/usr", "/usr") in pairs(words, "--ro-bind")
    assert ("/usr", "/usr") not in pairs(words, "--ro-bind")


def test_the_command_line_names_no_path_of_the_host():
    """What the sandbox can read of bubblewrap's command line is the stub and where arguments come from."""
    assert bubblewrap.command("STUB", "/usr/bin/dash", "c0ffee") == [
        "/usr/bin/bwrap", "--args", "8", "--", "/usr/bin/dash", "-c", "STUB", "spawn error", "c0ffee",
    ]  # fmt: skip


def test_arguments_are_separated_by_nul():
    """Any bytes but NUL can be in a path."""
    assert bubblewrap.encoded(["a", "b\n", "\udcff"]) == b"a\0b\n\0\xff\0"


def test_grants_below_grants_are_left_out():
    """The outermost of nested paths is enough; a neighbour with the same beginning is another path."""
    assert bubblewrap.grants(["/a/b/c", "/a/b", "/a/bc", "/a/b"]) == ("/a/b", "/a/bc")


@pytest.mark.parametrize(
    "path",
    ["/", "", "relative", "/a/../b", "/usr", "/tmp", "/home", "/proc", "/dev/x", "/workspace"],  # noqa: S108 - names of folders inside
)
def test_grants_over_own_folders_are_refused(path):
    """A path that would cover the sandbox's own folders raises."""
    with pytest.raises(ValueError, match="cannot be granted"):
        bubblewrap.grants([path])


def test_a_grant_below_var_tmp_meets_no_link():
    """The name /var/tmp is a link to /tmp, unless something is granted below it."""
    plain = bubblewrap.arguments(Room("/w"), SYSTEM)
    granted = bubblewrap.arguments(Room("/w", (("/r", "/var/tmp/x"),)), SYSTEM)  # noqa: S108 - inside the sandbox

    assert ("/tmp", "/var/tmp") in pairs(plain, "--symlink")  # noqa: S108 - inside the sandbox
    assert ("/tmp", "/var/tmp") not in pairs(granted, "--symlink")  # noqa: S108 - inside the sandbox
