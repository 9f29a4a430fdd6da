"""A wish for a run at a plane elsewhere: what means something else there, and what means nothing."""

import pytest

from tipstaff.doors.asking import Asked
from tipstaff.doors.elsewhere import errand_of
from tipstaff.doors.folders import Surroundings
from tipstaff.errors import UsageError


@pytest.fixture
def around(tmp_path):
    """Surroundings that stand in no way."""
    return Surroundings(tmp_path / "home")


def test_nothing_of_this_machine_is_in_the_request(around, tmp_path):
    """Neither a folder's name nor a door goes along; the folder is kept for whoever captures it."""
    (tmp_path / "work").mkdir()

    errand = errand_of(Asked(argv=("ls",), workspace=str(tmp_path / "work")), around, {})

    assert errand.folder == tmp_path / "work"
    assert str(tmp_path) not in str(errand.request)
    assert not {"door", "files", "workspace"} & errand.request.keys()


def test_without_a_workspace_nothing_is_captured(around):
    """A command that asks for no workspace has none."""
    assert errand_of(Asked(argv=("ls",)), around, {}).folder is None


def test_an_agent_works_on_a_copy_of_this_folder(around, tmp_path, monkeypatch):
    """As here, an agent gets the folder that it is started in."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")

    assert errand_of(Asked(agent="mock", prompt="x"), around, {}).folder == tmp_path / "work"


def test_a_variable_has_the_value_of_this_machine(around):
    """A variable that is named alone goes along with its value from here; one that is not set does not."""
    asked = Asked(argv=("env",), inherit=("HERE", "ABSENT"), env={"GIVEN": "1"})

    execution = errand_of(asked, around, {"HERE": "2", "OTHER": "3"}).request["execution"]

    assert execution["env"] == {"inherit": [], "vars": {"HERE": "2", "GIVEN": "1"}}


@pytest.mark.parametrize(
    ("wish", "option"),
    [
        ({"in_place": True, "workspace": "."}, "--in-place"),
        ({"read": ("/etc",)}, "--read"),
        ({"principal": "boris"}, "--as"),
        ({"workspace": ".", "capture": "none"}, "--capture none"),
        ({}, None),
        ({"pool": "gpu"}, None),
    ],
)
def test_what_makes_sense_only_here_is_refused(around, wish, option):
    """What a plane elsewhere cannot do is refused by the name of its option; anything else is taken."""
    asked = Asked(argv=("ls",), **wish)
    if option is None:
        assert errand_of(asked, around, {}).request.get("pool") == wish.get("pool")
        return

    with pytest.raises(UsageError, match=option):
        errand_of(asked, around, {})
