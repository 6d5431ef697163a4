"""How long acknowledgements take, by librdkafka in its own process. Prints one JSON line.

    python -m benchmarks.ack_latency --bootstrap h:p,... --topic t --acks all

It sends at a fixed rate and never waits, so that a stall is seen by every record that was due
during it; the time is from the call of produce to the acknowledgement.
"""

from __future__ import annotations

import argparse
import gc
import json
import time

from confluent_kafka import KafkaError, Message, Producer

from benchmarks.raw_load import percentile

FLUSH_TIMEOUT_S = 60.0
POLL_S = 0.0005


class Latencies:
    """The time of each record from the call to its acknowledgement, in nanoseconds."""

    def __init__(self) -> None:
        self.values: list[int] = []

    def callback(self, called_ns: int):  # type: ignore[no-untyped-def]
        def reply(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                raise SystemExit(f"a record was not delivered: {error}")
            self.values.append(time.monotonic_ns() - called_ns)

        return reply


def ack_latency(
    bootstrap: str, topic: str, *, acks: str, count: int, rate: float, size: int, skip: int
) -> dict[str, float]:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": acks, "linger.ms": 0})
    latencies = Latencies()
    value = b"x" * size
    gc.disable()
    start = time.perf_counter()
    for i in range(count):
        due = start + i / rate
        while True:  # acknowledgements are taken when they come, not when the next record is due
            left_s = due - time.perf_counter()
            if left_s <= 0:
                break
            producer.poll(min(left_s, POLL_S))
        producer.produce(topic, value, on_delivery=latencies.callback(time.monotonic_ns()))
        producer.poll(0)
    producer.flush(FLUSH_TIMEOUT_S)
    if len(latencies.values) != count:
        raise SystemExit(f"{count - len(latencies.values)} of {count} records got no answer")
    ordered = sorted(latencies.values[skip:])
    return {
        "p50_ms": percentile(ordered, 0.50) / 1e6,
        "p99_ms": percentile(ordered, 0.99) / 1e6,
        "max_ms": ordered[-1] / 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.ack_latency")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--acks", default="all")
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--rate", type=float, default=1000.0)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--skip", type=int, default=0)
    given = parser.parse_args()
    result = ack_latency(
        given.bootstrap,
        given.topic,
        acks=given.acks,
        count=given.count,
        rate=given.rate,
        size=given.size,
        skip=given.skip,
    )
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
