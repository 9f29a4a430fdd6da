"""plane.yaml: what is not said is the careful choice, and every fault has its place."""

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipstaff.doors.http.settings import Settings, parse_settings, read_settings
from tipstaff.errors import NotFoundError, PolicyError


def test_nothing_said_is_loopback_and_closed():
    """An empty file, or one of comments, means loopback, no plain HTTP beyond it, no open blobs, no proxy."""
    careful = Settings()
    for text in ("", "# nothing\n", "\n  # nothing\n\n"):
        assert parse_settings(text, "plane.yaml") == careful
    assert (careful.host, careful.port, careful.plain_http) == ("127.0.0.1", 7172, False)
    assert (careful.open_blobs, careful.trusted_proxy, careful.tls) == (False, None, None)


def test_what_is_said_holds():
    """Every setting can be said."""
    text = """
host: "::"
port: 0
tls: {certificate: /a.pem, key: /a.key}
plain_http: true
open_blobs: true
lease_seconds: 5
trusted_proxy: 10.0.0.1
most_blob_bytes: 1000
limits: {principal_per_second: 5, failures: 2}
"""
    settings = parse_settings(text, "plane.yaml")
    assert (settings.host, settings.lease_seconds, settings.limits.failures) == ("::", 5, 2)
    assert settings.tls is not None
    assert settings.tls.key == "/a.key"


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("port: 1\nprot: 2\n", 2, 1, "unknown key `prot`"),
        ("tls:\n  certificate: a\n  cert: b\n", 3, 3, "unknown key `cert`"),
        ("port: many\n", 1, 7, "a whole number"),
        ("port: 65536\n", 1, 7, "65535"),
        ("lease_seconds: 1\n", 1, 16, ">= 2"),
        ("plain_http: yes\n", 1, 13, "`true` or `false`"),
        ("trusted_proxy: everybody\n", 1, 16, "not an address"),
        ("port: 1\nport: 2\n", 2, 1, "second time"),
        ("- 1\n", 1, 1, "a mapping"),
        ("port: [\n", 2, 1, "YAML"),
    ],
)
def test_a_fault_has_its_line_and_column(text, line, column, words):
    """Whatever is wrong is told with the place where it stands."""
    with pytest.raises(PolicyError, match=re.escape(words)) as raised:
        parse_settings(text, "plane.yaml")
    assert (raised.value.line, raised.value.column) == (line, column), str(raised.value)


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False),  # noqa: S104 - no server is started
     ("10.0.0.1", False), ("plane.example.com", False), ("localhost.example.com", False)],
)  # fmt: skip
def test_only_loopback_counts_as_this_machine(host, local):
    """An address counts as local if, and only if, no other machine can reach it."""
    assert Settings(host=host).is_local is local


def test_a_home_without_settings_is_no_plane(tmp_path):
    """A file that is not there is said to be missing, with what to do; one that is there is read."""
    with pytest.raises(NotFoundError, match="plane init"):
        read_settings(tmp_path / "plane.yaml")
    (tmp_path / "plane.yaml").write_text("port: 1\n")
    assert read_settings(tmp_path / "plane.yaml").port == 1


@given(st.binary(max_size=200))
def test_any_bytes_are_settings_or_our_error(tmp_path_factory, data):
    """Whatever the file holds, it parses or is a `PolicyError`."""
    path = tmp_path_factory.mktemp("settings") / "plane.yaml"
    path.write_bytes(data)
    with suppress(PolicyError):
        assert isinstance(read_settings(path), Settings)
