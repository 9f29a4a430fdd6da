"""What a hostile run does to its reviewer: endless work, a missing diff, rights taken away, secrets in odd places."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workspace.overlaid import FORMS, overlaid, repository, taken
from tests.unit.workspace.shelf import Shelf
from tipstaff.isolation.tier import Leaving
from tipstaff.session.changes import Changes
from tipstaff.session.held import Held
from tipstaff.workspace.collect.collecting import Bounds, View, collect
from tipstaff.workspace.collect.difference import SMALL_BYTES

SECRET = b"Hunter2-Hunter2-Hunter2"
CONTRACT: dict[str, Any] = {"disclosure": "full", "secrets": [], "workspace": {"treeHash": "a" * 64}}
each_form = pytest.mark.parametrize("form", FORMS)


@pytest.fixture
def base(tmp_path) -> Path:
    """A repository with two files."""
    return repository(tmp_path / "base", {"a.txt": "one\n", "folder/b.txt": "two\n"})


def mask(content: bytes) -> bytes:
    """Mask the one secret, as it is spelled."""
    return content.replace(SECRET, b"[REDACTED:token]")


# --- work without an end


@each_form
@pytest.mark.parametrize(("size", "is_read"), [("2T", False), ("1K", True)])
def test_a_hole_in_a_git_is_not_read_to_its_end(base, tmp_path, form, size, is_read):
    """A planted hook of terabytes that take no space is too much to look at; a small one is read and named."""
    script = f"mkdir -p .git/hooks; truncate -s {size} .git/hooks/update"
    view = FORMS[form](base, tmp_path / "place", script)

    started = time.monotonic()
    found = taken(view).collected

    assert time.monotonic() - started < 20
    assert [change.name for change in found.changes] == [b".git/hooks/update"]
    assert (found.problem == "") is is_read


@pytest.mark.parametrize(("most", "is_kept"), [(3_000, False), (4_000, True)])
def test_names_are_bounded_in_bytes(base, tmp_path, most, is_kept):
    """Long names, each of which becomes an event, are told up to a bound, and are one sentence beyond it."""
    folder = "$(printf 'd%.0s' $(seq 180))"
    script = f"mkdir {folder}; cd {folder}; for i in $(seq -w 20); do echo x > $i; done"

    found = taken(overlaid(base, tmp_path / "place", script), Bounds(name_bytes=most)).collected

    assert (len(found.changes) == 20) is is_kept
    assert sum(len(change.name) for change in found.changes) <= most
    assert found.problem == ("" if is_kept else "its changed files have names of 3 660 bytes (at most 3 000 are told)")


# --- hiding from who reviews


@pytest.mark.parametrize(("most", "is_whole"), [(SMALL_BYTES, False), (1 << 20, True)])
def test_one_large_change_hides_no_small_one(base, tmp_path, most, is_whole):
    """Where the whole diff cannot be made, small files are in it nevertheless, and the others are named."""
    script = f"seq 30000 > .first; truncate -s {SMALL_BYTES} a.txt; echo evil > evil.sh; rm folder/b.txt"

    found = taken(overlaid(base, tmp_path / "place", script), Bounds(diff_bytes=most))

    assert b"\n+evil\n" in found.diff
    assert b"\n-two\n" in found.diff
    assert (b"\n+29999\n" in found.diff) is is_whole
    assert found.collected.summary.get("large", []) == ([] if is_whole else [{"path": ".first"}])
    assert ("only what is small" in found.collected.summary.get("diffProblem", "")) is not is_whole


@pytest.mark.anyio
@pytest.mark.parametrize("rights", [0o000, 0o300, 0o755])
async def test_a_closed_workspace_is_looked_at(base, tmp_path, rights):
    """A command that takes all rights from the workspace itself hides nothing from an ordinary user either."""
    upper = tmp_path / "sandbox" / "upper"
    upper.mkdir(parents=True)
    (upper / "note").write_text("hello\n")
    upper.chmod(rights)
    changes = Changes(CONTRACT, Held(CONTRACT, {}, os.urandom), Shelf())

    await changes.collect(Leaving(base=base, upper=upper, copy=None))

    assert changes.problem == ""
    assert changes.summary is not None
    assert changes.summary["files"] == 1


# --- what is told


@pytest.mark.anyio
async def test_a_place_of_the_host_is_not_told(base, tmp_path):
    """When there is nothing to look at any more, the sentence says so without naming our folders."""
    changes = Changes(CONTRACT, Held(CONTRACT, {}, os.urandom), Shelf())

    await changes.collect(Leaving(base=base, upper=tmp_path / "gone" / "upper", copy=None))

    assert changes.failed
    assert changes.problem == "what it changed could not be kept: No such file or directory"


@pytest.mark.parametrize("before", ["", "a" * 60])
def test_a_key_cut_short_tells_no_part_of_a_secret(base, tmp_path, before):
    """A secret in the name of a key is masked before the name is cut or folded to lower case."""
    text = SECRET.decode()
    script = f"git config alias.{text} x; git config filter.{before}{text}.clean x"

    found = taken(overlaid(base, tmp_path / "place", script), mask=mask).collected

    (change,) = found.changes
    assert f"filter.{before}[REDACTED:to" in change.withheld
    assert text[:12].lower() not in change.withheld.lower()


# --- what is left behind


def test_git_works_where_it_is_told_to(base, tmp_path):
    """What is made meanwhile lies in the scratch folder, which others clear after a kill; none is left at the end."""
    scratch = tmp_path / "scratch"
    view = overlaid(base, tmp_path / "place", "echo more >> a.txt")
    seen: list[str] = []

    class Watching(Shelf):
        """A shelf that looks at the scratch folder when something is put on it."""

        def writer(self):
            seen.extend(path.name for path in scratch.iterdir())
            return super().writer()

    scratch.mkdir()
    collect(View(*view[:4], scratch=scratch), Bounds(), None, Watching())

    assert {name.startswith("tipstaff-collect-") for name in seen} == {True}
    assert list(scratch.iterdir()) == []
