"""The known-keys file: who is trusted, as what, from when until when."""

import json
import os
import stat
import threading

import pytest

from tipstaff.errors import InputError, NotFoundError
from tipstaff.keys import KnownKey, KnownKeys, PrivateKey
from tipstaff.keys.known import read_known_keys, update_known_keys, write_known_keys

ONE, OTHER = (PrivateKey.from_seed(bytes([n]) * 32) for n in (1, 2))
EARLY, NOON, LATER = (f"2026-03-01T{hour:02}:00:00.000Z" for hour in (11, 12, 13))
JUST_BEFORE, JUST_AFTER = "2026-03-01T11:59:59.999Z", "2026-03-01T12:00:00.001Z"


def entry(key=ONE, role="plane", **fields):
    """One known key."""
    return KnownKey(public_key_pem=key.public.pem, role=role, **fields)


def document(*entries, **fields):
    """The file's text."""
    keys = [{"publicKeyPem": ONE.public.pem, "role": "plane", **changes} for changes in entries]
    return json.dumps({"version": "tipstaff.known-keys.v1", "keys": keys, **fields})


@pytest.mark.parametrize(
    ("window", "when", "counts"),
    [
        ({}, NOON, True),
        ({"not_before": NOON}, JUST_BEFORE, False),
        ({"not_before": NOON}, NOON, True),
        ({"not_after": NOON}, NOON, True),
        ({"not_after": NOON}, JUST_AFTER, False),
        ({"revoked_at": NOON}, JUST_BEFORE, True),
        ({"revoked_at": NOON}, NOON, False),
        ({"revoked_at": NOON}, JUST_AFTER, False),
        ({"not_before": NOON, "not_after": NOON}, NOON, True),
        ({"not_before": LATER, "not_after": EARLY}, NOON, False),
        ({"not_after": LATER, "revoked_at": NOON}, NOON, False),
    ],
)
def test_a_signature_counts_inside_the_validity(window, when, counts):
    """From notBefore to notAfter, both included, and before revokedAt."""
    assert (entry(**window).fault_at(when) == "") is counts


def test_a_fault_names_both_times():
    """The reason says the bound and the date that missed it."""
    assert entry(revoked_at=EARLY).fault_at(NOON) == f"was revoked at {EARLY}, and this is dated {NOON}"


def test_a_key_is_found_by_bytes_and_role():
    """A key is known in the roles that were said, and in no other."""
    known = KnownKeys((entry(), entry(OTHER, "runner")))

    assert known.find(ONE.public, "plane") == entry()
    assert known.find(ONE.public, "runner") is None
    assert known.find(OTHER.public, "plane") is None
    assert known.by_id(ONE.public.key_id, "plane") == ONE.public
    assert known.by_id(ONE.public.key_id, "org") is None


def test_trust_adds_and_replaces():
    """Trusting a key again replaces its entry in that role; values do not change."""
    first = KnownKeys().trust(entry())
    second = first.trust(entry(not_after=NOON)).trust(entry(role="org"))

    assert first.entries == (entry(),)
    assert second.entries == (entry(not_after=NOON), entry(role="org"))


def test_a_revoked_key_stays_revoked():
    """A revoked key cannot be trusted again, in its role or in another; another key still can."""
    revoked = KnownKeys((entry(), entry(OTHER))).revoke(ONE.public.key_id, NOON)

    with pytest.raises(InputError, match="was revoked"):
        revoked.trust(entry())
    with pytest.raises(InputError, match="was revoked"):
        revoked.trust(entry(role="approver"))
    assert revoked.trust(entry(OTHER, "approver")).find(OTHER.public, "approver") is not None
    assert revoked.trust(entry(OTHER, not_after=NOON)).find(OTHER.public, "plane") == entry(OTHER, not_after=NOON)


@pytest.mark.parametrize(("times", "stands"), [([NOON], NOON), ([NOON, LATER], NOON), ([NOON, EARLY], EARLY)])
def test_the_earliest_revocation_stands(times, stands):
    """Revoking again can only be earlier, and reaches every role of the key."""
    known = KnownKeys((entry(), entry(role="org"), entry(OTHER)))
    for when in times:
        known = known.revoke(ONE.public.key_id, when)

    assert [key.revoked_at for key in known.entries] == [stands, stands, None]


def test_only_a_known_key_can_be_revoked():
    """A key that is not known cannot be revoked: the id may be mistyped."""
    with pytest.raises(NotFoundError, match=OTHER.public.key_id):
        KnownKeys((entry(),)).revoke(OTHER.public.key_id, NOON)


def test_what_is_written_is_read(tmp_path):
    """The file gives back what was written, for its owner alone, and leaves nothing else behind."""
    path = tmp_path / "known-keys.json"
    known = KnownKeys(
        (entry(name="plané", not_before=EARLY, not_after=LATER, revoked_at=NOON), entry(OTHER, "approver"))
    )
    write_known_keys(path, known)
    write_known_keys(path, known)

    assert read_known_keys(path).entries == known.entries
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["known-keys.json"]  # noqa: PTH208 - names are what is compared
    assert json.loads(path.read_text())["version"] == "tipstaff.known-keys.v1"


@pytest.mark.parametrize("fields", [{"name": "\udcff"}, {"not_before": "1-01-01T00:00:00.000Z"}, {"not_after": "noon"}])
def test_what_could_not_be_read_again_is_not_written(tmp_path, fields):
    """An entry that the reader would call damaged is refused, and the file stays as it was."""
    path = tmp_path / "known-keys.json"
    write_known_keys(path, KnownKeys((entry(),)))

    with pytest.raises(InputError, match="cannot be noted"):
        update_known_keys(path, lambda known: known.trust(entry(OTHER, **fields)))
    assert read_known_keys(path).entries == (entry(),)


@pytest.mark.parametrize(("mode", "is_read"), [(0o600, True), (0o644, True), (0o664, False), (0o602, False)])
def test_a_file_that_others_may_write_is_refused(tmp_path, mode, is_read):
    """Others may read which keys are trusted; where they may write it, they could add their own."""
    path = tmp_path / "known-keys.json"
    path.write_text(document({}))
    path.chmod(mode)

    if is_read:
        assert len(read_known_keys(path).entries) == 1
    else:
        with pytest.raises(InputError, match="written by other users"):
            read_known_keys(path)


@pytest.mark.only_if(os.geteuid() == 0, "only root can give a file away")
def test_another_users_file_is_refused(tmp_path):
    """A file that belongs to somebody else is theirs to change; one's own is read."""
    path = tmp_path / "known-keys.json"
    path.write_text(document({}))
    path.chmod(0o600)

    assert len(read_known_keys(path).entries) == 1
    os.chown(path, 65534, -1)
    with pytest.raises(InputError, match="written by other users"):
        read_known_keys(path)


def test_what_a_kill_left_behind_is_written_over(tmp_path):
    """A half-written file of a killed process neither counts nor piles up."""
    path = tmp_path / "known-keys.json"
    (tmp_path / ".known-keys.json.new").write_text('{"version":')
    write_known_keys(path, KnownKeys((entry(),)))

    assert [found.name for found in tmp_path.iterdir()] == ["known-keys.json"]
    assert read_known_keys(path).entries == (entry(),)


def test_no_file_means_no_known_key(tmp_path):
    """A file that is not there is an empty list; one that cannot be read is an error."""
    assert read_known_keys(tmp_path / "absent").entries == ()
    with pytest.raises(InputError):
        read_known_keys(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "not json",
        document()[:-1],
        document() + "x",
        document({"extra": 1}),
        document(comment="x"),
        document(version="tipstaff.known-keys.v2"),
        document({"role": "king"}),
        document({"publicKeyPem": "x"}),
        document({"publicKeyPem": ONE.public.pem.replace("A", "!")}),
        document({"revokedAt": "yesterday"}),
        document({"notAfter": "2026-03-01"}),
        document({"notBefore": "2026-03-01T12:00:00Z"}),
        document({"revokedAt": 0}),
        document({"revokedAt": NOON}, {}),
        document({}, {"name": "twin"}),
        "[" * 100_000,
        '{"version":' * 100_000,
        '{"version": "\ud800"}',
    ],
)
def test_a_damaged_file_is_an_error(tmp_path, text):
    """A file that is cut, of another version, with an unknown field, an odd time or a key twice is never half taken."""
    path = tmp_path / "known-keys.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))

    with pytest.raises(InputError, match=r"known-keys\.json"):
        read_known_keys(path)


@pytest.mark.parametrize(
    "entries", [[], [{}], [{}, {"role": "org"}], [{"name": "x", "notBefore": NOON, "revokedAt": LATER}]]
)
def test_a_sound_file_is_read(tmp_path, entries):
    """What a person may write by hand is read."""
    path = tmp_path / "known-keys.json"
    path.write_text(document(*entries))
    path.chmod(0o644)

    assert len(read_known_keys(path).entries) == len(entries)


def test_too_long_a_file_is_an_error(tmp_path):
    """A file beyond the bound is an error, not a part of itself."""
    path = tmp_path / "known-keys.json"
    path.write_text(document() + " " * 5 * 1024 * 1024 + "x")

    with pytest.raises(InputError):
        read_known_keys(path)


def test_changes_at_once_are_all_kept(tmp_path):
    """Many that change the file at the same time wait for each other: no change is lost."""
    path = tmp_path / "known-keys.json"
    keys = [PrivateKey.generate() for _ in range(12)]
    threads = [
        threading.Thread(target=update_known_keys, args=(path, lambda known, key=key: known.trust(entry(key))))
        for key in keys
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {found.public for found in read_known_keys(path).entries} == {key.public for key in keys}


def test_a_change_needs_its_folder(tmp_path):
    """Without a home there is nothing to change."""
    with pytest.raises(NotFoundError):
        update_known_keys(tmp_path / "absent" / "known-keys.json", lambda known: known)
