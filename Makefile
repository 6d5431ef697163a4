# `make run` starts a broker, `make test` runs every check. Both set up what they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: run test lint unit compat bench chaos fuzz messages clean help

help:
	@echo "make run      start a broker on 127.0.0.1:9092 (data in ./data)"
	@echo "make test     lint, types, layers, unit tests, real clients"
	@echo "make compat   clients and tools from Maven Central and Go modules"
	@echo "make bench    Ottla beside Apache Kafka in one run"
	@echo "make fuzz     random frames and segment files (minutes=5)"
	@echo "make messages write src/ottla/wire/messages anew from kio"

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip uv
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip install --quiet --group dev --compile-bytecode --editable .
	$(BIN)/python -m compileall -q src
	@touch $@

run: $(READY)
	$(BIN)/ottla serve --override log.dirs=./data

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(READY)
	$(BIN)/pytest -q -n 2 --ignore=tests/compat

test: lint unit
	./tools/setup_test_clients.sh
	$(BIN)/pytest -q tests/compat -m "not maven"

compat: $(READY)
	./tools/setup_test_clients.sh --maven
	$(BIN)/pytest -q tests/compat -m maven

bench: $(READY)
	$(BIN)/python -m benchmarks $(ARGS)

fuzz: $(READY)
	$(BIN)/python tools/fuzz.py --minutes $(or $(minutes),5)

messages: $(READY)
	$(BIN)/python tools/generate_messages.py

clean:
	rm -rf $(VENV) build dist .cache
