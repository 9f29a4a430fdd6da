"""Private keys on disk: made for their owner alone, and read only while they are."""

import os
import stat
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tipstaff.errors import NotFoundError, SigningKeyError
from tipstaff.keys import PrivateKey
from tipstaff.keys.files import is_encrypted, load, load_public, save

KEY = PrivateKey.from_seed(bytes(range(32)))
NOBODY = 65534


@pytest.fixture
def folder(tmp_path):
    """A folder that is not there yet."""
    return tmp_path / "home" / "keys"


def mode(path):
    """The permission bits of a file."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_key_is_made_for_its_owner_alone(folder, umask):
    """The private half is 0600 in a folder of 0700, the public half is readable, whatever the umask."""
    before = os.umask(umask)
    try:
        path = save(KEY, folder, "plane")
    finally:
        os.umask(before)

    assert [entry.name for entry in sorted(folder.iterdir())] == ["plane.key.pem", "plane.pub.pem"]
    assert (mode(path), mode(folder / "plane.pub.pem"), mode(folder)) == (0o600, 0o644, 0o700)
    assert load(path).public == load_public(folder / "plane.pub.pem") == KEY.public


@pytest.mark.parametrize("passphrase", [None, b"correct horse"])
def test_a_passphrase_protects_the_file(folder, passphrase):
    """A key saved with a passphrase says so, and is read with it only; one without is read without."""
    path = save(KEY, folder, "plane", passphrase)

    assert is_encrypted(path) is (passphrase is not None)
    assert load(path, passphrase).public == KEY.public
    wrong = b"wrong" if passphrase is None else None
    with pytest.raises(SigningKeyError, match=r"plane\.key\.pem"):
        load(path, wrong)
    with pytest.raises(SigningKeyError):
        load(path, b"wrong")


@pytest.mark.parametrize("bits", [0o604, 0o640, 0o660, 0o666, 0o601, 0o620, 0o644])
def test_a_key_that_others_can_read_is_refused(folder, bits):
    """Any bit for group or others is too much, and the message says which command mends it."""
    path = save(KEY, folder, "plane")
    path.chmod(bits)

    with pytest.raises(SigningKeyError, match="chmod 600"):
        load(path)
    with pytest.raises(SigningKeyError, match="chmod 600"):
        is_encrypted(path)
    path.chmod(0o600)
    assert load(path).public == KEY.public


def test_a_key_may_be_read_only(folder):
    """A key file of 0400 is as private as one of 0600."""
    path = save(KEY, folder, "plane")
    path.chmod(0o400)

    assert load(path).public == KEY.public


@pytest.mark.only_if(os.geteuid() == 0, "only root can give a file away")
def test_a_key_of_another_user_is_refused(folder):
    """A key that belongs to somebody else is refused, even by root."""
    path = save(KEY, folder, "plane")
    os.chown(path, NOBODY, NOBODY)

    with pytest.raises(SigningKeyError, match="another user"):
        load(path)
    os.chown(path, 0, 0)
    assert load(path).public == KEY.public


def test_a_link_is_not_followed(folder):
    """A symbolic link to a key is not a key file; a hard link is the file itself."""
    path = save(KEY, folder, "plane")
    (folder / "link.key.pem").symlink_to(path)
    (folder / "hard.key.pem").hardlink_to(path)

    with pytest.raises(SigningKeyError):
        load(folder / "link.key.pem")
    assert load(folder / "hard.key.pem").public == KEY.public


def test_a_fifo_does_not_hang(folder):
    """A named pipe is refused at once, with a writer or without."""
    folder.mkdir(parents=True)
    path = folder / "plane.key.pem"
    os.mkfifo(path, 0o600)

    with pytest.raises(SigningKeyError, match="not a plain file"):
        load(path)
    descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    os.write(descriptor, KEY.pem())
    with pytest.raises(SigningKeyError, match="not a plain file"):
        load(path)
    os.close(descriptor)


@pytest.mark.parametrize("where", ["", "plane.key.pem/below"])
def test_a_folder_is_not_a_key(folder, where):
    """A folder in the place of a key file, or a file in the place of a folder, is told."""
    save(KEY, folder, "plane")

    with pytest.raises(SigningKeyError):
        load(folder / where)


def test_a_device_is_not_a_key():
    """A device is refused before it is read."""
    for device in ("/dev/null", "/dev/zero"):
        with pytest.raises(SigningKeyError):
            load(Path(device))


def test_what_is_not_there_is_said(folder):
    """A missing key, private or public, is named."""
    with pytest.raises(NotFoundError, match=r"plane\.key\.pem"):
        load(folder / "plane.key.pem")
    with pytest.raises(NotFoundError, match=r"plane\.pub\.pem"):
        load_public(folder / "plane.pub.pem")


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 100, KEY.pem()[:60], KEY.pem().replace(b"M", b"!"), KEY.public.pem.encode()]
)
def test_a_damaged_key_is_an_error(folder, content):
    """A key file that is empty, cut, altered or of the other half is named in our own error."""
    path = save(KEY, folder, "plane")
    path.write_bytes(content)

    with pytest.raises(SigningKeyError, match=r"plane\.key\.pem"):
        load(path)


@pytest.mark.parametrize("content", [b"", b"\xff" * 100, KEY.pem(), b"x" * 1_000_000])
def test_a_damaged_public_key_is_an_error(folder, content):
    """A public key file with anything else in it is named in our own error."""
    save(KEY, folder, "plane")
    (folder / "plane.pub.pem").write_bytes(content)

    with pytest.raises(SigningKeyError, match=r"plane\.pub\.pem"):
        load_public(folder / "plane.pub.pem")


@pytest.mark.parametrize("taken", ["plane.key.pem", "plane.pub.pem"])
@pytest.mark.parametrize("kind", ["file", "link", "dangling", "folder"])
def test_nothing_is_overwritten(folder, taken, kind):
    """Where either name is taken, by whatever, nothing is written and no half of a pair stays."""
    folder.mkdir(parents=True)
    target = folder / "target"
    if kind == "file":
        (folder / taken).write_text("mine")
    elif kind == "folder":
        (folder / taken).mkdir()
    else:
        (folder / taken).symlink_to(target)
        if kind == "link":
            target.write_text("mine")
    before = {path.name: path.is_file() and path.read_text() for path in folder.iterdir()}

    with pytest.raises(SigningKeyError, match="exists already"):
        save(KEY, folder, "plane")

    assert {path.name: path.is_file() and path.read_text() for path in folder.iterdir()} == before
    assert save(KEY, folder, "other").exists()


@pytest.mark.parametrize("where", ["taken", "taken/below", "x" * 300])
def test_a_folder_that_cannot_be_made_is_an_error(tmp_path, where):
    """Where no folder can be, no key is made, and our own error says so."""
    (tmp_path / "taken").touch()

    with pytest.raises(SigningKeyError):
        save(KEY, tmp_path / where, "plane")
    assert save(KEY, tmp_path / "free", "plane").exists()


def test_two_at_once_make_one_pair(folder):
    """Of many that make the same key at once one wins, and its two halves belong together."""
    keys = [PrivateKey.generate() for _ in range(8)]
    won = []

    def make(key):
        with suppress(SigningKeyError):
            won.append((save(key, folder, "plane"), key))

    threads = [threading.Thread(target=make, args=(key,)) for key in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(won) == 1
    assert load(won[0][0]).public == load_public(folder / "plane.pub.pem") == won[0][1].public
    assert len(list(folder.iterdir())) == 2
