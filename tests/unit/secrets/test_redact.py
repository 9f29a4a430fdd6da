"""Claims about redaction."""

import base64
import json
import subprocess
import sys
from itertools import pairwise
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipstaff.errors import CanonicalError, UsageError
from tipstaff.secrets.forms import forms
from tipstaff.secrets.passing import Redacted, Stream
from tipstaff.secrets.redact import MARKER, MAX_BYTES, Leak, Redactor, fault_of

TOKEN, OTHER = "hunter2-hunter3", "correct horse/battery+staple"
SECRETS = {"TOKEN": TOKEN, "OTHER": OTHER}
# Inside one another, overlapping, repeating in themselves, one value with two names, and with another's beginning.
TANGLED = {
    "outer": "xx-inner-value-yy",
    "inner": "inner-value",
    "left": "abcdefghijk",
    "right": "hijklmnopqr",
    "rolling": "xyzxyzxyz",
    "long": "xyzxyzxyzxyz-and-more",
    "one": "the same value",
    "two": "the same value",
    "lines": "first line, long enough\nsecond line, long enough\n",
}
TANGLED_FORMS = [(name, forms(value.encode())) for name, value in TANGLED.items()]
PIECES = [
    *(piece for value in TANGLED.values() for piece in (value, value[:5], value[3:], value[:-1])),
    *("xyz", "abcdefghijklmnopqr", "first line, long enough\r\nsecond line, long enough", "%", "\\u00", "\0", "é"),
]
STREAMS = st.lists(
    st.one_of(
        st.sampled_from(PIECES).map(str.encode),
        st.sampled_from([form for _, listed in TANGLED_FORMS for form in listed]),
        st.binary(max_size=12),
        st.sampled_from([b"clean " * 60]),  # makes chunks that are looked through at once
    ),
    max_size=12,
).map(b"".join)
HALVES = st.sampled_from(["\ud800", "\udc7f", "\udc80", "\udcff", "\udd00", "\udfff"])
TEXTS = st.lists(st.one_of(st.text(max_size=5), HALVES), max_size=8).map("".join)
CUTS = st.lists(st.floats(0, 1), max_size=12)


def chunks(data: bytes, cuts: list[float]) -> list[bytes]:
    """Cut `data` at fractions of its length."""
    places = [0, *sorted(int(cut * len(data)) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(places)]


def passed(stream: Stream, pieces: list[bytes]) -> bytes:
    """Send pieces through a stream."""
    return b"".join([stream.feed(piece) for piece in pieces]) + stream.end()


def found(data: bytes) -> list[tuple[int, int, str]]:
    """Find the forms of all that is tangled by trying everything: start, length (negative), name."""
    return sorted(
        (start, -len(form), name)
        for name, listed in TANGLED_FORMS
        for form in listed
        if form in data
        for start in range(len(data))
        if data.startswith(form, start)
    )


def expected(data: bytes) -> tuple[bytes, bytes, dict[str, int]]:
    """Redact, mask and count by trying everything: places that overlap are one, named for the first and longest."""
    places: list[tuple[int, int, list[str]]] = []
    for start, length, name in found(data):
        if places and start < places[-1][1]:
            first, end, names = places.pop()
            places.append((first, max(end, start - length), [*names, name]))
        else:
            places.append((start, start - length, [name]))
    marked, masked, done = b"", b"", 0
    counts: dict[str, int] = {}
    for start, end, names in places:
        marked += data[done:start] + MARKER % names[0].encode()
        masked += data[done:start] + b"*" * (end - start)
        done = end
        counts |= {name: counts.get(name, 0) + 1 for name in names}
    return marked + data[done:], masked + data[done:], counts


@given(STREAMS, CUTS)
def test_every_split_of_a_stream_gives_the_same(data, cuts):
    """However a stream is cut, its output is that of the whole, masked and counted alike, and no other byte changes."""
    redactor = Redactor(TANGLED)
    marked, masked, counts = expected(data)

    assert passed(redactor.stream("cut"), chunks(data, cuts)) == marked
    assert passed(redactor.masking("masked"), chunks(data, cuts)) == masked
    assert redactor.data("whole", data) == marked
    assert redactor.leaks() == tuple(
        sorted(Leak(name, where, count) for name, count in counts.items() for where in ("cut", "masked", "whole"))
    )


@pytest.mark.parametrize("form", forms(TOKEN.encode()) + forms(OTHER.encode()))
def test_every_offset_of_every_form(form):
    """A form that comes in two chunks is found wherever it is cut, and byte by byte."""
    data = b"before " + form + b" after"
    redactor = Redactor(SECRETS)
    whole = redactor.data("whole", data)

    assert form not in whole
    assert whole.startswith(b"before [REDACTED:")
    for cut in range(len(data) + 1):
        assert passed(redactor.stream("cut"), [data[:cut], data[cut:]]) == whole
    assert passed(redactor.stream("bytes"), [data[place : place + 1] for place in range(len(data))]) == whole


@given(st.binary(max_size=2_000), CUTS)
def test_what_is_no_secret_is_not_changed(data, cuts):
    """Bytes without a secret come out as they went in, and nothing is counted."""
    redactor = Redactor(SECRETS)

    assert passed(redactor.stream("out"), chunks(data, cuts)) == data
    assert redactor.leaks() == ()


@pytest.mark.parametrize(
    ("fed", "given_at_once"),
    [
        (b"password: ", b"password: "),
        (b"hunter2-hunter3", b"[REDACTED:TOKEN]"),
        (b"hunter2-hunter2", b"hunter2-"),
        (b"hunter2", b""),
        (b"$ hunt", b"$ "),
        (b"hunted", b"hunted"),
        (b"x" * 5_000 + b"hunter", b"x" * 5_000),
        (b"x" * 5_000 + b"h", b"x" * 5_000),
    ],
)
def test_only_what_could_become_a_secret_is_held_back(fed, given_at_once):
    """A prompt appears at once, and so does everything but the beginning of a secret; the end gives the rest."""
    stream = Redactor({"TOKEN": TOKEN}).stream("out")

    assert stream.feed(fed) == given_at_once
    assert stream.feed(b"\n") == (fed if given_at_once.count(b"[") == 0 else b"")[len(given_at_once) :] + b"\n"


def test_the_end_gives_what_was_held_back():
    """The beginning of a secret that never came is output like any other."""
    stream = Redactor(SECRETS).stream("out")

    assert stream.feed(b"hunter2-hunter") == b""
    assert stream.end() == b"hunter2-hunter"
    assert stream.end() == b""


def test_a_form_that_could_become_a_longer_one_waits_for_it():
    """The longest secret wins, and the shorter one inside it is counted too."""
    redactor = Redactor({"short": "abcdefgh", "long": "abcdefgh-and-more"})
    stream = redactor.stream("out")

    assert stream.feed(b"say abcdefgh") == b"say "
    assert stream.feed(b"-and-more.") == b"[REDACTED:long]."
    assert stream.feed(b"abcdefgh-and-less.") == b"[REDACTED:short]-and-less."
    assert redactor.leaks() == (Leak("long", "out", 1), Leak("short", "out", 2))


@pytest.mark.parametrize("more", [b"!", b"!" * 1_000], ids=["byte by byte", "at once"])
def test_what_is_found_inside_a_broken_off_secret_stays_apart(more):
    """When a longer secret does not come, those in its beginning are found, and what is between them is shown."""
    redactor = Redactor({"outer": "<first-one and second-one>", "first": "first-one", "second": "second-one"})
    stream = redactor.stream("out")

    assert stream.feed(b"<first-one and second-one") == b""
    assert stream.feed(more) == b"<[REDACTED:first] and [REDACTED:second]" + more
    assert redactor.leaks() == (Leak("first", "out", 1), Leak("second", "out", 1))


def test_one_value_with_two_names_is_a_leak_of_both():
    """The marker has the first name; the verdict has both."""
    redactor = Redactor({"b": TOKEN, "a": TOKEN})

    assert redactor.data("out", TOKEN.encode()) == b"[REDACTED:a]"
    assert redactor.leaks() == (Leak("a", "out", 1), Leak("b", "out", 1))


def test_leaks_are_counted_by_stream():
    """The verdict says which secret, where and how often, in order, and no value."""
    redactor = Redactor(SECRETS)
    redactor.data("stdout", f"{TOKEN} {TOKEN} {base64.b64encode(OTHER.encode())!r}".encode())
    redactor.text("a file's name", f"x/{TOKEN}.txt")

    assert redactor.leaks() == (
        Leak("OTHER", "stdout", 1),
        Leak("TOKEN", "a file's name", 1),
        Leak("TOKEN", "stdout", 2),
    )
    assert TOKEN not in repr((redactor, redactor.leaks(), vars(redactor.stream("out")).keys()))


@given(TEXTS, TEXTS)
def test_any_text_is_redacted_and_otherwise_kept(before, after):
    """Whatever is around a secret in a text, halves of characters and bytes in disguise too, stays as it is."""
    redactor = Redactor({"TOKEN": "wörter-\udcff-hunter"})

    assert redactor.text("out", before) == before
    assert redactor.text("out", "\udcc3\udcb6") == "\udcc3\udcb6"
    assert redactor.text("out", f"{before}wörter-\udcff-hunter{after}") == f"{before}[REDACTED:TOKEN]{after}"


def test_a_json_value_is_redacted_to_its_depth():
    """Texts, keys and numbers are redacted wherever they are; everything else stays, and equal keys stay apart."""
    redactor = Redactor({"PIN": "8675309123", "TOKEN": TOKEN})
    value = {"a": [1, 2.5, None, True, {TOKEN: f"x{TOKEN}", TOKEN.encode().hex(): 8675309123}], "b": -8675309123}

    assert redactor.json("event", value) == {
        "a": [1, 2.5, None, True, {"[REDACTED:TOKEN]": "x[REDACTED:TOKEN]", "[REDACTED:TOKEN] (2)": "[REDACTED:PIN]"}],
        "b": "-[REDACTED:PIN]",
    }
    assert json.loads(json.dumps(redactor.json("event", {"plain": [1, "two"]}))) == {"plain": [1, "two"]}


@pytest.mark.parametrize("value", [object(), {"x": {1, 2}}, [b"bytes"]])
def test_what_is_no_json_is_refused(value):
    """A value that cannot be looked into does not pass."""
    with pytest.raises(CanonicalError, match="no value of JSON"):
        Redactor(SECRETS).json("event", value)


@pytest.mark.parametrize(("levels", "taken"), [(64, True), (65, False), (100_000, False)])
def test_a_value_may_be_nested_as_deep_as_any_document(levels, taken):
    """As deep as a value can be hashed it is redacted; deeper it is refused, and not by running out of stack."""
    value: Any = TOKEN
    for _ in range(levels):
        value = [value]

    if taken:
        assert "REDACTED" in str(Redactor(SECRETS).json("event", value))
    else:
        with pytest.raises(CanonicalError, match="deeper"):
            Redactor(SECRETS).json("event", value)


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("short", "shorter"),
        ("  seven77 \n", "shorter"),
        ("éé", "shorter"),
        ("aaaaaaaaaaaa", "different"),
        ("abababababab", "different"),
        ("Password", "common"),
        ("REDACTED", "common"),
        ("with\0a nul inside", "NUL"),
        ("half \ud800 a character", "surrogate"),
        ("x1y2" * MAX_BYTES, "longer"),
        (b"bytes", "shorter"),
    ],
)
def test_a_value_that_would_spoil_outputs_is_refused(value, fault):
    """What is too short, too plain or impossible to write has a fault that does not quote it, and no redactor."""
    told = fault_of(value)

    assert told is not None
    assert fault in told
    if isinstance(value, str):
        assert f"'{value.strip()}'" not in told
        with pytest.raises(UsageError, match="'IT' cannot be redacted"):
            Redactor({"IT": value})


@pytest.mark.parametrize("value", ["hunter22", "pässwört", b"8 bytes!", "Password1", "a\udcffbcdefgh", "x1y2" * 16_000])
def test_a_value_that_can_be_found_has_no_fault(value):
    """Eight bytes of some variety are enough, and sixty-four KiB not too much."""
    assert fault_of(value) is None


def test_a_name_must_not_tell_a_value():
    """A marker says the name: a name that has a value in it is refused, without being said."""
    with pytest.raises(UsageError, match="tells") as caught:
        Redactor({"MY_hunter2-hunter3": TOKEN})

    assert TOKEN not in str(caught.value)
    assert Redactor({"MY_hunter2": TOKEN}).text("out", TOKEN) == "[REDACTED:MY_hunter2]"


def test_without_secrets_everything_passes_untouched():
    """Nothing is looked for, copied or counted when there are no secrets."""
    redactor, data = Redactor({}), b"anything"

    assert redactor.stream("out").feed(data) is data
    assert redactor.masking("out").feed(data) is data
    assert (redactor.stream("out").end(), redactor.data("out", data), redactor.text("out", "x")) == (b"", data, "x")
    assert redactor.json("event", {"a": data}) == {"a": data}
    assert redactor.leaks() == ()


def test_a_clean_chunk_is_not_copied():
    """A large chunk that has nothing to hide is given out itself."""
    data = b"clean. " * 1_000

    assert Redactor(SECRETS).stream("out").feed(data) is data


@pytest.mark.parametrize(
    ("secrets", "loaded"), [({}, False), ({"TOKEN": TOKEN}, True)], ids=["without secrets", "with secrets"]
)
def test_the_searching_library_is_loaded_only_for_secrets(secrets, loaded):
    """A program without secrets does not pay for them."""
    script = (
        "import sys; from tipstaff.secrets.redact import Redactor\n"
        f"Redactor({secrets!r}).data('out', b'x' * 10_000); print('ahocorasick_rs' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)

    assert shown.stdout == f"{loaded}\n"


@pytest.mark.parametrize("piece", [b"hunte", b"hunter2-hunter", b"hunter2-hunter3", b"hunter2-hunter2-"])
def test_a_pending_match_does_not_cost_more_and_more(piece):
    """Byte by byte, with a beginning pending at all times, twice as much takes about twice as long."""

    def seconds(size: int) -> float:
        data = (piece * size)[:size]
        stream = Redactor(SECRETS).stream("out")
        start = process_time()
        passed(stream, [data[place : place + 1] for place in range(size)])
        return process_time() - start

    seconds(1_000)
    assert min(seconds(32_000) for _ in range(2)) < 8 * max(min(seconds(8_000) for _ in range(2)), 0.01)


def test_memory_is_bounded_whatever_repeats():
    """A secret that overlaps itself without an end is held back by its own length, not by the stream's."""
    redactor = Redactor({"rolling": "xyzxyzxyz"})
    stream = redactor.stream("out")
    assert isinstance(stream, Redacted)
    assert stream.feed(b"xyzxyzxyz") == b"[REDACTED:rolling]"
    for size in (1, 50, 100, 1_000):
        assert stream.feed(b"xyz" * size) == b""

    assert (len(stream._held), len(stream._places)) == (6, 1)
    assert stream.feed(b".") == b"."
    assert redactor.leaks() == (Leak("rolling", "out", 1),)


UNKNOWN = "sk-ant-api03-Real0Value1Real2Value3Real4Value5Re"


@pytest.mark.parametrize("known", [True, False])
def test_what_is_kept_back_confirms_no_guess(known):
    """Where the watcher does not know a secret, right and wrong guesses of its next bytes show alike, and at once."""
    shown = []
    for guess in (UNKNOWN[:20], UNKNOWN[:19] + "~"):
        stream = Redactor({"T": UNKNOWN}, known=known).stream("stdout")
        shown.append(len(stream.feed(b"x" * 300)) + len(stream.feed(guess.encode())))

    assert (shown[0] == shown[1]) is not known


@pytest.mark.parametrize("padding", [0, 300])
def test_an_unknown_secret_is_still_taken_out(padding):
    """Whole it is gone; cut into two at most its beginning is seen, and never what nobody could guess."""
    value = UNKNOWN.encode()
    for cut in range(len(value) + 1):
        redactor = Redactor({"T": UNKNOWN}, known=False)
        stream = redactor.stream("stdout")
        seen = stream.feed(b"." * padding + value[:cut]) + stream.feed(value[cut:] + b"." * padding) + stream.end()

        assert b"[REDACTED:T]" in seen
        assert value[13 + 8 :] not in seen
        assert seen.count(b".") == 2 * padding
        assert [(leak.secret, leak.count) for leak in redactor.leaks()] == [("T", 1)]


def test_a_mask_keeps_back_as_much_whatever_comes():
    """An answer arrives in the same pieces whether it holds a part of the secret or not."""
    pieces = []
    for guess in (UNKNOWN[:20], UNKNOWN[:19] + "~", "." * 20):
        stream = Redactor({"T": UNKNOWN}).masking("egress")
        pieces.append([len(stream.feed(b"." * 980 + guess.encode())), len(stream.feed(b"." * 1000)), len(stream.end())])

    assert pieces[0] == pieces[1] == pieces[2]
    assert sum(pieces[0]) == 2000
