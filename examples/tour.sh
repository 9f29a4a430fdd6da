#!/usr/bin/env bash
# A tour of Tipstaff. `make run` starts it with .venv/bin first in PATH.
set -euo pipefail
tipstaff --version
