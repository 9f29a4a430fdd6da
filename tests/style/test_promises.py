"""What the documents say about the project is so: trees, versions, the reference."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import tipstaff

DRAWN = ("README.md", "docs/design.md", "CONTRIBUTING.md")
SAMPLE = """
```
src/tipstaff/
├── errors.py      every error, one tree
├── model/         the nouns
│   ├── request.py who wants what run
│   └── absent.py  not there
└── missing.py     not there either
tests/  unit/ (mirrors src)
nowhere/
```
"""


def drawn_paths(text: str) -> list[str]:
    """Read the paths out of every fenced tree in `text`: a fenced block whose first line names src/tipstaff/."""
    trees = re.findall(r"^```\w*\n(src/tipstaff/.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [path for tree in trees for path in paths_in(tree.splitlines())]


def paths_in(lines: list[str]) -> list[str]:
    """Read one drawn tree, line by line: four columns are one level, a line without branches starts a new tree."""
    folders: list[str] = []
    paths = []
    for line in lines:
        if not (found := re.match(r"((?:[│ ] {3})*(?:[├└]── ))?(\S+)", line)):
            continue
        level = len(found[1] or "") // 4
        folders = [*folders[:level], found[2].rstrip("/")]
        paths.append("/".join(folders))
    return paths


def test_drawn_trees_name_only_what_exists(root, texts):
    """A tree drawn in a document names only files and folders that are there."""
    drawn = {(name, path) for name in DRAWN if name in texts for path in drawn_paths(texts[name])}

    assert [place for place in sorted(drawn) if not (root / place[1]).exists()] == []


def test_a_drawn_tree_is_read_with_its_levels(root):
    """The check above reads nested folders, files and further trees."""
    missing = [path for path in drawn_paths(SAMPLE) if not (root / path).exists()]

    assert missing == ["src/tipstaff/model/absent.py", "src/tipstaff/missing.py", "nowhere"]


def test_the_reference_is_current(root, texts, tmp_path):
    """The pages of docs/reference are those that `make docs` would write now."""
    subprocess.run([sys.executable, str(root / "scripts" / "reference.py"), str(tmp_path)], check=True, timeout=60)
    fresh = {f"docs/reference/{path.name}": path.read_text() for path in tmp_path.iterdir()}

    assert {name: text for name, text in texts.items() if name.startswith("docs/reference/")} == fresh


def test_the_version_is_one(texts):
    """The package and its metadata name the same version."""
    assert tomllib.loads(texts["pyproject.toml"])["project"]["version"] == tipstaff.__version__


def test_the_changelog_has_this_version(texts):
    """The current version has an entry in the changelog, with something in it."""
    entry = re.search(
        rf"^## \[{re.escape(tipstaff.__version__)}\].*?\n(.*?)(?=^## |\Z)",
        texts["CHANGELOG.md"],
        re.MULTILINE | re.DOTALL,
    )

    assert entry is not None
    assert "\n- " in entry[1]


def test_make_targets_are_documented(root, texts):
    """Every target that CONTRIBUTING.md tells people to run exists."""
    targets = set(re.findall(r"^([a-z]+):", Path(root / "Makefile").read_text(), re.MULTILINE))

    assert set(re.findall(r"(?:^|`)make ([a-z]+)", texts["CONTRIBUTING.md"], re.MULTILINE)) - targets == set()
