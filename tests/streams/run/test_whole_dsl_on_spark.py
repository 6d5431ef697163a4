"""Nearly all of the DSL on Spark: the same as in TopologyTestDriver, record by record.

The application is stopped and started again between phases of its input; the last time it has lost
its state directory, and is restored from its topics.
"""

from __future__ import annotations

import logging
import time
from contextlib import closing

import pytest
from bazaar import FINAL, INPUTS, PARTITIONS, SEQUENCES, Outputs, bazaar, expected, partition, same
from bazaar import phase as phase_of
from running_streams import WAIT_S, Mill

from ottla.client import Producer
from ottla.client.protocol.cluster_client import ClusterClient
from ottla.engine.restore import committed_records, end_offsets
from ottla.streams.run.application import Application, ApplicationState

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
OUTPUTS = (*SEQUENCES, *FINAL)
CONFIG = {"statestore.cache.max.bytes": 0}


def send(mill: Mill, rows: list[tuple[str, str, str | None, int]]) -> None:
    with Producer(mill.cluster.bootstrap_servers, key=str, value=str) as producer:
        for topic, key, value, time_ms in rows:
            place = partition(key)
            producer.send(topic, value, key=key, partition=place, timestamp_ms=time_ms)
        producer.flush()


def read(mill: Mill) -> Outputs:
    """All committed records of all topics."""
    found: Outputs = {topic: {} for topic in OUTPUTS}
    with closing(ClusterClient(mill.cluster.bootstrap_servers, {})) as brokers:
        for topic, keys in found.items():
            for number, end in enumerate(end_offsets(brokers, topic)):
                for row in committed_records(brokers, topic, number, end):
                    keys.setdefault(row.key or b"", []).append(row.value)
    return found


def run(mill: Mill, app: Application, wanted: Outputs) -> None:
    """Waits for all records, and compares them afterwards, so that extra ones are found."""
    app.start()
    deadline = time.monotonic() + WAIT_S
    while wrong := same(read(mill), wanted):
        assert time.monotonic() < deadline, (wrong, mill.status())
        assert app.state not in (ApplicationState.ERROR, ApplicationState.NOT_RUNNING), app.error
        time.sleep(0.2)
    assert app.close()
    assert same(read(mill), wanted) == []


def test_spark_gives_the_results_of_the_test_driver(
    mill: Mill, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, logger="ottla.streams")
    mill.topics(**dict.fromkeys((*INPUTS, *OUTPUTS), PARTITIONS))
    phases = [phase_of(number) for number in range(3)]
    for count, rows in enumerate(phases, 1):
        send(mill, rows)
        if count == len(phases):
            mill.state_dir = mill.state_dir.with_name("elsewhere")
        run(mill, mill.application(bazaar(), config=CONFIG), expected(phases[:count]))
