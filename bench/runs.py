"""A whole governed run against bubblewrap alone: one after the other, eight at once, as a program, and under a flood.

Bubblewrap gets the same namespaces, mounts, files and filter, and nothing of ours around it. Ours is everything from
the request to the durable, countersigned receipt. The two take turns, so that a slow moment of the machine hits both.
"""

import asyncio
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from bench.figure import Figure
from tipstaff.home import Home
from tipstaff.isolation import bubblewrap, builder, places, seccomp
from tipstaff.local.embedded import Local, open_local
from tipstaff.local.policies import choose_policy

ROUNDS = 60
WARM_UP = 5
AT_ONCE = 8
BATCHES = 12
SETTLE_SECONDS = 0.03  # for the kernel to take namespaces down; nobody is charged for what the other one left
CLI_ROUNDS = 20
FLOOD_BYTES = 1 << 30
MIB = 1 << 20
REQUEST: dict[str, Any] = {
    "requestedBy": {"kind": "human", "id": "bench"},
    "execution": {"kind": "argv", "command": "true", "log": {"stderr": "capture"}},
}
Action = Callable[[], Awaitable[None]]


def figures() -> Iterator[Figure]:
    """Measure everything about runs."""
    with tempfile.TemporaryDirectory() as folder:
        yield from asyncio.run(_embedded(Path(folder)))
        yield _program(Path(folder))
        yield _flood(Path(folder))


async def _embedded(folder: Path) -> list[Figure]:
    home = Home(folder / "home")
    (folder / "workspace").mkdir()
    bare = Bare(folder / "workspace")
    async with open_local(home, choose_policy(home, None, {})) as local:
        return [await _cold(local, bare), await _concurrent(local, bare), await _gate(local)]


async def _cold(local: Local, bare: "Bare") -> Figure:
    taken = await _in_turn(ROUNDS + WARM_UP, {"bwrap": bare.run, "tipstaff": lambda: _governed(local)})
    medians = {name: median(times[WARM_UP:]) for name, times in taken.items()}
    detail = {f"{name}_ms": round(value * 1000, 2) for name, value in medians.items()}
    return Figure("cold_ratio", medians["tipstaff"] / medians["bwrap"], "of bare bwrap", at_most=2.0, detail=detail)


async def _concurrent(local: Local, bare: "Bare") -> Figure:
    async def at_once(action: Action) -> None:
        await asyncio.gather(*(action() for _ in range(AT_ONCE)))

    taken = await _in_turn(
        BATCHES, {"bwrap": lambda: at_once(bare.run), "tipstaff": lambda: at_once(lambda: _governed(local))}
    )
    rates = {name: AT_ONCE / median(times[1:]) for name, times in taken.items()}
    detail = {f"{name}_per_second": round(rate, 1) for name, rate in rates.items()}
    return Figure(
        "concurrent_ratio",
        rates["tipstaff"] / rates["bwrap"],
        "of bare bwrap",
        at_least=0.6,
        is_gate=False,
        detail=detail,
    )


async def _gate(local: Local) -> Figure:
    """Compare a run that may reach a host with one that was asked for without any way out."""
    closed = {**REQUEST, "execution": {**REQUEST["execution"], "env": {"egressProxy": False}}}
    reaching = {**REQUEST, "egress": {"rules": [{"host": "example.com"}]}}
    actions: dict[str, Action] = {
        "closed": lambda: _governed(local, closed), "reaching": lambda: _governed(local, reaching)
    }  # fmt: skip
    medians = {name: median(times[WARM_UP:]) for name, times in (await _in_turn(ROUNDS + WARM_UP, actions)).items()}
    detail = {f"{name}_ms": round(value * 1000, 2) for name, value in medians.items()}
    return Figure("gate_cost_ms", (medians["reaching"] - medians["closed"]) * 1000, "ms", at_most=4.0, detail=detail)


async def _in_turn(rounds: int, actions: dict[str, Action]) -> dict[str, list[float]]:
    taken: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            await asyncio.sleep(SETTLE_SECONDS)
            start = perf_counter()
            await action()
            taken[name].append(perf_counter() - start)
    return taken


async def _governed(local: Local, request: dict[str, Any] = REQUEST) -> None:
    outcome = await local.run(request)
    if not outcome.ok or outcome.receipt is None:
        raise RuntimeError(f"`true` ended {outcome.ending}: {outcome.message}")


class Bare:
    """Bubblewrap itself, told what our sandboxes are told."""

    def __init__(self, workspace: Path) -> None:
        system, contents = builder.system()
        words = bubblewrap.arguments(bubblewrap.Room(str(workspace)), system)
        self._words = words[: words.index("--json-status-fd")]
        self._contents = contents
        self._filter = seccomp.program(platform.machine())

    async def run(self) -> None:
        """Run `true`."""
        files = {
            bubblewrap.FIRST_FILE + place: builder.memory_file(content) for place, content in enumerate(self._contents)
        }
        files[bubblewrap.FILTER] = builder.memory_file(self._filter)
        words = list(self._words)
        for place, word in enumerate(words):
            if word in {"--file", "--seccomp"}:
                words[place + 1] = str(files[int(words[place + 1])])
        try:
            process = await asyncio.create_subprocess_exec(
                places.BUBBLEWRAP, *words, "--", "true", env={}, pass_fds=[*files.values()]
            )
            if await process.wait() != 0:
                raise RuntimeError("bubblewrap itself does not work here")
        finally:
            for descriptor in files.values():
                os.close(descriptor)


def _program(folder: Path) -> Figure:
    """`tipstaff run -- true` as a process, against Python doing nothing."""
    environ = {**os.environ, "TIPSTAFF_HOME": str(folder / "home")}
    commands = {
        "python": [sys.executable, "-c", "pass"],
        "tipstaff": [str(Path(sys.executable).parent / "tipstaff"), "run", "--quiet", "--", "true"],
    }
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(ROUNDS + 1):
        for name, command in commands.items():
            start = perf_counter()
            subprocess.run(command, env=environ, check=True, stdin=subprocess.DEVNULL)  # noqa: S603 - what is measured
            taken[name].append(perf_counter() - start)
    medians = {name: median(times[1:]) for name, times in taken.items()}
    detail = {f"{name}_ms": round(value * 1000, 1) for name, value in medians.items()}
    return Figure(
        "cli_ratio", medians["tipstaff"] / medians["python"], "of python -c pass", at_most=12.0, detail=detail
    )


def _flood(folder: Path) -> Figure:
    """How much larger our program gets when its command prints a gibibyte."""
    _peak_bytes(folder, "true")  # the first run of a home makes its keys
    quiet = _peak_bytes(folder, "true")
    flooded = _peak_bytes(folder, "head", "-c", str(FLOOD_BYTES), "/dev/zero")
    detail = {"quiet_mib": round(quiet / MIB, 1), "flooded_mib": round(flooded / MIB, 1)}
    return Figure("flood_rss_mib", (flooded - quiet) / MIB, "MiB for 1 GiB of output", at_most=16.0, detail=detail)


# A process that is started counts its parent's memory as its own first peak: a small one has to be between.
_BETWEEN = """
import os, sys
_, status, usage = os.wait4(os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ), 0)
sys.stderr.write(str(usage.ru_maxrss * 1024))
sys.exit(os.waitstatus_to_exitcode(status))
"""


def _peak_bytes(folder: Path, *command: str) -> int:
    environ = {**os.environ, "TIPSTAFF_HOME": str(folder / "home")}
    program = [str(Path(sys.executable).parent / "tipstaff"), "run", "--quiet", "--", *command]
    ended = subprocess.run(  # noqa: S603 - what is measured
        [sys.executable, "-c", _BETWEEN, *program],
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=True,
    )
    return int(ended.stderr)
