"""Which policy holds, from the one that is named to the one that is shipped."""

import pytest

from tipstaff.errors import NotFoundError, PolicyError
from tipstaff.home import Home
from tipstaff.local.policies import choose_policy

TEXT = "version: tipstaff.policy.v1\nname: {name}\nprincipals: [{{id: '*'}}]\n"


@pytest.fixture
def home(tmp_path):
    """A home with a policy of its own."""
    home = Home(tmp_path / "home")
    home.make()
    home.policy.write_text(TEXT.format(name="of-the-home"))
    return home


def test_the_nearest_word_wins(home, tmp_path):
    """A named file wins over the variable, the variable over the home's file, that over the shipped default."""
    named, variable = tmp_path / "named.yaml", tmp_path / "variable.yaml"
    named.write_text(TEXT.format(name="named"))
    variable.write_text(TEXT.format(name="variable"))
    environ = {"TIPSTAFF_POLICY": str(variable)}

    found = [choose_policy(home, str(named), environ).document.name, choose_policy(home, None, environ).document.name]
    found.append(choose_policy(home, None, {}).document.name)
    home.policy.unlink()
    found.append(choose_policy(home, None, {}).document.name)

    assert found == ["named", "variable", "of-the-home", "local"]


def test_a_named_policy_that_is_not_there_is_an_error(home, tmp_path):
    """A policy that was named and is missing is never replaced by another one."""
    with pytest.raises(NotFoundError, match=r"absent\.yaml"):
        choose_policy(home, str(tmp_path / "absent.yaml"), {})


def test_a_broken_policy_in_the_home_is_an_error(home):
    """A policy in the home that cannot be read stops everything: the default might allow more."""
    home.policy.write_text("version: tipstaff.policy.v1\nrulse: []\n")

    with pytest.raises(PolicyError, match="rulse"):
        choose_policy(home, None, {})
