"""librdkafka's own tests (C), which are part of Confluent's JavaScript client on npm.

setup_test_clients.sh --maven compiles them. They are the tests that librdkafka runs against each
version of Apache Kafka before a release; TESTS_SKIP and SUBTESTS are the runner's own switches.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from compat_brokers import CACHE, Broker

FOLDER = CACHE / "librdkafka"
pytestmark = [pytest.mark.maven, pytest.mark.timeout(700)]

# Each line: a test that is left out, and why. The others run on a broker.
LEFT_OUT = {
    "0000 0004 0006 0025 0046 0062 0072 0080": "no broker: unit tests of the client",
    "0009 0104 0105 0106 0117 0120 0121 0138 0139 0143": "no broker: librdkafka's own mock",
    "0144 0145 0146 0147 0148 0149 0150 0151 0152": "no broker: librdkafka's own mock",
    "0097 0124 0126 0133 0134 0135 0136 0142 0115 0119 0064": "TLS, SASL or ACLs",
    "0098": "calls a transactional producer that is written in Java",
    "0103": "creates topics with three replicas",
    "0077": "compaction",
    "0101": "several brokers",
    "0052 0107 0109 0111": "call kafka-topics.sh from a Kafka distribution",
    "0066": "loads a plugin that is not compiled",
    "0038 0055 0079 8000 8001": "measurements, fork, manual",
    "0049 0068 0075 0076 0088 0094": "break sockets under other tests: SOCKET_TESTS below",
    "0131": "measures the time of a connection attempt to nobody",
    "0081": "runs below, one subtest at a time",
}

# With connections that stall and break; one at a time. (Not 0088, which now and then hangs in its
# own emulation of sockets while it refuses every connection to a broker.)
SOCKET_TESTS = "0049,0068,0075,0076,0094"

# Tests of groups, once more with the protocol of KIP-848 (the runner's own switch for it).
NEW_PROTOCOL_TESTS = (
    "0014,0029,0030,0033,0039,0041,0045,0056,0059,0067,0069,0070,0085,0102,0113,0118,0122,0130,0137"
)

# 0081_admin without what it has for ACLs, SCRAM, elections, and the group configs of KIP-848
# (which do_test_IncrementalAlterConfigs and do_test_DescribeConfigs alter and describe).
ADMIN_SUBTESTS = [
    "do_test_CreateTopics", "do_test_DeleteTopics", "do_test_CreatePartitions",
    "do_test_AlterConfigs", "do_test_DeleteRecords", "do_test_DeleteGroups",
    "do_test_ListConsumerGroups", "do_test_DescribeConsumerGroups", "do_test_DescribeTopics",
    "do_test_DescribeCluster", "do_test_DeleteConsumerGroupOffsets",
    "do_test_AlterConsumerGroupOffsets", "do_test_ListConsumerGroupOffsets", "do_test_ListOffsets",
    "do_test_unclean_destroy",
]  # fmt: skip


def run_suite(broker: Broker, workplace: Path, at_once: int = 3, **switches: str) -> dict[str, str]:
    """The outcome of each test by name: PASSED, or the line that says how it FAILED."""
    runner = FOLDER / "tests" / "test-runner"
    assert runner.exists(), "run tools/setup_test_clients.sh --maven first"
    workplace.mkdir()
    (workplace / "test.conf").write_text(f"bootstrap.servers={broker.bootstrap}\n")
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": f"{FOLDER / 'src'}:{FOLDER / 'src-cpp'}",
        "TEST_KAFKA_VERSION": "4.3.1",
        **switches,
    }
    done = subprocess.run(
        [str(runner), "-Q", f"-p{at_once}"],
        cwd=workplace, env=environment, capture_output=True, timeout=650,
    )  # fmt: skip
    output = re.sub(r"\x1b\[[0-9;]*m", "", (done.stdout + done.stderr).decode(errors="replace"))
    outcomes = {}
    for name, outcome, reason in re.findall(
        r"^\| (\S+)\s+\|\s+(PASSED|FAILED) \|[^|]*\|(.*)$", output, re.MULTILINE
    ):
        outcomes[name] = outcome if outcome == "PASSED" else f"{outcome}: {reason.strip()}"
    assert outcomes, output[-5000:]
    return outcomes


@pytest.fixture
def broker_with_four_partitions(own_broker: Callable[..., Broker]) -> Broker:
    return own_broker(num_partitions="4")


def test_librdkafka_own_suite(broker_with_four_partitions: Broker, tmp_path: Path) -> None:
    skip = ",".join(",".join(numbers.split()) for numbers in LEFT_OUT)
    outcomes = run_suite(broker_with_four_partitions, tmp_path / "work", TESTS_SKIP=skip)
    failed = {name: text for name, text in outcomes.items() if text != "PASSED"}
    assert not failed, "\n".join(f"{name} {text}" for name, text in failed.items())
    assert len(outcomes) >= 80


def test_librdkafka_own_tests_of_broken_connections(
    broker_with_four_partitions: Broker, tmp_path: Path
) -> None:
    outcomes = run_suite(
        broker_with_four_partitions, tmp_path / "work", at_once=1, TESTS=SOCKET_TESTS
    )
    failed = {name: text for name, text in outcomes.items() if text != "PASSED"}
    assert not failed, "\n".join(f"{name} {text}" for name, text in failed.items())
    assert len(outcomes) >= 5


def test_librdkafka_own_admin_tests(broker_with_four_partitions: Broker, tmp_path: Path) -> None:
    failed = []
    for number, name in enumerate(ADMIN_SUBTESTS):
        workplace = tmp_path / str(number)
        outcomes = run_suite(broker_with_four_partitions, workplace, TESTS="0081", SUBTESTS=name)
        if outcomes.get("0081_admin") != "PASSED":
            failed.append(f"{name} {outcomes}")
    assert not failed, "\n".join(failed)


def test_librdkafka_own_tests_with_the_new_group_protocol(
    broker_with_four_partitions: Broker, tmp_path: Path
) -> None:
    outcomes = run_suite(
        broker_with_four_partitions,
        tmp_path / "work",
        TESTS=NEW_PROTOCOL_TESTS,
        TEST_CONSUMER_GROUP_PROTOCOL="consumer",
    )
    failed = {name: text for name, text in outcomes.items() if text != "PASSED"}
    assert not failed, "\n".join(f"{name} {text}" for name, text in failed.items())
    assert len(outcomes) >= 19
