"""Which run a word names: exactly one, or a clear error."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.unit.plane.embedded import REQUEST, Embedded, FakeClock
from tests.unit.policy.conftest import open_policy
from tipstaff.doors.cli.desk import find, opened
from tipstaff.errors import InputError, NotFoundError, UsageError
from tipstaff.plane import Plane, Refused

DENYING = {"rules": [{"id": "no-rm", "effect": "deny", "when": {"argv": [["rm", "..."]]}, "reason": "not here"}]}


class Desk(NamedTuple):
    """A plane, its runs, and a request that was denied after them."""

    plane: Plane
    runs: list[str]
    refused: str


@pytest.fixture
def site(tmp_path) -> Iterator[Desk]:
    """A plane with three runs and, behind them, a request that was denied."""
    base, clock = open_policy().value, FakeClock()
    made = Embedded(tmp_path, policy=open_policy(rules=[*base["rules"], *DENYING["rules"]]), clock=clock)
    runs = [made.submit(purpose=str(number)) for number in range(3)]
    clock.now += 1000
    refused = made.plane.submit({**REQUEST, "execution": {"kind": "argv", "command": "rm", "args": ["x"]}})
    assert isinstance(refused, Refused)
    yield Desk(made.plane, runs, refused.refusal["id"])
    made.close()


@pytest.mark.parametrize("cut", [4 + 36, 4 + 8, 4 + 3])
@pytest.mark.parametrize("skipped", [0, 4])
def test_a_beginning_names_its_run(site, cut, skipped):
    """An id, or a beginning that only one id has, names that run, with `run_` before it or without."""
    for run_id in site.runs:
        assert find(site.plane, run_id[skipped:cut]) == run_id


@pytest.mark.parametrize(("word", "place"), [("last", -1), ("-1", -1), ("-2", -2), ("-4", -4)])
def test_the_newest_are_counted_from_the_end(site, word, place):
    """The newest is `last` or -1, the one before it -2; a denied request counts as well."""
    assert find(site.plane, word) == [*site.runs, site.refused][place]


def test_a_refused_request_is_found_like_a_run(site):
    """A beginning of the id of a refusal names it, with `ref_` or without."""
    assert find(site.plane, site.refused[:12]) == find(site.plane, site.refused[4:12]) == site.refused


@pytest.mark.parametrize("word", ["", "run_zzz", "%", "_", "*", "run%", "-5", "-9999999999", "\udcff", "x" * 5000])
def test_what_names_nothing_is_told(site, word):
    """A word that no id begins with is an error; nothing in it is taken for a pattern."""
    with pytest.raises(NotFoundError, match=r"there (is no run|are fewer)"):
        find(site.plane, word)


class Liar:
    """A desk that calls a run by whatever it is told to."""

    def __init__(self, name: str) -> None:
        self._name = name

    def history(self, *_: object) -> list[dict[str, str]]:
        """List one run."""
        return [{"id": self._name}]

    def named(self, *_: object) -> list[str]:
        """List one id."""
        return [self._name]


@pytest.mark.parametrize(
    "name", ["../../home", "/etc", "run_1", "run_0000/../..", "run_00000000-0000-4000-8000-00000000000g"]
)
@pytest.mark.parametrize("word", ["last", "-1", "run_"])
def test_an_id_that_is_none_is_refused_whoever_gave_it(name, word):
    """What is found becomes the name of a folder: only a whole id is ever given; a whole one is."""
    whole = "run_00000000-0000-4000-8000-000000000001"

    with pytest.raises(InputError, match="is not the id of one"):
        find(Liar(name), word)  # type: ignore[arg-type]  # as much of a desk as is asked
    assert find(Liar(whole), word) == whole  # type: ignore[arg-type]  # as above


def test_what_names_several_is_told_with_its_candidates(site):
    """A beginning that several ids share is refused, and the ids are named."""
    with pytest.raises(UsageError, match="begins more than one id") as caught:
        find(site.plane, "run_")

    assert all(run_id[:12] in str(caught.value) for run_id in site.runs)


@pytest.mark.parametrize("there", [False, True])
def test_looking_makes_no_home(tmp_path, monkeypatch, there):
    """Where nothing ever ran, looking says so and leaves no folder behind; a home that is there is opened."""
    home = tmp_path / "home"
    monkeypatch.setenv("TIPSTAFF_HOME", str(home))
    if there:
        home.mkdir(mode=0o700)
        with opened() as plane:
            assert plane.history() == []
        return

    with pytest.raises(NotFoundError, match="nothing has run yet"), opened():
        pass

    assert not home.exists()
