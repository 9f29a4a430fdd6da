"""Whatever is handed to `verify`, the answer is a report: bounded, printable, and never valid."""

import json
import time
from collections import OrderedDict, UserDict
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.vectors.story import (
    ASKED,
    BEFORE,
    BORIS,
    CLAIMED,
    COMPLETED,
    CREATED,
    PLANE,
    Run,
    altered,
    granted,
    journal,
    refusal,
)
from tipstaff.errors import NotFoundError
from tipstaff.evidence import CHECKS, Report, verify
from tipstaff.evidence.report import MOST_CHARACTERS, MOST_PER_CHECK

PINNED = [PLANE.public]
DOCUMENTS = {
    "bundle": Run(events=(CREATED, ASKED, granted(), CLAIMED, COMPLETED)).bundle(),
    "refusal": refusal(),
    "journal": journal(),
    "head": journal()["head"],
}
TEXTS = {name: json.dumps(document).encode() for name, document in DOCUMENTS.items()}
MEGABYTE = 1024 * 1024
NAMES = [*DOCUMENTS["bundle"], *DOCUMENTS["journal"], *DOCUMENTS["head"], "requestHash", "reasons"]


def hostile(document: Any) -> Report:
    """Verify, and check what must be true of every report on something that is not valid."""
    report = verify(document, PINNED)
    assert isinstance(report, Report)
    assert len(report.problems) <= (MOST_PER_CHECK + 1) * len(CHECKS)
    assert len(report.notes) <= MOST_PER_CHECK + 1
    lines = [*map(str, report.problems), *report.notes, report.run_id, report.status]
    assert all(line.isprintable() and len(line) < 12 * MOST_CHARACTERS for line in lines)
    assert "\n".join(lines).encode()
    assert report.verdict != "valid"
    return report


def places(value: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every place inside a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*place, key)
        yield from places(item, (*place, key))


def put(document: Any, place: tuple[str | int, ...], value: Any) -> Any:
    """A copy of `document` with another value in one place."""
    if not place:
        return value
    copy: Any = dict(document) if isinstance(document, dict) else list(document)
    copy[place[0]] = put(copy[place[0]], place[1:], value)
    return copy


def nested(depth: int, wrap: Any) -> Any:
    """A value that is nested so deeply."""
    value: Any = 0
    for _ in range(depth):
        value = wrap(value)
    return value


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-(2**70), max_value=2**70)
    | st.floats()
    | st.text(st.characters())
    | st.text(st.characters(categories=["Cs", "Cc", "Cf"]), min_size=1),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
ODD = st.recursive(
    JSON | st.binary(max_size=8) | st.sampled_from([object(), 1j, range(3), {1, 2}, Path("x"), float("nan"), b"", ...]),
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.integers() | st.none() | st.binary(max_size=2) | st.text(max_size=3), inner, max_size=3)
        | st.lists(inner, max_size=3).map(lambda items: MappingProxyType(dict(enumerate(items))))
        | st.lists(inner, max_size=3).map(lambda items: OrderedDict((str(i), item) for i, item in enumerate(items)))
    ),
    max_leaves=8,
)


# Bytes


@given(data=st.binary())
@example(data=b"")
@example(data=b"\x00\xff" * 100)
@example(data=b"\xef\xbb\xbf{}")
@example(data=b"\xef\xbb\xbf" + TEXTS["bundle"])
@example(data=TEXTS["bundle"].decode().encode("utf-16"))
@example(data=TEXTS["bundle"].decode().encode("utf-32"))
@example(data=TEXTS["bundle"] + b"\x00")
@example(data=TEXTS["bundle"] + TEXTS["bundle"])
@example(data=b"null")
@example(data=b"[]")
@example(data=b'{"a":NaN}')
@example(data=b'{"a":-Infinity}')
@example(data=b'{"a":1,}')
@example(data=b"{,}")
@example(data=b'{"a"}')
@example(data=b"{1:2}")
@example(data=b'{"events":[,]}')
@example(data=b'{"events":[1,]}')
@example(data=b'{"contract":{},"receipt":{},"events":[],"keys":{}}')
@example(data=b'{"contract":1,"receipt":1,"events":1,"keys":1}')
def test_any_bytes_are_judged(data):
    """Any bytes give a report that is not valid."""
    assert hostile(data).verdict == "invalid"


@settings(max_examples=3 * settings().max_examples)
@given(
    name=st.sampled_from(sorted(TEXTS)),
    changes=st.lists(st.tuples(st.integers(0), st.binary(max_size=4), st.integers(0, 3)), min_size=1, max_size=3),
)
def test_mutated_bytes_are_judged(name, changes):
    """A document with bytes put in, taken out or exchanged is judged, and valid only if it still says the same."""
    data = TEXTS[name]
    for offset, inserted, removed in changes:
        at = offset % len(data)
        data = data[:at] + inserted + data[at + removed :]
    try:
        same = json.loads(data) == DOCUMENTS[name]
    except (ValueError, RecursionError):
        same = False

    if not same:
        hostile(data)


@settings(max_examples=2 * settings().max_examples)
@given(name=st.sampled_from(sorted(TEXTS)), data=st.data())
def test_any_json_in_any_place_is_judged(name, data):
    """Any JSON value in any place of a document, written out and read again, gives a report."""
    place = data.draw(st.sampled_from(sorted(places(DOCUMENTS[name]), key=str)))
    value = data.draw(JSON)
    document = put(DOCUMENTS[name], place, value)

    if document != DOCUMENTS[name]:
        hostile(json.dumps(document).encode())


@given(document=st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, JSON)))
def test_documents_of_the_right_shape_are_judged(document):
    """Objects that have our names and any values give a report."""
    hostile(json.dumps(document).encode())
    hostile(document)


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_lone_surrogates_are_judged_in_every_place(name):
    """Half a character, which JSON can spell and UTF-8 cannot, is refused in every place and as every key."""
    for place in places(DOCUMENTS[name]):
        hostile(json.dumps(put(DOCUMENTS[name], place, "\ud800")).encode())
        hostile(json.dumps(put(DOCUMENTS[name], place, {"\udfff": "\ud800"})).encode())


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_duplicate_keys_are_refused_in_every_object(name):
    """A key that stands twice is refused at every level, with the same value too."""
    text = TEXTS[name].decode()
    starts = [index for index, character in enumerate(text) if character == "{" and text[index + 1] == '"']
    for start in starts:
        pair, _ = json.JSONDecoder().raw_decode(text, start)
        key = next(iter(pair))
        member = f"{json.dumps(key)}: {json.dumps(pair[key])}, "
        report = hostile((text[: start + 1] + member + text[start + 1 :]).encode())
        assert [problem.number for problem in report.problems] == [0]
        assert "twice" in report.problems[0].message
    assert verify(text.encode(), PINNED).verdict == "valid"


@pytest.mark.parametrize("wrap", [lambda v: [v], lambda v: {"a": v}], ids=["lists", "objects"])
@pytest.mark.parametrize("depth", [64, 65, 900, 990])
def test_deep_values_are_judged_in_every_place(wrap, depth):
    """A value nested as deeply as Python's recursion allows is refused in every place, as bytes and as a dict."""
    opening, closing = ("[", "]") if wrap(0) == [0] else ('{"a":', "}")
    deep_text = opening * depth + "0" + closing * depth
    deep_value = nested(depth, wrap)
    for place in places(DOCUMENTS["bundle"]):
        if len(place) < 5:  # deeper ones are alike
            text = json.dumps(put(DOCUMENTS["bundle"], place, "DEEP")).replace('"DEEP"', deep_text)
            assert hostile(text.encode()).verdict == "invalid"
            assert hostile(put(DOCUMENTS["bundle"], place, deep_value)).verdict == "invalid"


def test_deep_values_are_not_compared():
    """Where two values must be equal, two deep ones do not exhaust the recursion."""
    pairs = [(("contract", "runId"), ("receipt", "runId")), (("events", 0, "hash"), ("events", 1, "prev"))]
    pairs += [(("events", 4, "hash"), ("receipt", "eventsHead")), (("version",), ("contract", "version"))]
    for one, other in pairs:
        text = json.dumps(put(put(DOCUMENTS["bundle"], one, "DEEP"), other, "DEEP"))
        for depth in range(900, 1000, 7):
            hostile(text.replace('"DEEP"', "[" * depth + "]" * depth).encode())
        hostile(put(put(DOCUMENTS["bundle"], one, nested(50_000, lambda v: [v])), other, nested(50_000, lambda v: [v])))


def test_a_contract_may_be_as_deep_as_can_be_hashed():
    """What is nested within the bound is no problem in hashed objects: 60 levels verify."""
    run = Run(
        {"budget": {"x": nested(60, lambda v: [v])}}, (*BEFORE, {**COMPLETED, "x": nested(60, lambda v: {"a": v})})
    )

    assert verify(run.bundle(), PINNED).verdict == "valid"


@pytest.mark.parametrize(
    "number", ["1" * 5000, "-" + "9" * 400, "1e999999999", "0." + "1" * 5000, "1E400", "9007199254740993"]
)
def test_long_numbers_are_judged(number):
    """Numbers that no double holds, or that take long to convert, are refused in every place."""
    for place in places(DOCUMENTS["bundle"]):
        if len(place) < 4:
            hostile(json.dumps(put(DOCUMENTS["bundle"], place, "NUMBER")).replace('"NUMBER"', number).encode())


@pytest.mark.parametrize(
    ("before", "unit", "after"),
    [
        (b"", b"\x00", b""),
        (b"", b" ", b""),
        (b"", b"[", b""),
        (b"", b"{", b""),
        (b'{"contract":', b"[", b""),
        (b'{"contract":', b'{"a":', b""),
        (b'{"events":[', b"[", b""),
        (b'{"contract":"', b"a", b'"}'),
        (b'{"contract":{"runId":"', b"a", b'"},"receipt":{},"events":[],"keys":{}}'),
        (b'{"', b"a", b'":1,"contract":{}}'),
        (b'{"contract":{},"keys":{"', b"a", b'":1}}'),
        (b'{"contract":', b"9", b"}"),
        (b'{"contract":{"signatures":[0', b",0", b"]}}"),
        (b'{"contract":{},"events":[0', b",0", b"]}"),
        (b'{"contract":"\\', b"\\\\", b'"}'),
    ],
)  # fmt: skip
def test_a_hundred_megabytes_are_judged(before, unit, after):
    """A hundred megabytes of one thing are judged, in seconds."""
    size = 100 if len(unit) == 1 or unit[-1:] in b"[{:" else 1  # a list's elements are each judged
    started = time.monotonic()
    report = hostile(before + unit * (size * MEGABYTE // len(unit)) + after)

    assert report.verdict == "invalid"
    assert time.monotonic() - started < 30


def test_hostile_names_are_printed_safely():
    """What a terminal would obey is escaped in every message, and no message quotes more than a part."""
    evil = "\x1b[2J\x1b]0;owned\x07\r\n\u202e\ud800" + "A" * MEGABYTE
    document = put(DOCUMENTS["bundle"], ("keys",), {**DOCUMENTS["bundle"]["keys"], evil: 1})
    for text in (
        json.dumps({**document, evil: evil}),
        json.dumps(put(DOCUMENTS["bundle"], ("receipt", "runId"), evil[:100])),
        json.dumps(put(DOCUMENTS["bundle"], ("events", 1, "event", "type"), evil)),
        json.dumps(put(DOCUMENTS["bundle"], ("events", 1), {**DOCUMENTS["bundle"]["events"][1], evil: 1})),
        json.dumps({**DOCUMENTS["journal"], evil: 1}),
        f'{{"contract":{{{json.dumps(evil)}:1,{json.dumps(evil)}:1}}}}',
    ):
        hostile(text.encode())


def test_hostile_names_in_signed_notes_are_printed_safely():
    """An approver's name cannot write to the terminal either, though everybody signed it."""
    evil = {"kind": "human", "id": "\x1b[2J\u202egnp"}
    consent = altered(granted(actor=evil), actor=evil, publicKeyPem=None)
    report = verify(Run(events=(CREATED, ASKED, consent, CLAIMED, COMPLETED)).bundle(), PINNED)

    assert report.verdict == "valid"
    assert len(report.notes) == 1
    assert report.notes[0].isprintable()


def test_notes_are_bounded():
    """A thousand approvals do not make a thousand notes."""
    consents = [altered(granted(), publicKeyPem=None)] * 1000
    report = verify(Run(events=(CREATED, ASKED, *consents, CLAIMED, COMPLETED)).bundle(), PINNED)

    assert report.verdict == "valid"
    assert len(report.notes) == MOST_PER_CHECK + 1
    assert report.notes[-1] == f"{1000 - MOST_PER_CHECK} more notes on approvals"


def test_reports_are_the_same_every_time():
    """Two verifications of one document give equal reports, in the same order."""
    odd = {**DOCUMENTS["bundle"], **{f"field{n}": n for n in range(40)}}

    assert hostile(odd) == hostile(dict(reversed(odd.items())))


# Python values


@settings(max_examples=2 * settings().max_examples)
@given(name=st.sampled_from(sorted(DOCUMENTS)), data=st.data())
def test_odd_python_values_are_judged(name, data):
    """A dict with tuples, bytes, NaN, sets, objects or keys of other types gives a report."""
    place = data.draw(st.sampled_from(sorted(places(DOCUMENTS[name]), key=str)))
    document = put(DOCUMENTS[name], place, data.draw(ODD))

    if document != DOCUMENTS[name]:
        hostile(document)


@given(document=st.dictionaries(st.none() | st.integers() | st.text() | st.binary(), ODD))
def test_odd_documents_are_judged(document):
    """Any dict gives a report."""
    hostile(document)


def cycles() -> Iterator[Any]:
    """Values that contain themselves."""
    a_list: list[Any] = []
    a_list.append(a_list)
    yield a_list
    a_dict: dict[str, Any] = {}
    a_dict["a"] = a_dict
    yield a_dict
    twice: list[Any] = []
    twice.extend([twice, twice])
    yield twice
    yield (a_list,)


def test_cycles_are_judged_in_every_place():
    """A value that contains itself is refused in every place, and so are two of them that would be compared."""
    for cycle in cycles():
        for place in places(DOCUMENTS["bundle"]):
            assert hostile(put(DOCUMENTS["bundle"], place, cycle)).verdict == "invalid"
        hostile({"contract": cycle, "receipt": cycle, "events": cycle, "keys": cycle})


@pytest.mark.parametrize("kind", [dict, OrderedDict, UserDict, MappingProxyType])
def test_other_mappings_are_documents(kind):
    """The document itself may be any mapping; what is inside must be what JSON gives."""
    assert verify(kind(DOCUMENTS["bundle"]), PINNED).verdict == "valid"
    hostile(kind({**DOCUMENTS["bundle"], "receipt": UserDict(DOCUMENTS["bundle"]["receipt"])}))
    hostile(kind({**DOCUMENTS["bundle"], "events": tuple(DOCUMENTS["bundle"]["events"])}))


def test_a_file_that_cannot_be_opened_is_an_error(tmp_path):
    """Only a file that is not there, or cannot be read as one, is an error instead of a report."""
    for path in (tmp_path / "absent", tmp_path, "with\0nul", tmp_path / ("x" * 5000)):
        with pytest.raises(NotFoundError):
            verify(path, PINNED)
    (tmp_path / "empty").touch()
    assert hostile(tmp_path / "empty").verdict == "invalid"


# Time


def test_time_grows_with_the_number_of_events():
    """Ten times the events take about ten times the time; were it to grow with the square, it would be a hundred."""
    seconds = {count: fastest(count) for count in (200, 2_000, 20_000)}

    assert seconds[2_000] < 30 * seconds[200]
    assert seconds[20_000] < 30 * seconds[2_000]


def fastest(count: int) -> float:
    """How long it takes to verify a valid bundle of so many events: the best of a few tries."""
    change = {"type": "file.changed", "path": "a", "contentHash": "0" * 64}
    kept = {"type": "artifact.created", "kind": "file", "hash": "0" * 64}
    consents = [{"type": "consent.granted", "actor": BORIS}] * (count // 3)
    work = [change, kept] * (count // 3)
    text = json.dumps(Run(events=(CREATED, ASKED, *consents, CLAIMED, *work, COMPLETED)).bundle()).encode()
    best = 60.0
    for _ in range(3):
        started = time.process_time()
        report = verify(text, PINNED)
        best = min(best, time.process_time() - started)
        assert report.verdict == "valid"
    return best


@pytest.mark.parametrize("host", ["." * 400_000, "a." * 200_000, ":" * 400_000])
def test_a_long_host_is_judged_at_once(host):
    """A host of many dots costs no more than its length: it is not among those of the contract, and that is all."""
    reached = {"type": "network.connected", "host": host, "decision": "allowed"}
    bundle = Run(events=(*BEFORE, reached, COMPLETED)).bundle()
    started = time.process_time()
    report = verify(bundle, PINNED)

    assert time.process_time() - started < 5
    assert {problem.number for problem in report.problems} == {20}


def test_a_broken_chain_is_as_fast(tmp_path):
    """Twenty thousand broken events are judged about as fast as sound ones, with a short report."""
    bundle = Run(
        events=(*BEFORE, *[{"type": "file.changed", "path": "a", "contentHash": "0" * 64}] * 20_000, COMPLETED)
    ).bundle()
    path = tmp_path / "bundle.json"
    for link in bundle["events"]:
        link["comment"] = link["hash"] = "x"
    path.write_text(json.dumps(bundle))
    started = time.process_time()
    report = hostile(path)

    assert time.process_time() - started < 10
    assert len(report.problems) < 5 * MOST_PER_CHECK
    assert any("more problems of this kind" in problem.message for problem in report.problems)
