# make demo and make test do everything from a fresh clone; they need Python >= 3.11 and make.
PYTHON ?= python3
VENV   ?= .venv
# Extras that make test installs. CI adds bench so that nothing is left out.
EXTRAS ?= dev
WORKERS ?= auto

BIN     = $(VENV)/bin
RUN     = $(VENV)/.installed
TEST    = $(VENV)/.installed-$(subst $(comma),-,$(EXTRAS))
comma  := ,
PIP     = $(BIN)/python -m pip -qq --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo test lint types layers bench docs clean

help: ## this list
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "make %-8s %s\n", $$1, $$2}' Makefile

demo: $(RUN) ## see Tacit at work
	@$(BIN)/tacit demo

test: $(TEST) lint types layers ## everything that decides whether a change is good
	@$(BIN)/python -m pytest --quiet -n $(WORKERS)

lint: $(TEST)
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/ruff check --quiet .

types: $(TEST)
	@$(BIN)/mypy --no-error-summary

layers: $(TEST)
	@$(BIN)/lint-imports --no-logo >$(VENV)/layers.log 2>&1 || { cat $(VENV)/layers.log; exit 1; }

bench: ## the benchmarks of benchmarks/README.md, beside the rivals
	@$(MAKE) --no-print-directory EXTRAS=dev,bench $(VENV)/.installed-dev-bench
	@for script in benchmarks/[a-z]*.py; do $(BIN)/python $$script || exit 1; done

docs: $(RUN) ## the documentation site, in site/
	@$(PIP) install -e '.[docs]' && NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

clean: ## forget the environment and all caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache site

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Tacit needs Python >= 3.11; set PYTHON=..."; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(RUN): pyproject.toml | $(BIN)/python
	@echo "Setting up $(VENV) ..."
	@$(PIP) install -e . && touch $@

$(TEST): pyproject.toml | $(BIN)/python
	@echo "Setting up $(VENV) for tests ..."
	@$(PIP) install -e '.[$(EXTRAS)]' && touch $@ $(RUN)
