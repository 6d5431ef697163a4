# `make run` starts a broker, `make test` runs every check. Both set up what they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SPARK := $(VENV)/.spark
SPARK_TESTS := $(addprefix tests/,spark rows engine queries sql streams connect)
COMPILED := .cache/compiled
WHEEL := .cache/wheel
PURE_WHEEL := .cache/wheel-pure
IS_COMPILED = $(shell test -e $(COMPILED)/.ready && \
	test -z "$$(find src setup.py -name '*.py' -newer $(COMPILED)/.ready)" && echo yes)
LIBRDKAFKA_SUITE := tests/compat/test_librdkafka_own_suite.py
# Real clients wait more than they work: PROCESSES=4 runs files of tests side by side, each process
# with brokers of its own (tests/conftest.py).
PROCESSES ?= 1
SIDE_BY_SIDE := $(if $(filter-out 1,$(PROCESSES)),-n $(PROCESSES) --dist loadfile --no-loadscope-reorder)

.PHONY: run up demo check coverage lock wheel pure-wheel test lint unit cluster spark clients compat maven delivery librdkafka suites compile test-compiled bench chaos fuzz messages functions-doc connectors-doc clean help

help:
	@echo "make run      start a broker on 127.0.0.1:9092 (data in ./data); ARGS=\"--override NAME=VALUE\""
	@echo "make check    lint, layers, types, fast tests: before each commit"
	@echo "make test     lint, types, layers, unit tests, Spark, real clients"
	@echo "make unit, cluster, spark, clients, delivery   one part of it"
	@echo "make spark    what starts Spark: source, sink, SQL"
	@echo "make cluster  what starts ZooKeeper: the metadata store, clusters of processes"
	@echo "make up       broker, registry, SQL server and Connect worker; ARGS=\"--only broker,registry\""
	@echo "make demo     orders and payments, joined by SQL while they come"
	@echo "make compat   clients and tools from Maven Central and Go modules"
	@echo "make librdkafka   librdkafka's own test suite, plain and over SASL_SSL"
	@echo "make suites   the suites of other clients, whole; ARGS=\"--only franz-go --brokers 3 --peer kafka\""
	@echo "make coverage what the unit tests reach, by room, and the floors; ARGS=--write sets these"
	@echo "make wheel    a compiled wheel, tried in an environment of its own; make pure-wheel"
	@echo "make compile  that wheel as .cache/compiled/bin/ottla, which make run uses while it is current"
	@echo "make lock     newer versions of everything into constraints.txt"
	@echo "make bench    Ottla beside Apache Kafka in one run"
	@echo "make chaos    clients, brokers, ZooKeeper and network fail at random (minutes=10)"
	@echo "make fuzz     random frames and segment files (minutes=5)"
	@echo "make messages write src/ottla/wire/messages anew from kio"
	@echo "make functions-doc write docs/sql-functions.md anew from the table of functions"
	@echo "make connectors-doc write the tables of docs/connectors.md anew from the connectors"

# Each step says what it does; pip and uv draw bars of their own on a terminal. constraints.txt has the
# exact versions of everything: what one machine tests, the next one has.
$(READY): pyproject.toml constraints.txt
	@echo "== Setting up $(VENV), once (about a minute): a Python environment"
	@$(PYTHON) -m venv $(VENV)
	@echo "== $(VENV): the installer"
	@$(BIN)/python -m pip install --quiet --progress-bar on --upgrade pip uv
	@echo "== $(VENV): Ottla, its libraries, and what its tests need"
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip install --group dev \
		--constraint constraints.txt --compile-bytecode --editable .
	@echo "== $(VENV): bytecode, so that the broker starts in a fraction of a second"
	@$(BIN)/python -m compileall -q src
	@touch $@

# Everything that `make run` can do without: Spark is half a gigabyte.
$(SPARK): $(READY)
	@echo "== Setting up Spark in $(VENV), once: half a gigabyte, a minute or more"
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip install --compile-bytecode \
		--constraint constraints.txt --editable '.[spark,registry,rules]'
	@touch $@

# Compiled, if `make compile` has built what is in src now.
run: $(READY)
	$(if $(IS_COMPILED),$(COMPILED)/bin,$(BIN))/ottla serve --override log.dirs=./data $(ARGS)

up: $(SPARK)
	$(BIN)/ottla up $(ARGS)

lint: $(SPARK)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini
	$(BIN)/lint-imports

# Before each commit: what takes less than a minute. mypy's cache makes the second time quick.
FAST_TESTS := tests/test_tidy.py $(addprefix tests/,wire records auth config replica)
check: $(SPARK)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/pytest -q -n 2 $(FAST_TESTS)

# What `make unit` reaches, by room, held against tests/coverage_floors.txt; ARGS=--write sets them.
coverage: $(SPARK)
	$(BIN)/pytest -q -n 2 --ignore=tests/compat -m $(UNIT) \
		--cov=ottla --cov-report= --cov-report=json:.cache/coverage.json
	$(BIN)/python tools/coverage_by_room.py .cache/coverage.json $(ARGS)

UNIT := "not delivery and not spark and not zookeeper and not postgres and not maven and not long"
unit: $(SPARK)
	$(BIN)/pytest -q -n 2 --ignore=tests/compat -m $(UNIT)

# What starts ZooKeeper: the metadata store, and clusters of real processes.
cluster: $(SPARK)
	./tools/setup_test_clients.sh --packages
	$(BIN)/pytest -q --ignore=tests/compat -m "zookeeper and not delivery"

# Every check but those of compat, in lanes beside each other: it stops at the first that fails.
test: $(SPARK)
	./tools/parts.sh "lint unit delivery" "clients cluster" "spark"

# Real clients, on a broker in a process of its own.
clients: $(SPARK)
	./tools/setup_test_clients.sh
	$(BIN)/pytest -q $(SIDE_BY_SIDE) tests/compat -m "not maven"

demo: $(SPARK)
	$(BIN)/python examples/demo.py $(ARGS)

# What starts Spark: in one process, so that it is started once. Connectors have a PostgreSQL.
spark: $(SPARK)
	./tools/setup_test_clients.sh --packages
	$(BIN)/pytest -q $(SPARK_TESTS) tests/testing tests/cli tests/test_deploy.py -m "(spark or postgres) and not delivery"

# Clients and the broker are killed at random.
delivery: $(SPARK)
	./tools/setup_test_clients.sh
	$(BIN)/pytest -q -s tests/chaos tests/delivery -m delivery

# Clients and tools from Maven Central and Go modules, then what mypyc makes of the source.
compat: $(SPARK)
	./tools/parts.sh "maven" "wheel test-compiled"

maven: $(SPARK)
	./tools/setup_test_clients.sh --maven
	$(BIN)/pytest -q $(SIDE_BY_SIDE) tests/compat tests/registry -m maven \
		--ignore=$(LIBRDKAFKA_SUITE)

# librdkafka's own C tests, then all of them over SASL_SSL, and those of TLS and SASL themselves: an
# hour with the compiling, and so not a part of CI.
librdkafka: $(READY)
	./tools/setup_test_clients.sh --librdkafka
	$(BIN)/pytest -q $(LIBRDKAFKA_SUITE)
	$(BIN)/python -m suites --brokers 3 \
		--only "librdkafka, security,librdkafka, OIDC,librdkafka, SASL_SSL"

# The suites of other clients, on one broker and on three: hours. SUITE_SOURCES names a folder with
# checkouts of those whose tests are in no registry.
suites: $(READY)
	./tools/setup_test_clients.sh --packages
	$(BIN)/python -m suites $(ARGS)

# The hot modules as C extensions, in an environment of its own: the editable install stays plain.
$(COMPILED)/.ready: $(WHEEL)/.ready
	@echo "== $(COMPILED): a Python environment"
	@test -x $(COMPILED)/bin/python || $(PYTHON) -m venv $(COMPILED)
	@echo "== $(COMPILED): the compiled wheel, and what its tests need"
	@$(BIN)/uv pip install --python $(COMPILED)/bin/python --constraint constraints.txt \
		--compile-bytecode --reinstall-package ottla --group dev \
		"$$(echo $(WHEEL)/*.whl)[spark,registry,rules]"
	@echo "== $(COMPILED)/bin/ottla is there"
	@touch $@

compile: $(COMPILED)/.ready

# A compiled wheel, as `pip wheel .` makes it. setuptools would put into it what an earlier build left.
$(WHEEL)/.ready: $(READY) setup.py $(shell find src -name '*.py')
	@echo "== $(WHEEL): the hot modules, by mypyc and the C compiler (some minutes)"
	rm -rf $(WHEEL) build/lib*
	OTTLA_COMPILE=1 $(BIN)/uv build --quiet --wheel --python $(BIN)/python --out-dir $(WHEEL)
	@touch $@

# In an environment that has nothing else: a broker, and a record through it by Kafka's console tools.
wheel: $(WHEEL)/.ready
	rm -rf $(WHEEL)/fresh
	$(PYTHON) -m venv --without-pip $(WHEEL)/fresh
	$(BIN)/uv pip install --quiet --python $(WHEEL)/fresh/bin/python $(WHEEL)/*.whl
	$(WHEEL)/fresh/bin/python tools/check_wheel.py

# The wheel for machines that none of the compiled ones is for, tried in the same way.
pure-wheel: $(READY)
	rm -rf $(PURE_WHEEL) build/lib
	OTTLA_COMPILE=0 $(BIN)/uv build --quiet --wheel --python $(BIN)/python --out-dir $(PURE_WHEEL)
	$(PYTHON) -m venv --without-pip $(PURE_WHEEL)/fresh
	$(BIN)/uv pip install --quiet --python $(PURE_WHEEL)/fresh/bin/python $(PURE_WHEEL)/*.whl
	$(PURE_WHEEL)/fresh/bin/python tools/check_wheel.py --pure

# The tests of what is compiled (setup.py), on the compiled build: what mypyc makes of the source must
# behave as the source. Of the broker those that Produce and Fetch pass through in every version.
COMPILED_TESTS := tests/net tests/records tests/storage tests/replica tests/wire/test_connection.py \
	tests/spark/test_columns.py tests/spark/test_vector_columns.py tests/rows/formats/test_avro_columns.py $(addprefix tests/broker/test_,data_path_*.py sessions.py \
	exactly_once.py transactional_produce.py replication*.py metrics_*.py share_fetching.py quotas.py \
	security.py)

test-compiled: compile
	$(COMPILED)/bin/pytest -q -n 2 $(COMPILED_TESTS)

bench: compile
	$(BIN)/python -m benchmarks --ottla $(COMPILED)/bin/ottla $(ARGS)

chaos: $(SPARK)
	./tools/setup_test_clients.sh --maven
	OTTLA_MUTANTS=1 $(BIN)/pytest -q tests/delivery/test_delivery_mutants.py \
		tests/chaos/test_chaos_mutants.py
	$(BIN)/pytest -q -s tests/delivery $(SPARK_TESTS) -m long
	$(BIN)/python tests/simulation/simulate.py --minutes 2
	$(BIN)/python tests/chaos/storms.py --minutes $(or $(minutes),10) $(ARGS)
	$(BIN)/python tests/chaos/storms.py --minutes $(or $(minutes),10) --secured $(ARGS)
	$(BIN)/python tests/delivery/chaos.py --minutes $(or $(minutes),10) $(ARGS)
	$(BIN)/python tests/delivery/chaos_spark.py --minutes $(or $(minutes),10)
	$(BIN)/python tests/delivery/chaos_connect.py --minutes $(or $(minutes),10)
	$(BIN)/python tests/delivery/chaos_spark.py --minutes $(or $(minutes),10) --streams

fuzz: $(READY)
	$(BIN)/python tools/fuzz.py --minutes $(or $(minutes),5)

messages: $(READY)
	$(BIN)/python tools/generate_messages.py

functions-doc: $(READY)
	$(BIN)/python tools/sql_functions.py

connectors-doc: $(SPARK)
	$(BIN)/python tools/connectors_doc.py

# Newer versions of everything. No index is written down: each machine has its own.
lock: $(READY)
	$(BIN)/uv pip compile pyproject.toml --quiet --upgrade --universal --python-version 3.11 \
		--all-extras --group dev --no-header --no-annotate --output-file constraints.txt

clean:
	rm -rf $(VENV) build dist .cache
