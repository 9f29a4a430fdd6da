# The whole of Tipstaff's tooling: `make setup`, then `make run`, `make test`, `make check`.
# Environments are the business of scripts/setup.sh, which returns at once when nothing is to do.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := setup

BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
COMPILE := UV_PYTHON_DOWNLOADS=never $(BIN)/uv pip compile --universal --generate-hashes --no-header --quiet

.PHONY: setup environment run test check lint bench docs lock clean

setup:  ## make .venv with .venv/bin/tipstaff, and what the distribution must give
	@scripts/setup.sh core

environment:  # setup, and the tools of development
	@scripts/setup.sh dev

run: setup  ## the tour: a few commands, with their output
	@PATH="$(CURDIR)/$(BIN):$$PATH" examples/tour.sh

test: environment lint  ## everything: the checks, and every test there is
	$(PYTEST) -n auto --no-skips --require-tier bwrap --require-tier process tests

check: environment lint  ## the inner loop: under a minute
	HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-quick} $(PYTEST) -n auto tests/unit tests/style

lint: environment
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: environment  ## measurements, as JSON
	@$(BIN)/python -m compileall -q src
	@$(BIN)/python -m bench

docs: environment  ## regenerate docs/reference, and the shipped policies as plain values
	$(BIN)/python scripts/reference.py
	$(BIN)/python scripts/ready.py

lock: environment  ## requirements/*.lock from pyproject.toml; LOCK_FLAGS=--upgrade for newer versions
	$(COMPILE) $(LOCK_FLAGS) pyproject.toml --extra plane --extra remote -o requirements/core.lock
	$(COMPILE) $(LOCK_FLAGS) pyproject.toml --extra plane --extra remote --extra dev -o requirements/dev.lock
	$(COMPILE) $(LOCK_FLAGS) --python-version 3.11 requirements/setup.in -o requirements/setup.lock

clean:  ## remove what the targets above made, and nothing else
	rm -rf .venv build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find bench examples scripts src tests -type d -name __pycache__ -prune -exec rm -rf {} +
