"""A process that holds values leaves no memory behind."""

import os
import subprocess
import sys

import pytest

STATE = """
import ctypes, resource
from tipstaff.secrets.guard import no_dumps
if {guarded}:
    no_dumps()
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), resource.getrlimit(resource.RLIMIT_CORE)[0])
"""
# A change of the user closes /proc by itself, so that each process here is opened again before it may be closed.
LOOK = """
import ctypes, os, resource
from tipstaff.secrets.guard import no_dumps
os.setgroups([]); os.setgid(65534); os.setuid(65534)
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
if {guarded}:
    no_dumps()
ours = os.getpid()
child = os.fork()
if child == 0:
    try:
        open(f"/proc/{{ours}}/environ", "rb").read()
    except PermissionError:
        os._exit(13)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def said(code):
    """Run a program of ours in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, timeout=60, text=True
    ).stdout.split()


def test_a_guarded_process_is_not_dumped():
    """After `no_dumps` the kernel takes the process for one that must not be dumped, and the limit is zero."""
    assert said(STATE.format(guarded=True)) == ["0", "0"]
    assert said(STATE.format(guarded=False))[0] == "1"


@pytest.mark.only_if(os.geteuid() == 0, "only root can become another user")
@pytest.mark.parametrize("guarded", [True, False])
def test_others_of_the_same_user_see_no_environment(guarded):
    """Another process of the same user reads the environment of ours if, and only if, it is not guarded."""
    assert said(LOOK.format(guarded=guarded)) == ["13" if guarded else "0"]
