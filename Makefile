# Each target sets up everything it needs in a fresh clone.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   ?= .venv
BIN     = $(VENV)/bin
READY   = $(VENV)/.ready
PACKAGE = $(VENV)/.package

# Python compiles a module when something imports it: compiling all of SciPy at once takes ten seconds more.
INSTALL = $(BIN)/python -m pip install --quiet --no-compile

.PHONY: demo test quick coverage test-oldest test-newest constraints fuzz lint check docs package bench browser-test clean

# The demo needs the package and nothing else: tests, linters and browsers are installed by the targets that use them.
demo: $(PACKAGE)
	$(BIN)/rulefield demo

test: $(READY)
	$(BIN)/python -m pytest -n 2 --dist loadfile

# One file per layer, for work in progress.
QUICK = tests/test_layers.py tests/test_public_names.py tests/rules/test_rule_meaning.py tests/inference/chain/test_engines.py \
  tests/inference/graph/test_graph_engines.py tests/estimators/chain/test_scores.py tests/estimators/test_contract.py tests/cli/test_cli.py

quick: $(READY)
	$(BIN)/python -m pytest -n 2 --dist loadfile $(QUICK)

# Lines reached by the tests of engines and learners; kernels run as plain Python, so their lines count too.
coverage: $(READY)
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -n 2 --cov=rulefield --cov-report=term:skip-covered tests/kernels tests/inference tests/rules tests/models tests/problem

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: test lint

# The suite with the oldest dependencies that pyproject.toml allows, on Python 3.11, and with the newest on the newest Python here.
OLDEST = .venv-oldest
NEWEST = .venv-newest
NEWEST_PYTHON ?= $(shell for v in 3.14 3.13 3.12 3.11; do PYENV_VERSION=$$v python$$v -c "import sys; print(sys.executable)" 2>/dev/null && break; done)

test-oldest: $(OLDEST)/.ready
	$(OLDEST)/bin/python -m pytest -n 2 --dist loadfile

test-newest: $(NEWEST)/.ready
	$(NEWEST)/bin/python -m pytest -n 2 --dist loadfile

$(OLDEST)/.ready: pyproject.toml
	$(PYTHON) -m venv --clear $(OLDEST)
	$(OLDEST)/bin/python benchmarks/oldest.py > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install --quiet -e ".[dev]" -c $(OLDEST)/constraints.txt
	touch $@

$(NEWEST)/.ready: pyproject.toml
	$(or $(NEWEST_PYTHON),$(PYTHON)) -m venv --clear $(NEWEST)
	$(NEWEST)/bin/python -m pip install --quiet --upgrade --upgrade-strategy eager -e ".[dev]"
	touch $@

# The versions that .ci/run installs, so that its result does not depend on the day: refresh them, look at the tests, commit.
constraints:
	$(PYTHON) -m venv --clear build/constraints
	build/constraints/bin/python -m pip install --quiet hatchling -e ".[dev,docs]"
	build/constraints/bin/python -m pip freeze --all --exclude-editable --exclude pip --exclude setuptools > .ci/constraints.txt

# Hostile input for half an hour (or make fuzz MINUTES=5); exits 1 on any finding.
MINUTES ?= 30
fuzz: $(READY)
	$(BIN)/python benchmarks/fuzz.py --minutes $(MINUTES)

# The workbench in a real browser: needs Debian's packages chromium and chromium-driver. Pictures go to build/browser/.
browser-test: $(READY)
	@command -v chromium chromedriver >/dev/null || { echo "install a browser first: apt-get install chromium chromium-driver"; exit 2; }
	$(INSTALL) -e ".[browser]"
	$(BIN)/python benchmarks/browser.py

# The documentation site, into build/docs: warnings are errors, examples run, no network.
docs: $(READY)
	$(INSTALL) -e ".[docs]"
	rm -rf docs/gallery build/docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html -d build/doctrees docs build/docs

# Wheel and source distribution, checked, then installed and tried in an environment of their own, away from the repository.
package: $(READY)
	$(INSTALL) build twine
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	for file in dist/*.whl dist/*.tar.gz; do \
	  rm -rf build/clean && $(PYTHON) -m venv build/clean && build/clean/bin/python -m pip install --quiet "$$file" && \
	  (cd /tmp && "$(CURDIR)/build/clean/bin/rulefield" demo --n 40 --jobs 1) || exit 1; done

# The benchmarks read the real data sets from the folder in RULEFIELD_DATA.
bench: $(READY)
	$(INSTALL) -e ".[bench]"
	$(BIN)/python benchmarks/chain_vs_crfsuite.py

$(PACKAGE): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) -e .
	touch $(PACKAGE)

$(READY): $(PACKAGE)
	$(INSTALL) -e ".[dev]"
	touch $(READY)

clean:
	rm -rf build dist docs/gallery docs/sg_execution_times.rst $(VENV) $(OLDEST) $(NEWEST) .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
