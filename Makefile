# Chores. `make help` lists them.
# The first that is supported; a name on PATH may belong to a Python that is not installed.
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11; do \
	$$name -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null && { echo $$name; break; }; done)
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
VENV   := .venv
BIN    := $(VENV)/bin
EXTRAS := dev,models
comma  := ,
# An environment is of one Python and some extras: another one is made anew.
HAS    := $(VENV)/.has-$(VERSION)-$(subst $(comma),-,$(EXTRAS))
RUNS   := $(VENV)/.runs-$(VERSION)
MODEL  := index/embedding/minilm/model.safetensors
SETUP  := requirements.lock pyproject.toml setup.py .ci/install $(MODEL)
# Three processes, since tests wait for servers and disks a third of their time. One thread each for numpy, torch and OpenVINO: they would wait for each other.
# A worker that dies ends the tests, and the one that it was at is named: xdist 3.8 leaves the worker that replaces it waiting for ever.
PYTEST := pytest -n 3 --dist loadgroup --max-worker-restart 0
test quick: export OMP_NUM_THREADS := 1
# What was compiled is kept, also where the environment says otherwise: hundreds of processes would compile each changed module anew, and pytest every test.
test quick torture hardening: export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup demo test quick torture hardening eval bench check wheel lowest format docs site lock server clean

help: ## what there is
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(HAS) ## a virtual environment with everything at the locked version, and `almanac` in it; EXTRAS=dev does without torch

$(HAS): $(SETUP)
	@$(call install,.[$(EXTRAS)])
	@touch $@ $(RUNS)

# What the examples need, and no more.
$(RUNS): $(SETUP)
	@$(call install,.[multilingual])
	@touch $@

# It comes with the installation (setup.py); where it is gone, that is done again.
$(MODEL):

define install
case '$(VERSION)' in 3.11|3.12|3.13) ;; *) echo 'Python 3.11, 3.12 or 3.13 is needed; name it with: make $(MAKECMDGOALS) PYTHON=/path/to/python3'; exit 2;; esac; \
case '$(VENV)' in .venv*) ;; *) test ! -e '$(VENV)' || test -e '$(VENV)/pyvenv.cfg' || { echo '$(VENV) is there, and no virtual environment'; exit 2; };; esac; \
echo 'Setting up $(VENV): a minute or two, once.'; \
$(PYTHON) -m venv --clear $(VENV) && sh .ci/install $(VENV) '$(1)' -e && $(BIN)/python -m compileall -q $(patsubst %/__init__.py,%,$(wildcard */__init__.py))
endef

demo: $(RUNS) ## crawl the example site on loopback, publish, ask
	$(BIN)/almanac demo

test: setup ## all tests; COVERAGE=90 measures what they cover, and fails below that
	$(call tests,)

quick: setup ## most tests, in some minutes: while you work
	$(call tests,-m "not slow" -q)

ifdef COVERAGE
define tests
$(BIN)/python -m coverage erase
$(BIN)/python -m coverage run -m $(PYTEST) $(1)
$(BIN)/python -m coverage combine --quiet
$(BIN)/python -m coverage report --skip-covered --precision=1 --fail-under=$(COVERAGE)
endef
else
tests = $(BIN)/python -m $(PYTEST) $(1)
endif

torture: setup ## every crash point, hundreds of kills, a hundred thousand queries, whatever takes long: hours
	ALMANAC_TORTURE=1 $(BIN)/python -m pytest -m slow --timeout=0 -o faulthandler_timeout=0

hardening: setup ## every attack of tests/hardening, whole; writes docs/security.md
	@rm -rf $(VENV)/hardening && mkdir -p $(VENV)/hardening
	ALMANAC_TORTURE=1 HARDENING_ROWS=$(CURDIR)/$(VENV)/hardening $(BIN)/python -m pytest tests/hardening --timeout=0 -o faulthandler_timeout=0; \
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

wheel: ## build the wheel, and use it with the public registry alone: from empty folders, without the extra `models` and with it
	PYTHON=$(PYTHON) bash .ci/wheel

lowest: ## quick tests with the oldest releases that pyproject.toml admits
	bash .ci/lowest $(PYTHON)

format: setup ## rewrite in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: setup ## write docs/reference/declaration.md and docs/reference/commands.md from the models and commands
	$(BIN)/python -m almanac.cli.reference

site: setup ## the pages of docs/ as a site in build/site; fails at a link that leads nowhere
	$(BIN)/mkdocs build --strict --quiet

lock: ## resolve pyproject.toml into requirements.lock, changing what has to; UPGRADE=1 takes the newest of all
	@test -x .venv-lock/bin/uv || { $(PYTHON) -m venv .venv-lock && .venv-lock/bin/pip install --quiet --disable-pip-version-check uv; }
	.venv-lock/bin/uv pip compile pyproject.toml --quiet --all-extras --universal --python-version 3.11 --no-annotate --custom-compile-command 'make lock' \
		$(if $(UPGRADE),--upgrade) -o requirements.lock

server: setup ## Prefect server, work pool, deployments and a worker; open http://127.0.0.1:4200
	$(BIN)/almanac server

clean: ## remove the virtual environment and caches; data stays
	rm -rf .venv* build index/embedding/minilm index/embedding/.minilm-* .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage* *.egg-info
