"""A thread that observes the broker during all faults, with raw requests."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

from compat_raw import RawClient, code
from delivery_history import CommittedRead, History, TopicPartitionKey
from delivery_log import AbortedTransaction, Batch, batches_of, shown_by_a_client

OFFSETS: TopicPartitionKey = ("__consumer_offsets", 0)
TRANSACTIONS: TopicPartitionKey = ("__transaction_state", 0)
FETCH_BYTES = 1 << 20
ROUND_S = 0.08
LATEST = -1
UNCOMMITTED, COMMITTED = 0, 1


class Watch:
    """Follows the partitions of both topics and of the coordinators, from offset 0."""

    def __init__(self, history: History, bootstrap: str, partitions: int, seed: int) -> None:
        self.history = history
        self._bootstrap = bootstrap
        self._chance = random.Random(f"watch {seed}")
        topics = (history.input, history.output)
        self._places: list[TopicPartitionKey] = [(t, n) for t in topics for n in range(partitions)]
        self._positions = dict.fromkeys([*self._places, OFFSETS, TRANSACTIONS], 0)
        self._committed_positions = dict.fromkeys(self._places, 0)
        for place in self._places:
            history.logs[place] = []
        self._kept = {
            **history.logs,
            OFFSETS: history.group_batches,
            TRANSACTIONS: history.transaction_batches,
        }
        self._stopping = threading.Event()
        self._client: RawClient | None = None
        self._thread = threading.Thread(target=self._run, name="watch")
        self.rounds = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(90)
        if self._thread.is_alive():
            self.history.accidents.append("the watch hangs: the broker does not answer")

    def caught_up(self) -> bool:
        """True if everything has been read and no transaction is open."""
        return all(
            self._positions[place] == self._committed_positions[place] == self._last(place)
            for place in self._places
        )

    def _last(self, place: TopicPartitionKey) -> int:
        return self.history.series.get((place, "high watermark"), [-1])[-1]

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._round()
                self.rounds += 1
            except OSError:  # the broker is away
                self._close()
            except Exception as error:
                self.history.accidents.append(f"the watch failed: {error!r}")
                raise
            self._stopping.wait(ROUND_S)
        self._close()

    def _close(self) -> None:
        if self._client is not None:
            self._client.socket.close()
            self._client = None

    def _round(self) -> None:
        self._client = self._client or RawClient(self._bootstrap, "watch")
        self._follow(self._client)
        self._follow_committed(self._client)
        self._read_again(self._client)
        self._list_offsets(self._client)
        self._fetch_group_offsets(self._client)

    # Reading

    def _fetch(
        self, client: RawClient, positions: dict[TopicPartitionKey, int], isolation: int
    ) -> list[tuple[TopicPartitionKey, Any, list[Batch]]]:
        topics: dict[str, list[dict[str, int]]] = {}
        for (topic, number), offset in positions.items():
            topics.setdefault(topic, []).append(
                {"partition": number, "fetch_offset": offset, "partition_max_bytes": FETCH_BYTES}
            )
        answer = client.call(
            "fetch", 11, max_wait=0, min_bytes=0, isolation_level=isolation,
            topics=[{"topic": name, "partitions": parts} for name, parts in topics.items()],
        )  # fmt: skip
        found = []
        for topic_answer in answer.responses:
            for partition in topic_answer.partitions:
                place = topic_answer.topic, partition.partition_index
                if self._readable(place, partition.error_code):
                    found.append(
                        (place, partition, list(batches_of(bytes(partition.records or b""))))
                    )
        return found

    def _readable(self, place: TopicPartitionKey, error: Any) -> bool:
        if error == code("none"):
            return True
        passing = ("unknown_topic_or_partition", "not_leader_or_follower", "unknown_topic_id")
        starting = [code(name) for name in (*passing, "leader_not_available")]
        if error not in starting:
            self.history.accidents.append(f"{place}: Fetch answered {error.name}")
        return False

    def _follow(self, client: RawClient) -> None:
        for place, answer, batches in self._fetch(client, self._positions, UNCOMMITTED):
            log = self._kept[place]
            new = [batch for batch in batches if batch.base_offset >= self._positions[place]]
            log += new
            if new:
                self._positions[place] = new[-1].last_offset + 1
            self._note(place, "high watermark", answer.high_watermark)
            if answer.last_stable_offset >= 0:
                self._note(place, "last stable offset", answer.last_stable_offset)
                if answer.last_stable_offset > answer.high_watermark:
                    self.history.accidents.append(
                        f"{place}: last stable offset {answer.last_stable_offset} beyond the"
                        f" high watermark {answer.high_watermark}"
                    )

    def _follow_committed(self, client: RawClient) -> None:
        positions = self._committed_positions
        for place, answer, batches in self._fetch(client, positions, COMMITTED):
            self._keep_committed(place, positions[place], answer, batches)
            if batches:
                positions[place] = batches[-1].last_offset + 1

    def _keep_committed(
        self, place: TopicPartitionKey, start: int, answer: Any, batches: list[Batch]
    ) -> None:
        self._note(place, "last stable offset", answer.last_stable_offset)
        if not batches:
            return
        end = batches[-1].last_offset + 1
        aborted = [
            AbortedTransaction(a.producer_id, a.first_offset)
            for a in answer.aborted_transactions or ()
        ]
        shown = tuple(shown_by_a_client(batches, aborted))
        self.history.committed_reads.append(CommittedRead(place, start, end, shown))

    def _read_again(self, client: RawClient) -> None:
        """Read from the middle, so that indexes are used, in both isolation levels."""
        place = self._chance.choice(self._places)
        if not (log := self.history.logs[place]):
            return
        start = self._chance.choice(log).base_offset
        for _, _, batches in self._fetch(client, {place: start}, UNCOMMITTED):
            known = self._positions[place]
            self.history.again += [(place, batch) for batch in batches if batch.last_offset < known]
        if start < self._committed_positions[place]:
            for _, answer, batches in self._fetch(client, {place: start}, COMMITTED):
                self._keep_committed(place, start, answer, batches)

    # Offsets

    def _list_offsets(self, client: RawClient) -> None:
        for isolation, name in ((UNCOMMITTED, "end offset"), (COMMITTED, "stable end offset")):
            answer = client.call(
                "list_offsets", 5, replica_id=-1, isolation_level=isolation,
                topics=[
                    {"name": topic, "partitions": [
                        {"partition_index": n, "timestamp": LATEST}
                        for t, n in self._places if t == topic]}
                    for topic in (self.history.input, self.history.output)
                ],
            )  # fmt: skip
            for topic in answer.topics:
                for partition in topic.partitions:
                    if partition.error_code == code("none"):
                        self._note((topic.name, partition.partition_index), name, partition.offset)

    def _fetch_group_offsets(self, client: RawClient) -> None:
        numbers = [n for t, n in self._places if t == self.history.input]
        group = {
            "group_id": self.history.group,
            "topics": [{"name": self.history.input, "partition_indexes": numbers}],
        }
        answer = client.call("offset_fetch", 8, groups=[group], require_stable=True).groups[0]
        if answer.error_code != code("none"):
            return
        for partition in answer.topics[0].partitions:
            if partition.error_code == code("none"):
                place = (self.history.input, partition.partition_index)
                offsets = self.history.group_offsets.setdefault(place, [])
                if not offsets or offsets[-1] != partition.committed_offset:
                    offsets.append(partition.committed_offset)

    def _note(self, place: TopicPartitionKey, name: str, value: int) -> None:
        values = self.history.series.setdefault((place, name), [])
        if not values or values[-1] != value:
            values.append(value)


def wait_until(condition: Any, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
