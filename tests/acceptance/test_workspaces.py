"""Workspaces through the whole way: a folder goes into a run as a copy, and its change comes back when it is applied.

The real program works on real repositories and folders, captured in every form and looked at live. Whatever a run
does, the folder is compared as a whole, its `.git` too, before and after.
"""

import json
import os
import pty
import re
import sqlite3
import subprocess
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import tipstaff as library
from tests.acceptance.beside import started
from tests.acceptance.conftest import TIPSTAFF
from tests.acceptance.repositories import ODD, SMALL, commit, fill, git, grow, holding, picture
from tests.meanwhile import meanwhile
from tipstaff.evidence import verify
from tipstaff.home import Home
from tipstaff.isolation import places, uids
from tipstaff.keys.known import read_known_keys

Json = dict[str, Any]
Ended = subprocess.CompletedProcess[bytes]
Ran = Callable[..., str]
CAPTURED = ("git", "lean", "tree")
RUN = re.compile(rb"run_[0-9a-f-]{36}")
NOTE = b"""\
diff --git a/MOCK_AGENT.md b/MOCK_AGENT.md
new file mode 100644
index 0000000000000000000000000000000000000000..2895ac09af7c5a3ee5e81fa99e3246f2a3b20cee
--- /dev/null
+++ b/MOCK_AGENT.md
@@ -0,0 +1,4 @@
+## task
+add a note
+
+secret:absent
"""
WRITTEN = "## task\nadd a note\n\nsecret:absent\n"
HIDDEN = "hunter2-4d0c1b7a9e5f"  # what must not leave its folder


@pytest.fixture
def small(tmp_path) -> Path:
    """A small repository of the person's."""
    return grow(tmp_path / "small")


@pytest.fixture
def plain(tmp_path) -> Path:
    """A folder with the same files, which is no repository."""
    return fill(tmp_path / "plain")


@pytest.fixture
def home(environ) -> Path:
    """Where the program keeps everything."""
    return Path(environ["TIPSTAFF_HOME"])


@pytest.fixture
def ran(tipstaff, home, tmp_path) -> Ran:
    """Have a script run on a folder; gives the run's id. The folder is as it was, and the proof is valid."""

    def run(folder: Path, script: str, *options: object) -> str:
        before = picture(folder)
        words = ("run", "--agent", "command", "--bundle", tmp_path / "bundle", *options, script)
        told = tipstaff(*words, cwd=folder)
        assert (told.returncode, b"Traceback" in told.stderr) == (0, False), told.stdout + told.stderr
        assert picture(folder) == before
        bundle: Json = json.loads((tmp_path / "bundle").read_text())
        assert verify(bundle, known=read_known_keys(Home(home).known_keys)).verdict == "valid"
        return str(bundle["contract"]["runId"])

    return run


@pytest.fixture
def asked(tipstaff) -> Callable[..., Json]:
    """Ask the program for JSON."""

    def ask(*words: object) -> Json:
        told = tipstaff(*words, "--json")
        assert b"Traceback" not in told.stderr
        answer: Json = json.loads(told.stdout)
        return answer

    return ask


def shown(form: str) -> tuple[str, ...]:
    """Spell how the folder that the program stands in is shown to a run: captured in a form, or as it is."""
    if form == "auto":
        return ()
    return ("--workspace", ".", "--capture", "none") if form == "live" else ("--capture", form)


def is_sentence(ended: Ended, code: int, *says: bytes) -> bool:
    """Claim that the program ended with this code and said all of this, in sentences of its own."""
    assert (ended.returncode, b"Traceback" in ended.stderr) == (code, False), ended.stdout + ended.stderr
    assert [one for one in says if one not in ended.stderr] == [], ended.stderr
    return True


def statuses(changes: list[Json]) -> dict[str, str]:
    """Say of each changed name what happened to it."""
    return {change["path"]: change["status"] for change in changes}


# What is shown when it is done.


@pytest.mark.parametrize("form", ["auto", "git", "live"])
def test_a_note_comes_back_when_it_is_applied(tipstaff, small, tmp_path, form):
    """A run leaves the repository untouched; diff shows its note, apply brings it, revert takes it away."""
    before = picture(small)

    done = tipstaff("run", "--agent", "mock", *shown(form), "--bundle", tmp_path / "b", "add a note", cwd=small)
    assert (done.returncode, picture(small)) == (0, before), done.stderr
    run = RUN.findall(done.stderr)[0]
    assert b"1 file changed, in a copy: tipstaff diff %s, then: tipstaff apply %s" % (run, run) in done.stderr
    assert tipstaff("verify", tmp_path / "b").returncode == 0
    assert (tipstaff("diff", run).stdout, picture(small)) == (NOTE, before)

    assert is_sentence(tipstaff("apply", run), 0, b"1 change brought to ")
    assert (small / "MOCK_AGENT.md").read_text() == WRITTEN
    assert picture(small).keys() - before.keys() == {b"MOCK_AGENT.md"}
    assert git(small, "status", "--short") == "?? MOCK_AGENT.md"

    assert is_sentence(tipstaff("apply", "--revert", run), 0, b"1 change undone in ")
    assert picture(small) == before | {b".git/index": picture(small)[b".git/index"]}  # git status wrote it


def test_a_folder_that_is_no_repository_is_as_good(tipstaff, plain):
    """The same in a folder without git; the forms that need a commit are refused with the way on."""
    before = picture(plain)

    assert tipstaff("run", "--agent", "mock", "add a note", cwd=plain).returncode == 0
    assert (tipstaff("diff", "last").stdout, picture(plain)) == (NOTE, before)
    tipstaff("apply", "last")
    assert (plain / "MOCK_AGENT.md").read_text() == WRITTEN
    tipstaff("apply", "--revert", "last")
    assert picture(plain) == before


@pytest.mark.parametrize("form", ["git", "lean"])
def test_a_form_that_needs_a_commit_is_refused_elsewhere(tipstaff, plain, form):
    """Where there is no repository, the forms of git are refused, and tree is offered."""
    refused = tipstaff("run", "--agent", "mock", *shown(form), "x", cwd=plain)

    assert is_sentence(refused, 126, b"is not the top of a git repository", b"--capture tree")


def test_a_live_workspace_has_a_change_set_too(tipstaff, small, tmp_path):
    """A run with `--workspace DIR -- CMD` changes nothing in the folder, and its change is brought like any other."""
    before = picture(small)

    done = tipstaff("run", "--workspace", small, "--", "sh", "-c", "cat .git/HEAD; echo more >> README.md")
    assert (done.stdout, picture(small)) == (b"ref: refs/heads/main\n", before)
    assert tipstaff("diff", "last", "--stat").stdout == b" README.md | 1 +\n 1 changed, +1 -0 lines\n"
    tipstaff("apply", "last", cwd=tmp_path)
    assert (small / "README.md").read_text() == "# Notes\nmore\n"


def test_python_has_the_same_door(home, small):
    """A `tipstaff.run` with an agent captures the workspace, and its outcome names the changes."""
    before = picture(small)

    outcome = library.run(agent="mock", prompt="add a note", workspace=small, home=home)

    assert (outcome.ok, statuses(list(outcome.changes))) == (True, {"MOCK_AGENT.md": "added"})
    assert picture(small) == before
    assert library.run(["true"], workspace=small, home=home).changes == ()


def test_a_diff_has_colours_names_and_numbers(tipstaff, asked, ran, small):
    """Colours where they are wanted, one path of many, and lines by number in JSON."""
    ran(small, "echo more >> README.md; echo x > src/new")

    assert b"\x1b[32m+more\x1b[m\n" in tipstaff("diff", "last", "--color", "always").stdout
    assert b"\x1b" not in tipstaff("diff", "last").stdout
    assert b"README" not in tipstaff("diff", "last", "src").stdout
    assert is_sentence(tipstaff("diff", "last", "nowhere"), 64, b"the run changed nothing that is called nowhere")
    told = asked("diff", "last")
    assert (statuses(told["changes"]), told["linesAdded"]) == ({"README.md": "changed", "src/new": "added"}, 2)


# What a run plants.

PLANTS = """
mkdir -p .git/hooks sub .husky .vscode .github/workflows
printf '#!/bin/sh\\ntouch {canary}\\n' > .git/hooks/post-checkout && chmod +x .git/hooks/post-checkout
printf '[core]\\n\\tfsmonitor = touch {canary};\\n[filter "evil"]\\n\\tclean = touch {canary}; cat\\n' >> .git/config
echo '* filter=evil' > .gitattributes
echo 'touch {canary}' > .envrc
ln -s /etc/passwd passwd
printf 'gitdir: /nowhere' > sub/.git
echo 'touch {canary}' > .husky/pre-commit
echo '{{}}' > .vscode/tasks.json
echo 'on: push' > .github/workflows/x.yml
echo 'touch {canary}' > ls && chmod +x ls
echo '{{"scripts": {{"postinstall": "touch {canary}"}}}}' > package.json
echo '{{"mcpServers": {{}}}}' > .mcp.json
echo 'touch {canary}' > .bashrc
echo fine > fine.txt
chmod u+s ls 2> /dev/null && echo "set-uid was let through"
true
"""
INSIDE_GIT = (
    ".git/config: inside .git, never brought back: sets core.fsmonitor, filter.evil.clean",
    ".git/hooks/post-checkout: inside .git, never brought back: it is a hook",
    "sub/.git",
)
ASKED = (
    ".gitattributes",
    ".envrc",
    "passwd",
    ".husky/pre-commit",
    ".vscode/tasks.json",
    ".github/workflows/x.yml",
    "ls",
    "package.json",
    ".mcp.json",
    ".bashrc",
)


@pytest.mark.parametrize("form", ["lean", "live"])
def test_what_a_run_plants_is_named_and_nothing_fires(tipstaff, small, tmp_path, form):
    """Hooks, drivers, editor tasks, links and the like change nothing on the host, and apply names each of them."""
    canary, before = tmp_path / "canary", picture(small)
    script = PLANTS.format(canary=canary)

    done = tipstaff("run", "--agent", "command", *shown(form), script, cwd=small)
    assert (done.returncode, done.stdout) == (0, b""), done.stderr
    assert tipstaff("diff", "last").returncode == 0
    refused = tipstaff("apply", "last")

    not_brought = [f"not brought: {name}".encode() for name in INSIDE_GIT]
    asked_for = [f"tipstaff: {name}: ".encode() for name in ASKED]
    assert is_sentence(refused, 126, *not_brought, *asked_for, b"10 files later", b"no terminal to ask on")
    assert picture(small) == before
    git(small, "status")
    git(small, "diff")
    assert not canary.exists()


def test_what_was_planted_can_be_taken_by_name(tipstaff, small, tmp_path):
    """With each accepted by name everything comes but what is inside a .git; without one of them, nothing."""
    canary, before = tmp_path / "canary", picture(small)
    tipstaff("run", "--agent", "command", PLANTS.format(canary=canary), cwd=small)
    accepted = [word for name in ASKED for word in ("--accept", name)]

    assert is_sentence(tipstaff("apply", "last", *accepted[2:]), 126, b"1 file later")
    assert picture(small) == before
    assert is_sentence(tipstaff("apply", "last", *accepted), 0, b"11 changes brought")
    assert picture(small / ".git") == {name[5:]: what for name, what in before.items() if name[:5] == b".git/"}
    assert ((small / "passwd").readlink(), (small / "sub").exists()) == (Path("/etc/passwd"), False)
    git(small, "status")
    assert not canary.exists()
    assert tipstaff("apply", "--revert", "last").returncode == 0
    assert picture(small, but=b".git") == {
        name: what for name, what in before.items() if name[:4] != b".git" or name == b".gitignore"
    }


def test_the_plants_would_fire(small, tmp_path):
    """The twin: the same script, run in the folder itself, makes git execute what was planted."""
    canary = tmp_path / "canary"
    subprocess.run(["/bin/sh", "-c", PLANTS.format(canary=canary)], cwd=small, check=True, capture_output=True)

    git(small, "status", check=False)
    assert canary.exists()


@pytest.mark.parametrize("form", ["lean", "live"])
def test_a_git_file_in_place_of_the_repository_stays_inside(tipstaff, ran, small, form):
    """A .git that becomes a file which leads elsewhere is named, and the repository is as it was."""
    ran(small, "rm -rf .git; echo 'gitdir: /var/tmp' > .git; echo x > y", *shown(form))
    before = picture(small / ".git")

    assert is_sentence(
        tipstaff("apply", "last"),
        0,
        b"not brought: .git: inside .git, never brought back: it stands in place of the repository",
    )
    assert ((small / "y").read_text(), picture(small / ".git")) == ("x\n", before)


def answered(environ: dict[str, str], typed: bytes, *words: str) -> tuple[int, bytes]:
    """Run the program on a terminal, and type this at each question; gives its exit code and what was shown."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(TIPSTAFF, [TIPSTAFF, *words], environ)  # noqa: S606 - the program under test, on a terminal
    shown, questions = b"", 0
    try:
        while chunk := os.read(terminal, 4096):
            shown += chunk
            if shown.count(b"[y/N]") > questions:
                questions += 1
                time.sleep(0.1)  # what is typed before the question is thrown away
                os.write(terminal, typed)
    except OSError:
        pass  # the terminal is gone with its last user
    finally:
        os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown


def test_a_person_is_asked_for_each(ran, environ, small):
    """On a terminal a no changes nothing at all, and a yes to each question brings everything."""
    run, before = ran(small, "echo x > .envrc; echo y > Makefile; echo z > fine"), picture(small)

    code, shown = answered(environ, b"n\n", "apply", run)
    assert (code, picture(small)) == (126, before), shown
    assert b"was not agreed to: nothing was brought" in shown
    code, shown = answered(environ, b"y\n", "apply", run)
    assert (code, shown.count(b"[y/N]")) == (0, 2), shown
    assert picture(small).keys() - before.keys() == {b".envrc", b"Makefile", b"fine"}


# What is never captured.


def contract(asked: Callable[..., Json], run: str = "last") -> Json:
    """Give the manifest that the contract of a run carries."""
    manifest: Json = asked("show", run)["contract"]["workspace"]
    return manifest


@pytest.mark.parametrize("form", CAPTURED)
def test_untracked_secrets_stay_where_they_are(tipstaff, asked, small, home, form):
    """A file that a pattern matches is not inside, is named in the contract and to the person, and is nowhere else."""
    fill(small, {".env": HIDDEN, "deep/server.pem": HIDDEN, "src/ID_RSA.old": HIDDEN, "my.secret": HIDDEN})
    words = ("--deny", "*.secret", "find . -type f | grep -v .git/ | sort; cp src/main.c copy")

    done = tipstaff("run", "--agent", "command", *shown(form), *words, cwd=small)

    assert done.stdout.split() == [b"./.gitignore", b"./README.md", b"./src/main.c"]
    denied = [".env", "deep/server.pem", "my.secret", "src/ID_RSA.old"]
    assert is_sentence(done, 0, b"left out by the deny patterns: ", *map(str.encode, denied))
    manifest = contract(asked)
    assert (sorted(manifest["deniedPaths"]), "*.secret" in manifest["deniedPatterns"]) == (denied, True)
    assert holding(home, HIDDEN.encode()) == []


def test_a_live_workspace_shows_what_is_there(tipstaff, small):
    """The twin: the folder itself, looked at live, has such files in it."""
    fill(small, {".env": HIDDEN})

    assert tipstaff("run", "--workspace", small, "--", "cat", ".env").stdout == HIDDEN.encode()


def staged(folder: Path) -> None:
    """Have a denied file in the index only."""
    fill(folder, {"server.pem": HIDDEN})
    git(folder, "add", "server.pem")
    (folder / "server.pem").unlink()


def dirty(folder: Path) -> None:
    """Have one that is committed as something else, and changed since."""
    commit(folder, {"server.pem": "public\n"})
    fill(folder, {"server.pem": HIDDEN})


def removed(folder: Path) -> None:
    """Have one that HEAD still holds, although the index and the folder do not."""
    commit(folder, {"server.pem": HIDDEN})
    git(folder, "rm", "--quiet", "server.pem")


@pytest.mark.parametrize("form", ["git", "lean"])
@pytest.mark.parametrize("tracked", [staged, dirty, removed])
def test_tracked_secrets_are_a_refusal(tipstaff, small, home, tracked, form):
    """A denied file that git tracks in any way is named, nothing runs, and tree is offered."""
    tracked(small)

    refused = tipstaff("run", "--agent", "command", *shown(form), "echo ran", cwd=small)

    assert is_sentence(refused, 126, b"'server.pem'", b"--capture tree")
    assert (refused.stdout, holding(home, HIDDEN.encode())) == (b"", [])


def test_a_tree_leaves_tracked_secrets_out(tipstaff, asked, small, home):
    """The form that is offered takes everything else, and names what it left."""
    commit(small, {"server.pem": HIDDEN})

    done = tipstaff("run", "--agent", "command", "--capture", "tree", "ls -A; echo x > y", cwd=small)

    assert is_sentence(done, 0, b"left out by the deny patterns: 'server.pem'")
    assert done.stdout.split() == [b".gitignore", b"README.md", b"src"]
    assert contract(asked)["deniedPaths"] == ["server.pem"]
    assert holding(home, HIDDEN.encode()) == []


def test_a_secret_of_the_past_travels_with_the_history_only(tipstaff, small):
    """What only an older commit holds is refused where the history would travel, and is not there where it does not."""
    commit(small, {"server.pem": HIDDEN})
    blob = git(small, "rev-parse", "HEAD:server.pem")
    git(small, "rm", "--quiet", "server.pem")
    git(small, "commit", "--quiet", "--message", "without")

    whole = tipstaff("run", "--agent", "mock", "--capture", "git", "x", cwd=small)
    assert is_sentence(whole, 126, b"'server.pem' (commit ", b"--capture tree")
    script = f"git log --oneline | wc -l; git cat-file -e {blob} 2> /dev/null || echo absent"
    lean = tipstaff("run", "--agent", "command", "--capture", "lean", script, cwd=small)
    assert (lean.returncode, lean.stdout) == (0, b"1\nabsent\n"), lean.stderr


# What comes in.


@pytest.mark.parametrize("form", CAPTURED)
def test_what_is_not_committed_comes_along(tipstaff, small, form):
    """Staged, unstaged, deleted and untracked work is inside as it is in the folder; what is ignored is not."""
    fill(small, {"staged": "s\n", "build/out": "o\n"})
    git(small, "add", "staged")
    (small / "staged").chmod(0o755)
    (small / "bytes").write_bytes(bytes(range(256)))
    (small / "README.md").write_text("# Changed\n")
    (small / "src/main.c").unlink()
    (small / "link").symlink_to("README.md")
    script = (
        "find . -name .git -prune -o ! -type d -print | sort; cat link; sha256sum < bytes; test -x staged && echo x"
    )

    done = tipstaff("run", "--quiet", "--agent", "command", *shown(form), script, cwd=small)

    digest = picture(small)[b"bytes"][1]
    names = ["./.gitignore", "./README.md", "./bytes", "./link", "./staged"]
    assert done.stdout.decode().splitlines() == [*names, "# Changed", f"{digest}  -", "x"]


@pytest.mark.parametrize(("form", "commits"), [("git", "2"), ("lean", "1")])
def test_git_works_inside(tipstaff, small, form, commits):
    """Inside there is a repository at the same commit and branch; what is committed there stays there."""
    head = commit(small, {"more": "m\n"})
    fill(small, {"more": "changed\n"})
    script = """git log --format=%H | wc -l; git rev-parse HEAD; git branch --show-current; git status --short
        git config --list --local | grep -E 'remote|hook'
        git -c user.name=a -c user.email=b commit --quiet --all --message inside && git status --short"""
    before = picture(small)

    done = tipstaff("run", "--agent", "command", *shown(form), script, cwd=small)

    assert done.stdout.decode().split("\n") == [commits, head, "main", " M more", ""]
    assert is_sentence(done, 0)
    assert picture(small) == before


@pytest.mark.parametrize("form", CAPTURED)
def test_what_cannot_travel_is_named(tipstaff, asked, small, tmp_path, form):
    """Submodules, files kept elsewhere, pipes and links that lead out are each named; the rest is captured."""
    commit(small, {"large.bin": f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12345\n"})
    git(
        small,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        str(grow(tmp_path / "other")),
        "module",
    )
    git(small, "commit", "--quiet", "--message", "a module")
    os.mkfifo(small / "pipe")
    (small / "out").symlink_to("/etc/passwd")

    done = tipstaff("run", "--agent", "command", *shown(form), "ls", cwd=small)

    assert is_sentence(
        done, 0, b"'module' (a submodule", b"'out' (a link that leads out", b"LFS pointers", b"'large.bin'"
    )
    assert [one for one in (b"out", b"pipe") if one in done.stdout.split()] == []
    assert b"README.md" in done.stdout
    assert {"module", "out"} <= {one["path"] for one in contract(asked)["leftOut"]}


def bases(home: Path) -> list[Path]:
    """List the unpacked workspaces, oldest first."""
    return sorted((home / "workspaces").glob("*/bases/*"), key=lambda path: path.stat().st_ctime_ns)


@pytest.mark.parametrize("form", ["git", "lean"])
def test_nothing_is_copied_twice(tipstaff, small, home, form):
    """A second run uses the same base; after one file changed, the others are shared with it."""
    words = ("run", "--agent", "mock", *shown(form), "x")
    tipstaff(*words, cwd=small)
    (first,) = bases(home)
    stamps = {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in first.rglob("*")}

    tipstaff(*words, cwd=small)
    assert bases(home) == [first]
    assert {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in first.rglob("*")} == stamps

    fill(small, {"README.md": "# Other\n"})
    tipstaff(*words, cwd=small)
    (second,) = set(bases(home)) - {first}
    if form != "git":
        assert (second / "tree/src/main.c").samefile(first / "tree/src/main.c")
    assert not (second / "tree/README.md").samefile(first / "tree/README.md")
    assert (first / "tree/README.md").read_text() == "# Notes\n"


def test_a_base_is_never_written(ran, small, home):
    """A run that rewrites and removes everything leaves what it began from, and what others share, as it was."""
    ran(small, "true")
    (base,) = bases(home)
    before = picture(base / "tree")

    ran(small, "chmod -R u+w .; echo x > README.md; rm -rf src .git; chmod 600 .gitignore")

    assert picture(base / "tree") == before


# Repositories and folders that are not as they should be.


def rebasing(folder: Path) -> None:
    """Stop a rebase at a conflict."""
    git(folder, "checkout", "--quiet", "-b", "side")
    commit(folder, {"README.md": "# Side\n"})
    git(folder, "checkout", "--quiet", "main")
    commit(folder, {"README.md": "# Main\n"})
    git(folder, "rebase", "--quiet", "side", check=False)


@pytest.mark.parametrize("form", ["git", "lean"])
def test_a_repository_in_the_middle_of_a_rebase(tipstaff, small, form):
    """Files are captured as they are, with the marks of the conflict, and the person is told."""
    rebasing(small)

    done = tipstaff("run", "--agent", "command", *shown(form), "cat README.md", cwd=small)

    assert is_sentence(done, 0, b"a rebase is not finished in the repository")
    assert done.stdout == (small / "README.md").read_bytes()
    assert b"<<<<<<< " in done.stdout


def test_a_damaged_index(tipstaff, ran, small):
    """A repository that git cannot list is a sentence; as a tree it is captured all the same."""
    (small / ".git/index").write_bytes(b"DIRC" + b"\xff" * 40)

    for form in ("auto", "git"):
        refused = tipstaff("run", "--agent", "mock", *shown(form), "x", cwd=small)
        assert is_sentence(refused, 65, b"git cannot list the files", b"--capture tree")
    ran(small, "cat README.md", "--capture", "tree")


def test_a_repository_without_commits(tipstaff, asked, tmp_path):
    """It is captured as a tree; the forms that begin from a commit say that there is none."""
    folder = fill(tmp_path / "fresh")
    git(folder, "init", "--quiet")
    git(folder, "add", "README.md")

    assert tipstaff("run", "--agent", "mock", "x", cwd=folder).returncode == 0
    assert "git" not in contract(asked)
    for form in ("git", "lean"):
        refused = tipstaff("run", "--agent", "mock", *shown(form), "x", cwd=folder)
        assert is_sentence(refused, 126, b"is a repository without commits", b"--capture tree")


@pytest.mark.parametrize("form", ["git", "lean"])
def test_a_detached_head(tipstaff, small, form):
    """It is detached inside too, at the same commit."""
    head = commit(small, {"more": "m\n"})
    git(small, "checkout", "--quiet", "--detach")

    script = "git rev-parse HEAD; git symbolic-ref -q HEAD || echo detached"
    done = tipstaff("run", "--quiet", "--agent", "command", *shown(form), script, cwd=small)

    assert done.stdout.decode().split() == [head, "detached"], done.stderr


@pytest.mark.parametrize("form", ["git", "lean"])
def test_names_of_any_bytes_go_in_and_come_back(tipstaff, asked, ran, small, form):
    """Names that are no text, hold newlines, differ in case only or are 255 bytes long are exact in both directions."""
    raw = os.fsencode(small)
    for number, name in enumerate(ODD):
        Path(os.fsdecode(raw + b"/" + name)).write_bytes(b"%d\n" % number)
    git(small, "add", "--", *ODD[::2])
    git(small, "commit", "--quiet", "--message", "odd")

    run = ran(
        small,
        'for name in ./*; do test -d "$name" || echo more >> "$name"; done; echo new > "$(printf new-\\\\377)"',
        *shown(form),
    )
    told = {
        b64decode(one["pathBytes"]) if "pathBytes" in one else one["path"].encode()
        for one in asked("diff", run)["changes"]
    }
    assert told == {*ODD, b"README.md", b"new-\xff"}
    assert is_sentence(tipstaff("apply", run), 0)
    for number, name in enumerate(ODD):
        assert Path(os.fsdecode(raw + b"/" + name)).read_bytes() == b"%d\nmore\n" % number
    assert Path(os.fsdecode(raw + b"/new-\xff")).read_text() == "new\n"
    assert is_sentence(tipstaff("apply", run, "--revert"), 0)
    assert git(small, "status", "--short", "--untracked-files=no") == ""


def test_a_worktree_of_another_repository(tipstaff, ran, small, tmp_path):
    """A .git file that leads to the repository which made it is followed, and a branch lands there."""
    other = tmp_path / "other"
    git(small, "worktree", "add", "--quiet", "-b", "side", str(other))

    run = ran(other, "git branch --show-current; echo x > y")

    assert is_sentence(tipstaff("apply", run, "--branch", "brought"), 0)
    assert git(small, "show", "brought:y") == "x"
    assert not (other / "y").exists()


def test_a_git_file_that_leads_nowhere(tipstaff, small):
    """It is a sentence that names the place; as a tree the folder is captured all the same."""
    (small / ".git").rename(small.parent / "elsewhere")
    (small / ".git").write_text("gitdir: /nowhere/at-all\n")

    refused = tipstaff("run", "--agent", "mock", "x", cwd=small)
    assert is_sentence(refused, 65, b"/nowhere/at-all", b"--capture tree")
    assert tipstaff("run", "--agent", "mock", "--capture", "tree", "x", cwd=small).returncode == 0


def test_links_in_a_circle(ran, tipstaff, small):
    """Links that lead to each other, or to nothing, are links inside, and are followed by nobody."""
    for name, goal in (("a", "b"), ("b", "a"), ("src/up", "../src/up"), ("nothing", "not/there")):
        (small / name).symlink_to(goal)

    run = ran(small, "test -L a && test -L b && test -L src/up && test -L nothing && rm a")

    assert is_sentence(tipstaff("apply", run), 0)
    assert [(small / name).is_symlink() for name in ("a", "b")] == [False, True]


def writing(folder: Path) -> AbstractContextManager[None]:
    """Have somebody save two files there, one behind the other, all the time."""
    numbers = count(1)

    def save() -> None:
        number = next(numbers)
        for name in ("first", "second"):
            (folder.parent / "saved").write_text(str(number))
            (folder.parent / "saved").rename(folder / name)

    return meanwhile(save)


@pytest.mark.parametrize("form", ["git", "lean"])
def test_a_folder_that_changes_meanwhile(tipstaff, small, form):
    """What is captured is one moment's folder; where no moment can be had, the file that changes is named."""
    fill(small, {"first": "0", "second": "0"})

    with writing(small):
        ended = tipstaff("run", "--quiet", "--agent", "command", *shown(form), "cat first; echo; cat second", cwd=small)

    if ended.returncode == 0:
        first, second = map(int, ended.stdout.split())
        assert first - second in {0, 1}
    else:
        assert is_sentence(ended, 65, b"changes while it is captured", b"stop what writes to the folder")


def test_a_live_folder_that_is_edited_meanwhile(tipstaff, environ, small):
    """A file that somebody saves while a run looks at the folder is named, and apply does not write over it."""
    script = "echo begun; sleep 1; echo run >> README.md; echo x > y"
    with started([TIPSTAFF, "run", "--workspace", ".", "--shell", script], environ, small) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "begun\n"
        fill(small, {"README.md": "# Notes\nmine\n"})
        _, said = running.communicate(timeout=30)
    before = picture(small)

    assert "edited here while it ran" in said
    assert is_sentence(tipstaff("apply", "last"), 1, b"README.md", b"nothing was brought")
    assert picture(small) == before
    assert is_sentence(tipstaff("apply", "last", "--only", "y"), 0)


@pytest.mark.timeout(30)
def test_twenty_thousand_files(tipstaff, asked, tmp_path):
    """A large folder goes in whole, and only what was changed comes back."""
    folder = tmp_path / "large"
    for number in range(200):
        (folder / f"{number}").mkdir(parents=True)
        (folder / f"{number}/0").write_text(f"{number}\n")
        for other in range(1, 100):
            (folder / f"{number}/{other}").hardlink_to(folder / f"{number}/0")  # ten times faster than a new file

    done = tipstaff("run", "--agent", "command", "cat */* | wc -l; echo x > 7/7; rm 8/8", cwd=folder)

    assert (done.returncode, done.stdout, (folder / "7/7").read_text()) == (0, b"20000\n", "7\n"), done.stderr
    assert statuses(asked("diff", "last")["changes"]) == {"7/7": "changed", "8/8": "deleted"}


# What comes out.

MANY = {
    "changed": "was\n", "gone": "gone\n", "old-name": "a file that is renamed\n" * 9, "kept": "k\n",
    "file-to-folder": "1\n", "folder-to-file/in": "2\n", "dropped/a": "3\n", "dropped/b/c": "4\n",
}  # fmt: skip
SCRIPT = """
echo is > changed; rm gone; mv old-name new-name; echo a > added; ln -s kept link; echo k > kept
rm file-to-folder; mkdir file-to-folder; echo in > file-to-folder/in; rm -r folder-to-file; echo f > folder-to-file
rm -r dropped; ln -sfn elsewhere to-link; mkdir hollow; printf '\\000\\377' > bytes
"""
EXPECTED = {
    "added": "added", "bytes": "added", "changed": "changed", "dropped/a": "deleted", "dropped/b/c": "deleted",
    "file-to-folder": "deleted", "file-to-folder/in": "added", "folder-to-file": "added",
    "folder-to-file/in": "deleted", "gone": "deleted", "link": "added", "new-name": "added", "old-name": "deleted",
    "to-link": "changed",
}  # fmt: skip
PLAIN_POLICY = {
    "version": "tipstaff.policy.v1",
    "name": "plain",
    "principals": [{"id": "*"}],
    "rules": [{"id": "all", "effect": "allow", "when": "any", "reason": "a test"}],
    "files": {"workspaces": ["/**"], "readable": ["/**"]},
    "tiers": {
        "default": "process",
        "minimum": "process",
        "tolerate": {"memory": "weaker", "cpu": "unenforceable", "pids": "weaker", "disk": "weaker", "files": "weaker",
                     "secrets": "weaker", "network": "weaker"},
    },
}  # fmt: skip


@pytest.fixture
def without_mounts(environ, tmp_path) -> Iterator[Callable[..., Ended]]:
    """Run the program as a user whom the host lets mount nothing: it works on whole copies."""
    user = uids.FIRST + uids.COUNT + 999
    (tmp_path / "runtime").mkdir()
    (tmp_path / "policy.json").write_text(json.dumps(PLAIN_POLICY))
    narrow = 'echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --inh-caps=-all --ambient-caps=-all "$@"'
    inside = ("/usr/bin/unshare", "--user", f"--map-user={user}", "--keep-caps", "sh", "-c", narrow, "sh")

    def run(*words: str, cwd: Path) -> Ended:
        return subprocess.run(
            [*inside, TIPSTAFF, "run", "--policy", tmp_path / "policy.json", *words],
            env={**environ, "XDG_RUNTIME_DIR": str(tmp_path / "runtime")},
            cwd=cwd, capture_output=True, timeout=60, check=False,
        )  # fmt: skip

    yield run
    scratch = Path(places.scratch_folder()).with_name(f"tipstaff-{user}")
    if scratch.exists():
        scratch.rmdir()


@pytest.fixture(params=["lean", "live", "plain"])
def changed(request, ran, without_mounts, tmp_path) -> Path:
    """A repository on which the script ran: captured, live, or on a host without mounts."""
    folder = grow(tmp_path / "many", MANY)
    (folder / "to-link").symlink_to("kept")
    if request.param != "plain":
        ran(folder, SCRIPT, *shown(request.param))
        return folder
    before = picture(folder)
    assert is_sentence(without_mounts("--agent", "command", SCRIPT, cwd=folder), 0, b"tier process")
    assert picture(folder) == before
    return folder


def copied(folder: Path, name: str) -> Path:
    """Copy a folder with everything in it."""
    subprocess.run(["/bin/cp", "-a", folder, folder.with_name(name)], check=True)
    return folder.with_name(name)


def test_everything_that_can_happen_to_a_name_comes_back(tipstaff, asked, changed):
    """Added, changed, deleted, link, rename, folder for file and file for folder: told, brought, and undone.

    What diff prints, git takes as well, and makes the same files of it.
    """
    before, twin, patched = picture(changed), copied(changed, "twin"), copied(changed, "patched")
    subprocess.run(["/bin/sh", "-c", SCRIPT], cwd=twin, check=True)
    (twin / "hollow").rmdir()  # an empty folder is nothing that git, or a change, could tell

    changes = asked("diff", "last")["changes"]
    assert statuses(changes) == EXPECTED
    assert [(one["from"], one["path"]) for one in changes if "from" in one] == [("old-name", "new-name")]
    (changed.parent / "diff").write_bytes(tipstaff("diff", "last").stdout)
    git(patched, "apply", str(changed.parent / "diff"))
    assert picture(patched) == picture(twin)
    applied = tipstaff("apply", "last")
    assert is_sentence(applied, 0, b"14 changes brought")
    assert b"R  old-name => new-name\n" in applied.stdout
    assert picture(changed) == picture(twin)
    assert is_sentence(tipstaff("apply", "last", "--revert"), 0)
    assert picture(changed) == before


def test_rights_come_back(tipstaff, asked, ran, small):
    """A file that can be executed now, or no longer, is a change of mode; that it can is asked for."""
    (small / "src/main.c").chmod(0o755)
    run, before = ran(small, "chmod 755 README.md; chmod 644 src/main.c"), picture(small)

    assert statuses(asked("diff", run)["changes"]) == {"README.md": "mode", "src/main.c": "mode"}
    assert is_sentence(tipstaff("apply", run), 126, b"README.md: program: a file that was there becomes executable")
    assert is_sentence(tipstaff("apply", run, "--accept", "README.md"), 0)
    assert [os.access(small / name, os.X_OK) for name in ("README.md", "src/main.c")] == [True, False]
    assert is_sentence(tipstaff("apply", run, "--revert"), 126, b"src/main.c: program: a file that was there becomes")
    assert is_sentence(tipstaff("apply", run, "--revert", "--accept", "src/main.c"), 0)
    assert picture(small) == before


def test_ignored_output_is_offered_separately(tipstaff, asked, ran, small):
    """What the repository ignored before the run is brought on request; a list that the run planted hides nothing."""
    script = "mkdir build; echo o > build/out; echo hidden >> .gitignore; echo h > hidden"
    run, before = ran(small, script), picture(small)

    diff = tipstaff("diff", run)
    assert is_sentence(diff, 0, b"1 file that the repository ignores")
    assert (b"build/out" in diff.stdout, b"+++ b/hidden\n" in diff.stdout) == (False, True)
    assert is_sentence(tipstaff("diff", run, "--ignored"), 0, b"ignored: added build/out")
    assert [one["path"] for one in asked("diff", run)["changes"] if one.get("ignored")] == ["build/out"]
    assert is_sentence(tipstaff("apply", run), 0, b"not brought: build/out: the repository ignores it; --ignored")
    assert picture(small).keys() - before.keys() == {b"hidden"}
    assert is_sentence(tipstaff("apply", run, "--ignored"), 0)
    assert (small / "build/out").read_text() == "o\n"
    assert is_sentence(tipstaff("apply", run, "--revert"), 0)
    assert picture(small) == before


@pytest.mark.parametrize("form", ["lean", "live"])
def test_a_secret_in_a_file_is_masked_and_never_written(tipstaff, asked, ran, home, form):
    """The diff shows the mask, apply names the file and skips it, and the value is nowhere that it was not before."""
    small = grow(home.with_name("small"))
    tipstaff("secrets", "set", "GIVEN", stdin=HIDDEN.encode())
    before = holding(home, HIDDEN.encode())

    script = 'echo "v=$GIVEN" > leak; printf %s "$GIVEN" >> README.md; echo ok > fine; ln -s "$GIVEN" link'
    run = ran(small, script, "--secret", "GIVEN", *shown(form))

    assert b"+v=[REDACTED:GIVEN]\n" in tipstaff("diff", run).stdout
    redacted = {one["path"] for one in asked("diff", run)["changes"] if one.get("redacted")}
    assert redacted == {"leak", "README.md", "link"}
    skipped = [f"not brought: {name}: a secret was in it".encode() for name in redacted]
    assert is_sentence(tipstaff("apply", run), 0, *skipped, b"1 change brought")
    assert sorted(path.name for path in small.iterdir()) == [".git", ".gitignore", "README.md", "fine", "src"]
    assert (small / "README.md").read_text() == SMALL["README.md"]
    assert holding(home, HIDDEN.encode()) == before


def test_too_many_files_end_a_captured_run(tipstaff, small):
    """A run on a captured workspace that changes more than comes back ends so, and says it; nothing can be applied."""
    script = "python3 -c \"import os; os.mknod('0'); [os.link('0', str(n)) for n in range(1, 10001)]\""

    done = tipstaff("run", "--agent", "command", script, cwd=small)

    assert is_sentence(done, 153, b"it changed 10 001 files (at most 10 000 are brought back)")
    assert tipstaff("show", "last").stdout.splitlines()[0].endswith(b"disk-limit")
    assert is_sentence(tipstaff("apply", "last"), 66, b"it changed 10 001 files")


def test_too_many_bytes_are_said_of_a_live_run(tipstaff, small):
    """A run that looks at the folder itself ends as it did, and says that its change is not kept."""
    done = tipstaff("run", "--workspace", small, "--shell", "truncate -s 600M large; exit 3")

    assert is_sentence(done, 3, b"it changed files of 629 145 600 bytes (at most 536 870 912 are brought back)")


# Bringing it back.


def test_a_part_can_be_brought(tipstaff, ran, small):
    """Only names, or folders of names, that were asked for come; a name that the run did not change is a mistake."""
    run, before = ran(small, "echo a > a; echo b > b; mkdir d; echo c > d/c; echo e > d/e"), picture(small)

    assert is_sentence(tipstaff("apply", run, "--only", "nowhere"), 64, b"nothing that is called nowhere")
    assert is_sentence(tipstaff("apply", run, "--only", "../small/a"), 64, b"is not a name in the workspace")
    assert picture(small) == before
    assert is_sentence(tipstaff("apply", run, "--only", "a", "d/"), 0, b"3 changes brought")
    assert picture(small).keys() - before.keys() == {b"a", b"d", b"d/c", b"d/e"}
    assert is_sentence(tipstaff("apply", run), 0, b"1 change brought")
    assert is_sentence(tipstaff("apply", run, "--revert"), 0, b"4 changes undone")
    assert picture(small) == before


HOOKS = ("post-commit", "reference-transaction", "pre-commit", "commit-msg", "post-checkout", "post-index-change")


def test_a_branch_gets_the_change_and_nothing_else_does(tipstaff, ran, small, tmp_path):
    """One commit behind the run's own appears on a new branch; files, index and HEAD stay, and no hook runs."""
    run = ran(small, "echo more >> README.md; chmod +x src/main.c; echo x > new; ln -s new link; rm .gitignore")
    canary, head = tmp_path / "canary", git(small, "rev-parse", "HEAD")
    fill(small, {"README.md": "# Edited since\n"})
    for name in HOOKS:
        (small / ".git/hooks").mkdir(exist_ok=True)
        (small / ".git/hooks" / name).write_text(f"#!/bin/sh\ntouch {canary}\n")
        (small / ".git/hooks" / name).chmod(0o755)
    before = picture(small)

    assert is_sentence(
        tipstaff("apply", run, "--branch", "agent/fix", "--accept", "src"), 0, b"the branch agent/fix of"
    )
    fresh = {name: what for name, what in picture(small).items() if before.get(name) != what}
    assert [name for name in fresh if not name.startswith((b".git/objects/", b".git/refs/", b".git/logs/"))] == []
    assert (canary.exists(), git(small, "rev-parse", "HEAD", "agent/fix~1").split()) == (False, [head, head])
    assert git(small, "show", "agent/fix:README.md") == "# Notes\nmore"
    told = git(small, "diff", "--name-status", "main", "agent/fix").split()
    assert told == ["D", ".gitignore", "M", "README.md", "A", "link", "A", "new", "M", "src/main.c"]
    assert git(small, "ls-tree", "agent/fix", "link", "src/").split()[::4] == ["120000", "100755"]

    assert is_sentence(tipstaff("apply", run, "--branch", "agent/fix", "--accept", "src"), 64, b"agent/fix")
    assert is_sentence(tipstaff("apply", run, "--revert"), 0, b"the branch agent/fix was deleted")
    assert (git(small, "branch", "--list", "agent/fix"), canary.exists()) == ("", False)
    git(small, "branch", "the-hooks-work")
    assert canary.exists()


def test_a_branch_that_cannot_be_is_refused(tipstaff, ran, small, plain):
    """A name that git would not take, a branch that is there, and a folder without a repository are sentences."""
    run, before = ran(small, "echo x > y"), picture(small)

    for name in ("main", "a..b", "-x", "HEAD", "@", ""):
        assert is_sentence(tipstaff("apply", run, f"--branch={name}"), 64)
    assert is_sentence(tipstaff("apply", run, "--branch", "b", "--to", plain), 64, b"not the top folder of a git")
    assert picture(small) == before


def test_a_dry_run_writes_nothing(tipstaff, ran, small, home):
    """It lists what would come and what would be asked, and leaves folder and home as they are."""
    run, before = ran(small, "echo x > y; echo z > .envrc"), picture(small)

    told = tipstaff("apply", run, "--dry-run")

    assert is_sentence(told, 0, b"would be asked about: .envrc", b"2 changes would be brought", b"nothing was written")
    assert told.stdout == b"A  .envrc\nA  y\n"
    assert is_sentence(tipstaff("apply", run, "--dry-run", "--branch", "b"), 0)
    assert (picture(small), (home / "applied").exists()) == (before, False)


def test_twice_is_once(tipstaff, ran, small):
    """A second apply has nothing to do, a second revert nothing to undo, and it can be brought again."""
    run, before = ran(small, "echo more >> README.md"), picture(small)

    assert is_sentence(tipstaff("apply", "--revert", run), 64, b"was not applied to")
    assert is_sentence(tipstaff("apply", run), 0, b"1 change brought")
    assert is_sentence(tipstaff("apply", run), 0, b"already: nothing to do")
    assert is_sentence(tipstaff("apply", "--revert", run), 0, b"1 change undone")
    assert is_sentence(tipstaff("apply", "--revert", run), 64, b"was reverted already")
    assert picture(small) == before
    assert is_sentence(tipstaff("apply", run), 0, b"1 change brought")


def test_a_dirty_tree_is_left_alone(tipstaff, asked, ran, small):
    """A file edited since is a divergence, told three ways, and nothing is brought; another file's edit is none."""
    run = ran(small, "echo run >> README.md; echo x > new")
    fill(small, {"README.md": "# Notes\nmine\n", "src/main.c": "mine\n"})
    before = picture(small)

    diverged = tipstaff("apply", run)

    says = (b"README.md\n  before the run: 8 bytes", b"  here now:       13 bytes", b"  after the run:  12 bytes")
    assert is_sentence(
        diverged, 1, *says, b"  here:    +mine", b"  the run: +run", b"--branch NAME", b"nothing was brought"
    )
    assert [one["path"] for one in asked("apply", run)["conflicts"]] == ["README.md"]
    assert picture(small) == before
    fill(small, {"README.md": "# Notes\n"})
    assert is_sentence(tipstaff("apply", run), 0, b"2 changes brought")
    assert (small / "src/main.c").read_text() == "mine\n"


def test_a_revert_does_not_undo_what_came_later(tipstaff, ran, small):
    """A file that was edited after it was brought is a divergence too; nothing is undone."""
    run = ran(small, "echo run >> README.md; echo x > new")
    tipstaff("apply", run)
    fill(small, {"new": "edited\n"})
    before = picture(small)

    assert is_sentence(tipstaff("apply", "--revert", run), 1, b"nothing was undone", b"new\n")
    assert picture(small) == before


def test_another_checkout_is_another_base(tipstaff, ran, small, tmp_path):
    """Into a folder that fits the change goes; into one that does not, nothing does."""
    run = ran(small, "echo run >> README.md; echo x > new")
    same = grow(tmp_path / "same")
    other = grow(tmp_path / "other", {"README.md": "# Quite another\n"})
    before = [picture(folder) for folder in (small, other)]

    assert is_sentence(tipstaff("apply", run, "--to", other), 1, b"README.md", b"nothing was brought")
    assert is_sentence(tipstaff("apply", run, "--to", same), 0, b"2 changes brought")
    assert (same / "README.md").read_text() == "# Notes\nrun\n"
    assert [picture(folder) for folder in (small, other)] == before
    assert is_sentence(tipstaff("apply", run, "--revert"), 64, b"name it with --to")
    assert is_sentence(tipstaff("apply", run, "--revert", "--to", same), 0)


def test_programs_get_json(asked, ran, small):
    """Every way that an apply can end is one JSON object."""
    run = ran(small, "echo x > y; echo z > .envrc; mkdir -p .git/hooks; echo h > .git/hooks/pre-push")

    assert asked("diff", run)["hazards"][0]["path"] == ".envrc"
    refused = asked("apply", run)
    assert (refused["error"]["kind"], refused["hazards"][0]["path"]) == ("RefusedError", ".envrc")
    assert [one["path"] for one in refused["skipped"]] == [".git/hooks/pre-push"]
    told = asked("apply", run, "--only", "y", "--dry-run")
    assert (told["dryRun"], told["applied"]) == (True, [{"path": "y", "status": "added"}])
    told = asked("apply", run, "--only", "y", "--branch", "b")
    assert (told["branch"], told["commit"]) == ("b", git(small, "rev-parse", "b"))
    told = asked("apply", run, "--accept", ".envrc")
    assert (told["target"], [one["path"] for one in told["applied"]]) == (str(small), [".envrc", "y"])
    told = asked("apply", run, "--revert")
    assert ([one["path"] for one in told["reverted"]], told["branches"]) == ([".envrc", "y"], ["b"])
    assert asked("apply", run, "--revert")["error"]["kind"] == "UsageError"
    assert asked("apply", "run_none")["error"]["kind"] == "NotFoundError"


# What goes wrong on the way back.


def test_a_file_that_cannot_grow_is_rolled_back(tipstaff, environ, ran, small):
    """When writing fails in the middle, everything is as it was, and a second try with room brings it all."""
    run = ran(small, "echo run >> README.md; rm src/main.c; head -c 4000000 /dev/zero > zz-large; echo x > a-new")
    before = picture(small)

    failed = subprocess.run(
        ["/usr/bin/prlimit", "--fsize=3000000", TIPSTAFF, "apply", run],
        env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False,
    )  # fmt: skip

    assert failed.returncode not in {0, 1}
    assert is_sentence(failed, failed.returncode, b"zz-large", b"File too large", b"nothing was changed")
    assert picture(small) == before
    assert is_sentence(tipstaff("apply", run), 0, b"4 changes brought")


def test_a_full_disk_is_rolled_back(environ, ran, small, tmp_path):
    """On a file system without room nothing is brought, and what was there is there still."""
    run = ran(small, "echo run >> README.md; head -c 4000000 /dev/urandom > large")
    (tmp_path / "disk").mkdir()
    script = """mount -t tmpfs -o size=2m tmpfs disk && cp -a small/. disk && cp -a disk copy
        "$0" apply "$1" --to "$PWD/disk"; code=$?; diff -r --no-dereference disk copy && exit $code"""

    failed = subprocess.run(
        ["/usr/bin/unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, TIPSTAFF, run],
        env=environ, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False,
    )  # fmt: skip

    assert failed.returncode not in {0, 1}
    assert is_sentence(failed, failed.returncode, b"No space left on device")


def test_a_read_only_file_is_replaced_and_stays_so(tipstaff, ran, small):
    """A file without write permission is brought like any other, and keeps its rights; a revert brings it back."""
    (small / "README.md").chmod(0o444)
    run, before = ran(small, "chmod u+w README.md; echo x >> README.md; chmod u-w README.md"), picture(small)

    assert is_sentence(tipstaff("apply", run), 0)
    assert ((small / "README.md").read_text(), (small / "README.md").stat().st_mode & 0o777) == ("# Notes\nx\n", 0o444)
    assert is_sentence(tipstaff("apply", run, "--revert"), 0)
    assert picture(small) == before


@pytest.mark.only_if(os.geteuid() != 0, "root may write everywhere")
def test_a_read_only_folder_is_a_sentence(tipstaff, ran, small):
    """Where a folder does not let us write, nothing is brought anywhere; when it does, everything is."""
    run = ran(small, "echo a > a; echo x >> src/main.c")
    (small / "src").chmod(0o555)
    before = picture(small)
    try:
        refused = tipstaff("apply", run)
        assert refused.returncode not in {0, 1}
        assert is_sentence(refused, refused.returncode, b"src/main.c", b"Permission denied")
        assert picture(small) == before
    finally:
        (small / "src").chmod(0o755)
    assert is_sentence(tipstaff("apply", run), 0, b"2 changes brought")


def edited(home: Path, place: tuple[str, str], old: bytes, new: bytes) -> int:
    """Edit the store, as somebody with a database program could; gives how many rows were."""
    table, column = place
    with sqlite3.connect(home / "store.sqlite") as connection:
        found = f"UPDATE {table} SET {column} = CAST(replace({column}, ?, ?) AS BLOB) WHERE instr({column}, ?)"  # noqa: S608 - names of ours
        count = connection.execute(found, (old, new, old)).rowcount
    connection.close()
    return count


@pytest.mark.parametrize("place", [("events", "link"), ("blobs", "content")])
def test_an_edited_store_is_refused(tipstaff, ran, small, home, place):
    """A name in the chain, or a content, that somebody changed is found out before anything is written."""
    run, before = ran(small, "echo original > original; echo x > y"), picture(small)

    assert edited(home, place, b"original", b"0riginal") > 0
    refused = tipstaff("apply", run)

    assert refused.returncode in {1, 65, 74}, refused.stderr
    assert is_sentence(refused, refused.returncode)
    assert picture(small) == before
    assert edited(home, place, b"0riginal", b"original") > 0
    assert is_sentence(tipstaff("apply", run), 0, b"2 changes brought")
