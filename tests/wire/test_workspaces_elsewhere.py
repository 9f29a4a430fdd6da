"""Folders and repositories that travel to a runner elsewhere: what is there is what was here, and changes come back."""

import os
import subprocess

import pytest

from tests.acceptance.repositories import ODD, git, grow, picture
from tests.wire.stage import TIPSTAFF, Stage

LOOK = "find . -path ./.git -prune -o -mindepth 1 -printf '%P\\0%y\\0%l\\0' | sort -z | sha256sum; find . -type f \
-not -path './.git/*' -print0 | sort -z | xargs -0 sha256sum -z | sha256sum; find . -type f -perm /100 -print0 \
-not -path './.git/*' | sort -z | sha256sum"


@pytest.fixture(scope="module")
def working(tmp_path_factory):
    """A plane and a runner that the tests below share."""
    with Stage(tmp_path_factory.mktemp("elsewhere")) as made:
        made.init_plane().start_plane()
        made.start_runner("one")
        yield made


@pytest.fixture(scope="module")
def anna(working):
    """Run the command line in a folder, as somebody with a token."""
    environ = working.environ(TIPSTAFF_PLANE=working.url, TIPSTAFF_TOKEN=working.token("anna"))

    def call(folder, *words, code=0):
        ended = subprocess.run(
            [TIPSTAFF, *map(str, words)], env=environ, cwd=folder, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=100, check=False,
        )  # fmt: skip
        assert code is None or ended.returncode == code, (words, ended.returncode, ended.stdout, ended.stderr)
        return ended

    return call


def furnish(folder):
    """Put everything into a folder that a name, a mode or a link can be."""
    for name in ODD:
        (folder / os.fsdecode(name)).write_bytes(b"content of " + name)
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "tool.sh").write_text("#!/bin/sh\necho tool\n")
    (folder / "deep" / "er" / "tool.sh").chmod(0o755)
    (folder / "link").symlink_to("deep/er/tool.sh")
    (folder / "dangling").symlink_to("nowhere/at/all")
    (folder / "binary").write_bytes(bytes(range(256)) * 4000)
    (folder / "empty").write_bytes(b"")
    return folder


def looked_at(folder):
    """What the script says of a folder here."""
    return subprocess.run(["/bin/sh", "-c", LOOK], cwd=folder, capture_output=True, check=True).stdout


@pytest.mark.parametrize("kind", ["folder", "repository", "dirty"])
def test_what_is_there_is_what_was_here(anna, tmp_path, kind):
    """Names, contents, links and the right to execute are the same at the runner, in a folder and in a repository."""
    folder = tmp_path / "work"
    if kind == "folder":
        folder.mkdir()
        furnish(folder)
    else:
        furnish(grow(folder))
        git(folder, "add", "--all") if kind == "repository" else None
        git(folder, "commit", "--quiet", "--message", "odd") if kind == "repository" else None
    before = picture(folder, but=b".git")

    ended = anna(folder, "run", "--quiet", "--workspace", folder, "--shell", LOOK)

    assert ended.stdout == looked_at(folder)
    assert picture(folder, but=b".git") == before


@pytest.mark.parametrize("kind", ["folder", "repository"])
def test_a_change_comes_back_and_is_applied(anna, tmp_path, kind):
    """Files that were added, changed, removed and made executable elsewhere are so here after apply."""
    folder = tmp_path / "work"
    furnish(grow(folder) if kind == "repository" else _made(folder))
    script = "echo more >> binary; rm empty; printf new > 'n e w'; chmod +x 'n e w'; rm dangling; ln -s binary linked"

    anna(folder, "run", "--quiet", "--workspace", folder, "--shell", script)
    assert (folder / "empty").exists()
    shown = anna(folder, "diff", "last", "--stat").stdout
    anna(folder, "apply", "last")

    assert b"n e w" in shown
    assert (folder / "binary").read_bytes().endswith(b"\xffmore\n")
    assert not (folder / "empty").exists()
    assert (folder / "n e w").read_text() == "new"
    assert os.access(folder / "n e w", os.X_OK)
    assert (folder / "linked").readlink().name == "binary"
    assert not (folder / "dangling").is_symlink()


def _made(folder):
    folder.mkdir()
    return folder


def test_many_files_travel_once(anna, working, tmp_path):
    """Three thousand files arrive; a second run of the same folder sends nothing that the plane has already."""
    folder = _made(tmp_path / "work")
    for number in range(3000):
        (folder / f"file-{number:04}").write_text(f"content {number}\n" * 20)
    count = "ls | wc -l; cat file-2999 | tail -1"

    first = anna(folder, "run", "--quiet", "--workspace", folder, "--shell", count)
    posts = working.plane.text.count("/v1/blobs")
    second = anna(folder, "run", "--quiet", "--workspace", folder, "--shell", count)

    assert first.stdout == second.stdout == b"3000\ncontent 2999\n"
    sent = [line for line in working.plane.text.splitlines() if "/v1/blobs" in line and "POST" in line]
    assert len(sent) < 20
    assert working.plane.text.count("/v1/blobs") - posts < 20


@pytest.mark.parametrize("words", [["--in-place"], ["--read", "/etc/hostname"]])
def test_what_only_this_machine_could_give_is_refused(anna, tmp_path, words):
    """A live folder or a file of this machine cannot be shown to a run elsewhere, and the refusal says so."""
    folder = _made(tmp_path / "work")

    ended = anna(folder, "run", "--workspace", folder, *words, "--", "true", code=None)

    assert ended.returncode != 0
    assert words[0].encode() in ended.stderr


def test_a_long_script_travels(working, anna, tmp_path):
    """A script or a program that is longer than any argument may be runs elsewhere too."""
    path = tmp_path / "long.py"
    path.write_text("\n".join(["x = 1"] * 50_000 + ["print('long')"]))
    script = "\n".join(["x=1"] * 50_000 + ["echo long"])

    program = anna(tmp_path, "run", "--quiet", "--python", path)
    run_id = working.submit(script)

    assert program.stdout == b"long\n"
    assert working.until(run_id)["status"] == "completed"
    assert working.ask("GET", f"/v1/runs/{run_id}/output/stdout").body == b"long\n"
