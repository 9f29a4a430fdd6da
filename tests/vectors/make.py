"""Write our own vectors, and index.json, which says of each file what a verifier has to find.

Run it after a change to the format: `python tests/vectors/make.py`. Keys come from fixed seeds and times are written
out, so that the same files come out every time, and a test compares. The expectations are written by hand, never taken
from our verifier. Most of the invalid ones are signed by everybody who should: only one check can find the lie.
"""

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))  # so that the parts are found, however this was started

from tests.vectors.cases_content import INVALID_CONTENT  # noqa: E402 - the line above comes first
from tests.vectors.cases_form import INVALID_FORM  # noqa: E402 - as above
from tests.vectors.cases_valid import UNPROVEN, VALID  # noqa: E402 - as above
from tests.vectors.story import PEOPLE, Json, Vector  # noqa: E402 - as above

CASES = {"valid": VALID, "unproven": UNPROVEN, "invalid": [*INVALID_FORM, *INVALID_CONTENT]}


def write(folder: Path) -> None:
    """Write every file, and the index."""
    index: Json = {
        "about": "For each file: the verdict and the numbers of all problems, with these public keys pinned or known.",
        "keys": {name: key.public.pem for name, key in PEOPLE.items()},
        "files": {},
    }
    index["keys"]["other-plane"] = (HERE / "other" / "plane.pem").read_text()
    for path in sorted((HERE / "other").glob("*.bundle.json")):
        about = "Made by another implementation of the protocol."
        index["files"][f"other/{path.name}"] = Vector("", about, {}, pin=("other-plane",)).entry("valid")
    for verdict, members in CASES.items():
        (folder / verdict).mkdir(exist_ok=True)
        for vector in members:
            name = f"{verdict}/{vector.name}.json"
            if name in index["files"]:
                raise ValueError(f"two vectors are named {name}")
            index["files"][name] = vector.entry(verdict)
            (folder / name).write_text(vector.text, encoding="utf-8")
    (folder / "index.json").write_text(json.dumps(index, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(HERE)
