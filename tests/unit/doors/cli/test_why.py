"""Every way in which something ended has a cause in words, and something to do next."""

from typing import get_args

import pytest

from tipstaff.doors.cli.why import ENDINGS, _cause, _ended, policy_file
from tipstaff.home import Home
from tipstaff.model.events import FailureClass
from tipstaff.model.receipt import Ending
from tipstaff.store.runs import OPEN

TOLD = {"id": "run_1", "status": "failed", "exitCode": 1, "policy": "p", "execution": None}


def test_every_ending_has_its_words():
    """No ending of the protocol is left without a sentence."""
    assert set(ENDINGS) == set(get_args(Ending))


@pytest.mark.parametrize("ending", get_args(Ending))
def test_an_ending_is_told_with_a_next_step(ending):
    """Each ending gives a first line with its cause and a last line with advice, and nothing is left to fill in."""
    lines = list(_ended({**TOLD, "ending": ending}))

    assert lines[0].startswith("run_1: ")
    assert lines[-1].startswith("next: ")
    assert not any("{" in line for line in lines)


@pytest.mark.parametrize("state", [*OPEN, "cancelled", "failed"])
def test_a_run_without_an_ending_is_told_by_its_state(state):
    """What has not ended, or ended before it ran, is told by its state."""
    assert all(_cause({**TOLD, "status": state}))


@pytest.mark.parametrize("failure", get_args(FailureClass))
def test_a_refusal_is_told_by_its_failure(failure):
    """A run that ended before it ran is told by the protocol's name for why, known or not."""
    assert all(_cause({**TOLD, "failure": failure}))


@pytest.mark.parametrize(("code", "word"), [(0, "well"), (127, "not found"), (3, "by itself")])
def test_exit_codes_that_mean_something_are_told(code, word):
    """Success and a missing program have sentences of their own."""
    assert word in _cause({**TOLD, "ending": "exited", "exitCode": code})[0]


def test_the_policy_that_decided_is_looked_for_as_run_does(tmp_path, monkeypatch):
    """The advice names the variable's file, else the home's, else the shipped one of that name, else none."""
    monkeypatch.delenv("TIPSTAFF_POLICY", raising=False)
    assert policy_file("mine", Home(tmp_path)) == "POLICY"
    assert policy_file("local", Home(tmp_path)) == "shipped:local"
    (tmp_path / "policy.yaml").write_text("")
    assert policy_file("local", Home(tmp_path)) == f"{tmp_path}/policy.yaml"
    monkeypatch.setenv("TIPSTAFF_POLICY", "/a b.yaml")
    assert policy_file("local", Home(tmp_path)) == "'/a b.yaml'"
