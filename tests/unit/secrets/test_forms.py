"""Claims about the spellings of a secret."""

import base64
import html
import json
import re
import shlex
import subprocess
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipstaff.secrets.forms import MIN_BYTES, forms

PLAIN = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
ODD = 'p4$$ wörd/"it\'s"\\<b>&+=?~;%'
SMILING = "😀 naïve token"
CHARACTERS = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
VALUES = (
    st.text(CHARACTERS, min_size=8, max_size=40).map(str.strip).filter(lambda text: len(text.encode()) >= MIN_BYTES)
)
PEM = "-----BEGIN PRIVATE KEY-----\n{}-----END PRIVATE KEY-----\n".format(
    base64.encodebytes(bytes(range(256))).decode("ascii")
)


def found(value: str, output: str | bytes) -> bool:
    """Say whether some form of `value` is in the output."""
    data = output.encode() if isinstance(output, str) else output
    return any(form in data for form in forms(value.encode()))


@pytest.mark.parametrize("value", [PLAIN, ODD, SMILING])
@pytest.mark.parametrize(
    "spell",
    [
        lambda text: text,
        lambda text: text[::-1],
        lambda text: text.encode()[::-1],
        lambda text: text.encode().hex(),
        lambda text: text.encode().hex().upper(),
        lambda text: base64.b64encode(text.encode()),
        lambda text: base64.urlsafe_b64encode(text.encode()),
        urllib.parse.quote,
        lambda text: urllib.parse.quote(text, safe=""),
        lambda text: urllib.parse.quote(text, safe="~!'()*"),
        urllib.parse.quote_plus,
        lambda text: urllib.parse.urlencode({"token": text, "x": "y"}),
        lambda text: re.sub("%..", lambda found: found[0].lower(), urllib.parse.quote(text)),
        lambda text: "".join(f"%{byte:02x}" for byte in text.encode()),
        lambda text: "".join(f"%{byte:02X}" for byte in text.encode()),
        lambda text: "".join(f"\\x{byte:02x}" for byte in text.encode()),
        json.dumps,
        lambda text: json.dumps(text, ensure_ascii=False),
        lambda text: json.dumps(text).replace("/", "\\/"),
        lambda text: json.dumps(json.dumps(text)),
        lambda text: json.dumps({text: [json.dumps({"inner": text})]}),
        lambda text: json.dumps(text).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"),
        lambda text: re.sub(r"(?<=\\u)....", lambda found: found[0].upper(), json.dumps(text)),
        lambda text: "".join(f"\\u{ord(char):04x}" for char in text) if text.isascii() else text,
        lambda text: repr(text.encode()),
        repr,
        shlex.quote,
        lambda text: shlex.join(["echo", text, f"--x={text}"]),
        html.escape,
        lambda text: html.escape(text, quote=False),
        lambda text: text.encode("utf-16-le"),
        lambda text: text.encode("utf-16-be"),
        lambda text: text.encode("utf-16"),
    ],
)
def test_spellings_of_real_writers_are_found(value, spell):
    """What libraries make of a value is among its forms, and among those of no other value."""
    output = spell(value)

    assert found(value, output)
    assert not found("another-value-altogether", output)


@pytest.mark.parametrize("script", ["printf %q", "printf %s", "set -x; : ", "x=$1; declare -p x; :"])
def test_spellings_of_a_shell_are_found(script):
    """What bash quotes or traces is found."""
    value = ODD.replace("ö", "o")
    shown = subprocess.run(["bash", "-c", f'{script} "$1"', "-", value], capture_output=True, check=True)  # noqa: S607 - any bash

    assert found(value, shown.stdout + shown.stderr)


@given(VALUES, st.binary(max_size=7), st.binary(max_size=7))
def test_base64_is_found_whatever_is_around(value, before, after):
    """The encoding of anything that has the value in it is found, in both alphabets, at every alignment."""
    data = before + value.encode() + after

    listed = forms(value.encode())
    for spelled in (base64.b64encode(data), base64.urlsafe_b64encode(data), data.hex().encode()):
        assert any(form in spelled for form in listed)


@given(VALUES)
def test_forms_are_never_short(value):
    """No form is so short that it would be found by chance, and none is listed twice."""
    listed = forms(value.encode())

    assert listed[0] == value.encode().strip()
    assert min(map(len, listed)) >= MIN_BYTES
    assert len(listed) == len(set(listed))


@given(VALUES)
def test_what_programs_escape_is_found(value):
    """JSON, URLs, HTML and quoted bytes of any text are found."""
    listed = forms(value.encode())
    for spelled in (
        json.dumps(value),
        json.dumps(value, ensure_ascii=False),
        urllib.parse.quote(value, safe=""),
        urllib.parse.quote_plus(value),
        html.escape(value),
        repr(value.encode()),
    ):
        assert any(form in spelled.encode() for form in listed)


def test_bytes_that_are_no_text_have_forms():
    """A value from an environment may be any bytes."""
    value = b"\xff\xfe\x80 binary \xc3"

    assert value in forms(value)
    assert base64.b64encode(value) in forms(value)
    assert value[::-1] in forms(value)


@pytest.mark.parametrize("around", ["{}\n", "\n {}\t", "{}\r\n"])
def test_white_space_around_a_value_is_no_part_of_it(around):
    """Files end with a line end that programs leave away."""
    assert forms(around.format(PLAIN).encode()) == forms(PLAIN.encode())


@pytest.mark.parametrize(("before", "left"), [(b"", 0), (b"u", 2), (b"u:", 3), (b"use", 4)])
def test_little_is_left_around_an_encoded_value(before, left):
    """Only what also holds bits of other bytes is left of the encoded text: nothing at its end, padding neither."""
    text = base64.b64encode(before + PLAIN.encode())

    assert len(text) - max(len(form) for form in forms(PLAIN.encode()) if form in text) == left


@pytest.mark.parametrize(
    "spell",
    [
        lambda text: text,
        lambda text: text.replace("\n", "\r\n"),
        json.dumps,
        lambda text: json.dumps(text.replace("\n", "\r\n")),
        urllib.parse.quote,
        lambda text: base64.b64encode(text.encode()),
        lambda text: base64.b64encode(text.replace("\n", "\r\n").encode()),
        lambda text: base64.encodebytes(text.encode()),
        lambda text: text.split("\n")[2],
        lambda text: "    " + text.split("\n")[1] + "  # indented",
        lambda text: text.replace("\n", " "),
        lambda text: text.replace("\n", ""),
        lambda text: "\n".join(line[::-1] for line in text.splitlines()),
        lambda text: base64.encodebytes(b"key: " + text.encode()),
        lambda text: "".join(f"+{line}\n" for line in text.splitlines()),
    ],
)
def test_values_of_several_lines_are_found_whole_and_by_line(spell):
    """A key is found whole, with either end of line, encoded, and each of its lines alone."""
    assert found(PEM, spell(PEM))


def test_what_every_key_begins_with_is_no_secret():
    """The armour around a key, and short lines, are in outputs that have no secret."""
    assert not found(PEM, "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n")
    assert not found("first line of sixteen and more\nten bytes.\n", "ten bytes.")


def test_wrapped_encodings_of_a_long_value_are_found():
    """Tools cut what they encode into lines: nothing longer than a few bytes is left of it."""
    value = "".join(chr(33 + number * 7 % 90) for number in range(100))
    for width, spelled in [(76, base64.b64encode(value.encode() + b"\n")), (60, value.encode().hex().encode())]:
        lines = [spelled[start : start + width] for start in range(0, len(spelled), width)]

        assert b"\n".join(lines) in forms(value.encode())
        assert all(line in forms(value.encode()) for line in lines if len(line) >= 16)


@given(st.integers(0, 80), st.sampled_from([60, 64, 76]))
def test_lines_of_an_encoded_text_that_has_a_long_value_are_found(before, width):
    """Wherever a value begins in a text that is encoded in lines, no whole line is left of it."""
    value = bytes(33 + number * 7 % 90 for number in range(200))
    text = base64.b64encode(b"." * before + value)
    lines = [text[start : start + width] for start in range(0, len(text), width)]
    listed = [form for form in forms(value) if len(form) <= width]
    inside = lines[(before * 4 // 3 + 4) // width + 1 : -2]

    assert len(inside) >= 1
    for line in inside:
        covered = {
            place
            for form in listed
            if form in line
            for start in [line.index(form)]
            for place in range(start, start + len(form))
        }
        assert len(covered) == width


def test_keys_of_one_kind_have_different_forms():
    """What a public key shares with a private one, encoded or not, is none of its forms."""
    header = "ANBgkqhkiG9w0BAQEFAA"
    private = PEM.replace("KEY-----\n", f"KEY-----\nMIIEvQIBAD{header}SCBKcwggSjAgEAAoIBAQ", 1)
    public = f"-----BEGIN PUBLIC KEY-----\nMIIBIj{header}OCAQ8AMIIBCgKCAQEA\n-----END PUBLIC KEY-----\n"

    assert found(private, base64.encodebytes(private.encode()))
    assert not found(private, public)
    assert not found(private, base64.encodebytes(public.encode()))
    assert not found(private, base64.b64encode(public.encode()))


def test_the_longest_value_has_forms_in_time_and_space():
    """The forms of the longest value that is taken are a few hundred times its size at most."""
    assert sum(map(len, forms(base64.encodebytes(bytes(48_000))))) < 300 * (64 << 10)
