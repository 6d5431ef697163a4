"""python -m benchmarks.sink_speed: rows into a topic, by the sink of Spark and by librdkafka.

Without Spark: Arrow batches as its workers get them, one process that writes, a broker in another.
CPU is the writing process's own, which other work on the machine disturbs least.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from ottla.client import Producer
from ottla.spark.sink.options import write_options
from ottla.spark.sink.task_attempt import write_at_least_once
from ottla.testing import LocalCluster

BATCH_ROWS = 10_000  # spark.sql.execution.arrow.maxRecordsPerBatch


def main() -> None:
    given = arguments()
    rows = batches(given.rows, given.bytes)
    with LocalCluster(process=True) as broker:
        ways: dict[str, Callable[[str], object]] = {
            "the sink": lambda topic: write_at_least_once(
                write_options(
                    {
                        "kafka.bootstrap.servers": broker.bootstrap_servers,
                        "kafka.compression.type": given.compression,
                        "topic": topic,
                    }
                ),
                rows,
            ),
            "librdkafka": lambda topic: by_librdkafka(
                broker.bootstrap_servers, topic, rows, given.compression
            ),
        }
        for number in range(given.rounds):
            for name, way in ways.items():
                topic = f"{name.replace(' ', '-')}-{number}"
                broker.create_topic(topic, partitions=given.partitions)
                began, cpu = time.perf_counter(), time.process_time()
                way(topic)
                took_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
                print(
                    f"{name:12} {given.rows / took_s / 1e6:6.2f} M rows/s"
                    f" {cpu_s / given.rows * 1e6:6.2f} us of CPU a row",
                    flush=True,
                )


def batches(count: int, size: int) -> list[Any]:
    values = [b"x" * size] * BATCH_ROWS
    return [
        pa.RecordBatch.from_pydict(
            {
                "key": pa.array([b"%d" % row for row in range(start, start + BATCH_ROWS)]),
                "value": pa.array(values),
            }
        )
        for start in range(0, count, BATCH_ROWS)
    ]


def by_librdkafka(servers: str, topic: str, rows: list[Any], compression: str) -> None:
    settings = {"compression.type": compression, "queue.buffering.max.messages": 1_000_000}
    with Producer[bytes, bytes](servers, settings=settings) as producer:
        for batch in rows:
            keys, values = (column.to_pylist() for column in batch.columns)
            for key, value in zip(keys, values, strict=True):
                producer.raw.produce(topic, value, key)
            producer.raw.poll(0)
        producer.flush()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sink_speed")
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--bytes", type=int, default=100, help="of a value")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--compression", default="none")
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    main()
