"""Where links of a workspace lead."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tipstaff.workspace import links

PARTS = st.sampled_from([b"a", b"b", b"..", b".", b""])
TARGETS = st.lists(PARTS, min_size=1, max_size=5).map(b"/".join).filter(lambda target: target and target[:1] != b"/")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        (b"l", {b"l": b"/etc"}),
        (b"l", {b"l": b".."}),
        (b"s/l", {b"s/l": b"../.."}),
        (b"s/l", {b"s/l": b"x/../../../y"}),
        (b"s/out", {b"s/out": b"up/../x", b"s/up": b".."}),
        (b"l", {b"l": b"m/x", b"m": b"n", b"n": b"/"}),
        (b"l", {b"l": b"s//..///../x"}),
    ],
)
def test_a_link_that_leads_out_is_known(name, found):
    """Absolute targets, `..` above the top, and the same by way of other links."""
    assert links.leads_out(name, found)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        (b"l", {b"l": b"a"}),
        (b"s/l", {b"s/l": b"../a"}),
        (b"s/l", {b"s/l": b".."}),
        (b"l", {b"l": b"l"}),
        (b"l", {b"l": b"m", b"m": b"l/.."}),
        (b"l", {b"l": b"s/deep/../..", b"s/deep": b"x/y/z"}),
        (b"l", {b"l": b"...", b"m": b"/"}),
    ],
)
def test_a_link_that_stays_inside_is_known(name, found):
    """Within the folder, to its top, in circles, to nowhere; another link's goal does not matter."""
    assert not links.leads_out(name, found)


@given(found=st.dictionaries(st.sampled_from([b"l", b"a/l", b"a/m", b"b/a"]), TARGETS, min_size=1))
def test_links_lead_where_the_kernel_says(tmp_path_factory, found):
    """What the kernel can follow beyond the folder is never said to stay inside."""
    top = tmp_path_factory.mktemp("links") / "x" / "y" / "z"
    for folder in ("a", "b/b"):
        (top / folder).mkdir(parents=True)
    for name, target in found.items():
        os.symlink(target, os.fsencode(top) + b"/" + name)  # noqa: PTH211 - as it is spelled: a Path leaves out `.`

    for name in found:
        try:
            goal = (top / os.fsdecode(name)).resolve(strict=True)
        except (OSError, RuntimeError):
            continue
        assert goal.is_relative_to(top) or links.leads_out(name, found)
