# make demo and make test do everything from a fresh clone; they need Python >= 3.11 and make.
PYTHON ?= python3
VENV   ?= .venv
# Extras that make test installs. CI adds bench so that nothing is left out.
EXTRAS ?= dev
WORKERS ?= auto

# Test processes share the processors; threads of linear algebra would only wait for one another, and busily.
export OPENBLAS_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 1

# Where this is set, every process compiles every module that it imports, and tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

BIN     = $(VENV)/bin
RUN     = $(VENV)/.installed
# How many tests there are is known at the end: a process imports a module when it runs it.
SHARED  = --quiet -n $(WORKERS) -o console_output_style=classic
TEST    = $(VENV)/.installed-$(subst $(comma),-,$(EXTRAS))
comma  := ,
PIP     = $(BIN)/python -m pip -qq --disable-pip-version-check
# What is imported is compiled then; most of what is installed never is.
export PIP_NO_COMPILE = 1

.DEFAULT_GOAL := help
.PHONY: help demo console check test suite lint types layers slowest superset bench docs clean

help: ## this list
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "make %-8s %s\n", $$1, $$2}' Makefile

demo: $(RUN) ## see Tacit at work
	@$(BIN)/tacit demo

console: $(RUN) ## the demo's hospital in the browser
	@$(PIP) install -e '.[server]' && $(BIN)/tacit serve --demo

check: $(TEST) lint types layers ## the quick loop: format, lint, types, layers, tests of what changed; under a minute
	@PYTHONPATH=tests $(BIN)/python -m support.quick_tests

test: $(TEST) lint ## everything that decides whether a change is good
	@$(MAKE) --no-print-directory -j3 suite types layers

suite: $(TEST)
	@$(BIN)/python -m pytest $(SHARED)

lint: $(TEST)
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/ruff check --quiet .

types: $(TEST)
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/mypy --no-error-summary examples/*.py

layers: $(TEST)
	@$(BIN)/lint-imports --no-logo >$(VENV)/layers.log 2>&1 || { cat $(VENV)/layers.log; exit 1; }

slowest: $(TEST) ## processor time of test modules; writes tests/seconds.json, which orders the tests
	@PYTHONPATH=tests $(BIN)/python -m pytest $(SHARED) -p support.seconds

superset: .superset/installed ## Apache Superset in an environment of its own, for the tests of dashboards

# Its own bounds let in versions that it does not start with. uv takes a seventh of pip's processor time.
SUPERSET = 'apache-superset>=6.1,<6.2' 'cachetools>=5,<6' 'flask-caching>=2.3,<2.4' 'psycopg2-binary>=2.9,<3'
.superset/installed:
	@$(PYTHON) -m venv .superset
	@.superset/bin/python -m pip -qq --disable-pip-version-check install 'uv>=0.8,<1'
	@.superset/bin/uv pip install --quiet --python .superset/bin/python $(SUPERSET) || \
		.superset/bin/python -m pip -qq --disable-pip-version-check install $(SUPERSET)
	@touch $@

bench: ## the benchmarks of benchmarks/README.md, beside the rivals
	@$(MAKE) --no-print-directory EXTRAS=dev,bench $(VENV)/.installed-dev-bench
	@for script in benchmarks/[a-z]*.py; do $(BIN)/python $$script || exit 1; done

docs: $(RUN) ## the documentation site, in site/
	@$(PIP) install -e '.[docs]' && NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

clean: ## forget the environment and all caches
	rm -rf $(VENV) .superset .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache site

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Tacit needs Python >= 3.11; set PYTHON=..."; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(RUN): pyproject.toml | $(BIN)/python
	@echo "Setting up $(VENV) ..."
	@$(PIP) install -e . && touch $@

$(TEST): pyproject.toml | $(BIN)/python
	@echo "Setting up $(VENV) for tests ..."
	@$(PIP) install -e '.[$(EXTRAS)]' && touch $@ $(RUN)
