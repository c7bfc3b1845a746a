# Chores. `make help` lists them.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
# One thread each for numpy, torch and onnxruntime: those of two processes on two cores would wait for each other.
# A worker that dies ends the tests, and the one that it was at is named: xdist 3.8 leaves the worker that replaces it waiting for ever.
PYTEST := pytest -n 2 --dist loadgroup --max-worker-restart 0
test quick: export OMP_NUM_THREADS := 1
# What was compiled is kept, also where the environment says otherwise: hundreds of processes would compile each changed module anew, and pytest every test.
test quick torture hardening: export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup demo test quick torture hardening eval bench check wheel format docs lock server clean

help: ## what there is
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(VENV)/.installed ## a virtual environment with everything at the locked version, and `almanac` in it

$(VENV)/.installed: requirements.lock pyproject.toml setup.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { echo "Python 3.11 is needed; name it with: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11"; exit 2; }
	@echo 'Setting up $(VENV): some minutes, once.'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -r requirements.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(BIN)/python -m compileall -q $(patsubst %/__init__.py,%,$(wildcard */__init__.py))
	@touch $@

demo: setup ## crawl the example site on loopback, publish, ask
	$(BIN)/almanac demo

test: setup ## all tests
	$(BIN)/python -m $(PYTEST)

quick: setup ## most tests, in some minutes: while you work; COVERAGE=78 measures what they cover, and fails below that
ifdef COVERAGE
	$(BIN)/python -m coverage erase
	$(BIN)/python -m coverage run -m $(PYTEST) -m "not slow" -q
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report --skip-covered --precision=1 --fail-under=$(COVERAGE)
else
	$(BIN)/python -m $(PYTEST) -m "not slow" -q
endif

torture: setup ## every crash point, hundreds of kills, a hundred thousand queries, whatever takes long: hours
	ALMANAC_TORTURE=1 $(BIN)/python -m pytest -m slow --timeout=0

hardening: setup ## every attack of tests/hardening, whole; writes docs/hardening.md
	@rm -rf $(VENV)/hardening && mkdir -p $(VENV)/hardening
	ALMANAC_TORTURE=1 HARDENING_ROWS=$(CURDIR)/$(VENV)/hardening $(BIN)/python -m pytest tests/hardening --timeout=0; \
	done=$$?; $(BIN)/python -m tests.hardening.tally $(VENV)/hardening; exit $$done

eval: setup ## retrieval quality, reliability of relevance and answers on question sets (SETS="DIR DIR") and golden questions, as tables
	$(BIN)/python -m benchmarks.evaluation $(if $(SETS),--sets $(SETS))
	$(BIN)/python -m benchmarks.answers $(if $(SETS),--sets $(SETS))
	$(if $(SETS),$(BIN)/python -m benchmarks.calibration --sets $(SETS))

bench: setup ## an hour: the tables of docs/benchmarks.md (SETS="DIR DIR" for those that need texts or questions), and what got worse; writes build/benchmarks.md
	$(BIN)/python -m benchmarks $(if $(SETS),--sets $(SETS))

check: setup ## what CI checks before the tests: style, types, generated pages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@mkdir -p $(VENV)/typing && ln -sfn ../.. $(VENV)/typing/almanac
	$(BIN)/mypy
	$(BIN)/python -m almanac.cli.reference --check

wheel: ## build the wheel, install it in a fresh environment with the lock, and use it from an empty folder
	PYTHON=$(PYTHON) bash .ci/wheel

format: setup ## rewrite in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: setup ## write docs/declaration.md and docs/commands.md from the models and commands
	$(BIN)/python -m almanac.cli.reference

lock: ## resolve pyproject.toml anew into requirements.lock
	PYTHON=$(PYTHON) sh .ci/lock

server: setup ## Prefect server, work pool, deployments and a worker; open http://127.0.0.1:4200
	$(BIN)/almanac server

clean: ## remove the virtual environment and caches; data stays
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage* *.egg-info
