"""Which files a command sees, and which it can change."""

import os
import re
import socket
from pathlib import Path

import pytest

WRITE = "for place in {}; do (echo x > $place/probe) 2>/dev/null && echo $place; done"
HOST_FOLDERS = ("/root", "/home/*", "/run", "/var/lib", "/var/log", "/mnt", "/opt", "/srv", "/boot", "/sys", "/media")


def listing(folder: Path) -> dict[str, str]:
    """Every file below a folder with its content."""
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


async def test_only_scratch_and_the_workspace_can_be_written(run):
    """A command writes in /tmp, /home, /dev/shm and its workspace, and nowhere else."""
    places = "/ /etc /usr /usr/bin /dev /proc /proc/sys/kernel /var /tmp /home /dev/shm ."

    outcome = await run("sh", "-c", WRITE.format(places))

    assert outcome.text.split() == ["/tmp", "/home", "/dev/shm", "."]  # noqa: S108 - inside the sandbox


@pytest.mark.promise("files")
async def test_the_hosts_folders_do_not_exist(run):
    """Folders of the host that hold data are not there at all; /usr is."""
    outcome = await run("sh", "-c", f"ls -d {' '.join(HOST_FOLDERS)} /usr 2>/dev/null")

    assert outcome.text == "/usr"


@pytest.mark.promise("files")
async def test_the_hosts_accounts_are_not_told(run):
    """The file /etc/passwd names one user and nobody; the command is that user, and /etc/shadow does not exist."""
    outcome = await run("sh", "-c", "cut -d: -f1 /etc/passwd; whoami; id -g; ls /etc/shadow 2>&1 | grep -c 'No such'")

    assert outcome.text.split() == ["sandbox", "nobody", "sandbox", "1000", "1"]


@pytest.mark.parametrize("kind", ["file", "folder"])
@pytest.mark.parametrize("listed", [True, False])
async def test_only_listed_files_can_be_read(run, tmp_path, kind, listed):
    """A file is visible if, and only if, the plan lists it or its folder; also one that only its owner may read."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    secret = closed / "secret"
    secret.write_text("hunter2")
    secret.chmod(0o600)
    granted = secret if kind == "file" else closed

    outcome = await run("cat", str(secret), readable=(granted,) if listed else ())

    assert (outcome.stdout == b"hunter2") is listed


async def test_what_is_readable_cannot_be_written(run, tmp_path):
    """A readable folder stays as it was: no file can be changed, made or removed."""
    folder = tmp_path / "readable"
    folder.mkdir()
    (folder / "kept").write_text("as it was")

    outcome = await run("sh", "-c", f"cd {folder}; cat kept; echo x > kept; touch new; rm kept", readable=(folder,))

    assert outcome.text == "as it was"
    assert listing(folder) == {"kept": "as it was"}


async def test_grants_inside_grants_are_one(run, tmp_path):
    """A path below another granted path needs no mount of its own, which could be led astray."""
    inner = tmp_path / "readable" / "inner"
    inner.mkdir(parents=True)
    (inner / "file").write_text("seen")

    outcome = await run("cat", str(inner / "file"), readable=(inner, tmp_path / "readable"))

    assert outcome.text == "seen"


@pytest.mark.parametrize("path", ["/", "/proc/1", "/dev", "/workspace/x", "relative", "/tmp", "/a/../etc"])  # noqa: S108 - names of folders inside
async def test_grants_over_the_sandboxs_own_folders_are_refused(run, path):
    """A readable path that would cover what the sandbox is made of ends as `setup-failed`, with the path."""
    outcome = await run("true", readable=(Path(path),))

    assert outcome.told == ("setup-failed", 125)
    assert path in outcome.ended.reason


async def test_copy_on_write_changes_nothing_outside(run, workspace):
    """A command may change, remove and add whatever it likes in its view; the folder on the host stays as it was."""
    before = listing(workspace)
    script = "echo after > file; rm -r inner; mkdir new; echo x > new/x; mv link other; chmod 600 file; ls; cat file"

    outcome = await run("sh", "-c", script, workspace=workspace)

    assert outcome.text.split() == ["file", "new", "other", "after"]
    assert listing(workspace) == before
    assert (workspace / "link").is_symlink()


async def test_copy_on_write_sees_what_is_there(run, workspace):
    """The view starts as the folder is: files, folders, links, and their rights."""
    (workspace / "file").chmod(0o640)

    outcome = await run(
        "sh",
        "-c",
        "cat file inner/deep link; stat -c %a file; test $(stat -c %u file) = $(id -u) && echo ours",
        workspace=workspace,
    )

    assert outcome.text.split() == ["before", "deep", "before", "640", "ours"]


async def test_rm_rf_leaves_the_folder(run, workspace):
    """Removing everything empties the view and nothing else."""
    outcome = await run("sh", "-c", "rm -rf * .[!.]*; ls -A", workspace=workspace)

    assert outcome.text == ""
    assert sorted(path.name for path in workspace.iterdir()) == ["file", "inner", "link"]


async def test_runs_do_not_see_each_other(run, workspace):
    """What one run writes in its view is not there in the next one."""
    await run("sh", "-c", "echo x > left; echo y > /tmp/left; echo z > /home/left", workspace=workspace)

    outcome = await run("sh", "-c", "ls -A . /tmp /home | grep left", workspace=workspace)

    assert outcome.ended.exit_code == 1


async def test_in_place_changes_the_folder(run, workspace):
    """In place, what a command writes is on the host, and belongs to whoever owns the folder."""
    outcome = await run(
        "sh", "-c", "echo after > file; mkdir new; echo x > new/x; rm -r inner", workspace=workspace, mode="in-place"
    )

    assert outcome.told == ("exited", 0)
    assert listing(workspace) == {"file": "after\n", "link": "after\n", "new/x": "x\n"}
    assert {path.lstat().st_uid for path in workspace.rglob("*")} == {os.geteuid()}


async def test_a_folder_below_a_closed_one_works(run, tmp_path):
    """A workspace below a folder that only its owner may enter is shown like any other, both ways."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    inner = closed / "workspace"
    inner.mkdir()
    (inner / "file").write_text("here")

    viewed = await run("cat", "file", workspace=inner)
    changed = await run("sh", "-c", "echo new > file", workspace=inner, mode="in-place")

    assert (viewed.text, changed.told) == ("here", ("exited", 0))
    assert (inner / "file").read_text() == "new\n"


async def test_links_lead_nowhere_outside(run, workspace, tmp_path):
    """A link in the workspace to a file of the host ends inside the sandbox, where that file is not."""
    (tmp_path / "outside").write_text("hunter2")
    (workspace / "out").symlink_to(tmp_path / "outside")
    (workspace / "root").symlink_to("/")

    outcome = await run("sh", "-c", f"cat out root{tmp_path}/outside; cat file", workspace=workspace)

    assert outcome.text == "before"


@pytest.mark.parametrize("mode", ["copy-on-write", "in-place"])
async def test_odd_names_are_only_names(run, tmp_path, mode):
    """A workspace whose name has spaces, commas, colons, quotes, newlines and bytes that are no text is one."""
    folder = tmp_path / os.fsdecode(b"a b,c:d\\e'f\"g\nh\xff")
    folder.mkdir()
    (folder / "file").write_text("here")

    assert (await run("cat", "file", workspace=folder, mode=mode)).text == "here"


async def test_a_hosts_socket_cannot_be_reached(run, tmp_path, monkeypatch):
    """Through a readable folder or a copy-on-write view no socket of the host answers; on the host it does."""
    folder = tmp_path / "folder"
    folder.mkdir()
    connect = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1]); print('connected')"
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as friend:
        monkeypatch.chdir(folder)  # the path of a socket must be short
        listener.bind("s")
        (folder / "s").chmod(0o777)
        listener.listen()
        friend.connect("s")

        viewed = await run("python3", "-c", connect, "s", workspace=folder)
        read = await run("python3", "-c", connect, str(folder / "s"), readable=(folder,))

    assert (viewed.ended.exit_code, read.ended.exit_code) == (1, 1)
    assert re.search(b"refused|denied", viewed.stderr)
    assert re.search(b"refused|denied", read.stderr)


@pytest.mark.parametrize("kind", ["socket", "pipe", "neither"])
async def test_a_folder_with_a_way_out_is_not_used_in_place(run, workspace, monkeypatch, kind):
    """In place a socket or a named pipe would lead to processes outside: refused by name; without one it runs."""
    way_out = workspace / "inner" / "way-out"
    if kind == "socket":
        monkeypatch.chdir(workspace)  # the path of a socket must be short
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("inner/way-out")
    if kind == "pipe":
        os.mkfifo(way_out)

    outcome = await run("true", workspace=workspace, mode="in-place")

    assert outcome.told == (("exited", 0) if kind == "neither" else ("setup-failed", 125))
    assert ("way-out" in outcome.ended.reason) is (kind != "neither")


async def test_masked_names_do_not_exist(run):
    """A masked program is not found, however it is called; its neighbours, and a link's target, are there."""
    outcome = await run("sh", "-c", "id; /usr/bin/awk 1; command -v mawk; command -v env", masked=("id", "awk"))
    unmasked = await run("sh", "-c", "id -u >/dev/null && echo 0; awk 'BEGIN { print 1 }'")

    assert outcome.stderr.count(b"not found") == 2
    assert outcome.text.split() == ["/usr/bin/mawk", "/usr/bin/env"]
    assert unmasked.text.split() == ["0", "1"]


async def test_the_kernels_own_files_are_closed(run):
    """Files of /proc that tell about the host cannot be read, and none that steers the kernel can be written."""
    closed = "/proc/cmdline /proc/keys /proc/kallsyms /proc/kcore /proc/config.gz"
    steering = "/proc/sys/kernel/core_pattern /proc/sys/vm/swappiness /proc/sysrq-trigger /proc/sys/kernel/hostname"

    outcome = await run(
        "sh",
        "-c",
        f"for f in {closed}; do head -c 1 $f 2>/dev/null | grep -qa . && echo read $f; done;"
        f"for f in {steering}; do (cat $f > $f) 2>/dev/null && echo wrote $f; done; head -c 5 /proc/version",
    )

    assert outcome.text == "Linux"


@pytest.mark.promise("files")
async def test_devices_are_the_harmless_ones(run):
    """A command finds null, zero and randomness, no disk, memory or terminal of the host, and cannot make devices."""
    outcome = await run(
        "sh", "-c", "ls /dev; mknod /tmp/disk b 8 0 2>/dev/null && echo made; head -c 3 /dev/zero | wc -c"
    )

    names = set(outcome.text.split())
    assert {"null", "zero", "full", "random", "urandom", "tty", "3"} <= names
    assert names <= {"3", "console", "core", "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin",
                     "stdout", "tty", "urandom", "zero"}  # fmt: skip


@pytest.mark.parametrize("granted", ["workspace", "in-place", "readable"])
@pytest.mark.parametrize("name", ["real", "link"])
async def test_a_link_on_the_way_is_refused(run, tmp_path, granted, name):
    """A granted path that leads through a link is refused with both names; the real path is taken."""
    (tmp_path / "real" / "inner").mkdir(parents=True)
    (tmp_path / "real" / "inner" / "file").write_text("here")
    (tmp_path / "link").symlink_to("real")
    path = tmp_path / name / "inner"
    options = {
        "workspace": {"workspace": path},
        "in-place": {"workspace": path, "mode": "in-place"},
        "readable": {"readable": (path,)},
    }[granted]

    outcome = await run("cat", "file" if granted != "readable" else str(path / "file"), **options)

    if name == "real":
        assert outcome.text == "here"
    else:
        assert outcome.told == ("setup-failed", 125)
        assert str(path) in outcome.ended.reason
        assert str(tmp_path / "real" / "inner") in outcome.ended.reason
