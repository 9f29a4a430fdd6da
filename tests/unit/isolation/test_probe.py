"""Causes and remedies, on hosts that are made up from a few files."""

import pytest

from tipstaff.isolation import probe


def host(folder, files):
    """A host's root with bubblewrap and some files."""
    for name, content in {"usr/bin/bwrap": "", **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    (folder / "usr/bin/bwrap").chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("files", "cause", "remedy"),
    [
        ({"proc/sys/kernel/unprivileged_userns_clone": "0\n"}, "namespaces are off", "sysctl -w kernel.unprivileged"),
        ({"proc/sys/user/max_user_namespaces": "0\n"}, "namespaces are off", "sysctl -w user.max_user_namespaces"),
        ({"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n"}, "AppArmor", "sysctl -w kernel.apparmor"),
        ({".dockerenv": ""}, "inside a container", "--security-opt"),
        ({"proc/sys/user/max_user_namespaces": "96343\n"}, "it says no", ""),
    ],
)
def test_a_cause_has_its_remedy(tmp_path, files, cause, remedy):
    """Each setting that keeps sandboxes away is named with the command that mends it; otherwise what was heard is."""
    found = probe.cause("it says no", host(tmp_path, files))

    assert cause in found[0]
    assert found[1].startswith(remedy) if remedy == "" else remedy in found[1]


def test_no_bubblewrap_is_the_first_cause(tmp_path):
    """Without the program nothing else matters."""
    assert probe.cause("it says no", tmp_path) == ("/usr/bin/bwrap is not there", "apt-get install bubblewrap")
