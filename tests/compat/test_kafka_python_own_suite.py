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

# Each line: a test that is left out, and why. Everything else in test/integration runs.
LEFT_OUT = {
    "test_create_describe_delete_acls": "needs an authorizer; ACLs are a later issue",
    "test_describe_metadata_quorum": "KRaft's quorum: there is none here",
    "TestSSLConnection": "starts a broker of its own with TLS",
    "test_sasl_integration": "starts a broker of its own with SASL",
}
# The suite expects the behaviour of an old broker, not only old versions.
NOT_WHEN_OLD = {
    "test_kafka_version_infer": "the broker is newer than the version under test",
    "test_describe_configs_broker_resource_returns_configs": "another config source",
}


# The client loses a wish for metadata: `set_topics` sets a flag that the answer to an older
# request, still on its way, takes back (kafka/cluster.py: `update_metadata`, and a TODO in
# `set_topics`). Such a consumer sleeps until its metadata is five minutes old, whatever the broker
# does. Seen with a proxy that holds answers for 50 ms: a request for no topics, `subscribe`, the
# answer, then "Sleeping 299.99". A few tests have a second try, therefore.
AGAIN_MAX = 2


@pytest.mark.timeout(2 * SUITE_TIMEOUT_S + 30)
@pytest.mark.parametrize("version", ["4.3", "2.4"])
def test_kafka_python_own_suite(broker: Broker, version: str, tmp_path: Path) -> None:
    assert SUITE.exists(), "run tools/setup_test_clients.sh first"
    left_out = {**LEFT_OUT, **({} if version == "4.3" else NOT_WHEN_OLD)}
    expression = " and ".join(f"not {name}" for name in left_out)
    wanted = ["test/integration", "-k", expression]
    passed, failed, said = run_suite(broker, version, wanted, tmp_path / "report.xml")
    if 0 < len(failed) <= AGAIN_MAX:
        print("kafka-python's own suite, once more:", *failed)
        again = run_suite(broker, version, list(failed), tmp_path / "again.xml")
        assert again[0] == len(failed), again[2]
        passed, failed = passed + again[0], again[1]
    assert not failed, "\n\n".join(failed.values()) + said
    assert passed >= (40 if version == "4.3" else 35), said


def run_suite(
    broker: Broker, version: str, wanted: list[str], report: Path
) -> tuple[int, dict[str, str], str]:
    """The number of passed tests, the results of the others, and the end of pytest's output."""
    environment = {
        **os.environ,
        "KAFKA_URI": f"kafka://{broker.bootstrap}",
        "KAFKA_VERSION": version,
        "KAFKA_ROOT": str(SUITE),
    }
    command = [
        sys.executable, "-m", "pytest", *wanted, "-q", "-p", "no:ottla", "--tb=short",
        "-p", "no:cacheprovider", "--timeout=120", "--rootdir", str(SUITE), "-o", "addopts=",
        "-o", "log_level=WARNING", f"--junitxml={report}",
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=SUITE, env=environment, capture_output=True, text=True, timeout=SUITE_TIMEOUT_S
    )
    passed, failed = read_report(report)
    return passed, failed, done.stdout[-3000:]


def read_report(report: Path) -> tuple[int, dict[str, str]]:
    """The number of passed tests, and the results of the others by id."""
    passed, failed = 0, {}
    for case in ElementTree.parse(report).iter("testcase"):
        problem = case.find("failure")
        if problem is None:
            problem = case.find("error")
        if problem is not None:
            where, name = case.get("classname", ""), case.get("name", "")
            failed[f"{file_of(where)}::{name}"] = f"{where}::{name}\n{problem.text}"
        elif case.find("skipped") is None:
            passed += 1
    return passed, failed


def file_of(where: str) -> str:
    """`test.integration.test_x.TestY` as pytest wants it: a file, and the class in it."""
    parts = where.split(".")
    for count in range(len(parts), 0, -1):
        path = "/".join(parts[:count]) + ".py"
        if (SUITE / path).exists():
            return "::".join([path, *parts[count:]])
    return where
