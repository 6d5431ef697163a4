"""The process of a broker: signals, exit codes, and errors of failed starts."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from data_path_broker import batch

from ottla.wire.apis import ApiKey
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.peer import Peer


class Process:
    def __init__(self, path: Path, listener: str = "PLAINTEXT://127.0.0.1:0", **more: str) -> None:
        properties = {"log.dirs": str(path / "logs"), "listeners": listener, **more}
        words = [f"--override={name}={value}" for name, value in properties.items()]
        self.log = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ottla.cli", "serve", *words],
            stderr=subprocess.PIPE,
            text=True,
        )

    def port(self) -> int:
        """Once it serves."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log += line
            if "started in" in line:
                return int(line.split("PLAINTEXT://127.0.0.1:")[1].split()[0])
        raise AssertionError(self.log)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ended(self, timeout_s: float = 60) -> int:
        assert self.process.stderr is not None
        code = self.process.wait(timeout_s)
        self.log += self.process.stderr.read()
        return code


@contextmanager
def serving(path: Path, **more: str) -> Iterator[Process]:
    process = Process(path, **more)
    try:
        yield process
    finally:
        process.process.kill()
        process.process.communicate()


class Caller:
    """A client with a blocking socket."""

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.peer = Peer()

    def send(self, key: ApiKey, request: Any, version: int) -> None:
        for part in self.peer.request(request, key, version, "caller"):
            self.sock.sendall(part)  # type: ignore[arg-type]

    def ask(self, key: ApiKey, request: Any, version: int) -> Any:
        self.send(key, request, version)
        while (response := self.peer.next_response()) is None:
            data = self.sock.recv(1 << 16)
            assert data
            self.peer.receive_data(data)
        return response.body


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path) as process:
        caller = Caller(process.port())
        topic = FetchTopic("t", partitions=[FetchPartition(partition_max_bytes=100)])
        caller.ask(ApiKey.METADATA, MetadataRequest([MetadataRequestTopic(name="t")]), 9)
        caller.send(ApiKey.FETCH, FetchRequest(max_wait=60_000, min_bytes=1, topics=[topic]), 12)
        process.signal(number)
        assert process.ended(4) == 0
        assert f"{number.name} received" in process.log
        assert process.log.rstrip().endswith("Shut down completed (ottla.broker)")
        assert (tmp_path / "logs" / ".kafka_cleanshutdown").exists()
        caller.sock.close()


def test_a_second_signal_ends_the_process_at_once(tmp_path: Path) -> None:
    """The first stop takes seconds, because a client does not read its large response."""
    with serving(tmp_path) as process:
        caller = Caller(process.port())
        caller.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        caller.ask(ApiKey.METADATA, MetadataRequest([MetadataRequestTopic(name="t")]), 9)
        data = [PartitionProduceData(0, batch(bytes(900_000)))]
        for _ in range(20):
            request = ProduceRequest(
                acks=1, topic_data=[TopicProduceData("t", partition_data=data)]
            )
            caller.ask(ApiKey.PRODUCE, request, 9)
        topic = FetchTopic("t", partitions=[FetchPartition(partition_max_bytes=1 << 30)])
        caller.send(ApiKey.FETCH, FetchRequest(topics=[topic]), 12)
        caller.sock.recv(10)
        process.signal(signal.SIGTERM)
        assert process.process.stderr is not None
        for line in process.process.stderr:
            if "Shutting down" in line:
                break
        with pytest.raises(subprocess.TimeoutExpired):
            process.process.wait(0.3)
        process.signal(signal.SIGINT)
        assert process.ended() == -signal.SIGINT
        caller.sock.close()
    with serving(tmp_path) as process:  # the files on disk survive that
        caller = Caller(process.port())
        topic = FetchTopic(
            "t", partitions=[FetchPartition(fetch_offset=19, partition_max_bytes=10)]
        )
        reply = caller.ask(ApiKey.FETCH, FetchRequest(topics=[topic]), 12)
        assert reply.responses[0].partitions[0].high_watermark == 20
        caller.sock.close()


def test_a_failed_start_is_reported_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listener = f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}"
        with serving(tmp_path, listener=listener) as process:
            assert process.ended() == 1
            assert f"The broker can't start: [Errno 98] cannot listen on {listener}" in process.log
            assert "Traceback" not in process.log
    with serving(tmp_path) as first:
        first.port()
        with serving(tmp_path) as second:
            assert second.ended() == 1
            assert "is in use by another process" in second.log
            assert "Traceback" not in second.log
    (tmp_path / "logs" / "ottla-metadata.journal").write_bytes(b"something else entirely")
    with serving(tmp_path) as process:
        assert process.ended() == 1
        assert "is not a metadata journal" in process.log
        assert "Traceback" not in process.log


def test_an_invalid_property_is_named(tmp_path: Path) -> None:
    with serving(tmp_path, **{"num.partitions": "many"}) as process:
        assert process.ended() == 1
        assert "num.partitions" in process.log
        assert "Traceback" not in process.log
