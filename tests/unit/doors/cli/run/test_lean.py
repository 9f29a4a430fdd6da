"""Imports that wait for their first use."""

import subprocess
import sys

DEFERRED = """
import sys
from tipstaff.doors.cli.run.lean import import_lean
import_lean()
assert {"ast", "ssl"}.isdisjoint(sys.modules), "loaded before anybody asked"
import inspect, ipaddress, pathlib, platform, ssl, textwrap, urllib.parse
assert "ast" not in sys.modules
assert pathlib.Path("/a b").as_uri() == "file:///a%20b"
assert urllib.parse.urlsplit("http://a:1/b").port == 1
assert str(ipaddress.ip_address("::1")) == "::1"
assert platform.system() == "Linux" and platform.python_version_tuple()[0] == "3"
import argparse, gettext
assert gettext.gettext("a") == "a"
assert gettext.ngettext("a", "b", 2) == "b" and gettext.NullTranslations().gettext("a") == "a"
assert "usage" in argparse.ArgumentParser(prog="x").format_help()
assert textwrap.dedent("  a") == "a"
assert inspect.isfunction(import_lean) and inspect.getsource(import_lean).startswith("def import_lean")
assert "ast" in sys.modules and ssl.OPENSSL_VERSION
from inspect import Parameter, signature
assert list(signature(import_lean).parameters) == []
import asyncio
async def main():
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, print, "whole")
asyncio.run(main(), debug=True)
"""


def test_what_is_imported_late_is_the_same():
    """A module that waits is not loaded by importing it, and is whole as soon as one of its names is used."""
    ended = subprocess.run([sys.executable, "-c", DEFERRED], capture_output=True, timeout=60, check=False)

    assert (ended.stdout, ended.stderr.decode()) == (b"whole\n", "")
