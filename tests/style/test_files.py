"""Files are short, say what they are for, and say nothing about the machine that they were written on."""

import ast
import re
from pathlib import Path, PurePath

DRAWERS = {"common", "core", "helper", "helpers", "misc", "util", "utils"}
REGISTRIES = [
    ".".join(parts) for parts in (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("npmjs", "com"))
]
SHARED_FOLDERS = {"/", "/home", "/opt", "/root", "/srv", "/tmp", "/workspace"}  # noqa: S108 - names to compare


def length(text: str) -> int:
    """Count the lines of a text."""
    return len(text.splitlines())


def machine_paths(root: Path) -> list[str]:
    """Name the folders that give this machine away: where the project lies, and what lies beside it."""
    return [f"{folder}/" for folder in (root, root.parent) if str(folder) not in SHARED_FOLDERS]


def test_source_files_are_short(python):
    """A source file has at most 450 lines; one that needs more is two."""
    assert {name: length(text) for name, text in python.items() if name.startswith("src/") and length(text) > 450} == {}


def test_the_makefile_is_short(texts):
    """The Makefile has at most 60 lines: what is cleverer belongs in scripts/."""
    assert length(texts["Makefile"]) <= 60


def test_every_module_says_what_it_is_for(python):
    """Every Python file starts with a docstring."""
    assert [name for name, text in python.items() if not ast.get_docstring(ast.parse(text))] == []


def test_there_are_no_drawers(python):
    """No module is named for being used by many: a name says what is in it."""
    assert [name for name in python if DRAWERS & {PurePath(part).stem for part in PurePath(name).parts}] == []


def test_no_file_names_this_machine(root, texts):
    """No file mentions the folder that the project, or anything beside it, lies in on this machine."""
    pattern = re.compile("|".join(rf"(?<![\w.~]){re.escape(path)}" for path in machine_paths(root)) or "(?!)")

    assert {name: found[0] for name, text in texts.items() if (found := pattern.search(text))} == {}


def test_the_machine_is_known_by_its_folders():
    """The folder and its neighbours are looked for, but not folders that every machine has."""
    assert machine_paths(Path("/builds/project")) == ["/builds/project/", "/builds/"]
    assert machine_paths(Path("/tmp/project")) == ["/tmp/project/"]  # noqa: S108 - a name to compare, nothing is written


def test_no_file_names_a_registry(texts):
    """Where packages come from is the machine's setting: no file mentions a package registry."""
    assert {name: host for name, text in texts.items() for host in REGISTRIES if host in text} == {}


def test_locks_have_no_addresses(texts):
    """A lock has names, versions and hashes: it works with any index, and leads to none."""
    locks = {name: text for name, text in texts.items() if name.endswith(".lock")}

    assert len(locks) >= 3
    assert [name for name, text in locks.items() if "://" in text] == []


def test_the_locks_agree(texts):
    """What users get is what the tests ran with: each pin of core.lock is in dev.lock, each hatchling is the same."""
    core, dev, setup = (
        set(re.findall(r"^\S+==\S+", texts[f"requirements/{name}.lock"], re.MULTILINE))
        for name in ("core", "dev", "setup")
    )

    assert core - dev == set()
    assert {pin for pin in setup if pin.startswith("hatchling==")} <= dev
