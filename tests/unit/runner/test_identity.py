"""Who a runner is: enrolled once, in a directory that nobody else can look into, with one plane key for ever."""

import asyncio
import json
import stat
from io import BytesIO

import pytest

from tests.unit.plane.embedded import PLANE, RUNNER, STRANGER
from tests.unit.runner.encrypted import answering, self_signed
from tipstaff.errors import InputError, NotFoundError, PlaneError, TipstaffError, UsageError
from tipstaff.keys.files import save
from tipstaff.runner.address import address_of
from tipstaff.runner.client import UnreachableError
from tipstaff.runner.enrolling import Wish, _refuse_certificate, identity_of
from tipstaff.runner.http import OverHttp
from tipstaff.runner.identity import PLANE_KEY, RECORD, pinned


@pytest.fixture
def wish(bench):
    """What an operator says, with a fresh token."""

    def make(**fields):
        token = bench.site.plane.people.enroll_token(None, 60)["token"]
        said = {"address": address_of(bench.plane.url), "token": token, "try_seconds": 0.3, "pause_seconds": 0.05}
        return Wish(**{**said, **fields})

    return make


async def test_a_runner_is_enrolled_once(bench, wish, tmp_path):
    """The first time it is made known, and its plane's key pinned; after that it is read, and the plane not asked."""
    data = tmp_path / "new"
    identity, is_new = await identity_of(data, wish())
    again, is_new_again = await identity_of(data, Wish())

    assert (is_new, is_new_again) == (True, False)
    assert again.record == identity.record
    assert (identity.record.pool, identity.record.plane_url) == ("default", bench.plane.url)
    assert again.plane_key == PLANE.public
    assert bench.plane.paths() == ["/v1/runners/enroll"]
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in data.iterdir()} == {0o600}
    assert {path.name for path in data.iterdir()} == {RECORD, PLANE_KEY, "runner.key.pem", "runner.pub.pem"}


async def test_the_key_outlives_an_enrolment_that_failed(bench, wish, tmp_path):
    """A plane that says no leaves the key as it is: the next try is with the same."""
    data = tmp_path / "new"
    with pytest.raises(PlaneError, match="token") as refused:
        await identity_of(data, wish(token="wrong" * 4))
    assert refused.value.status == 401
    key = (data / "runner.key.pem").read_bytes()
    await identity_of(data, wish())

    assert (data / "runner.key.pem").read_bytes() == key
    assert len(bench.plane.paths()) == 2


async def test_only_a_plane_that_cannot_be_reached_is_tried_again(bench, wish, tmp_path):
    """A connection that breaks is tried again until the time is over; an answer, whatever it says, is not."""
    hang_ups = iter([(0, b""), (0, b"")])
    bench.plane.twist = lambda _method, _path, _body: next(hang_ups, None)
    await identity_of(tmp_path / "patient", wish(try_seconds=10))
    assert len(bench.plane.asked) == 3

    bench.plane.twist = lambda _method, _path, _body: (0, b"")
    with pytest.raises(UnreachableError):
        await identity_of(tmp_path / "late", wish())
    asked = len(bench.plane.asked)
    bench.plane.twist = lambda _method, _path, _body: (503, b'{"error": "busy"}')
    with pytest.raises(UnreachableError, match="busy"):
        await identity_of(tmp_path / "busy", wish())
    assert len(bench.plane.asked) == asked + 1


async def test_the_first_failure_is_said_and_no_other(bench, wish, tmp_path):
    """Whoever waits hears once why, and for how long; an enrolment that succeeds at once says nothing."""
    said: list[str] = []
    hang_ups = iter([(0, b""), (0, b""), (0, b"")])
    bench.plane.twist = lambda _method, _path, _body: next(hang_ups, None)
    await identity_of(tmp_path / "patient", wish(try_seconds=10), said.append)
    assert len(said) == 1
    assert bench.plane.url in said[0]
    assert said[0].endswith("; trying for 10 s")

    await identity_of(tmp_path / "quick", wish(), said.append)
    assert len(said) == 1


@pytest.mark.parametrize("is_trusted", [True, False])
async def test_a_certificate_that_nobody_vouches_for_is_not_tried_again(tmp_path, is_trusted):
    """It is refused at once, with what is wrong and --ca; with that file the plane is asked."""
    certificate = self_signed(tmp_path, "plane")
    reply = json.dumps({"runnerId": "rnr_1", "runnerToken": "t", "planePublicKeyPem": PLANE.public.pem}).encode()
    said: list[str] = []
    async with answering(reply, certificate) as (address, connections):
        wish = Wish(address=address, token="enr_1", ca=certificate if is_trusted else None)  # noqa: S106 - of nobody
        if is_trusted:
            identity, _ = await identity_of(tmp_path / "new", wish, said.append)
            assert identity.record.runner_id == "rnr_1"
        else:
            with pytest.raises(PlaneError, match=r"is not trusted: self.signed certificate; .*--ca FILE") as refused:
                await asyncio.wait_for(identity_of(tmp_path / "new", wish, said.append), 10)
            assert (refused.value.code, refused.value.exit_code) == ("certificate", 69)

    assert (said, len(connections)) == ([], 1 if is_trusted else 0)


@pytest.mark.parametrize("is_certificate", [True, False])
async def test_a_certificate_is_to_blame_however_deep_it_lies(tmp_path, is_certificate):
    """The general client, which goes by proxies, wraps what went wrong; nobody at the port is another fault."""
    async with answering(b"{}", self_signed(tmp_path, "plane")) as (address, _):
        client = OverHttp(address if is_certificate else address_of("https://127.0.0.1:1"))
        with pytest.raises(UnreachableError) as trouble:
            await client.fetch("token", "0" * 64, BytesIO())
        await client.close()
    if is_certificate:
        with pytest.raises(PlaneError, match="is not trusted"):
            _refuse_certificate(address, trouble.value)
    else:
        _refuse_certificate(address, trouble.value)


async def test_another_pool_or_plane_than_the_enrolled_one_is_refused(wish, tmp_path):
    """What the runner was enrolled for holds; the same said again is fine."""
    data = tmp_path / "new"
    await identity_of(data, wish(pool="builds"))
    await identity_of(data, wish(pool="builds"))
    with pytest.raises(UsageError, match="pool 'builds', not for 'other'"):
        await identity_of(data, wish(pool="other"))
    with pytest.raises(UsageError, match="was enrolled at"):
        await identity_of(data, wish(address=address_of("https://other.example.com")))


async def test_a_runner_without_a_plane_or_a_token_is_told_what_to_do(wish, tmp_path):
    """Nothing is guessed: each refusal says what is missing."""
    with pytest.raises(UsageError, match="--plane URL"):
        await identity_of(tmp_path / "one", wish(address=None))
    with pytest.raises(UsageError, match="TIPSTAFF_ENROLL_TOKEN"):
        await identity_of(tmp_path / "two", wish(token=""))


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o701, 0o770])
async def test_a_directory_that_others_can_look_into_is_refused(wish, tmp_path, mode):
    """Only the owner may enter; the refusal says how to mend it."""
    data = tmp_path / "new"
    data.mkdir()
    data.chmod(mode)
    if mode == 0o700:
        await identity_of(data, wish())
        return
    with pytest.raises(UsageError, match="chmod 700"):
        await identity_of(data, wish())


@pytest.mark.parametrize("name", [RECORD, PLANE_KEY, "runner.key.pem"])
async def test_a_file_that_others_can_read_is_refused(wish, tmp_path, name):
    """The token, the pinned key and the private key are the owner's alone."""
    data = tmp_path / "new"
    await identity_of(data, wish())
    (data / name).chmod(0o644)

    with pytest.raises(TipstaffError, match="chmod 600"):
        await identity_of(data, wish())


async def test_an_old_directory_is_taken_as_it_is(bench, tmp_path):
    """Three files of an older runner are enough, with the operator's word for the plane's key; it is pinned then."""
    data = tmp_path / "old"
    save(RUNNER, data, "runner")
    record = {"runnerId": "rnr_old", "runnerToken": "token", "pool": "default", "extra": 1}
    (data / RECORD).write_text(json.dumps(record))
    (data / RECORD).chmod(0o600)
    key = tmp_path / "plane.pem"
    key.write_text(PLANE.public.pem)

    with pytest.raises(NotFoundError, match="--plane-key"):
        await identity_of(data, Wish())
    identity, is_new = await identity_of(data, Wish(plane_key=key))

    assert (identity.record.runner_id, is_new, identity.plane_key) == ("rnr_old", False, PLANE.public)
    assert pinned(data) == PLANE.public
    assert bench.plane.asked == []


async def test_a_plane_that_tells_no_key_needs_the_operators_word(bench, wish, tmp_path):
    """An old plane's runner is enrolled only with --plane-key; nothing is kept without."""
    bench.plane.twist = lambda _method, _path, _body: (200, b'{"runnerId": "rnr_1", "runnerToken": "t"}')
    with pytest.raises(NotFoundError, match="--plane-key FILE"):
        await identity_of(tmp_path / "new", wish())
    assert not (tmp_path / "new" / RECORD).exists()
    key = tmp_path / "plane.pem"
    key.write_text(PLANE.public.pem)

    identity, _ = await identity_of(tmp_path / "new", wish(plane_key=key))
    assert identity.plane_key == PLANE.public


@pytest.mark.parametrize("is_old", [False, True])
async def test_a_plane_that_tells_its_key_is_held_to_sign_for_claims(bench, wish, tmp_path, is_old):
    """A plane that told its key at enrolment signs for claims ever after, also for the next process; an old one not."""
    reply = {"runnerId": "rnr_1", "runnerToken": "t", **({} if is_old else {"planePublicKeyPem": PLANE.public.pem})}
    bench.plane.twist = lambda _method, _path, _body: (200, json.dumps(reply).encode())
    pem = tmp_path / "plane.pem"
    pem.write_text(PLANE.public.pem)

    first, _ = await identity_of(tmp_path / "new", wish(plane_key=pem))
    second, _ = await identity_of(tmp_path / "new", wish())

    assert first.record.plane_proves is second.record.plane_proves is not is_old
    assert ("planeProves" in json.loads((tmp_path / "new" / RECORD).read_text())) is not is_old


async def test_another_plane_key_is_never_taken_in_silence(wish, tmp_path):
    """The key that the operator gives, that the plane tells and that was pinned are one, or it is a refusal."""
    other = tmp_path / "other.pem"
    other.write_text(STRANGER.public.pem)
    with pytest.raises(UsageError, match="keys differ"):
        await identity_of(tmp_path / "another", wish(plane_key=other))
    await identity_of(tmp_path / "new", wish())
    with pytest.raises(UsageError, match="keys differ"):
        await identity_of(tmp_path / "new", wish(plane_key=other))
    assert pinned(tmp_path / "new") == PLANE.public


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"runnerId": 7}', "\xff"])
async def test_a_damaged_record_is_our_error(wish, tmp_path, text):
    """What cannot be read is said, and not enrolled over."""
    data = tmp_path / "new"
    await identity_of(data, wish())
    (data / RECORD).write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match="cannot be read"):
        await identity_of(data, wish())
