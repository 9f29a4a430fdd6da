"""The proxy that the host itself must use."""

import pytest

from tipstaff.egress.upstream import Upstream, upstream_of
from tipstaff.errors import UsageError


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({}, None),
        ({"https_proxy": ""}, None),
        ({"https_proxy": "http://Proxy.test:3128"}, Upstream("proxy.test", 3128)),
        ({"HTTPS_PROXY": "proxy.test:8080/"}, Upstream("proxy.test", 8080)),
        ({"https_proxy": "http://a.test:1", "HTTPS_PROXY": "http://b.test:2"}, Upstream("a.test", 1)),
        ({"ALL_PROXY": "http://[::1]:3128"}, Upstream("::1", 3128)),
        ({"https_proxy": "http://u%40x:p%3A@p.test"}, Upstream("p.test", 80, "Basic dUB4OnA6")),
        (
            {"https_proxy": "http://p.test", "no_proxy": "a.test, .b.test"},
            Upstream("p.test", 80, "", ("a.test", ".b.test")),
        ),
    ],
)
def test_a_proxy_is_read_from_the_environment(environ, found):
    """The lower-case name comes first; credentials are decoded; nothing set means no proxy."""
    assert upstream_of(environ) == found


@pytest.mark.parametrize(
    "url", ["https://p.test", "socks5://p.test:1080", "http://p.test:99999", "http://", "http://a b"]
)
def test_a_proxy_that_is_not_spoken_to_is_an_error(url):
    """A proxy of another kind, or none at all, is an error and not a direct connection; it shows no password."""
    with pytest.raises(UsageError) as caught:
        upstream_of({"https_proxy": url})
    assert "https_proxy" in str(caught.value)


@pytest.mark.parametrize(
    ("entry", "host", "port", "passes"),
    [
        ("*", "a.test", 1, False),
        ("a.test", "a.test", 1, False),
        ("a.test", "x.a.test", 1, False),
        (".a.test", "a.test", 1, False),
        ("*.a.test", "x.a.test", 1, False),
        ("a.test", "ba.test", 1, True),
        ("a.test:8080", "a.test", 8080, False),
        ("a.test:8080", "a.test", 443, True),
        ("10.0.0.0/8", "10.1.2.3", 1, False),
        ("10.0.0.0/8", "11.1.2.3", 1, True),
        ("10.1.2.3", "10.1.2.3", 1, False),
        ("::1", "::1", 1, False),
        ("[::1]:80", "::1", 80, False),
        ("[::1]:80", "::1", 81, True),
        ("test", "10.1.2.3", 1, True),
        (".", "a.test", 1, True),
        (":80", "a.test", 80, True),
    ],
)
def test_some_hosts_go_past_the_proxy(entry, host, port, passes):
    """An entry of `no_proxy` is a name and all below it, an address, a network, or `*`, each with a port or without."""
    assert Upstream("p.test", 80, direct=(entry,)).passes(host, port) is passes
