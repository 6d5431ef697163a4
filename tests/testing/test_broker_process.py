from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from ottla.testing import LocalCluster
from ottla.testing.broker_process import BrokerProcess
from ottla.testing.ports import reserve_port

PATIENCE_S = 60.0


def test_a_broker_that_was_killed_comes_back_with_its_data() -> None:
    with LocalCluster(process=True) as cluster:
        cluster.create_topic("orders")
        producer = cluster.producer(value=str)
        for number in range(100):
            producer.send("orders", f"order {number}")
        producer.flush(PATIENCE_S)
        with cluster.consumer("orders", group="readers", value=str) as consumer:
            before = [record.value for record in consumer.take(60, PATIENCE_S)]
        port = cluster.port
        cluster.kill()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        cluster.restart()
        assert cluster.port == port
        producer.send("orders", "order 100").result(PATIENCE_S)
        with cluster.consumer("orders", group="readers", value=str) as consumer:
            after = [record.value for record in consumer.take(41, PATIENCE_S)]
    assert before + after == [f"order {number}" for number in range(101)]


def test_a_process_is_restarted_without_being_killed(tmp_path: Path) -> None:
    with LocalCluster(process=True, directory=tmp_path) as cluster:
        cluster.create_topic("orders")
        cluster.restart()
        with cluster.admin() as admin:
            assert admin.topics.names() == ["orders"]
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_stop_does_not_wait_for_records_to_a_killed_broker() -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    with LocalCluster(process=True) as cluster:
        producer = cluster.producer(value=str)
        producer.send("orders", "taken").result(PATIENCE_S)
        cluster.kill()
        lost = producer.send("orders", "lost")
        with pytest.raises(RuntimeError, match="does not run"):
            cluster.kill()
    assert lost.exception(PATIENCE_S) is not None
    assert len(os.listdir("/proc/self/fd")) <= descriptors


def test_the_brokers_output_is_in_the_error() -> None:
    cluster = LocalCluster(process=True, config={"num.partitions": "many"})
    with pytest.raises(RuntimeError, match=r"did not start: exit code 1(.|\n)*num\.partitions"):
        cluster.start()


def test_waiting_for_a_silent_broker_times_out(tmp_path: Path) -> None:
    properties = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)}
    with reserve_port() as elsewhere:
        process = BrokerProcess(properties, elsewhere.getsockname()[1])
        with pytest.raises(RuntimeError, match=r"did not answer in 0\.1 s"):
            process.start(timeout_s=0.1)


def test_a_reserved_port_goes_to_its_holder() -> None:
    with reserve_port() as reserved, socket.socket() as server, socket.socket() as thief:
        address = reserved.getsockname()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)
        with pytest.raises(OSError, match="in use"):
            thief.bind(address)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(address)
        server.listen()
        socket.create_connection(address).close()
