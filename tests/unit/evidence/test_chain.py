"""A folded chain can be taken back: what came after a mark leaves nothing behind, whatever it was."""

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from tests.vectors.story import (
    ALLOWED,
    BLOCKED,
    CANCELLED,
    CHANGED,
    CLAIMED,
    COMPLETED,
    CONTRACT,
    CREATED,
    DIFF_KEPT,
    DIFF_SENT,
    EXECUTED,
    LOST,
    MODEL,
    ONLINE,
    REQUEUED,
    SECRET,
    at,
    granted_without_key,
    materialized,
)
from tipstaff.evidence.chain import Chain, chained
from tipstaff.evidence.report import Findings

KINDS = [CREATED, ALLOWED, CLAIMED, SECRET, REQUEUED, materialized(CONTRACT), EXECUTED, CHANGED, DIFF_KEPT, DIFF_SENT]
KINDS += [
    ONLINE,
    BLOCKED,
    {**BLOCKED, "bytesOut": 1},
    MODEL,
    CANCELLED,
    COMPLETED,
    LOST,
    granted_without_key("ab" * 32),
]
ODD = [{"type": "moon.landed"}, {"type": "command.executed"}, {"type": 7}, {}]


def extended(chain, events):
    """Fold events behind those that a chain has."""
    for event in events:
        link = chained(chain.count, at(chain.count), chain.head or "0" * 64, event)
        chain.add(link)


def state(chain):
    """Everything that a chain holds."""
    return deepcopy({name: value for name, value in vars(chain).items() if name != "findings"})


@given(st.lists(st.sampled_from(KINDS), max_size=6), st.lists(st.sampled_from(KINDS + ODD), max_size=6))
def test_what_is_taken_back_leaves_nothing_behind(before, after):
    """After a rewind a chain is what it was at the mark, and goes on as if nothing had been."""
    chain = Chain(Findings())
    extended(chain, before)
    mark, then = chain.mark(), state(chain)
    extended(chain, after)
    chain.add("no event")
    chain.rewind(mark)

    assert state(chain) == then
    assert chain.findings.sorted() == ()
    extended(chain, after)
    other = Chain(Findings())
    extended(other, [*before, *after])
    assert state(chain) == state(other)


def test_a_repeated_word_is_not_taken_back_with_its_repetition():
    """A host, a model and a manifest that were there before a mark stay when they were told again after it."""
    chain = Chain(Findings())
    extended(chain, [CREATED, ALLOWED, CLAIMED, materialized(CONTRACT), MODEL, ONLINE])
    mark, then = chain.mark(), state(chain)
    extended(chain, [ONLINE, MODEL, materialized(CONTRACT)])
    chain.rewind(mark)

    assert state(chain) == then
    assert len(chain.network) == len(chain.models) == len(chain.manifests) == 1
