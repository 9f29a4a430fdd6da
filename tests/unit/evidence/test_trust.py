"""Which keys count: pinned before known, each in its role and inside its time."""

import pytest

from tests.vectors.story import (
    APPROVER,
    ASKED,
    CLAIMED,
    COMPLETED,
    CREATED,
    EXECUTED,
    ORG,
    PLANE,
    RUNNER,
    STRANGER,
    Run,
    at,
    granted,
    journal,
    refusal,
)
from tipstaff.errors import NotFoundError, SigningKeyError
from tipstaff.evidence import Report, verify
from tipstaff.keys import KnownKey, KnownKeys, PrivateKey
from tipstaff.keys.known import Role

ISSUED, CLAIM, ENDED = at(0), at(120), at(200)  # when the run's contract was issued, claimed and ended


def known(*entries: KnownKey) -> KnownKeys:
    """Known keys."""
    return KnownKeys(entries)


def key(private: PrivateKey, role: Role = "plane", **window: str) -> KnownKey:
    """One known key."""
    return KnownKey(public_key_pem=private.public.pem, role=role, **window)


def answer(report: Report) -> tuple[str, set[int]]:
    """Verdict and numbers."""
    return report.verdict, {problem.number for problem in report.problems}


VALID: tuple[str, set[int]] = ("valid", set())


def test_the_run_has_the_times_that_these_tests_are_about():
    """The run is issued, claimed and ended when the tests below say."""
    bundle = Run().bundle()

    assert (bundle["contract"]["issuedAt"], bundle["events"][2]["ts"], bundle["receipt"]["endedAt"]) == (
        ISSUED,
        CLAIM,
        ENDED,
    )


@pytest.mark.parametrize(
    ("pinned", "verdict"),
    [
        ([PLANE], "valid"),
        ([STRANGER, PLANE, ORG], "valid"),
        ([PLANE, RUNNER], "valid"),
        ([RUNNER], "unproven"),
        ([STRANGER], "unproven"),
        ([], "unproven"),
    ],
)
def test_the_planes_key_must_be_among_the_pinned(pinned, verdict):
    """Several keys may be pinned; without the plane's among them, the runner's too, nothing is proven."""
    assert verify(Run().bundle(), [private.public for private in pinned]).verdict == verdict


def test_pinned_beats_known():
    """Where a key is pinned, the known keys are not asked: neither to accept another, nor to refuse this one."""
    bundle = Run().bundle()

    assert answer(verify(bundle, [STRANGER.public], known=known(key(PLANE)))) == ("unproven", {27})
    assert answer(verify(bundle, [PLANE.public], known=known(key(PLANE, revoked_at=ISSUED)))) == VALID
    assert answer(verify(bundle, known=known(key(PLANE, revoked_at=ISSUED)))) == ("invalid", {27})


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ({}, VALID),
        ({"revoked_at": at(201)}, VALID),
        ({"revoked_at": ENDED}, ("invalid", {27})),
        ({"revoked_at": at(-1)}, ("invalid", {27})),
        ({"not_before": ISSUED}, VALID),
        ({"not_before": at(1)}, ("invalid", {27})),
        ({"not_after": ENDED}, VALID),
        ({"not_after": at(199)}, ("invalid", {27})),
        ({"not_before": ISSUED, "not_after": ENDED, "revoked_at": at(201)}, VALID),
    ],
)
def test_a_known_plane_counts_inside_its_time(window, expected):
    """A known plane's key must be valid at the contract's issue and at the receipt's end; the edges are inside."""
    assert answer(verify(Run().bundle(), known=known(key(PLANE, **window)))) == expected


@pytest.mark.parametrize("role", ["org", "runner", "approver"])
def test_a_known_key_counts_in_its_role(role):
    """A key that is known in another role is not known as the plane's."""
    assert answer(verify(Run().bundle(), known=known(key(PLANE, role)))) == ("unproven", {27})


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (None, VALID),
        ({}, VALID),
        ({"revoked_at": at(201)}, VALID),
        ({"revoked_at": ENDED}, ("invalid", {27})),
        ({"revoked_at": CLAIM}, ("invalid", {27})),
        ({"not_before": CLAIM}, VALID),
        ({"not_before": at(121)}, ("invalid", {27})),
        ({"not_after": ENDED}, VALID),
        ({"not_after": at(199)}, ("invalid", {27})),
    ],
)
def test_a_runner_need_not_be_known_but_not_known_as_revoked(window, expected):
    """The plane vouches for its runner; a known runner's key must have been valid at the claim and at the end."""
    runner = [] if window is None else [key(RUNNER, "runner", **window)]

    assert answer(verify(Run().bundle(), known=known(key(PLANE), *runner))) == expected


@pytest.mark.parametrize(
    ("pinned", "entries", "expected"),
    [
        ([PLANE, ORG], [], VALID),
        ([PLANE], [], ("unproven", {27})),
        ([], [key(PLANE), key(ORG, "org")], VALID),
        ([], [key(PLANE), key(ORG, "plane")], ("unproven", {27})),
        ([], [key(PLANE), key(ORG, "org", revoked_at=ENDED)], ("invalid", {27})),
    ],
)
def test_an_org_must_be_trusted_too(pinned, entries, expected):
    """An org's signature counts by a pinned or known org key; by an unknown one it leaves the whole unproven."""
    bundle = Run(org=ORG).bundle()

    assert answer(verify(bundle, [private.public for private in pinned], known=known(*entries))) == expected


@pytest.mark.parametrize(
    ("window", "expected", "notes"),
    [
        (None, VALID, 1),
        ({}, VALID, 0),
        ({"revoked_at": at(121)}, VALID, 0),
        ({"revoked_at": at(120)}, ("invalid", {24}), 0),
        ({"not_after": at(119)}, ("invalid", {24}), 0),
    ],
)
def test_an_approver_is_judged_at_the_grant(window, expected, notes):
    """An approver's known key must be valid when the approval was granted; an unknown one is said to be unknown."""
    bundle = Run(events=(CREATED, ASKED, granted(), CLAIMED, EXECUTED, COMPLETED)).bundle()
    approver = [] if window is None else [key(APPROVER, "approver", **window)]
    report = verify(bundle, known=known(key(PLANE), *approver))

    assert (answer(report), len(report.notes)) == (expected, notes)


@pytest.mark.parametrize("document", [refusal(), journal(), journal()["head"]])
def test_records_are_found_by_the_key_that_signed(document):
    """A refusal, a journal and a head carry no key: a pinned or known plane's key with the signature's id is used."""
    assert answer(verify(document, [STRANGER.public, PLANE.public])) == VALID
    assert answer(verify(document, known=known(key(PLANE)))) == VALID
    assert answer(verify(document)) == ("unproven", {27})
    assert answer(verify(document, [STRANGER.public])) == ("unproven", {27})
    assert answer(verify(document, known=known(key(PLANE, "runner")))) == ("unproven", {27})
    assert answer(verify(document, known=known(key(PLANE, revoked_at=at(0))))) == ("invalid", {27})


def test_keys_are_given_as_text_or_as_files(tmp_path):
    """A key may be PEM text with any line ends, an OpenSSH line or a file; what is no key is an error."""
    bundle, path = Run().bundle(), tmp_path / "plane.pem"
    path.write_text(PLANE.public.pem)

    for form in (PLANE.public, PLANE.public.pem, PLANE.public.pem.replace("\n", "\r\n"), path, str(path)):
        assert verify(bundle, [form]).verdict == "valid"
    with pytest.raises(SigningKeyError):
        verify(bundle, ["-----BEGIN PUBLIC KEY-----\nx\n-----END PUBLIC KEY-----\n"])
    with pytest.raises(NotFoundError):
        verify(bundle, [tmp_path / "absent.pem"])
