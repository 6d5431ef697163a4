"""kafka-python's own integration tests, run from its source distribution.

setup_test_clients.sh unpacks it into .cache/kafka-python; its tests use a broker that already runs
when KAFKA_URI names one. KAFKA_VERSION makes the client behave as it would with a broker of
that age, so one suite speaks the newest versions of the protocol and old ones too.

The other clients' distributions have no tests in them: aiokafka and confluent-kafka ship none in
their source distributions, kafkajs ships none on npm.
"""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from compat_brokers import CACHE, Broker

SUITE = CACHE / "kafka-python"
SUITE_TIMEOUT_S = 420

# Each line: what is left out, and why. Everything else in test/integration runs.
LEFT_OUT = {
    "test_create_describe_delete_acls": "needs an authorizer; ACLs are a later issue",
    "test_describe_metadata_quorum": "KRaft's quorum: there is none here",
    "TestSSLConnection": "starts a broker of its own with TLS",
    "test_sasl_integration": "starts a broker of its own with SASL",
}
# The suite expects an old broker to answer as old brokers did, not only to speak old versions.
NOT_WHEN_OLD = {
    "test_kafka_version_infer": "the broker is newer than the version under test",
    "test_describe_configs_broker_resource_returns_configs": "another config source",
}


@pytest.mark.timeout(SUITE_TIMEOUT_S + 30)
@pytest.mark.parametrize("version", ["4.3", "2.4"])
def test_kafka_python_own_suite(broker: Broker, version: str, tmp_path: Path) -> None:
    assert SUITE.exists(), "run tools/setup_test_clients.sh first"
    report = tmp_path / "report.xml"
    environment = {
        **os.environ,
        "KAFKA_URI": f"kafka://{broker.bootstrap}",
        "KAFKA_VERSION": version,
        "KAFKA_ROOT": str(SUITE),
    }
    left_out = dict(LEFT_OUT)
    if version != "4.3":
        left_out.update(NOT_WHEN_OLD)
    expression = " and ".join(f"not {name}" for name in left_out)
    command = [
        sys.executable, "-m", "pytest", "test/integration", "-q", "-p", "no:ottla", "--tb=short",
        "-p", "no:cacheprovider", "--timeout=120", "--rootdir", str(SUITE), "-o", "addopts=",
        "-o", "log_level=WARNING", "-k", expression, f"--junitxml={report}",
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=SUITE, env=environment, capture_output=True, text=True, timeout=SUITE_TIMEOUT_S
    )
    passed, failed = read_report(report)
    assert not failed, "\n\n".join(failed) + done.stdout[-2000:]
    assert passed >= (40 if version == "4.3" else 35), done.stdout[-3000:]


def read_report(report: Path) -> tuple[int, list[str]]:
    """How many tests passed, and what the others said."""
    passed, failed = 0, []
    for case in ElementTree.parse(report).iter("testcase"):
        problem = case.find("failure")
        if problem is None:
            problem = case.find("error")
        if problem is not None:
            failed.append(f"{case.get('classname')}::{case.get('name')}\n{problem.text}")
        elif case.find("skipped") is None:
            passed += 1
    return passed, failed
