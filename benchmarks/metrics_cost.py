"""What metrics cost: the CPU time of a request until its reply, with metrics and without.

    python -m benchmarks.metrics_cost [--rounds 12] [--partitions 1000]

No socket, no client: one broker in this process serves frames of Produce (one record) and Fetch, in
turn as it is and through what counts. The best round of each is shown. And the page: how long it
takes to make with so many partitions.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from ottla.broker.broker import Broker
from ottla.cluster.topics import TopicSpec
from ottla.config import ServerConfig
from ottla.net.channel import RequestHandler
from ottla.records.batch import build_batch
from ottla.records.record import Record
from ottla.wire.apis import ApiKey
from ottla.wire.connection import Connection
from ottla.wire.fields import Message
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.peer import Peer

REQUESTS = 2500
TOPIC = "cost"


def frame(request: Message, key: ApiKey, version: int) -> bytes:
    parts = Peer().request(request, key, version, "cost")
    return b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]


def produce_frame() -> bytes:
    batch = build_batch([Record(timestamp=1, key=None, value=b"x" * 100)])
    topic = TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, batch)])
    return frame(ProduceRequest(acks=1, timeout=1000, topic_data=[topic]), ApiKey.PRODUCE, 9)


def fetch_frame() -> bytes:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchTopic(TOPIC, partitions=[partition])
    return frame(FetchRequest(max_wait=0, min_bytes=1, topics=[topic]), ApiKey.FETCH, 11)


def cpu_us(app: RequestHandler, data: bytes) -> float:
    """The CPU time of one request, in microseconds."""
    session = app.connected("PLAINTEXT", "127.0.0.1", 1, lambda _: None, lambda _: None)
    wire = Connection(app.served, frame_bytes_max=1 << 20)
    started = time.process_time_ns()
    for _ in range(REQUESTS):
        wire.get_buffer(len(data))[: len(data)] = data
        wire.received(len(data))
        request = wire.next_request()
        assert request is not None
        wire.reply(request, app.dispatch(session, request))
    spent = time.process_time_ns() - started
    app.disconnected(session)
    return spent / REQUESTS / 1000


async def measure(directory: Path, rounds: int, partitions: int) -> None:
    properties = {
        "log.dirs": str(directory),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "metrics.port": "0",
    }
    broker = Broker(ServerConfig(properties))
    await broker.start()
    await broker.controller.create_topics([TopicSpec(TOPIC, 1), TopicSpec("many", partitions)])
    metrics = broker._metrics
    assert metrics is not None
    for name, data in (("Produce", produce_frame()), ("Fetch", fetch_frame())):
        plain, counted = [], []
        for _ in range(rounds):
            plain.append(cpu_us(broker, data))
            counted.append(cpu_us(metrics.app, data))
        print(f"{name}: {min(plain):.2f} us without, {min(counted):.2f} us with metrics")
    times = []
    for _ in range(rounds):
        started = time.process_time()
        page = await metrics._page()
        times.append(time.process_time() - started)
    print(f"page of {partitions + 1} partitions: {len(page.body)} bytes, {min(times) * 1e3:.1f} ms")
    await broker.stop()


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.metrics_cost")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--partitions", type=int, default=1000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(measure(Path(directory), given.rounds, given.partitions))


if __name__ == "__main__":
    main()
