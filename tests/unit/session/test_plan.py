"""What a contract means on this host: the command, its variables and its limits."""

import pytest

from tipstaff.model.execution import LONGEST_ARGUMENT, Argv, Environment, Python, SecretVariable, Shell
from tipstaff.session.plan import SCRIPT, environment

pytestmark = pytest.mark.anyio


async def test_a_script_is_given_to_its_shell(carry, tier):
    """A shell script is the shell's argument, and a program its interpreter's."""
    await carry(execution={"kind": "shell", "script": "echo $HOME", "shell": "bash"})
    await carry(execution={"kind": "python", "source": "print(1)", "args": ["a"]})

    assert [plan.argv for plan in tier.plans] == [("bash", "-c", "echo $HOME"), ("python3", "-c", "print(1)", "a")]


@pytest.mark.parametrize(("over", "by_file"), [(0, False), (1, True)])
async def test_a_long_script_goes_by_file(carry, tier, over, by_file):
    """A script that no argument can hold is written into the sandbox, byte for byte; a shorter one is not."""
    script = "#" * (LONGEST_ARGUMENT + over)

    await carry(execution={"kind": "shell", "script": script})

    (plan,) = tier.plans
    assert (plan.argv == ("sh", SCRIPT)) is by_file
    assert (plan.files == ((SCRIPT, script),)) is by_file


async def test_granted_folders_and_limits_are_the_contracts(carry, tier):
    """Folder, way of working, readable paths and limits come from the contract alone."""
    files = {"workspace": "/srv/job", "inPlace": False, "readable": ["/srv/data"]}

    await carry(change={"files": files}, limits={"timeMs": 1500})

    (plan,) = tier.plans
    assert (str(plan.workspace), plan.mode, [str(one) for one in plan.readable]) == (
        "/srv/job",
        "copy-on-write",
        ["/srv/data"],
    )
    assert plan.limits.time_ms == 1500


@pytest.mark.parametrize(("mask", "masked"), [(True, ("curl",)), (False, ())])
async def test_restricted_names_are_masked_where_the_contract_says_so(carry, tier, mask, masked):
    """Restricted names do not exist inside if, and only if, the contract masks them."""
    await carry(change={"restricted": {"names": ["curl"], "mask": mask}})

    assert tier.plans[0].masked == masked


def test_later_variables_win_and_ours_are_last():
    """Secrets, inherited, set and mapped variables follow each other; nobody sets ours."""
    asked = Environment(
        inherit=("LANG", "TERM", "ABSENT"),
        vars={"TERM": "dumb", "PATH": "/evil"},
        secrets=tuple(SecretVariable(env=env, secret_name=name) for env, name in (("TOKEN", "API"), ("LOST", "GONE"))),
    )

    found = environment(Argv(command="x", env=asked), {"API": "s3"}, {"LANG": "de_DE.UTF-8", "TERM": "xterm", "X": "y"})

    assert found == {
        "API": "s3",
        "HOME": "/home",
        "LANG": "de_DE.UTF-8",
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "TERM": "dumb",
        "TOKEN": "s3",
    }


@pytest.mark.parametrize("execution", [Shell(script="x"), Python(source="x"), Argv(command="x")])
def test_nothing_of_the_host_is_inherited_unasked(execution):
    """A variable of the host that nobody asked for is not in the command's environment."""
    assert "AWS_SECRET_ACCESS_KEY" not in environment(execution, {}, {"AWS_SECRET_ACCESS_KEY": "x"})
