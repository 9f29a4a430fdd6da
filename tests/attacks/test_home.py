"""Attacks on what is kept: on the keys, the policy and the records of a home, by another user or behind our back."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tipstaff.evidence import verify
from tipstaff.home import Home
from tipstaff.isolation import uids
from tipstaff.keys.known import read_known_keys
from tipstaff.local.opening import open_plane
from tipstaff.policy.shipped import text_of

TIPSTAFF = str(Path(sys.executable).with_name("tipstaff"))
NOBODY = 65534
ORDINARY = uids.FIRST + uids.COUNT + 9  # a uid that no sandbox gets
only_root = pytest.mark.only_if(os.geteuid() == 0, "only root can be somebody else")


class House(NamedTuple):
    """A home in a folder of its own, and the program on it."""

    home: Home

    def __call__(self, *words: object) -> "subprocess.CompletedProcess[bytes]":
        """Run the program to its end."""
        root = self.home.root
        environ = {"TIPSTAFF_HOME": str(root), "HOME": str(root.parent), "PATH": "/usr/bin:/bin"}
        command = [TIPSTAFF, *map(str, words)]
        folder = root.parent if root.parent.exists() else Path("/")
        return subprocess.run(command, env=environ, capture_output=True, cwd=folder, timeout=60, check=False)

    def change(self, statement: str, *values: object) -> None:
        """Change the database behind the program's back."""
        with sqlite3.connect(self.home.root / "store.sqlite") as database:
            database.execute("PRAGMA foreign_keys=OFF")
            database.execute(statement, values)
        database.close()

    def newest(self) -> str:
        """Name the newest run."""
        with open_plane(self.home) as plane:
            return str(plane.history()[0]["runId"])


@pytest.fixture
def house(tmp_path: Path) -> House:
    """A home in which two runs ended well."""
    made = House(Home(tmp_path / "home"))
    for word in ("first", "second"):
        assert made("run", "--quiet", "--", "echo", word).stdout == f"{word}\n".encode()
    return made


# --- keys and policy --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trick", ["link", "pipe", "readable", "folder", "another", "none"])
def test_a_signing_key_that_is_not_ours_alone_signs_nothing(house, tmp_path, trick):
    """A key that became a link, a pipe, a folder, readable or no key at all stops every run; a proper one does not."""
    key = house.home.keys / "runner.key.pem"
    aside = tmp_path / "aside.pem"
    if trick == "readable":
        key.chmod(0o644)
    elif trick != "none":
        key.rename(aside)
        {
            "link": lambda: key.symlink_to(aside),
            "pipe": lambda: os.mkfifo(key),
            "folder": key.mkdir,
            "another": lambda: (
                key.write_text("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
                key.chmod(0o600),
            ),
        }[trick]()

    ended = house("run", "--quiet", "--", "echo", "ran")

    assert (ended.stdout == b"ran\n", ended.returncode == 0) == (trick == "none",) * 2
    assert (b"runner.key.pem" in ended.stderr) is (trick != "none")
    assert b"Traceback" not in ended.stderr


@pytest.mark.parametrize("mode", [0o666, 0o620, 0o600])
def test_a_policy_that_others_may_write_is_not_read(house, mode):
    """The home's own policy decides nothing where another user could have written it; one that is ours alone does."""
    house.home.policy.write_text(text_of("local"))
    house.home.policy.chmod(mode)

    ended = house("run", "--quiet", "--", "echo", "ran")

    assert (ended.stdout == b"ran\n") is (mode == 0o600)
    assert (b"written by other users" in ended.stderr) is (mode != 0o600)


def test_a_policy_that_leads_nowhere_is_not_the_default(house):
    """Where the home's policy is a link to nowhere nothing runs: the default might allow more."""
    house.home.policy.symlink_to("nowhere")

    ended = house("run", "--quiet", "--", "echo", "ran")

    assert (ended.stdout, ended.returncode != 0) == (b"", True)


@pytest.mark.parametrize(
    "folder", ["/usr/share/tipstaff-home", "/usr/local/share/anna/home", "/etc/ssl/certs/home", None]
)
def test_a_home_that_sandboxes_show_is_refused(tmp_path, folder):
    """Keys below a folder of every sandbox could be read inside, so nothing is made there; elsewhere a home is."""
    home = Home(Path(folder) if folder else tmp_path / "home")

    ended = House(home)("run", "--quiet", "--", "echo", "ran")

    assert (ended.returncode, b"every sandbox shows" in ended.stderr) == ((0, False) if folder is None else (64, True))
    assert home.root.exists() is (folder is None)


def test_a_link_to_a_folder_that_sandboxes_show_is_refused(tmp_path):
    """A home is judged by where it really is, not by what it is called."""
    (tmp_path / "link").symlink_to("/usr/share")

    assert b"every sandbox shows" in House(Home(tmp_path / "link" / "tipstaff-home"))("run", "--", "true").stderr


# --- other users ------------------------------------------------------------------------------------------------------


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A folder that anybody may enter."""
    folder = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="tipstaff-attack-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


READ = """
import os, sys
for folder, _, names in os.walk(sys.argv[1]):
    for name in names:
        try:
            open(f"{folder}/{name}", "rb").read(1)
        except OSError:
            continue
        print(name)
"""


@only_root
@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_another_user_reads_nothing_that_is_kept(open_place, mode):
    """In a home that others may even look into they can read public keys at most: no key, no record, no output."""
    house = House(Home(open_place / "home"))
    house.home.root.mkdir(mode=0o700)
    house.home.root.chmod(mode)
    before = os.umask(0)
    try:
        script = "head -c 200000 /dev/zero | tr '\\0' x"  # long enough for a file of its own
        assert house("run", "--quiet", "--shell", script).returncode == 0
    finally:
        os.umask(before)

    command = ["/usr/bin/python3", "-c", READ, str(house.home.root)]
    seen = subprocess.run(
        command, user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, timeout=30, check=True
    )

    assert [name for name in seen.stdout.decode().split() if not name.endswith(".pub.pem")] == []
    assert list(house.home.root.glob("blobs/*/*"))


@only_root
def test_a_home_of_somebody_elses_is_refused(open_place):
    """A home that belongs to another user is not used, even by root; our own is."""
    theirs = House(Home(open_place / "theirs"))
    theirs.home.root.mkdir(mode=0o700)
    os.chown(theirs.home.root, NOBODY, NOBODY)

    assert b"belongs to another user" in theirs("run", "--", "true").stderr
    assert list(theirs.home.root.iterdir()) == []
    assert House(Home(open_place / "ours"))("run", "--", "true").returncode == 0


@only_root
@pytest.mark.parametrize("kind", ["folder", "link", "file"])
def test_a_squatter_gets_nothing_of_ours(root, kind):
    """Whoever takes the place of a user's scratch folder before them stops that user, and is handed nothing."""
    place = Path(f"/var/tmp/tipstaff-{ORDINARY}")  # noqa: S108 - as `places` names it
    assert not place.exists()
    target = Path(tempfile.mkdtemp(dir="/var/tmp"))
    {"folder": place.mkdir, "link": lambda: place.symlink_to(target), "file": place.touch}[kind]()
    os.lchown(place, NOBODY, NOBODY)
    script = (
        "import asyncio\nfrom tipstaff.isolation.bwrap import Bubblewrap\n"
        "async def main():\n    async with Bubblewrap() as tier: print((await tier.report()).missing)\n"
        "asyncio.run(main())\n"
    )
    packages = next(Path(one) for one in sys.path if one.endswith("site-packages"))
    environ = {"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{root / 'src'}:{packages}"}
    try:
        ended = subprocess.run(
            ["/usr/bin/python3", "-B", "-c", script],
            user=ORDINARY, group=ORDINARY, extra_groups=[], env=environ, capture_output=True, timeout=60, check=False,
        )  # fmt: skip
        assert b"is not a folder that only its owner" in ended.stdout, ended.stderr
        assert list(target.iterdir()) == []
    finally:
        place.rmdir() if kind == "folder" else place.unlink()
        target.rmdir()
        shutil.rmtree(f"/tmp/tipstaff-{ORDINARY}", ignore_errors=True)  # noqa: S108 - as `places` names it


# --- records changed behind our back ----------------------------------------------------------------------------------


def edited(house: House, run: str) -> dict[str, tuple[str, tuple[object, ...]]]:
    """Ways to change what is kept of a run: statements and their values."""
    with open_plane(house.home) as plane:
        receipt = plane.bundle(run)["receipt"]
    forged = json.dumps(receipt | {"exitCode": 7}).encode()
    return {
        "receipt": ("UPDATE runs SET receipt = ? WHERE run_id = ?", (forged, run)),
        "contract": ("UPDATE runs SET contract = replace(contract, 'second', 'third!') WHERE run_id = ?", (run,)),
        "last-event": ("DELETE FROM events WHERE run_id = ? AND seq = (SELECT max(seq) FROM events)", (run,)),
        "an-event": ("DELETE FROM events WHERE run_id = ? AND seq = 2", (run,)),
        "nothing": ("UPDATE runs SET receipt = receipt WHERE run_id = ?", (run,)),
    }


@pytest.mark.parametrize("what", ["receipt", "contract", "last-event", "an-event", "nothing"])
def test_a_record_that_was_changed_is_found(house, what):
    """Whatever is changed of a run in the database, its bundle is no longer valid, or not given at all."""
    run = house.newest()
    statement, values = edited(house, run)[what]
    house.change(statement, *values)

    bundle = house("bundle", run)
    (house.home.root.parent / "bundle.json").write_bytes(bundle.stdout)
    checked = house("verify", "bundle.json")

    assert (checked.returncode == 0) is (what == "nothing")
    assert b"Traceback" not in bundle.stderr + checked.stderr


@pytest.mark.parametrize("what", ["last", "first", "all", "nothing"])
def test_a_journal_that_lost_an_entry_is_found(house, what):
    """An entry that is taken out of the journal shows in it, or stops the next run; whole, it is valid and goes on."""
    where = {"last": "seq = (SELECT max(seq) FROM journal)", "first": "seq = (SELECT min(seq) FROM journal)"}
    if what != "nothing":
        house.change(f"DELETE FROM journal WHERE {where.get(what, '1')}")  # noqa: S608 - our own words

    after = house("run", "--quiet", "--", "echo", "ran")
    with open_plane(house.home) as plane:
        found = verify(plane.journal() or {}, known=read_known_keys(house.home.known_keys)).verdict

    honest = (after.returncode, after.stdout, found) == (0, b"ran\n", "valid")
    assert honest is (what == "nothing")
    assert b"Traceback" not in after.stderr


def test_output_that_was_changed_is_not_given_out(house):
    """Kept output whose bytes do not fit its digest is damage, and is not shown."""
    run = house.newest()
    assert house("log", run).stdout == b"second\n"

    house.change("UPDATE blobs SET content = ? WHERE content = ?", b"forged\n", b"second\n")

    ended = house("log", run)
    assert (ended.returncode != 0, ended.stdout) == (True, b"")
    assert b"damaged" in ended.stderr


@pytest.mark.parametrize("trick", ["truncated", "empty", "link", "folder", "noise"])
def test_a_database_that_was_tampered_with_runs_nothing(house, tmp_path, trick):
    """A database that is cut, replaced or led elsewhere is told of in a sentence, and no command runs before it is."""
    store = house.home.root / "store.sqlite"
    whole = store.read_bytes()
    store.unlink()
    for side in ("-wal", "-shm"):
        (house.home.root / f"store.sqlite{side}").unlink(missing_ok=True)
    {
        "truncated": lambda: store.write_bytes(whole[: len(whole) // 2]),
        "noise": lambda: store.write_bytes(os.urandom(len(whole))),
        "empty": store.touch,
        "link": lambda: store.symlink_to(tmp_path / "elsewhere"),
        "folder": store.mkdir,
    }[trick]()

    ended = house("run", "--quiet", "--", "echo", "ran")

    if trick == "empty":  # as good as new: nothing is there that could be contradicted
        assert ended.stdout == b"ran\n"
    else:
        assert (ended.returncode != 0, ended.stdout, b"store.sqlite" in ended.stderr) == (True, b"", True)
    assert b"Traceback" not in ended.stderr
    assert not (tmp_path / "elsewhere").exists()
