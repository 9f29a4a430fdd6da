"""A folder is packed into blobs, of which only those travel that the plane does not have."""

from hashlib import sha256
from pathlib import Path

import pytest

from tests.unit.remote.scripted import Asked, Reply, json_reply, scripted
from tests.unit.workspace.shelf import Shelf
from tipstaff.errors import InputError, StoreError
from tipstaff.home import Home
from tipstaff.remote import sending
from tipstaff.remote.address import address_of
from tipstaff.remote.noted import note_folder, noted_folder
from tipstaff.remote.wire import Wire
from tipstaff.workspace.capture.capturing import Wish
from tipstaff.workspace.materialise.making import materialise


class Keeping:
    """A plane that keeps blobs."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    def __call__(self, asked: Asked) -> Reply:
        """Answer."""
        if asked.method == "HEAD":
            return Reply(200 if asked.path.rsplit("/", 1)[1] in self.blobs else 404, b"")
        name = sha256(asked.body).hexdigest()
        self.blobs[name] = asked.body
        return json_reply({"hash": name})


@pytest.fixture
def home(tmp_path) -> Home:
    """An empty home."""
    return Home(tmp_path / "home")


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder with something to deny in it."""
    made: Path = tmp_path / "work"
    (made / "inner").mkdir(parents=True)
    (made / "file").write_text("content\n")
    (made / "inner" / "deep").write_text("deep\n" * 50_000)
    (made / ".env").write_text("SECRET=1\n")
    return made


def sent(home, folder, keeping):
    """Pack a folder and send it; gives the parcel, and what was missing."""
    with scripted(keeping) as plane, Wire(address_of(plane.url, "tip_x")) as wire, sending.opened(home) as sender:
        parcel = sender.packed(folder, Wish())
        missing = sender.missing(wire, parcel.items)
        sender.send(wire, missing)
    return parcel, missing


def test_what_is_sent_makes_the_same_folder_again(home, folder, tmp_path):
    """The manifest and the blobs that arrived are enough to make the folder again, without what is denied."""
    keeping = Keeping()

    parcel, _ = sent(home, folder, keeping)
    shelf = Shelf()
    for content in keeping.blobs.values():
        shelf.put(content)
    (tmp_path / "again").mkdir()
    materialise(parcel.manifest, shelf, tmp_path / "again")

    assert (tmp_path / "again" / "inner" / "deep").read_text() == "deep\n" * 50_000
    assert not (tmp_path / "again" / ".env").exists()
    assert b"SECRET" not in b"".join(keeping.blobs.values())


def test_what_the_plane_has_is_not_sent_again(home, folder):
    """Nothing is sent of an unchanged folder, and only new content of a changed one."""
    keeping = Keeping()
    sent(home, folder, keeping)

    _, again = sent(home, folder, keeping)
    (folder / "new").write_text("new\n")
    parcel, missing = sent(home, folder, keeping)

    assert again == []
    assert sum(item.size for item in missing) < 2_000
    assert len(parcel.manifest["packs"]) == 2


def test_the_items_add_up(home, folder):
    """Each blob is named once, with its size and what it is."""
    keeping = Keeping()

    parcel, missing = sent(home, folder, keeping)

    assert {item.digest: item.size for item in missing} == {name: len(one) for name, one in keeping.blobs.items()}
    assert {item.kind for item in parcel.items} == {"list of files", "contents of files"}


def test_a_plane_that_received_something_else_is_refused(home, folder):
    """The plane's own digest of what it received must be that of what was sent."""
    answer = lambda asked: Reply(404, b"") if asked.method == "HEAD" else json_reply({"hash": "0" * 64})  # noqa: E731 - one line

    with pytest.raises(InputError, match="has received other bytes"):
        sent(home, folder, answer)


def test_a_damaged_blob_is_not_sent(home, folder):
    """Bytes that do not fit their name are noticed before the last of them has left."""
    keeping = Keeping()
    with scripted(keeping) as plane, Wire(address_of(plane.url, "tip_x")) as wire, sending.opened(home) as sender:
        parcel = sender.packed(folder, Wish())
        large = max(parcel.items, key=lambda item: item.size)
        path = home.root / "blobs" / large.digest[:2] / large.digest[2:]
        path.write_bytes(b"X" * large.size)

        with pytest.raises(StoreError, match="is damaged"):
            sender.send(wire, [large])

    assert keeping.blobs == {}


def test_the_folder_of_a_run_is_noted(home, folder):
    """The folder that a run was started for is found again while it is there; no name leads out of the home."""
    note_folder(home, "run_1a2b", str(folder))
    note_folder(home, "../../etc/passwd", str(folder))

    assert noted_folder(home, "run_1a2b") == str(folder)
    assert noted_folder(home, "run_3c4d") is None
    assert noted_folder(home, "../../etc/passwd") is None
    folder.rename(folder.with_name("gone"))
    assert noted_folder(home, "run_1a2b") is None
