"""The encrypted store: nothing in it can be read, swapped, taken back or lost."""

import fcntl
import json
import os
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tests.unit.secrets.traces import shown
from tipstaff.errors import InputError, NotFoundError, SecretError
from tipstaff.secrets import sealed
from tipstaff.secrets.sealed import SealedStore

CANARY = "canary-4f1c9a77e2"
OTHER = "another-91b2c3d4e5"
FIRST, LATER = "2026-11-15T12:00:00.000Z", "2026-11-15T12:00:01.000Z"


@pytest.fixture
def home(tmp_path):
    """A home as `tipstaff` makes it."""
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def store(home):
    """A store whose clock moves a second with each look."""
    times = iter(range(1_794_744_000_000, 2_000_000_000_000, 1000))
    return SealedStore(home, lambda: next(times))


def content(home):
    """Read the file as anybody could who has it."""
    return json.loads((home / "secrets.sealed").read_bytes())


def rewrite(home, value):
    """Write the file as somebody could who has no key."""
    (home / "secrets.sealed").write_text(json.dumps(value))


def everything(home):
    """All bytes of a home, by name."""
    return {path.name: path.read_bytes() for path in home.iterdir()}


def test_what_is_set_is_read(store, home):
    """A value comes back exactly; a name that is not set is None; nothing is made before something is set."""
    assert store.read("A") is None
    assert store.entries() == ()
    assert list(home.iterdir()) == []

    assert store.set("A", CANARY) is False
    assert store.set("team/b", f"{OTHER}\nsecond line é") is False

    assert (store.read("A"), store.read("team/b"), store.read("C")) == (CANARY, f"{OTHER}\nsecond line é", None)
    assert SealedStore(home).read("A") == CANARY
    assert [entry.name for entry in store.entries()] == ["A", "team/b"]


def test_no_value_is_in_the_files(store, home):
    """Neither a value nor its length can be read from the store; both files are private, and nothing else is there."""
    before = os.umask(0)
    try:
        store.set("A", CANARY)
        store.set("B", CANARY * 5)
    finally:
        os.umask(before)

    assert sorted(path.name for path in home.iterdir()) == ["secrets.key", "secrets.sealed"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in home.iterdir()} == {0o600}
    assert not [name for name, data in everything(home).items() if b"canary" in data]
    one, two = content(home)["entries"]
    assert len(one["sealed"]) == len(two["sealed"])
    assert one["sealed"] != two["sealed"]
    assert CANARY not in repr(store.entries())


def test_times_are_kept(store):
    """Setting notes when a value changed, rotating also when it was rotated, and another setting leaves that."""
    store.set("A", CANARY)
    assert [(entry.changed_at, entry.rotated_at) for entry in store.entries()] == [(FIRST, None)]
    store.rotate("A", OTHER)
    assert [(entry.changed_at, entry.rotated_at) for entry in store.entries()] == [(LATER, LATER)]
    assert store.read("A") == OTHER
    assert store.set("A", CANARY) is True
    assert [(entry.changed_at > LATER, entry.rotated_at) for entry in store.entries()] == [(True, LATER)]


def test_a_rotation_needs_a_new_value(store, home):
    """The old value again, or a name that is not set, is refused and changes nothing; a new value is taken."""
    store.set("A", CANARY)
    before = everything(home)

    with pytest.raises(InputError, match="is the old one") as told:
        store.rotate("A", CANARY)
    assert CANARY not in str(told.value)
    with pytest.raises(NotFoundError, match="not set"):
        store.rotate("B", OTHER)
    assert everything(home) == before
    store.rotate("A", OTHER)
    assert store.read("A") == OTHER


def test_what_is_removed_is_gone(store, home):
    """A removed name is None, the others stay; removing what is not there is told."""
    store.set("A", CANARY)
    store.set("B", OTHER)
    store.remove("A")

    assert (store.read("A"), store.read("B")) == (None, OTHER)
    with pytest.raises(NotFoundError, match="not set"):
        store.remove("A")
    store.remove("B")
    assert store.entries() == ()
    with pytest.raises(NotFoundError, match="no home"):
        SealedStore(home / "nowhere").remove("A")


def test_nothing_is_made_by_a_refusal(store, home):
    """Rotating or removing in an empty store makes no file and no key."""
    for refused in (lambda: store.rotate("A", CANARY), lambda: store.remove("A")):
        with pytest.raises(NotFoundError):
            refused()

    assert list(home.iterdir()) == []


def swapped(now, _):
    """Exchange the names of two entries."""
    one, two = now["entries"]
    one["name"], two["name"] = two["name"], one["name"]


def exchanged(now, _):
    """Exchange what two entries hold."""
    one, two = now["entries"]
    one["sealed"], one["nonce"], two["sealed"], two["nonce"] = two["sealed"], two["nonce"], one["sealed"], one["nonce"]


def rolled_back(now, before):
    """Put an older entry of the same name, as it was, into the newer file."""
    now["entries"][0] = before["entries"][0]


def left_out(now, _):
    """Take an entry out."""
    del now["entries"][0]


def doubled(now, _):
    """Have an entry twice."""
    now["entries"].append(now["entries"][0])


def redated(now, _):
    """Say that it was rotated."""
    now["entries"][0]["rotatedAt"] = LATER


def older_seal(now, before):
    """Take the seal of the older file."""
    now["seal"], now["nonce"] = before["seal"], before["nonce"]


def counted_up(now, _):
    """Change the serial of the file."""
    now["serial"] += 1


def short_nonce(now, _):
    """Cut the nonce."""
    now["nonce"] = "AAAA"


@pytest.mark.parametrize(
    "change", [swapped, exchanged, rolled_back, left_out, doubled, redated, older_seal, counted_up, short_nonce]
)
def test_nothing_can_be_moved_about(store, home, change):
    """Whoever has no key cannot swap, replace, date or take out an entry: the whole store then gives nothing."""
    store.set("A", CANARY)
    store.set("B", OTHER)
    before = content(home)
    store.set("A", f"{CANARY}-new")
    now = content(home)
    rewrite(home, now)
    assert store.read("A") == f"{CANARY}-new"

    change(now, before)
    rewrite(home, now)

    refused_and_kept(store, home, "damaged")


def refused_and_kept(store, home, words):
    """Claim that nothing is read, listed or written, and that the files stay as they are."""
    before = everything(home)
    for step in (
        lambda: store.read("A"),
        lambda: store.read("absent"),
        store.entries,
        lambda: store.set("A", OTHER),
        lambda: store.remove("A"),
    ):
        with pytest.raises(SecretError, match=words) as told:
            step()
        assert CANARY not in shown(told.value)
    assert everything(home) == before


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"\xff\xfe", b"{}", b'{"version": 1}', b'{"version": "tipstaff.secrets.v1"}', b"\0" * 4096],
)
def test_a_damaged_file_is_left_as_it_is(store, home, data):
    """A file that does not parse is an error that says what to do; it is neither read nor written over."""
    store.set("A", CANARY)
    (home / "secrets.sealed").write_bytes(data)

    refused_and_kept(store, home, "move secrets.sealed away")


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A store with one secret in it, and the bytes of its file."""
    home = tmp_path_factory.mktemp("home")
    SealedStore(home).set("A", CANARY)
    return home, (home / "secrets.sealed").read_bytes()


@given(some.data())
def test_no_flipped_bit_is_taken(kept, data):
    """Wherever one bit of the file is another, no other value comes out: the same one, or our error."""
    home, good = kept
    at = data.draw(some.integers(0, len(good) - 1))
    bad = good[:at] + bytes([good[at] ^ (1 << data.draw(some.integers(0, 7)))]) + good[at + 1 :]
    (home / "secrets.sealed").write_bytes(bad)

    with suppress(SecretError):
        assert SealedStore(home).read("A") == CANARY  # as where the last line feed became a blank


def test_another_version_is_refused(store, home):
    """A store of a version that we do not know is not guessed at."""
    store.set("A", CANARY)
    rewrite(home, content(home) | {"version": "tipstaff.secrets.v2"})

    refused_and_kept(store, home, r"another version \(tipstaff.secrets.v2\)")


def test_a_wrong_key_is_told_from_damage(store, home, tmp_path):
    """With the key of another home the sentence says that it is the key; with the right one all is there again."""
    store.set("A", CANARY)
    right = (home / "secrets.key").read_bytes()
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    SealedStore(other).set("A", OTHER)
    (home / "secrets.key").write_bytes((other / "secrets.key").read_bytes())

    refused_and_kept(store, home, "another key")
    (home / "secrets.key").write_bytes(right)
    assert store.read("A") == CANARY


def test_a_lost_key_is_not_replaced(store, home):
    """Without its key a store is closed, and no new key is made that would hide the loss."""
    store.set("A", CANARY)
    (home / "secrets.key").unlink()

    refused_and_kept(store, home, "is gone")
    assert not (home / "secrets.key").exists()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "damaged, or not a key"),
        (b"hunter2hunter2", "damaged, or not a key"),
        (b"tipstaff.secrets-key.v2 AAAA\n", "another version"),
        (b"tipstaff.secrets-key.v1 AAAA\n", "is damaged"),
        (b"tipstaff.secrets-key.v1 !!!!\n", "is damaged"),
        (b"x" * 5000, "larger than"),
    ],
)
def test_a_damaged_key_is_said(store, home, data, words):
    """A key file with anything else in it is an error that quotes none of it."""
    store.set("A", CANARY)
    (home / "secrets.key").write_bytes(data)

    refused_and_kept(store, home, words)
    with pytest.raises(SecretError) as told:
        store.read("A")
    assert "hunter2" not in shown(told.value)


@pytest.mark.parametrize("name", ["secrets.key", "secrets.sealed"])
@pytest.mark.parametrize("bits", [0o640, 0o604, 0o660, 0o601])
def test_files_that_others_can_read_are_refused(store, home, name, bits):
    """Any bit for group or others is too much, and the message says which command mends it; 0400 is fine."""
    store.set("A", CANARY)
    (home / name).chmod(bits)

    refused_and_kept(store, home, "chmod 600")
    (home / name).chmod(0o400)
    assert store.read("A") == CANARY


@pytest.mark.parametrize("name", ["secrets.key", "secrets.sealed"])
def test_links_are_not_followed(store, home, tmp_path, name):
    """A file that is a symbolic link is refused, also one that leads nowhere: no key is made in its place."""
    store.set("A", CANARY)
    (home / name).rename(tmp_path / "moved")
    (home / name).symlink_to(tmp_path / "moved")
    refused_and_kept(store, home, "link")

    kept = (tmp_path / "moved").read_bytes()
    (tmp_path / "moved").unlink()
    with pytest.raises(SecretError):
        store.set("A", OTHER)
    assert (home / name).is_symlink()
    (home / name).unlink()
    (home / name).write_bytes(kept)
    (home / name).chmod(0o600)
    assert store.read("A") == CANARY


def test_a_key_has_one_name(store, home, tmp_path):
    """A key with a second hard link is refused: who can reach the other name is unknown."""
    store.set("A", CANARY)
    (tmp_path / "second").hardlink_to(home / "secrets.key")
    refused_and_kept(store, home, "hard links")

    (tmp_path / "second").unlink()
    assert store.read("A") == CANARY


def test_a_home_that_others_can_write_is_refused(store, home):
    """Where others may write, they could put back an older store: nothing is set there."""
    home.chmod(0o770)
    with pytest.raises(SecretError, match="other users"):
        store.set("A", CANARY)

    home.chmod(0o700)
    store.set("A", CANARY)
    assert store.read("A") == CANARY


def test_a_write_that_fails_loses_nothing(store, home):
    """Where the new file cannot be written, the old one stays, and nothing half-written is left beside it."""
    store.set("A", CANARY)
    before = everything(home)
    code = (
        "import resource, signal, sys; from pathlib import Path; from tipstaff.secrets.sealed import SealedStore\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))\n"
        "SealedStore(Path(sys.argv[1])).set('B', 'x' * 5000)"
    )
    ended = subprocess.run([sys.executable, "-c", code, home], capture_output=True, check=False, timeout=60)

    assert b"SecretError: secrets.sealed cannot be written: File too large" in ended.stderr
    assert everything(home) == before
    store.set("B", OTHER)
    assert (store.read("A"), store.read("B")) == (CANARY, OTHER)


def test_what_a_kill_left_is_written_over(store, home):
    """A temporary file of a process that was killed, even a link planted there, harms nothing."""
    (home / ".secrets.sealed.new").write_text("half")
    (home / ".secrets.key.new").symlink_to(home / "elsewhere")

    store.set("A", CANARY)

    assert store.read("A") == CANARY
    assert sorted(path.name for path in home.iterdir()) == ["secrets.key", "secrets.sealed"]


def test_many_at_once_lose_nothing(home):
    """Secrets that are set at the same time, from an empty home on, are all there; readers see whole files."""
    stop, seen = threading.Event(), []

    def look():
        while not stop.is_set():
            seen.append(len(SealedStore(home).entries()))

    reader = threading.Thread(target=look)
    reader.start()
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda number: SealedStore(home).set(f"S{number}", f"{CANARY}-{number}"), range(12)))
    stop.set()
    reader.join()

    assert {name: SealedStore(home).read(name) for name in ("S0", "S11")} == {
        "S0": f"{CANARY}-0",
        "S11": f"{CANARY}-11",
    }
    assert len(SealedStore(home).entries()) == 12
    assert seen == sorted(seen)


def test_a_lock_is_not_waited_for_for_ever(store, home, monkeypatch):
    """Where another process keeps the lock, a change is refused in time, and reading goes on."""
    store.set("A", CANARY)
    monkeypatch.setattr(sealed, "LOCK_SECONDS", 0.1)
    descriptor = os.open(home, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)

    with pytest.raises(SecretError, match="another process"):
        store.set("A", OTHER)
    assert store.read("A") == CANARY
    os.close(descriptor)
    store.set("A", OTHER)
    assert store.read("A") == OTHER


def test_the_store_has_a_bound(store, home, monkeypatch):
    """A store that would become too large to be read again is not written."""
    store.set("A", CANARY)
    before = everything(home)
    monkeypatch.setattr(sealed, "MAX_BYTES", 3000)

    with pytest.raises(SecretError, match="larger than 3000"):
        store.set("B", "x" * 5000)
    assert everything(home) == before
    store.set("B", OTHER)
    assert store.read("B") == OTHER
