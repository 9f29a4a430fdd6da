"""Claims about limits: wishes are clamped, never raised, and it is said."""

import pytest

from tipstaff.model.limits import Reply
from tipstaff.model.noun import to_wire
from tipstaff.policy.table import LIMITS, rendered

SHELL = {"kind": "shell", "script": "x"}
TIME = {"limits": {"time": {"default": "5m", "max": "10m"}}}
MINUTE = 60_000


def run(**fields):
    """Make a shell execution with these fields."""
    return SHELL | fields


@pytest.mark.parametrize(
    ("fields", "milliseconds"),
    [
        ({}, 5 * MINUTE),
        ({"limits": {"timeMs": 7 * MINUTE}}, 7 * MINUTE),
        ({"limits": {"timeMs": 70 * MINUTE}}, 10 * MINUTE),
        ({"budget": {"maxDurationMin": 1}}, MINUTE),
        ({"budget": {"maxDurationMin": 0.5}}, MINUTE // 2),
        ({"budget": {"maxDurationMin": 1e9}}, 10 * MINUTE),
        ({"execution": run(timeoutMs=1000)}, 1000),
        ({"execution": run(timeoutMs=99 * MINUTE)}, 10 * MINUTE),
        ({"execution": run(timeoutMs=9 * MINUTE), "budget": {"maxDurationMin": 2}}, 2 * MINUTE),
        ({"execution": run(timeoutMs=1000), "budget": {"maxDurationMin": 2}}, 1000),
        ({"execution": run(timeoutMs=9 * MINUTE), "limits": {"timeMs": 3 * MINUTE}}, 3 * MINUTE),
    ],
)
def test_time_is_the_least_of_wish_budget_and_maximum(ask, fields, milliseconds):
    """No word of the request gets past its own budget or the policy's maximum."""
    decision = ask(TIME, **fields)

    assert decision.effective.limits.time_ms == milliseconds
    assert decision.effective.budget.max_duration_min * MINUTE == pytest.approx(milliseconds)


@pytest.mark.parametrize(
    ("section", "field", "wish", "granted"),
    [
        ({"memory": {"max": "2GiB"}}, "memoryBytes", 2**40, 2**31),
        ({"cpus": {"max": 0.5}}, "cpuMillis", 9000, 500),
        ({"pids": {"max": 9}}, "pids", 10, 9),
        ({"disk": {"max": "1GiB"}}, "diskBytes", 2**40, 2**30),
        ({"output": {"max": "1MiB"}}, "outputBytes", 2**30, 2**20),
    ],
)
def test_a_wish_above_the_maximum_is_clamped_and_said(ask, section, field, wish, granted):
    """A limit above the maximum becomes the maximum with a reason; one at the maximum passes in silence."""
    (name,) = section
    clamped, exact = (ask({"limits": section}, limits={field: number}) for number in (wish, granted))

    assert to_wire(clamped.effective.limits)[field] == to_wire(exact.effective.limits)[field] == granted
    assert f"limits.{name}" in clamped.rules
    assert exact.rules == ("everything",)


def test_a_rule_narrows_what_it_matches(ask):
    """The maxima of every matching rule hold beside the policy's, and those of other rules do not."""
    rules = [
        {"id": "everything", "effect": "allow", "when": "any", "limits": {"time": "2m", "pids": 50}},
        {"id": "short", "effect": "allow", "when": {"kinds": ["shell"]}, "limits": {"time": "1m"}},
    ]

    shell = ask(TIME | {"rules": rules}, execution=SHELL).effective.limits
    argv = ask(TIME | {"rules": rules}).effective.limits

    assert (shell.time_ms, shell.pids) == (MINUTE, 50)
    assert (argv.time_ms, argv.pids) == (2 * MINUTE, 50)


def test_a_rule_never_widens(ask):
    """A rule's limit above the policy's maximum changes nothing."""
    rules = [{"id": "everything", "effect": "allow", "when": "any", "limits": {"time": "5h"}}]

    assert ask(TIME | {"rules": rules}, limits={"timeMs": 90 * MINUTE}).effective.limits.time_ms == 10 * MINUTE


@pytest.mark.parametrize(
    ("section", "wish", "granted", "said"),
    [
        ({}, None, None, False),
        ({}, 7, 7, False),
        ({"max": 25}, None, 25, False),
        ({"max": 25}, 30, 25, True),
        ({"max": 0}, 1.5, 0, True),
    ],
)
def test_money_is_clamped_like_everything(ask, section, wish, granted, said):
    """A budget above the maximum becomes the maximum, and is never raised."""
    decision = ask({"limits": {"spend_usd": section}}, budget={} if wish is None else {"maxSpendUsd": wish})

    assert decision.effective.budget.max_spend_usd == granted
    assert ("limits.spend_usd" in decision.rules) is said


@pytest.mark.parametrize("name", ["maxSpendUsd", "maxDurationMin"])
@pytest.mark.parametrize(
    ("value", "allowed"), [(-1, False), (float("inf"), False), (float("nan"), False), (0, True), (1, True)]
)
def test_a_budget_is_a_number_of_zero_or_more(ask, name, value, allowed):
    """A negative or endless budget is refused, not clamped to something that it might mean."""
    assert (ask({}, budget={name: value}).effect == "allow") is allowed


def test_the_log_bound_clamps_the_stored_output(ask):
    """The bound log.maxBytes narrows the stored output, and never widens it."""
    policy = {"limits": {"output": {"default": "1MiB", "max": "2MiB"}}}

    assert ask(policy, execution=run(log={"maxBytes": 5})).effective.limits.output_bytes == 5
    assert ask(policy, execution=run(log={"maxBytes": 0})).effective.limits.output_bytes == 1
    assert ask(policy, execution=run(log={"maxBytes": 2**40})).effective.limits.output_bytes == 2**21


@pytest.mark.parametrize(
    ("door", "milliseconds"), [("grpc", 10_000), ("ecs", 30_000), ("protocol", 600_000), ("unknown", 600_000)]
)
def test_a_limit_that_is_left_out_is_the_tables(ask, door, milliseconds):
    """Where the policy says nothing, the built-in number of the request's door holds."""
    effective = ask({}, door=door).effective

    assert effective.limits.time_ms == milliseconds
    assert effective.reply == LIMITS.get(door, LIMITS["protocol"]).reply


def test_an_author_may_raise_a_default_alone(ask):
    """A default above the table's maximum is meant, and is then the maximum as well."""
    effective = ask({"limits": {"time": {"default": "2h"}}}, door="grpc", limits={"timeMs": 10**9}).effective

    assert effective.limits.time_ms == 120 * MINUTE


def test_a_reply_is_the_policys_where_it_has_one(ask):
    """The policy's own words about replies replace the table's."""
    assert ask({"reply": {"lines": 5, "bytes": "1KiB"}}, door="grpc").effective.reply.lines == 5
    assert ask({"reply": {"bytes": "1KiB"}}, door="grpc").effective.reply == Reply(bytes=1024)


def test_the_table_is_shown_whole():
    """The rendered table has a line for every door."""
    text = rendered()

    assert [line.split(" | ")[0].strip("| ") for line in text.splitlines()[2:]] == list(LIMITS)
    assert "10s, at most 10m" in text


@pytest.mark.parametrize("name", ["maxSpendUsd", "maxDurationMin"])
def test_a_budget_beyond_every_number_is_refused(ask, name):
    """A whole number that no float can hold is a denial and never an exception; a large one is clamped."""
    assert ask({}, budget={name: 10**400}).effect == "deny"
    assert ask({}, budget={name: 10**12}).effect == "allow"
