"""Hosts that lack something: a run is refused with cause and remedy, and no weaker tier takes its place unasked.

What is missing is hidden in namespaces that the test makes, so the host itself stays as it is.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.only_if(os.geteuid() == 0, "only root can hide a program from one process")
TIPSTAFF = Path(sys.executable).with_name("tipstaff")
WITHOUT_BUBBLEWRAP = "mount --make-rprivate / && mount --bind /dev/null /usr/bin/bwrap && exec"
WITHOUT_NAMESPACES = "echo 0 > /proc/sys/user/max_user_namespaces && exec"
FALLBACK = """
version: tipstaff.policy.v1
name: second-best
principals: [{id: "*"}]
rules: [{id: all, effect: allow, when: any}]
tiers:
  minimum: process
  fallback: process
  tolerate: {memory: weaker, cpu: unenforceable, pids: weaker, disk: weaker, files: weaker, secrets: weaker}
"""


@pytest.fixture
def environ(tmp_path):
    """An environment with a home of its own."""
    return {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TIPSTAFF_HOME": str(tmp_path / "home")}


def started(environ, hiding, *words):
    """Run the program where something is hidden."""
    kind = ["--mount"] if hiding == WITHOUT_BUBBLEWRAP else ["--user", "--map-root-user"]
    command = ["unshare", *kind, "sh", "-c", f'{hiding} "$@"', "sh", str(TIPSTAFF), *words]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("hiding", "cause"),
    [(WITHOUT_BUBBLEWRAP, "apt-get install bubblewrap"), (WITHOUT_NAMESPACES, "user.max_user_namespaces=10000")],
    ids=["bubblewrap", "namespaces"],
)
def test_what_is_missing_is_named_and_nothing_runs(environ, tmp_path, hiding, cause):
    """Without bubblewrap, or without user namespaces, a run is refused with the remedy; with both it runs."""
    ran = tmp_path / "work" / "ran"
    ran.parent.mkdir()
    command = ("run", "--workspace", str(ran.parent), "--in-place", "--", "touch", ran.name)

    refused = started(environ, hiding, *command)
    assert (refused.returncode, ran.exists(), cause in refused.stderr) == (126, False, True), refused.stderr
    assert "Traceback" not in refused.stderr

    allowed = subprocess.run([TIPSTAFF, *command], env=environ, capture_output=True, timeout=60, check=False)
    assert (allowed.returncode, ran.exists()) == (0, True), allowed.stderr


def test_doctor_says_the_same(environ):
    """Without the default tier `tipstaff doctor` exits 1 and names the remedy; with it, 0."""
    missing = started(environ, WITHOUT_BUBBLEWRAP, "doctor")
    whole = subprocess.run([TIPSTAFF, "doctor"], env=environ, capture_output=True, text=True, timeout=60, check=False)

    assert (missing.returncode, "apt-get install bubblewrap" in missing.stdout) == (1, True)
    assert (whole.returncode, whole.stdout.splitlines()[0]) == (0, "the default tier, bwrap, works here")


def test_a_weaker_tier_is_used_only_where_the_policy_names_it(environ, tmp_path):
    """With a fallback in the policy the run goes on in that tier, and the decision and the receipt say so."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(FALLBACK)

    ran = started(environ, WITHOUT_BUBBLEWRAP, "run", "--policy", str(policy), "--", "echo", "hi")
    shown = subprocess.run(
        [TIPSTAFF, "show", "last"], env=environ, capture_output=True, text=True, timeout=60, check=True
    )

    assert (ran.returncode, ran.stdout) == (0, "hi\n"), ran.stderr
    assert "tiers.fallback" in ran.stderr
    assert "tier process" in ran.stderr
    assert "process" in shown.stdout
