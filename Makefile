# make demo and make test do everything from a fresh clone; they need Python >= 3.11 and make.
PYTHON ?= python3
VENV   ?= .venv
WORKERS ?= auto

# Test processes share the processors; threads of linear algebra would only wait for one another, and busily.
export OPENBLAS_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 1

# Where this is set, every process compiles every module that it imports, and tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

BIN  = $(VENV)/bin
RUN  = $(VENV)/.installed
TEST = $(VENV)/.installed-dev
# Environments for what no newcomer needs; the versions of one pin nothing in another.
DEEP   = .venvs/deep
BENCH  = .venvs/bench
DOCS   = .venvs/docs
OLDEST = .venvs/oldest
NEWEST = .venvs/newest
# The newest Python of this machine; `make newest NEW=…` names another.
NEW = $(shell for v in 14 13 12 11; do for p in python3.$$v $$HOME/.pyenv/versions/3.$$v.*/bin/python; do \
	"$$p" -c '' 2>/dev/null && echo "$$p" && break 2; done; done)

# Older versions of pytest look for plugins before they read pythonpath.
PYTEST = -m pytest --quiet --no-header -n $(WORKERS) -p support.progress -p support.seconds
UV     = $(BIN)/uv --quiet
# This very version comes as a build for processors alone; the default build is several gigabytes.
TORCH  = 'torch==2.13.0'

.DEFAULT_GOAL := help
.PHONY: help demo console check test deep suite lint types layers slowest superset oldest newest bench docs clean

help: ## this list
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "make %-8s %s\n", $$1, $$2}' Makefile

demo: $(RUN) ## see Tacit at work
	@$(BIN)/tacit demo

console: $(RUN) ## the demo's hospital in the browser
	@$(UV) pip install --python $(BIN)/python -e '.[server]' && $(BIN)/tacit serve --demo

check: $(TEST) lint types layers ## the quick loop: format, lint, types, layers, tests of what changed; under a minute
	@PYTHONPATH=tests $(BIN)/python -m support.quick_tests

test: $(TEST) lint ## format, lint, types, layers, and every test module with at most 5 s of processor time
	@$(MAKE) --no-print-directory -j3 suite types layers

suite: $(TEST)
	@PYTHONPATH=tests $(BIN)/python $(PYTEST) -m 'not deep'

# Its time is spent waiting for Java, servers, browsers and processes that are killed: two more than there are processors.
deep: WORKERS = $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 2)))
deep: $(DEEP)/.installed $(BENCH)/.installed ## the tests that make test leaves out: slow ones, networks, Spark, a browser, a dashboard, other libraries
	@PYTHONPATH=tests $(DEEP)/bin/python $(PYTEST) -m '(deep or smoke) and not bench'
	@PYTHONPATH=tests $(BENCH)/bin/python $(PYTEST) -n 0 -m bench $$(grep -rlE 'mark\.bench' tests --include='test_*.py')

lint: $(TEST)
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/ruff check --quiet .

types: $(TEST)
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/mypy --no-error-summary examples/*.py

layers: $(TEST)
	@$(BIN)/lint-imports --no-logo >$(VENV)/layers.log 2>&1 || { cat $(VENV)/layers.log; exit 1; }

slowest: $(DEEP)/.installed ## processor time of test modules; writes tests/seconds.json, which orders the tests
	@PYTHONPATH=tests $(DEEP)/bin/python $(PYTEST) -m 'not deep' --write-seconds
	@PYTHONPATH=tests $(DEEP)/bin/python $(PYTEST) -m 'deep and not bench' --write-seconds

oldest: $(OLDEST)/.installed ## tests of arithmetic, learning and the curator with the lowest versions that pyproject.toml allows
newest: $(NEWEST)/.installed ## the same tests with the newest Python that the machine has
oldest newest:
	@PYTHONPATH=tests .venvs/$@/bin/python $(PYTEST) -m 'not deep' $(addprefix tests/,core noise mechanisms accounting lab learn curator releases)

superset: .superset/.installed ## Apache Superset in an environment of its own, for the tests of dashboards

bench: $(BENCH)/.installed ## the benchmarks of benchmarks/README.md, beside the rivals
	@for script in benchmarks/[a-z]*.py; do $(BENCH)/bin/python $$script || exit 1; done

docs: $(DOCS)/.installed ## the documentation site, in site/
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --quiet --strict

clean: ## forget the environments and all caches
	rm -rf $(VENV) .venvs .superset .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache site

$(BIN)/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Tacit needs Python >= 3.11; set PYTHON=..."; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@PIP_NO_COMPILE=1 $(BIN)/python -m pip -qq --disable-pip-version-check install 'uv>=0.8,<1'

# An environment and what is installed into it.
made = @echo "Setting up $(1) ..." && { [ -e $(1)/bin/python ] || $(UV) venv --python $(PYTHON) $(1); } && \
	$(UV) pip install --python $(1)/bin/python $(2) && touch $(1)/.installed

$(RUN): pyproject.toml | $(BIN)/uv
	$(call made,$(VENV),-e .)

# One process imports what most tests need: several at once would each compile the same modules.
$(TEST): pyproject.toml | $(BIN)/uv
	$(call made,$(VENV),-e '.[dev]')
	@$(BIN)/python -W ignore -c 'import hypothesis, pandas, polars, psycopg, schemathesis, scipy.stats, sklearn, tacit.cli.query, tacit.learn, tacit.server.api.app'
	@touch $@

$(DEEP)/.installed: pyproject.toml .superset/.installed | $(BIN)/uv
	$(call made,$(DEEP),-e '.[dev$(comma)deep$(comma)torch]' $(TORCH))

$(BENCH)/.installed: pyproject.toml | $(BIN)/uv
	$(call made,$(BENCH),-e '.[dev$(comma)torch$(comma)bench]' $(TORCH))

$(DOCS)/.installed: pyproject.toml | $(BIN)/uv
	$(call made,$(DOCS),-e '.[docs]')

$(OLDEST)/.installed: pyproject.toml | $(BIN)/uv
	$(call made,$(OLDEST),--resolution lowest-direct -e '.[dev]')

# Not for the environment that uv is installed into.
$(NEWEST)/.installed: private PYTHON = $(NEW)
$(NEWEST)/.installed: pyproject.toml | $(BIN)/uv
	$(call made,$(NEWEST),-e '.[dev]')

# Its own bounds let in versions that it does not start with.
.superset/.installed: | $(BIN)/uv
	$(call made,.superset,'apache-superset>=6.1$(comma)<6.2' 'cachetools>=5$(comma)<6' 'flask-caching>=2.3$(comma)<2.4' 'psycopg2-binary>=2.9$(comma)<3')

comma := ,
