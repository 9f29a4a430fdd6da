"""Where a request wants to go, and whether its Host agrees."""

import pytest

from tipstaff.egress.heads import parse_request
from tipstaff.egress.refusal import RefusalError
from tipstaff.egress.targets import Target, check_host, connect_target, forward_target, origin_target, spell_authority


def head(target, method="GET"):
    return parse_request(f"{method} {target} HTTP/1.1".encode())


@pytest.mark.parametrize(
    ("target", "place"),
    [
        ("a.test:8443", ("a.test", 8443)),
        ("a.test", ("a.test", 443)),
        ("[::1]:22", ("::1", 22)),
        ("[2606:4700::1]", ("2606:4700::1", 443)),
        ("0x7f.1:80", ("0x7f.1", 80)),
    ],
)
def test_a_connect_names_an_authority(target, place):
    """CONNECT takes host and port; without a port it means 443. The host is judged later."""
    assert connect_target(head(target, "CONNECT"))[:2] == place


@pytest.mark.parametrize(
    "target",
    [
        "a:b@c.test:443",
        "user@c.test:443",
        "a.test:",
        "a.test:0",
        "a.test:65536",
        "a.test:99999",
        "a.test:+443",
        "a.test:0443",
        "::1:443",
        "[::1",
        "[::1]443",
        "a.test:443:443",
        "a.test/x:443",
        "http://a.test:443",
        "a.test:443?x",
        "[::1%25e]:1",
    ],
)
def test_what_is_no_authority_is_refused(target):
    """Credentials, paths, odd ports and half brackets are no authority."""
    with pytest.raises(RefusalError):
        connect_target(head(target, "CONNECT"))


@pytest.mark.parametrize(
    ("target", "place"),
    [
        ("http://a.test", ("a.test", 80, "/")),
        ("HTTP://a.test/", ("a.test", 80, "/")),
        ("http://a.test:8080/x?y=http://b/", ("a.test", 8080, "/x?y=http://b/")),
        ("http://a.test?q", ("a.test", 80, "/?q")),
        ("http://[::1]:1/", ("::1", 1, "/")),
    ],
)
def test_a_forwarded_request_has_a_url(target, place):
    """A forwarded request names its host by an absolute URL."""
    assert forward_target(head(target)) == place


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("/x", "proxy requires absolute-form URLs"),
        ("*", "absolute-form"),
        ("a.test:80", "absolute-form"),
        ("https://a.test/", "CONNECT"),
        ("ftp://a.test/", "only http://"),
        ("http://", "authority"),
        ("http:///x", "authority"),
        ("http://u:p@a.test/", "authority"),
        ("http://a.test@b.test/", "authority"),
        ("http://a.test:80@b.test/", "authority"),
        ("http://[::1", "authority"),
    ],
)
def test_other_urls_are_refused(target, sentence):
    """What cannot be forwarded is refused, with a sentence that helps."""
    with pytest.raises(RefusalError, match=sentence):
        forward_target(head(target))


def test_inside_a_connection_a_target_is_a_path():
    """A request inside a tunnel names a path; another URL there would be another judge's."""
    assert origin_target(head("/x?y"), "a.test", 443) == ("a.test", 443, "/x?y")
    with pytest.raises(RefusalError):
        origin_target(head("https://b.test/"), "a.test", 443)


@pytest.mark.parametrize("said", [b"a.test", b"A.TEST.", b"a.test:80"])
def test_host_may_be_spelled_in_any_way(said):
    """Host agrees with the target in whatever case, with the dot, with or without the port that is meant anyway."""
    check_host(((b"Host", said),), Target("a.test", 80), 80, 1)


@pytest.mark.parametrize(
    "said", [b"b.test", b"a.test:81", b"", b"a.test, b.test", b"a.test b.test", b"a\xff.test", b"x@a.test"]
)
def test_another_host_is_refused(said):
    """A Host that is not the target's is refused: the front of one host must not be the door to another."""
    with pytest.raises(RefusalError):
        check_host(((b"Host", said),), Target("a.test", 80), 80, 1)


def test_there_is_one_host():
    """Two Hosts, or none in HTTP/1.1, are refused; HTTP/1.0 may have none."""
    check_host((), Target("a.test", 80), 80, 0)
    for headers in ((), ((b"Host", b"a.test"), (b"hOST", b"a.test"))):
        with pytest.raises(RefusalError, match="one Host"):
            check_host(headers, Target("a.test", 80), 80, 1)


def test_an_authority_is_spelled_without_its_usual_port():
    """The port that goes without saying is left out, and an IPv6 address stands in brackets."""
    assert spell_authority("a.test", 443, 443) == "a.test"
    assert spell_authority("::1", 8080, 80) == "[::1]:8080"
