"""Reads the committed records of a topic, as they come, by librdkafka and without a group."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

from benchmarks.processes import ToolError

TAKEN_MAX = 10_000
POLL_S = 0.05
FETCH_REST_MS = 1
"""How long librdkafka rests when it has 100,000 records of a partition that nobody has taken. By
default it rests a second: then the reader limits the results of two partitions to some 140,000
records/s."""


class CommittedCount:
    def __init__(self, bootstrap: str, topic: str, *, partitions: int = 1) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "bench-reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "fetch.queue.backoff.ms": FETCH_REST_MS,
                "log_level": 3,
            }
        )
        self._consumer.assign(
            [TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)]
        )

    def take(self) -> list[Message]:
        """The records that have arrived: at once if there are any, else after POLL_S."""
        first = self._consumer.poll(POLL_S)
        if first is None:
            return []
        taken = [first, *self._consumer.consume(TAKEN_MAX, 0)]
        for message in taken:
            if (error := message.error()) is not None:
                raise ToolError(f"the results can't be read: {error}")
        return taken

    def counting(self) -> Callable[[], int]:
        """The number of records received so far, at each call."""
        found = 0

        def count() -> int:
            nonlocal found
            found += len(self.take())
            return found

        return count

    def close(self) -> None:
        self._consumer.close()
