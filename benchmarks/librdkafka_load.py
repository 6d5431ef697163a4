"""Loads by librdkafka (confluent-kafka), each in its own process. Prints one JSON line.

    python -m benchmarks.librdkafka_load requests --port 9092 --topic t --seconds 3
    python -m benchmarks.librdkafka_load consume-latency --port 9092 --topic t --count 20000
    python -m benchmarks.librdkafka_load produce-rate --port 9092 --topic t --count 20000
    python -m benchmarks.librdkafka_load fill-keys --port 9092 --topic t --count 20000 --keys 1000

`produce-rate` writes the time of the call into each record and `consume-latency`, in another
process, subtracts it: CLOCK_MONOTONIC is one clock for the whole machine. The producer never waits
for the broker, so a stall of the broker is seen by every record that was due during it.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import struct
import time

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from benchmarks.raw_load import percentile

POLL_S = 0.5
SILENCE_MAX_S = 20.0
QUEUED_MAX = 1000
FLUSH_TIMEOUT_S = 30.0
_STAMP = struct.Struct(">q")


class Acks:
    """Counts delivery reports; any failed delivery spoils the measurement."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise SystemExit(f"a record was not delivered: {error}")
        self.count += 1


def run_requests(port: int, topic: str, *, seconds: float, size: int) -> dict[str, float]:
    """One record per request, one request in flight: what a caller that waits for each ack gets."""
    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "acks": 1,
            "linger.ms": 0,
            "batch.num.messages": 1,
            "max.in.flight.requests.per.connection": 1,
        }
    )
    acks = Acks()
    value = b"x" * size
    producer.produce(topic, value, on_delivery=acks)
    producer.flush(FLUSH_TIMEOUT_S)
    acks.count = 0
    sent = 0
    start = time.perf_counter()
    deadline = start + seconds
    while time.perf_counter() < deadline:
        while sent - acks.count < QUEUED_MAX:
            producer.produce(topic, value, on_delivery=acks)
            sent += 1
        producer.poll(0.001)
    acked, elapsed_s = acks.count, time.perf_counter() - start
    producer.flush(FLUSH_TIMEOUT_S)
    if acks.count != sent:
        raise SystemExit(f"{sent - acks.count} of {sent} records were never acknowledged")
    return {"acked": acked, "elapsed_s": elapsed_s}


def run_produce_rate(
    port: int, topic: str, *, count: int, rate: float, size: int
) -> dict[str, float]:
    producer = Producer(
        {"bootstrap.servers": f"127.0.0.1:{port}", "acks": 1, "linger.ms": 0},
    )
    acks = Acks()
    filler = b"x" * (size - _STAMP.size)
    gc.disable()
    start = time.perf_counter()
    for i in range(count):
        wait_s = start + i / rate - time.perf_counter()
        if wait_s > 0:
            time.sleep(wait_s)
        producer.produce(topic, _STAMP.pack(time.monotonic_ns()) + filler, on_delivery=acks)
        producer.poll(0)
    elapsed_s = time.perf_counter() - start
    producer.flush(FLUSH_TIMEOUT_S)
    if acks.count != count:
        raise SystemExit(f"{count - acks.count} of {count} records were never acknowledged")
    return {"acked": count, "elapsed_s": elapsed_s}


def run_consume_latency(port: int, topic: str, *, count: int, skip: int) -> dict[str, float]:
    """Reads a fresh topic from its start; the first `skip` records (connections, caches) are left
    out of the percentiles."""
    consumer = Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "group.id": f"{topic}-latency",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    message = consumer.poll(
        POLL_S
    )  # connects first, because not every producer waits for this reader
    print(json.dumps({"ready": True}), flush=True)
    gc.disable()
    latencies: list[int] = []
    quiet_since = time.monotonic()
    while True:
        now = time.monotonic_ns()
        if message is not None:
            latencies.append(now - _stamp(message))
            quiet_since = now / 1e9
        elif now / 1e9 - quiet_since > SILENCE_MAX_S:
            raise SystemExit(f"{len(latencies)} of {count} records came")
        if len(latencies) == count:
            break
        message = consumer.poll(POLL_S)
    consumer.close()
    ordered = sorted(latencies[skip:])
    return {
        "count": len(ordered),
        "p50_ms": percentile(ordered, 0.50) / 1e6,
        "p99_ms": percentile(ordered, 0.99) / 1e6,
        "p999_ms": percentile(ordered, 0.999) / 1e6,
        "max_ms": ordered[-1] / 1e6,
    }


def _stamp(message: Message) -> int:
    """The time at which the record was sent."""
    if message.error() is not None:
        raise SystemExit(f"consuming failed: {message.error()}")
    value = message.value()
    assert isinstance(value, bytes)
    stamp: int = _STAMP.unpack_from(value)[0]
    return stamp


def run_fill_keys(port: int, topic: str, *, count: int, keys: int, size: int) -> dict[str, float]:
    """Records of random keys, the same ones for every broker, as fast as they go."""
    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "acks": 1,
            "linger.ms": 5,
            "batch.size": 16384,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    acks = Acks()
    chance = random.Random(keys)
    value = chance.randbytes(size)
    start = time.perf_counter()
    for sent in range(count):
        key = b"key-%010d" % chance.randrange(keys)
        while True:
            try:
                producer.produce(topic, value, key, on_delivery=acks)
                break
            except BufferError:
                producer.poll(POLL_S)
        if sent % QUEUED_MAX == 0:
            producer.poll(0)
    producer.flush(FLUSH_TIMEOUT_S)
    if acks.count != count:
        raise SystemExit(f"{count - acks.count} of {count} records were never acknowledged")
    return {"acked": count, "elapsed_s": time.perf_counter() - start}


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.librdkafka_load")
    parser.add_argument(
        "mode", choices=["requests", "produce-rate", "consume-latency", "fill-keys"]
    )
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=1000.0)
    given = parser.parse_args()
    port, topic = given.port, given.topic
    if given.mode == "requests":
        result = run_requests(port, topic, seconds=given.seconds, size=given.size)
    elif given.mode == "produce-rate":
        result = run_produce_rate(port, topic, count=given.count, rate=given.rate, size=given.size)
    elif given.mode == "fill-keys":
        result = run_fill_keys(port, topic, count=given.count, keys=given.keys, size=given.size)
    else:
        result = run_consume_latency(port, topic, count=given.count, skip=given.skip)
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
