# `make run` starts a broker, `make test` runs every check. Both install what they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SPARK := $(VENV)/.spark
SPARK_TESTS := $(addprefix tests/,spark rows engine queries sql streams connect)
SPARK_TESTS_BESIDE := tests/testing tests/cli \
	$(addprefix tests/test_,deploy.py page_commands.py quickstarts.py)
COMPILED := .cache/compiled
WHEEL := .cache/wheel
PURE_WHEEL := .cache/wheel-pure
IS_COMPILED = $(shell test -e $(COMPILED)/.ready && \
	test -z "$$(find src setup.py -name '*.py' -newer $(COMPILED)/.ready)" && echo yes)
LIBRDKAFKA_SUITE := tests/compat/test_librdkafka_own_suite.py
# Real clients mostly wait: PROCESSES=4 runs test files in parallel, and each process has its own
# brokers (tests/conftest.py).
PROCESSES ?= 1
SIDE_BY_SIDE := $(if $(filter-out 1,$(PROCESSES)),-n $(PROCESSES) --dist loadfile --no-loadscope-reorder)

.PHONY: run up demo check coverage lock wheel pure-wheel test lint unit cluster spark clients compat maven delivery librdkafka suites compile test-compiled bench chaos fuzz messages functions-doc connectors-doc docs clean help

help:
	@echo "make run        start a broker on 127.0.0.1:9092, with its data in ./data; ARGS=\"--override NAME=VALUE\""
	@echo "make up         start broker, registry, SQL server and Connect worker; ARGS=\"--only broker,registry\""
	@echo "make demo       join orders and payments by SQL as they arrive"
	@echo "make check      lint, layers, types and fast tests: run it before each commit"
	@echo "make test       every check of CI but those of make compat"
	@echo "make unit       the tests without Spark, ZooKeeper and other clients"
	@echo "make spark      the tests on Spark: source, sink, SQL, Streams, Connect"
	@echo "make cluster    the tests with ZooKeeper: metadata store, clusters of processes"
	@echo "make clients    the tests with real clients of Kafka"
	@echo "make delivery   kill clients and brokers at random, and check all guarantees"
	@echo "make compat     tests with clients from Maven Central and Go modules, and of the compiled build"
	@echo "make librdkafka run librdkafka's own test suite, plain and over SASL_SSL"
	@echo "make suites     run the complete test suites of other clients; ARGS=\"--only franz-go --brokers 3 --peer kafka\""
	@echo "make coverage   measure the unit tests' coverage by room; ARGS=--write sets the floors"
	@echo "make bench      compare Ottla with Apache Kafka in one run"
	@echo "make chaos      let clients, brokers, ZooKeeper and network fail at random; minutes=10"
	@echo "make fuzz       feed random frames and segment files; minutes=5"
	@echo "make wheel      build a compiled wheel and test it in a new environment; make pure-wheel: a pure one"
	@echo "make compile    install that wheel into .cache/compiled, which make run uses while it is current"
	@echo "make lock       update all versions in constraints.txt"
	@echo "make docs       build the documentation site in build/site; ARGS=serve shows it while you write"
	@echo "make messages   generate src/ottla/wire/messages from kio"
	@echo "make functions-doc   generate docs/sql-functions.md from the table of functions"
	@echo "make connectors-doc  generate the tables of docs/connectors.md from the connectors"
	@echo "make clean      delete .venv, build, dist and .cache"

# Each step says what it does; pip and uv draw their own bars on a terminal. constraints.txt has the
# exact versions of everything, so that all machines test the same.
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

# `make run` does not need this: Spark is half a gigabyte.
$(SPARK): $(READY)
	@echo "== Setting up Spark in $(VENV), once: half a gigabyte, a minute or more"
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip install --compile-bytecode \
		--constraint constraints.txt --editable '.[spark,registry,rules]'
	@touch $@

# The compiled broker, if `make compile` has built the current src.
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

# For each commit: less than a minute, because mypy has a cache.
FAST_TESTS := tests/test_tidy.py $(addprefix tests/,wire records auth config replica)
check: $(SPARK)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/pytest -q -n 2 $(FAST_TESTS)

# The coverage of `make unit` by room, compared with tests/coverage_floors.txt; ARGS=--write sets them.
coverage: $(SPARK)
	$(BIN)/pytest -q -n 2 --ignore=tests/compat -m $(UNIT) \
		--cov=ottla --cov-report= --cov-report=json:.cache/coverage.json
	$(BIN)/python tools/coverage_by_room.py .cache/coverage.json $(ARGS)

UNIT := "not delivery and not spark and not zookeeper and not postgres and not maven and not long"
unit: $(SPARK)
	$(BIN)/pytest -q -n 2 --ignore=tests/compat -m $(UNIT)

# The tests that start ZooKeeper: the metadata store, and clusters of real processes.
cluster: $(SPARK)
	./tools/setup_test_clients.sh --packages
	$(BIN)/pytest -q --ignore=tests/compat -m "zookeeper and not delivery"

# Every check but those of compat, in parallel lanes; it stops at the first failure.
test: $(SPARK)
	./tools/parts.sh "lint unit delivery" "clients cluster" "spark"

# Real clients, on a separate broker process.
clients: $(SPARK)
	./tools/setup_test_clients.sh
	$(BIN)/pytest -q $(SIDE_BY_SIDE) tests/compat -m "not maven"

demo: $(SPARK)
	$(BIN)/python examples/demo.py $(ARGS)

# The tests that start Spark: in one process, so that it starts once. Connectors use PostgreSQL.
spark: $(SPARK)
	./tools/setup_test_clients.sh --packages
	$(BIN)/pytest -q $(SPARK_TESTS) $(SPARK_TESTS_BESIDE) -m "(spark or postgres) and not delivery"

# Clients and the broker are killed at random.
delivery: $(SPARK)
	./tools/setup_test_clients.sh
	$(BIN)/pytest -q -s tests/chaos tests/delivery -m delivery

# Clients and tools from Maven Central and Go modules, then the compiled build.
compat: $(SPARK)
	./tools/parts.sh "maven" "wheel test-compiled"

maven: $(SPARK)
	./tools/setup_test_clients.sh --maven
	$(BIN)/pytest -q $(SIDE_BY_SIDE) tests/compat tests/registry -m maven \
		--ignore=$(LIBRDKAFKA_SUITE)

# librdkafka's own C tests, all of them again over SASL_SSL, and its tests of TLS and SASL: an hour
# with compilation, so not part of CI.
librdkafka: $(READY)
	./tools/setup_test_clients.sh --librdkafka
	$(BIN)/pytest -q $(LIBRDKAFKA_SUITE)
	$(BIN)/python -m suites --brokers 3 \
		--only "librdkafka, security,librdkafka, OIDC,librdkafka, SASL_SSL"

# The suites of other clients, on one broker and on three; takes hours. SUITE_SOURCES names a folder
# with checkouts of those whose tests no registry has.
suites: $(READY)
	./tools/setup_test_clients.sh --packages
	$(BIN)/python -m suites $(ARGS)

# The hot modules as C extensions, in a separate environment: the editable install stays interpreted.
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

# A compiled wheel, as by `pip wheel .`. Files of an earlier build would get into it.
$(WHEEL)/.ready: $(READY) setup.py $(shell find src -name '*.py')
	@echo "== $(WHEEL): the hot modules, by mypyc and the C compiler (some minutes)"
	rm -rf $(WHEEL) build/lib*
	OTTLA_COMPILE=1 $(BIN)/uv build --quiet --wheel --python $(BIN)/python --out-dir $(WHEEL)
	@touch $@

# In an empty environment: a broker, and one record sent through it by Kafka's console tools.
wheel: $(WHEEL)/.ready
	rm -rf $(WHEEL)/fresh
	$(PYTHON) -m venv --without-pip $(WHEEL)/fresh
	$(BIN)/uv pip install --quiet --python $(WHEEL)/fresh/bin/python $(WHEEL)/*.whl
	$(WHEEL)/fresh/bin/python tools/check_wheel.py

# The wheel for platforms without a compiled one, tested in the same way.
pure-wheel: $(READY)
	rm -rf $(PURE_WHEEL) build/lib
	OTTLA_COMPILE=0 $(BIN)/uv build --quiet --wheel --python $(BIN)/python --out-dir $(PURE_WHEEL)
	$(PYTHON) -m venv --without-pip $(PURE_WHEEL)/fresh
	$(BIN)/uv pip install --quiet --python $(PURE_WHEEL)/fresh/bin/python $(PURE_WHEEL)/*.whl
	$(PURE_WHEEL)/fresh/bin/python tools/check_wheel.py --pure

# The tests of the compiled modules (setup.py), on the compiled build, which must behave like the
# source. Of the broker's tests those of Produce and Fetch in every version.
COMPILED_TESTS := tests/net tests/records tests/storage tests/replica tests/wire/test_connection.py \
	tests/spark/test_record_spans.py tests/spark/test_vector_spans.py tests/rows/formats/test_avro_columns.py $(addprefix tests/broker/test_,data_path_*.py fetch_sessions.py \
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
	$(BIN)/python tests/delivery/chaos_connect.py --minutes $(or $(minutes),10) --sql
	$(BIN)/python tests/delivery/chaos_spark.py --minutes $(or $(minutes),10) --streams

fuzz: $(READY)
	$(BIN)/python tools/fuzz.py --minutes $(or $(minutes),5)

messages: $(READY)
	$(BIN)/python tools/generate_messages.py

functions-doc: $(READY)
	$(BIN)/python tools/sql_functions.py

connectors-doc: $(SPARK)
	$(BIN)/python tools/connectors_doc.py

# Zensical reads src without importing it.
docs: $(READY)
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip install --quiet --group docs \
		--constraint constraints.txt
	$(BIN)/python tools/rooms_picture.py
	$(BIN)/zensical $(or $(ARGS),build --strict)

# Newer versions of everything, without the URL of an index, because each machine has its own.
lock: $(READY)
	$(BIN)/uv pip compile pyproject.toml --quiet --upgrade --universal --python-version 3.11 \
		--all-extras --group dev --group docs --no-header --no-annotate --output-file constraints.txt

clean:
	rm -rf $(VENV) build dist .cache
