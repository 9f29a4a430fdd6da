"""Claims about secrets that are put into requests."""

import base64
import itertools
import os
import random
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipstaff.egress.paths import normal_path
from tipstaff.model.decision import SecretLease
from tipstaff.model.outgoing import Outgoing
from tipstaff.secrets.forms import forms
from tipstaff.secrets.inject import Injector, fault_of_injected
from tipstaff.secrets.placeholders import placeholders_for
from tipstaff.secrets.redact import Leak

HOST = "api.example.com"
VALUES = {
    "TOKEN": "sk-ant-api03-Real0Value1Real2Value3",
    "KEY": "0123456789abcdef4e5f60718293a4b5",
    "COLON": "with:colon:inside",
}
HELD = placeholders_for(VALUES, random.Random(7).randbytes)  # noqa: S311 - the same in every run
TOKEN, KEY, COLON = (HELD[name].encode() for name in ("TOKEN", "KEY", "COLON"))
REAL = VALUES["TOKEN"].encode()
REALS = [value.encode() for value in VALUES.values()]
LEASE = SecretLease(name="TOKEN", way="inject", header="Authorization", hosts=(HOST, "*.example.org"))
KEYED = SecretLease(name="KEY", way="inject", header="X-Api-Key", hosts=(HOST,))
COLONED = SecretLease(name="COLON", way="inject", hosts=(HOST,))


class Clock:
    """A clock that stands until it is set."""

    seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def injector(*leases: SecretLease, clock: Clock | None = None) -> Injector:
    return Injector(leases or (LEASE, KEYED, COLONED), VALUES, HELD, clock or Clock(), normal_path)


def request(*headers: tuple[bytes, bytes], path: str = "/v1/items", **other) -> Outgoing:
    asked = Outgoing(HOST, 443, "GET", path, ((b"Host", HOST.encode()), *headers), secured=True)
    return msgspec.structs.replace(asked, **other)


def authorized(value: bytes = b"Bearer " + TOKEN, **other) -> Outgoing:
    return request((b"Authorization", value), **other)


def sent(outcome: Outgoing | str, header: bytes = b"authorization") -> bytes:
    """Give what goes out in one header."""
    assert isinstance(outcome, Outgoing)
    return {name.lower(): value for name, value in outcome.headers}[header]


def refused(outcome: Outgoing | str) -> str:
    """Give the reason, which tells no value."""
    assert isinstance(outcome, str)
    assert not any(value in outcome for value in (*VALUES.values(), *HELD.values()))
    return outcome


def basic(user: bytes, password: bytes) -> bytes:
    return b"Basic " + base64.b64encode(user + b":" + password)


@pytest.mark.parametrize(
    ("asked", "goes"),
    [
        (TOKEN, REAL),
        (b"Bearer " + TOKEN, b"Bearer " + REAL),
        (b"token " + TOKEN, b"token " + REAL),
        (basic(b"git", TOKEN), basic(b"git", REAL)),
        (basic(TOKEN, b""), basic(REAL, b"")),
        (basic(TOKEN, b"x-oauth-basic"), basic(REAL, b"x-oauth-basic")),
        (basic(b"user", COLON), basic(b"user", VALUES["COLON"].encode())),
        (basic(TOKEN, COLON), basic(REAL, VALUES["COLON"].encode())),
        (b"bAsIc " + basic(b"", TOKEN)[6:], b"bAsIc " + basic(b"", REAL)[6:]),
    ],
)
def test_the_value_goes_out_where_the_placeholder_stood(asked, goes):
    """Alone, behind a scheme and in `Basic` the placeholder becomes the value, and nothing else changes."""
    before = authorized(asked)
    after = injector().apply(before)

    assert sent(after) == goes
    assert isinstance(after, Outgoing)
    assert msgspec.structs.replace(after, headers=before.headers) == before
    assert after.headers[0] == before.headers[0]


def test_header_names_have_no_case():
    """The header is found in any spelling of its name, and leaves in the one that it came in."""
    after = injector().apply(request((b"x-aPi-key", KEY)))

    assert isinstance(after, Outgoing)
    assert after.headers[-1] == (b"x-aPi-key", VALUES["KEY"].encode())


@pytest.mark.parametrize(
    "asked",
    [
        request(),
        authorized(b"Bearer something else"),
        authorized(basic(b"user", b"password")),
        authorized(b"Basic !!!"),
        authorized(b""),
        authorized(secured=False),
        request(host="elsewhere.example"),
    ],
)
def test_a_request_without_a_placeholder_is_not_touched(asked):
    """Whatever holds no placeholder is given back as it is, also where the header has something of its own."""
    asked = msgspec.structs.replace(
        asked, headers=tuple((name, value.replace(TOKEN, b"none")) for name, value in asked.headers)
    )

    assert injector().apply(asked) is asked


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"secured": False}, "TLS only"),
        ({"host": "evil.example"}, "may not be sent to evil.example"),
        ({"host": "example.org"}, "may not be sent to example.org"),
        ({"method": "DELETE"}, "may not be sent with DELETE"),
        ({"path": "/v2/items"}, "this path"),
        ({"path": "/v1/../v2/items"}, "this path"),
        ({"path": "/v1/%2e%2e/v2"}, "this path"),
        ({"path": "/v1%2fitems"}, "this path"),
        ({"path": "*"}, "this path"),
    ],
)
def test_a_secret_goes_only_where_its_lease_says(change, reason):
    """Another host, method or path, or a connection in the open, and the request is refused; its twin goes out."""
    bound = msgspec.structs.replace(LEASE, methods=("GET", "POST"), paths=("/v1/*",))

    assert reason in refused(injector(bound).apply(authorized(**change)))
    assert sent(injector(bound).apply(authorized())) == b"Bearer " + REAL
    assert (
        sent(injector(bound).apply(authorized(host="a.example.org", method="POST", path="/v1/x?y")))
        == b"Bearer " + REAL
    )


def test_a_lease_without_hosts_goes_nowhere():
    """No hosts are no host, and never all of them."""
    assert "may not be sent" in refused(injector(msgspec.structs.replace(LEASE, hosts=())).apply(authorized()))


@pytest.mark.parametrize(
    ("asked", "where"),
    [
        (request((b"X-Other", TOKEN)), "the header X-Other"),
        (request((b"X-Api-Key", TOKEN)), "the header X-Api-Key"),
        (request((b"Cookie", b"session=" + TOKEN)), "the header Cookie"),
        (request((TOKEN, b"x")), "the name of a header"),
        (request((b"Authorization", b"Bearer " + TOKEN), (b"X-Copy", TOKEN)), "the header X-Copy"),
        (request((b"Authorization", b"Bearer " + TOKEN), path=f"/v1/{TOKEN.decode()}"), "the path"),
        (request(path=f"/v1?key={TOKEN.decode()}"), "the path"),
        (request(path="/v1?key=" + "".join(f"%{byte:02x}" for byte in TOKEN)), "the path"),
        (request(path="/v1?key=" + quote(TOKEN.decode().replace("-", "%2d"))), "the path"),
        (request(path="/v1?key=" + TOKEN.decode().replace("a", "%61")), "the path"),
        (request(method=TOKEN.decode()), "the method"),
        (authorized(b"Bearer x" + TOKEN), "the header Authorization"),
        (authorized(b"Bearer  " + TOKEN), "the header Authorization"),
        (authorized(b"Bearer " + TOKEN + b", Bearer x"), "the header Authorization"),
        (authorized(b"Bearer " + base64.b64encode(TOKEN)), "the header Authorization"),
        (authorized(b"Basic " + base64.b64encode(TOKEN)), "the header Authorization"),
        (authorized(b"Basic " + base64.b64encode(b"u:" + TOKEN).rstrip(b"=") + b"!"), "the header Authorization"),
        (authorized(basic(b"user", b"x" + TOKEN)), "the header Authorization"),
        (authorized(basic(KEY, TOKEN)), "the header Authorization"),
        (authorized(KEY + b" " + TOKEN), "the header Authorization"),
        (authorized(basic(COLON, b"")), "the header Authorization"),
    ],
)  # fmt: skip
def test_a_placeholder_anywhere_else_is_refused(asked, where):
    """In another header, in the path, in part or in another encoding it is neither put in nor sent on."""
    assert f"stands in {where}" in refused(injector().apply(asked))


def test_two_placeholders_are_both_judged():
    """Two secrets in one request go out together, or not at all; what was refused has cost no use."""
    once = msgspec.structs.replace(LEASE, uses=1)
    elsewhere = msgspec.structs.replace(KEYED, hosts=("other.example.com",))
    both = request((b"Authorization", b"Bearer " + TOKEN), (b"X-Api-Key", KEY))
    held = injector(once, elsewhere)

    assert "KEY may not be sent" in refused(held.apply(both))
    assert sent(held.apply(authorized())) == b"Bearer " + REAL
    assert sent(injector(once, KEYED).apply(both), b"x-api-key") == VALUES["KEY"].encode()


def test_a_header_that_stands_twice_is_refused():
    """Servers disagree about which of two headers counts; so a secret is in neither."""
    twice = request((b"Authorization", b"Bearer " + TOKEN), (b"authorization", b"Bearer x"))

    assert "once" in refused(injector().apply(twice))


def test_uses_are_counted():
    """A secret that is leased for two uses is put in twice, and refused afterwards."""
    held = injector(msgspec.structs.replace(LEASE, uses=2))

    assert [isinstance(held.apply(authorized()), Outgoing) for _ in range(4)] == [True, True, False, False]
    assert "2 uses" in refused(held.apply(authorized()))


def test_a_lease_runs_out():
    """A secret is put in until its time is over, and not at that moment."""
    clock = Clock()
    held = injector(msgspec.structs.replace(LEASE, ttl_seconds=60), clock=clock)
    clock.seconds += 59.9
    assert isinstance(held.apply(authorized()), Outgoing)
    clock.seconds += 0.1

    assert "60 seconds" in refused(held.apply(authorized()))


PIECES = st.sampled_from([TOKEN, KEY, COLON, b"Bearer ", b"Basic ", b" ", b":", b"x", base64.b64encode(b"u:" + TOKEN)])
TEXTS = st.lists(PIECES, max_size=4).map(b"".join)
NAMES = st.sampled_from([b"Authorization", b"AUTHORIZATION", b"X-Api-Key", b"X-Other"])


@given(
    st.lists(st.tuples(NAMES, TEXTS), max_size=3),
    st.sampled_from(["/v1", "/v1?k=" + KEY.decode()]),
    st.sampled_from([HOST, "evil.example"]),
    st.booleans(),
)
def test_no_placeholder_leaves_and_no_value_goes_astray(headers, path, host, secured):
    """Whatever is asked: what goes out holds no placeholder, and a value only in its header, to its host, over TLS."""
    outcome = injector().apply(request(*headers, path=path, host=host, secured=secured))
    if isinstance(outcome, str):
        assert refused(outcome)
        return
    texts = [outcome.path.encode(), *(part for header in outcome.headers for part in (*header, decoded(header[1])))]
    carrying = {
        name.lower() for name, text in outcome.headers for value in REALS if value in text or value in decoded(text)
    }

    assert not any(placeholder in text for placeholder in (TOKEN, KEY, COLON) for text in texts)
    assert not carrying or (host == HOST and secured)
    assert carrying <= {b"authorization", b"x-api-key"}


def decoded(value: bytes) -> bytes:
    try:
        return base64.b64decode(value.rpartition(b" ")[2], validate=True)
    except ValueError:
        return b""


@pytest.mark.parametrize(
    "value",
    ["with\r\nX-Evil: 1", "with\nline", "tab\there", " before", "after ", "nul\0byte", "schlüssel", "", "a\u2028b"],
)
def test_what_no_header_can_carry_is_not_released(value):
    """A value with line ends or other characters that no header has is refused before it is released."""
    assert fault_of_injected(value)
    with pytest.raises(ValueError, match="TOKEN") as caught:
        Injector((LEASE,), {"TOKEN": value}, HELD, Clock(), normal_path)
    assert not value.strip() or value not in str(caught.value)


@pytest.mark.parametrize("value", [*VALUES.values(), "two words", "!#$%&'()*+,-./:;<=>?@[]^_`{|}~"])
def test_what_a_header_can_carry_is_released(value):
    """The twin: ordinary values can be injected."""
    assert fault_of_injected(value) is None


def test_other_leases_are_left_out():
    """A secret for the environment, and one that was not released, are none of the injector's."""
    held = Injector(
        (msgspec.structs.replace(LEASE, way="env", hosts=()), KEYED), {"TOKEN": "x"}, HELD, Clock(), normal_path
    )

    assert isinstance(held.apply(authorized()), Outgoing)
    assert not held.reaches(HOST)


def test_it_knows_the_hosts_that_may_hold_a_secret():
    """Answers of the hosts that a lease covers are those to be masked."""
    assert [injector().reaches(host) for host in (HOST, "a.example.org", "example.org", "evil.example")] == [
        True,
        True,
        False,
        False,
    ]


BODY = b'{"prompt": "my key is ' + TOKEN + b'"}'


@given(st.lists(st.integers(0, len(BODY)), max_size=8))
def test_a_placeholder_in_a_body_is_found_however_it_is_cut(cuts):
    """Its last byte does not get past the scanner, wherever the body is cut."""
    edges = [0, *sorted(cuts), len(BODY)]
    scanner = injector().scanner()
    passed = b""
    for start, end in itertools.pairwise(edges):
        if reason := scanner.feed(BODY[start:end]):
            assert "TOKEN stands in the request's body" in refused(reason)
            break
        passed += BODY[start:end]

    assert TOKEN not in passed


@pytest.mark.parametrize("form", forms(TOKEN), ids=range(len(forms(TOKEN))))
def test_a_placeholder_in_a_body_is_found_in_every_spelling(form):
    """Each spelling that redaction knows is found, also when it comes byte by byte."""
    scanner = injector().scanner()
    body = b"x" * 700 + form + b"y"

    assert any(scanner.feed(body[place : place + 1]) for place in range(len(body)))


def test_a_body_without_a_placeholder_passes():
    """The twin: placeholders of other sessions, and the first part of ours, are ordinary text."""
    others = placeholders_for(VALUES, os.urandom).values()
    scanner = injector().scanner()

    assert [scanner.feed(other.encode()) for other in others] == ["", "", ""]
    assert scanner.feed(TOKEN[:-1]) == ""
    assert scanner.feed(b"") == ""


@pytest.mark.parametrize("spell", [bytes, base64.b64encode, lambda value: value.hex().encode()])
def test_an_answer_that_tells_the_value_is_masked(spell):
    """A host that echoes the value has it hidden, in the same length, and it is recorded as a leak."""
    held = injector()
    answer = b'{"you sent": "' + spell(REAL) + b'"}'
    mask = held.mask()
    came = b"".join(mask.feed(answer[place : place + 5]) for place in range(0, len(answer), 5)) + mask.end()

    assert len(came) == len(answer)
    assert spell(REAL) not in came
    assert came.startswith(b'{"you sent": "*')
    assert held.leaks() == (Leak("TOKEN", "egress", 1),)


def test_an_answer_without_a_value_is_not_changed():
    """The twin: other answers come as they are, and the placeholder is no secret."""
    held = injector()
    mask = held.mask()

    assert mask.feed(b"nothing " + TOKEN) + mask.end() == b"nothing " + TOKEN
    assert held.leaks() == ()
