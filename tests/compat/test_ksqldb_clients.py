"""Clients of ksqlDB that others wrote, against `ottla sql-server`.

npm's ksqldb-client and ksqldb-js (tools/clients/ksqldb/checks.js), PyPI's ksqldb (checks.py). All
of them speak HTTP/2 with prior knowledge, and some HTTP/1.1 beside it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from compat_brokers import CACHE, REPOSITORY
from compat_checks import Results, names_in, run_checks
from compat_sql import SqlServer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1000)]

FOLDER = REPOSITORY / "tools" / "clients" / "ksqldb"
NODE = FOLDER / "checks.js"
PYTHON = FOLDER / "checks.py"
RESTARTED = "ksqldb for Python finds everything after a restart"
BEFORE = [entry for entry in names_in(PYTHON) if entry != RESTARTED]


@pytest.fixture(scope="module")
def server(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlServer]:
    made = SqlServer(bootstrap, tmp_path_factory.mktemp("sql"), "compat_")
    made.start()
    yield made
    made.close()


@pytest.fixture(scope="module")
def of_node(server: SqlServer) -> Results:
    assert (CACHE / "ksqldb" / "node_modules").exists(), "run tools/setup_test_clients.sh first"
    return run_checks(["node", str(NODE), server.url])


@pytest.fixture(scope="module")
def of_python(server: SqlServer) -> Results:
    return run_checks([sys.executable, str(PYTHON), server.url, *BEFORE])


@pytest.mark.parametrize("name", names_in(NODE))
def test_ksqldb_clients_for_node(of_node: Results, name: str) -> None:
    of_node.expect(name)


@pytest.mark.parametrize("name", BEFORE)
def test_ksqldb_for_python(of_python: Results, name: str) -> None:
    of_python.expect(name)


def test_a_restarted_server_has_everything(server: SqlServer, of_python: Results) -> None:
    del of_python  # the created name is what the test looks up
    assert server.stop() == 0, server.tail()
    server.start()
    run_checks([sys.executable, str(PYTHON), server.url, RESTARTED]).expect(RESTARTED)
