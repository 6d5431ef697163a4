"""Threads that observe the brokers during all faults, one per broker.

Each connects to its broker directly, past the network that can be cut, and requests what only that
broker knows: the leaders in its metadata, the records that it returns to readers (followers do,
too, KIP-392), and its high watermarks.
"""

from __future__ import annotations

import random
import threading
import time
from typing import Any

from chaos_cluster import ChaosBroker, Cluster
from chaos_history import FOLLOWING, OFFSETS, TRANSACTIONS, ClusterHistory, note
from compat_raw import RawClient, code
from delivery_history import CommittedRead, TopicPartitionKey
from delivery_journal import Journal
from delivery_log import AbortedTransaction, Batch, batches_of, shown_by_a_client

FETCH_BYTES = 1 << 20
AGAIN_BYTES = 4096
ROUND_S = 0.25
ANSWER_S = 2.0
LATEST = -1
UNCOMMITTED, COMMITTED = 0, 1

# Error codes that a broker may return while leaders change.
PASSING = frozenset(
    code(name)
    for name in (
        "unknown_topic_or_partition", "not_leader_or_follower", "leader_not_available",
        "fenced_leader_epoch", "unknown_leader_epoch", "offset_not_available", "unknown_topic_id",
        "replica_not_available", "kafka_storage_error",
    )
)  # fmt: skip


class Watch:
    """All threads, and the journal that they write."""

    def __init__(
        self, history: ClusterHistory, cluster: Cluster, partitions: int, seed: int, journal: str
    ) -> None:
        self.history = history
        self.cluster = cluster
        topics = (history.input, history.output)
        self.places: list[TopicPartitionKey] = [(t, n) for t in topics for n in range(partitions)]
        for place in self.places:
            history.logs[place] = []
        self.journal = Journal(journal)
        self._start = time.monotonic()
        self._lock = threading.Lock()
        self._seen: dict[TopicPartitionKey, dict[int, Batch]] = {}
        self.watches = [
            BrokerWatch(self, broker, random.Random(f"watch {seed} {broker.number}"))
            for broker in cluster.brokers.values()
        ]

    def now_s(self) -> float:
        return round(time.monotonic() - self._start, 3)

    def start(self) -> None:
        for watch in self.watches:
            watch.thread.start()

    def stop(self) -> None:
        for watch in self.watches:
            watch.stopping.set()
        for watch in self.watches:
            watch.thread.join(30)

    def tell(self, *line: Any) -> None:
        with self._lock:
            self.journal(*line)
            known = len(self.history.polls)
            note(self.history, list(line))
            for poll in self.history.polls[known:]:
                of_place = self._seen.setdefault(poll.place, {})
                of_place.setdefault(poll.batch.base_offset, poll.batch)

    def log(self, place: TopicPartitionKey) -> list[Batch]:
        """What all brokers together have returned of a partition so far."""
        with self._lock:
            seen = self._seen.get(place, {})
            return [seen[base] for base in sorted(seen)]

    def accident(self, text: str) -> None:
        with self._lock:
            self.history.accidents.append(f"at {self.now_s():.2f} s: {text}")

    def caught_up(self) -> bool:
        """True if every broker has returned all records, in both isolation levels."""
        ends = {
            place: max(watch.positions[place] for watch in self.watches) for place in self.places
        }
        return all(
            watch.positions[place] == ends[place] == watch.high_watermarks.get(place)
            and max(watched.committed[place] for watched in self.watches) == ends[place]
            for watch in self.watches
            for place in self.places
        )

    def lag(self) -> str:
        return "; ".join(
            f"broker {watch.broker.number}: shown {list(watch.positions.values())},"
            f" high watermarks {list(watch.high_watermarks.values())},"
            f" committed {list(watch.committed.values())}"
            for watch in self.watches
        )

    def group_place(self, place: TopicPartitionKey) -> int:
        """The group's committed offset, by the last answer of any broker; -1: unknown."""
        offsets = [
            self.history.group_offsets.get((f"{place[0]} at {w.broker.number}", place[1]), [-1])
            for w in self.watches
        ]
        return max(offset[-1] for offset in offsets)


class BrokerWatch:
    def __init__(self, watch: Watch, broker: ChaosBroker, chance: random.Random) -> None:
        self._watch = watch
        self.broker = broker
        self._chance = chance
        self._number = int(broker.number)
        self.positions = dict.fromkeys([*watch.places, OFFSETS, TRANSACTIONS], 0)
        self.committed = dict.fromkeys(watch.places, 0)
        self.high_watermarks: dict[TopicPartitionKey, int] = {}
        self.metadata: dict[TopicPartitionKey, Any] = {}
        """By partition, its last metadata about leader and ISR."""
        self.brokers_seen: set[int] = set()
        self.controller = -1
        self._bases: dict[TopicPartitionKey, list[int]] = {}
        self._epochs: dict[TopicPartitionKey, int] = {}
        self._client: RawClient | None = None
        self._life = 0
        self._said: set[tuple[Any, ...]] = set()
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, name=f"watch-{broker.number}")

    def _run(self) -> None:
        while not self.stopping.is_set():
            try:
                self._round()
            except OSError:  # it is away
                self._close()
            except Exception as error:
                self._watch.accident(f"the watch of broker {self._number} failed: {error!r}")
                raise
            self.stopping.wait(ROUND_S)
        self._close()

    def _close(self) -> None:
        self.metadata = {}
        self.brokers_seen = set()
        if self._client is not None:
            self._client.socket.close()
            self._client = None

    def _round(self) -> None:
        if self._client is None:
            self._client = self._watch.cluster.connect(self.broker, "watch")
            self._client.socket.settimeout(ANSWER_S)
            # A process that accepts connections has counted its life already.
            self._life = self.broker.life
        client = self._client
        self._ask_metadata(client)
        self._list_offsets(client)
        self._follow(client)
        self._follow_committed(client)
        self._read_again(client)
        self._fetch_group_offsets(client)

    def _once(self, *line: Any) -> None:
        """Journal what is new."""
        if line not in self._said:
            self._said.add(line)
            kind, *rest = line
            self._watch.tell(kind, self._watch.now_s(), *rest)

    # Leaders

    def _ask_metadata(self, client: RawClient) -> None:
        names = sorted({topic for topic, _ in self.positions})
        answer = client.call("metadata", 9, topics=[{"name": name} for name in names])
        found = {}
        for topic in answer.topics:
            for partition in topic.partitions:
                place = topic.name, partition.partition_index
                found[place] = partition
                if place in self.positions and partition.error_code == code("none"):
                    self._once(
                        "said", self._number, *place, partition.leader_epoch, partition.leader_id
                    )
        self.metadata, self.controller = found, answer.controller_id
        self.brokers_seen = {broker.node_id for broker in answer.brokers}

    def _list_offsets(self, client: RawClient) -> None:
        """Only a leader answers, and only in the requested epoch."""
        self._epochs = {}
        led = {
            place: partition.leader_epoch
            for place, partition in self.metadata.items()
            if partition.leader_id == self._number and place in self.positions
        }
        for isolation, name in ((UNCOMMITTED, "end offset"), (COMMITTED, "stable end offset")):
            if not led:
                return
            answer = client.call(
                "list_offsets", 5, replica_id=-1, isolation_level=isolation,
                topics=[
                    {"name": topic, "partitions": [
                        {"partition_index": n, "timestamp": LATEST, "current_leader_epoch": epoch}
                        for (t, n), epoch in led.items() if t == topic]}
                    for topic in sorted({topic for topic, _ in led})
                ],
            )  # fmt: skip
            for topic in answer.topics:
                for partition in topic.partitions:
                    place = topic.name, partition.partition_index
                    if partition.error_code == code("none"):
                        self._epochs[place] = led[place]
                        self._once("led", self._number, *place, led[place])
                        self._mark(place, name, partition.offset)

    def _mark(self, place: TopicPartitionKey, name: str, value: int) -> None:
        epoch = self._epochs.get(place, FOLLOWING)
        self._watch.tell(
            "mark", self._watch.now_s(), self._number, self._life, *place, epoch, name, value
        )

    # Reading

    def _fetch(
        self,
        client: RawClient,
        positions: dict[TopicPartitionKey, int],
        isolation: int,
        size_max: int = FETCH_BYTES,
    ) -> list[tuple[TopicPartitionKey, Any, bytes, list[Batch]]]:
        topics: dict[str, list[dict[str, int]]] = {}
        for (topic, number), offset in positions.items():
            topics.setdefault(topic, []).append(
                {"partition": number, "fetch_offset": offset, "partition_max_bytes": size_max}
            )
        answer = client.call(
            "fetch", 11, replica_id=-1, max_wait=0, min_bytes=0, isolation_level=isolation,
            max_bytes=64 << 20, session_epoch=-1,
            topics=[{"topic": name, "partitions": parts} for name, parts in topics.items()],
        )  # fmt: skip
        found = []
        for topic_answer in answer.responses:
            for partition in topic_answer.partitions:
                place = topic_answer.topic, partition.partition_index
                if partition.error_code == code("none"):
                    data = bytes(partition.records or b"")
                    found.append((place, partition, data, list(batches_of(data))))
                elif partition.error_code not in PASSING:
                    self._watch.accident(
                        f"{place} at {positions[place]}: broker {self._number} answered"
                        f" {partition.error_code.name}"
                    )
        return found

    def _follow(self, client: RawClient) -> None:
        for place, answer, data, batches in self._fetch(client, self.positions, UNCOMMITTED):
            new = [batch for batch in batches if batch.base_offset >= self.positions[place]]
            if new:
                self._poll(place, data)
                self._bases.setdefault(place, []).extend(batch.base_offset for batch in new)
                self.positions[place] = new[-1].last_offset + 1
            self._mark(place, "high watermark", answer.high_watermark)
            self.high_watermarks[place] = answer.high_watermark
            if answer.last_stable_offset > answer.high_watermark:
                self._watch.accident(
                    f"{place}: last stable offset {answer.last_stable_offset} beyond the high"
                    f" watermark {answer.high_watermark} of broker {self._number}"
                )
            if batches and batches[-1].last_offset >= answer.high_watermark:
                self._watch.accident(
                    f"{place}: broker {self._number} showed {batches[-1].last_offset}, its high"
                    f" watermark is {answer.high_watermark}"
                )

    def _poll(self, place: TopicPartitionKey, data: bytes) -> None:
        self._watch.tell("poll", self._watch.now_s(), self._number, self._life, *place, data.hex())

    def _follow_committed(self, client: RawClient) -> None:
        led = {place: at for place, at in self.committed.items() if place in self._epochs}
        if not led:
            return
        for place, answer, _, batches in self._fetch(client, led, COMMITTED):
            self._mark(place, "last stable offset", answer.last_stable_offset)
            self._keep_committed(place, led[place], answer, batches)
            if batches:
                self.committed[place] = batches[-1].last_offset + 1

    def _keep_committed(
        self, place: TopicPartitionKey, start: int, answer: Any, batches: list[Batch]
    ) -> None:
        if not batches:
            return
        end = batches[-1].last_offset + 1
        aborted = [
            AbortedTransaction(a.producer_id, a.first_offset)
            for a in answer.aborted_transactions or ()
        ]
        shown = tuple(shown_by_a_client(batches, aborted))
        self._watch.history.committed_reads.append(CommittedRead(place, start, end, shown))

    def _read_again(self, client: RawClient) -> None:
        """Read from the middle, so that indexes are used, in both isolation levels."""
        place = self._chance.choice(self._watch.places)
        if not (bases := self._bases.get(place)):
            return
        start = self._chance.choice(bases)
        for _, _, data, _ in self._fetch(client, {place: start}, UNCOMMITTED, AGAIN_BYTES):
            self._poll(place, data)
        if place in self._epochs and start < self.committed[place]:
            for _, answer, _, batches in self._fetch(
                client, {place: start}, COMMITTED, AGAIN_BYTES
            ):
                self._keep_committed(place, start, answer, batches)

    # The group

    def _fetch_group_offsets(self, client: RawClient) -> None:
        history = self._watch.history
        numbers = [n for t, n in self._watch.places if t == history.input]
        group = {
            "group_id": history.group,
            "topics": [{"name": history.input, "partition_indexes": numbers}],
        }
        answer = client.call("offset_fetch", 8, groups=[group], require_stable=True).groups[0]
        if answer.error_code != code("none"):
            return
        for partition in answer.topics[0].partitions:
            if partition.error_code == code("none"):
                place = f"{history.input} at {self.broker.number}", partition.partition_index
                offsets = history.group_offsets.setdefault(place, [])
                if not offsets or offsets[-1] != partition.committed_offset:
                    offsets.append(partition.committed_offset)
