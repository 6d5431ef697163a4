"""Transactions by librdkafka, one after another, in its own process. Prints one JSON line.

    python -m benchmarks.transaction_load --port 9092 --topic t --seconds 3 --records 100

One producer: begin, some records, commit, again. The commit waits for the records'
acknowledgements, for the coordinator and for the markers, so its time is what a caller waits for.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
import uuid

from confluent_kafka import Producer

from benchmarks.librdkafka_load import Acks
from benchmarks.raw_load import percentile

CALL_S = 30.0
WARM_UP_COUNT = 20


def run(
    port: int, topic: str, *, seconds: float, records: int, size: int, partitions: int
) -> dict[str, float]:
    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "transactional.id": f"bench-{uuid.uuid4().hex}",
        }
    )
    producer.init_transactions(CALL_S)
    acks = Acks()
    value = b"x" * size
    times: list[int] = []
    gc.disable()

    def one() -> None:
        producer.begin_transaction()
        for number in range(records):
            producer.produce(topic, value, partition=number % partitions, on_delivery=acks)
        before = time.perf_counter_ns()
        producer.commit_transaction(CALL_S)
        times.append(time.perf_counter_ns() - before)

    for _ in range(WARM_UP_COUNT):
        one()
    times.clear()
    acks.count = 0
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        one()
    elapsed_s = time.perf_counter() - start
    if acks.count != len(times) * records:
        raise SystemExit(f"{acks.count} of {len(times) * records} records were acknowledged")
    times.sort()
    return {
        "transactions": len(times),
        "elapsed_s": elapsed_s,
        "commit_p50_ms": percentile(times, 0.50) / 1e6,
        "commit_p99_ms": percentile(times, 0.99) / 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.transaction_load")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--records", type=int, default=100)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--partitions", type=int, default=1)
    given = parser.parse_args()
    result = run(
        given.port,
        given.topic,
        seconds=given.seconds,
        records=given.records,
        size=given.size,
        partitions=given.partitions,
    )
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
