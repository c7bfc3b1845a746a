# Chores. `make help` lists them.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help setup demo test torture eval check format docs lock server clean

help: ## what there is
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(VENV)/.installed ## a virtual environment with everything at the locked version, and `almanac` in it

$(VENV)/.installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { echo "Python 3.11 is needed; name it with: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11"; exit 2; }
	@echo 'Setting up $(VENV): some minutes, once.'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -r requirements.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: setup ## crawl the example site on loopback, publish, ask
	$(BIN)/almanac demo

test: setup ## all tests, with coverage
	$(BIN)/python -m coverage erase
	$(BIN)/python -m coverage run -m pytest -n 2 --dist loadgroup
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report --skip-covered --precision=1

torture: setup ## every crash point, hundreds of kills, a hundred thousand queries: hours
	ALMANAC_TORTURE=1 $(BIN)/python -m pytest tests/proof --timeout=0

eval: setup ## retrieval quality on question sets (SETS="DIR DIR") and on the golden questions, as tables
	$(BIN)/python -m benchmarks.evaluation $(if $(SETS),--sets $(SETS))

check: setup ## what CI checks before the tests: style, types, generated pages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m cli.reference --check

format: setup ## rewrite in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: setup ## write docs/declaration.md and docs/commands.md from the models and commands
	$(BIN)/python -m cli.reference

lock: ## resolve pyproject.toml anew into requirements.lock
	PYTHON=$(PYTHON) sh .ci/lock

server: setup ## Prefect server, work pool, deployments and a worker; open http://127.0.0.1:4200
	$(BIN)/python -m flows.server

clean: ## remove the virtual environment and caches; data stays
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage* *.egg-info
