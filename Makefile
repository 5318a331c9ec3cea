# One entry for people and for CI. `make help` lists the targets.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
STAMP := $(VENV)/.installed

.PHONY: help local down status setup test test-fast check measure format clean

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

local: setup ## sandbox up, deploy the speculating model, validate it, print the address and a completion
	@$(BIN)/python -m sandbox local

down: setup ## destroy the stack, end every process of the sandbox, free every port
	@$(BIN)/python -m sandbox down

status: setup ## what runs in the sandbox
	@$(BIN)/python -m sandbox status

test: setup ## everything: unit tests, both dialects on the sandbox, the real engine once, destroy leaves nothing
	@$(BIN)/python -m sandbox build
	@$(BIN)/python -m pytest

test-fast: setup ## no Go, no engine (a fake one neither): under a minute
	@$(BIN)/python -m pytest -n auto --dist loadfile -m "not sandbox and not engine and not matrix and not process"

check: setup ## ruff, strict types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy .

measure: setup ## time the sandbox and a preview on this (idle) machine
	@$(BIN)/python -m benchmarks.sandbox

format: setup ## apply ruff's fixes and format
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

setup: $(STAMP) ## the project's Python environment in .venv

# uv comes as a Python package into the environment; the rest is pinned as a closure in constraints.txt. An environment
# without pip is half of one: an interrupted start, or a Debian without python3-venv.
$(STAMP): requirements.txt pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; $(PYTHON) is older: make PYTHON=python3.11 setup"; exit 1; }
	@test -x $(BIN)/pip -o -x $(UV) || $(PYTHON) -m venv $(VENV) || { echo "Python's venv module is missing: install it (Debian: apt install python3-venv)"; exit 1; }
	@test -x $(UV) || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv==0.13.9
	@$(UV) pip install --quiet --python $(BIN)/python --constraint constraints.txt -r requirements.txt --group tools --group test --group sandbox --group bench
	@touch $@

clean: ## remove the environment and caches inside the checkout (the sandbox must be down)
	@rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
