# Two commands do all set-up: `make conformance` judges the default target, `make test` tests this project.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
RECORD := out/conformance.jsonl
PREVIOUS := out/previous.jsonl
REPORT := out/conformance.html

.PHONY: conformance test format benchmark nightly clean

conformance: $(INSTALLED)
	@rm -f $(REPORT); if [ -s $(RECORD) ]; then mv -f $(RECORD) $(PREVIOUS); fi
	@status=0; $(BIN)/python -m pytest conformance --record $(RECORD) $(ARGS) || status=$$?; \
	if [ -s $(PREVIOUS) ]; then since="--previous $(PREVIOUS)"; fi; \
	if [ -s $(RECORD) ]; then $(BIN)/python -m reports build $(RECORD) $$since -o $(REPORT) || [ $$status -ne 0 ] || status=1; fi; \
	exit $$status

test: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests -n auto -q

benchmark: $(INSTALLED)
	$(BIN)/python -m pytest conformance/bench $(ARGS)
	$(BIN)/python -m pytest tests/benchmarks/bench_suite.py --benchmark-columns=median,iqr,rounds --benchmark-sort=name

# make itself answers 2 to every failure; the last line, and out/nightly/latest/outcome.json, tell the exit code.
nightly: $(INSTALLED)
	@$(BIN)/python -m conformance nightly $(ARGS)

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "error: Python 3.11 or newer is needed: make PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "error: cannot make a virtual environment: on Debian, apt-get install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

# The nights stay: nothing makes their history again.
clean:
	rm -rf $(VENV) $(RECORD)* $(PREVIOUS) $(REPORT)
