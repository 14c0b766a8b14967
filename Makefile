# Each target sets up everything it needs in a fresh clone.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   ?= .venv
BIN     = $(VENV)/bin
READY   = $(VENV)/.ready

.PHONY: demo test lint check bench clean

demo: $(READY)
	$(BIN)/rulefield demo

test: $(READY)
	$(BIN)/python -m pytest -n 2 --dist loadfile

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: test lint

# The benchmarks read the real data sets from the folder in RULEFIELD_DATA.
bench: $(READY)
	$(BIN)/python -m pip install --quiet -e ".[bench]"
	$(BIN)/python benchmarks/chain_vs_crfsuite.py

$(READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -e ".[dev]"
	touch $(READY)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
