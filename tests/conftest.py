"""How tests are spread over processes where a part of the checks has several (`--dist loadfile`).

Each process has brokers, a Spark and folders of its own, as every run has. The tests of a file stay
together, in their order: fixtures of a module are made once. Files that take long come first, so
that at the end no process waits for another.
"""

from __future__ import annotations

import pytest

# The longest first.
LONG = (
    "test_sql_servers.py",
    "test_ksqldb_clients.py",
    "test_compaction.py",
    "test_franz_go.py",
    "test_kafka_tools.py",
    "test_spark_formats.py",
    "test_spark_real_time.py",
    "test_data_directory.py",
    "test_restarts.py",
    "test_kafka_python_own_suite.py",
    "test_java_client.py",
    "test_kafkajs.py",
    "test_kafka_connect.py",
    "test_confluent_quotas.py",
)
FIRST = {name: place for place, name in enumerate(LONG)}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):  # one of several processes
        items.sort(key=lambda item: FIRST.get(item.path.name, len(FIRST)))
