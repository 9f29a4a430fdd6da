"""Runs every measurement, tells each as it comes, and prints all as one JSON object on the last line.

Exits 1 when a bound that is a gate was missed. The machine should be otherwise idle.
"""

import json
import os
import platform
import sys

from bench import egress, evidence, plane, policy, redact, runs, start, workspace


def main() -> int:
    """Measure everything."""
    found = {}
    kept = True
    for part in (start, policy, evidence, redact, runs, egress, workspace, plane):
        for figure in part.figures():
            found[figure.name] = figure.as_json()
            kept = kept and (figure.kept or not figure.is_gate)
            mark = "" if figure.kept else "   MISSED"
            sys.stderr.write(f"{figure.name:<28} {figure.value:>12.2f} {figure.unit}{mark}\n")
    host = {"python": platform.python_version(), "cores": os.cpu_count(), "machine": platform.machine()}
    sys.stdout.write(json.dumps({**found, "host": host}) + "\n")
    return 0 if kept else 1


sys.exit(main())
