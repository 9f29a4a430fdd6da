"""A sandbox that is made while its permission is still being written down: used for that very run, or ended."""

import pytest

from tests.unit.policy.conftest import open_policy
from tests.unit.session.conftest import Obedient
from tipstaff.errors import StoreError
from tipstaff.home import Home
from tipstaff.isolation.tier import Ended
from tipstaff.local.embedded import open_local

pytestmark = pytest.mark.anyio
REQUEST = {"requestedBy": {"kind": "human", "id": "anna"}, "execution": {"kind": "argv", "command": "true"}}


class Standing:
    """A sandbox that stands ready, and remembers what became of it."""

    def __init__(self, tier, plan):
        self.tier = tier
        self.plan = plan
        self.taken = False
        self.abandoned = False

    async def run(self, passage):
        self.taken = True
        return await Obedient.run(self.tier, self.plan, passage)

    async def abandon(self):
        self.abandoned = True


class Eager(Obedient):
    """A tier that begins whenever it is let."""

    def __init__(self, change=None):
        super().__init__()
        self.begun = []
        self._change = change

    def begin(self, plan, stdin):
        del stdin
        self.begun.append(Standing(self, self._change(plan) if self._change else plan))
        return self.begun[-1]

    async def run(self, plan, passage):
        del plan, passage
        return Ended(ending="exited", exit_code=9)  # told from one that was begun ahead


@pytest.fixture
def home(tmp_path):
    """A home of its own for each test."""
    return Home(tmp_path / "home")


async def test_an_allowed_run_uses_what_was_begun(home):
    """The sandbox that was begun for a contract is the one that its command runs in."""
    tier = Eager()

    async with open_local(home, open_policy(), tiers={"bwrap": tier}) as local:
        outcome = await local.run(REQUEST)

    assert (outcome.exit_code, [one.taken for one in tier.begun]) == (0, [True])


async def test_a_sandbox_for_another_plan_is_not_used(home):
    """One that was begun for anything else than the contract says is ended, and another is made."""
    tier = Eager(lambda plan: type(plan)(argv=("false",), environ=plan.environ, limits=plan.limits))

    async with open_local(home, open_policy(), tiers={"bwrap": tier}) as local:
        outcome = await local.run(REQUEST)

    assert (outcome.exit_code, [(one.taken, one.abandoned) for one in tier.begun]) == (9, [(False, True)])


@pytest.mark.parametrize("effect", ["deny", "ask"])
async def test_nothing_is_begun_before_it_may_run(home, effect):
    """What policy denies, or asks people about first, gets no sandbox ahead."""
    tier = Eager()
    rule = {"id": "rule", "effect": effect, "when": "any", "approvals": {"approvers": ["boris"]}}
    rule = rule if effect == "ask" else {"id": "rule", "effect": effect, "when": "any"}

    async with open_local(home, open_policy(rules=[rule]), tiers={"bwrap": tier}) as local:
        local.plane.submit(REQUEST, await local.facts(), lambda contract: tier.begin(contract, None))

    assert tier.begun == []


async def test_what_cannot_be_kept_ends_what_was_begun(home):
    """A plane that fails to write down the permission leaves no sandbox waiting for it."""
    tier = Eager()

    async with open_local(home, open_policy(), tiers={"bwrap": tier}) as local:
        local.plane._store.database.run("CREATE TRIGGER no BEFORE INSERT ON runs BEGIN SELECT RAISE(ABORT, 'no'); END")
        with pytest.raises(StoreError):
            await local.run(REQUEST)

    assert [(one.taken, one.abandoned) for one in tier.begun] == [(False, True)]
