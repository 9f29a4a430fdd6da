"""The vectors: each file gives exactly the verdict and the problems that the index says, and all files are current."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.vectors import make
from tipstaff.evidence import CHECKS, Report, verify
from tipstaff.keys import KnownKey, KnownKeys

VECTORS = Path(make.__file__).resolve().parent
INDEX = json.loads((VECTORS / "index.json").read_text())


def judged(name: str, entry: dict[str, Any]) -> Report:
    """Verify one file with what its entry says is trusted, and given."""
    known = KnownKeys(tuple(msgspec.convert(key, KnownKey) for key in entry.get("known", ())))
    artifacts = {wanted: text.encode() for wanted, text in entry["artifacts"].items()} if "artifacts" in entry else None
    return verify(VECTORS / name, [INDEX["keys"][key] for key in entry["pin"]], known=known, artifacts=artifacts)


@pytest.mark.parametrize(("name", "entry"), INDEX["files"].items(), ids=INDEX["files"])
def test_each_vector_is_judged_as_the_index_says(name, entry):
    """Verification finds exactly the verdict and the numbers that the index names."""
    report = judged(name, entry)

    assert (report.verdict, sorted({problem.number for problem in report.problems})) == (
        entry["verdict"],
        entry["problems"],
    )


def test_the_files_are_current(tmp_path):
    """Making the vectors anew gives the committed files, byte for byte, and no others are there."""
    make.write(tmp_path)
    fresh = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*.json")}
    committed = {str(path.relative_to(VECTORS)): path.read_bytes() for path in VECTORS.rglob("*.json")}

    assert fresh == {name: data for name, data in committed.items() if not name.startswith("other/")}


def test_every_file_is_in_the_index():
    """The index has an entry for each file, with a sentence."""
    files = {str(path.relative_to(VECTORS)) for path in VECTORS.rglob("*.json")} - {"index.json"}

    assert set(INDEX["files"]) == files
    assert all(entry["about"][0].isupper() and entry["about"].endswith(".") for entry in INDEX["files"].values())


def test_every_check_has_a_vector():
    """Each check refuses some vector, and by itself alone where it can stand alone."""
    lists = [entry["problems"] for entry in INDEX["files"].values()]

    assert {number for problems in lists for number in problems} == set(CHECKS)
    assert {problems[0] for problems in lists if len(problems) == 1} == set(CHECKS)


@pytest.mark.parametrize("name", [name for name in INDEX["files"] if name.startswith(("valid/", "other/"))])
def test_nothing_is_valid_without_a_key(name):
    """Whatever is valid with its keys is unproven without any: a document cannot vouch for itself."""
    report = verify(VECTORS / name)

    assert report.verdict == "unproven"
    assert {problem.number for problem in report.problems} == {27}


@pytest.mark.parametrize("name", [name for name in INDEX["files"] if name.startswith("other/")])
def test_the_other_implementations_bundles_verify(name):
    """Bundles of another implementation are valid under its plane's key, as a file, as bytes and as a dict."""
    data = (VECTORS / name).read_bytes()
    pinned = [INDEX["keys"]["other-plane"]]
    reports = [verify(form, pinned) for form in (VECTORS / name, str(VECTORS / name), data, json.loads(data))]

    assert [report.verdict for report in reports] == ["valid"] * 4
    assert reports[0] == reports[2] == reports[3]
    assert reports[0].run_id == json.loads(data)["contract"]["runId"]
    assert reports[0].events == len(json.loads(data)["events"])


def test_what_an_approval_rests_on_is_said():
    """A note tells whose word an approval is: the plane's alone, unless the approver's key is known."""
    notes = {name: judged(f"valid/{name}.json", INDEX["files"][f"valid/{name}.json"]).notes for name in (
        "approved-with-key", "approved-without-key", "approved-by-known-key", "argv"
    )}  # fmt: skip

    assert notes["approved-by-known-key"] == notes["argv"] == ()
    assert "is not known: the plane alone vouches" in notes["approved-with-key"][0]
    assert "carries no key: the plane alone vouches" in notes["approved-without-key"][0]
