"""The offsets of a query, read in the driver: where it starts, and how far a batch may read."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from ottla.client.protocol.cluster_client import ClusterClient, TopicLeaders
from ottla.client.protocol.range_fetcher import DataLost, OffsetRange
from ottla.client.protocol.retries import UNKNOWN_TOPIC
from ottla.client.record import TopicPartition
from ottla.errors import ErrorCode, KafkaError
from ottla.spark.limits import EARLIEST, LATEST, listed
from ottla.spark.offsets import Offsets, limited
from ottla.spark.options import ReadOptions

log = logging.getLogger("ottla.spark")

METADATA_S_MAX: Final = 1.0  # how long new partitions and topics may go unnoticed
IDLE_WAIT_MS: Final = 50  # half a trigger interval, because another source may wait as well
IDLE_WAIT_ALONE_MS: Final = 90
GONE_LOOKS: Final = 5  # a broker that has just started may not have all metadata yet
GONE_LOOK_S: Final = 0.5


class OffsetReader:
    """The offsets that a streaming query asks its source for. `clock` is in seconds."""

    def __init__(
        self,
        options: ReadOptions,
        brokers: ClusterClient,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options = options
        self._brokers = brokers
        self._clock = clock
        self._topics: dict[str, TopicLeaders] = {}
        self._looked_at: float | None = None
        self._ids: dict[str, bytes] = {}
        self._target: Offsets | None = None
        self._triggered_at: float | None = None
        self._credit = float(options.small_batches_max)
        self._idle = False
        self.ends: Offsets | None = None
        """The end offsets at the last look-up."""

    def begin(self) -> Offsets:
        """The initial offsets of a new query."""
        partitions = chosen(self._options, self._look())
        self._remember()
        return self._options.starting.resolve(
            partitions, self._find, latest_if_no_time=self._options.latest_if_no_time
        )

    def stop_at_present_end(self) -> None:
        """Trigger.AvailableNow: the next run reads what arrives after this moment."""
        self._looked_at = None
        self._target = self._find_all(existing(self._options, self._look()), LATEST)

    def latest(self, start: Offsets, *, limit: bool = True) -> Offsets:
        """The end offsets of the next batch; `start` if there is nothing to read.

        Spark calls this a hundred times a second. After a call without new records and without a
        batch since, it waits briefly for the first record instead of polling.
        """
        if self._idle and self._target is None and self.ends:
            committed = self._options.read_committed
            # A query with `ottla.work` (Streams) has no other source, so it may wait longer.
            wait_ms = IDLE_WAIT_ALONE_MS if self._options.work else IDLE_WAIT_MS
            self._brokers.wait(self.ends, wait_ms, read_committed=committed)
        reached = self._latest(start, limit)
        self._idle = reached == start
        return reached

    def batch_ran(self) -> None:
        """Ends the idle wait: the query runs batches, perhaps because of another source."""
        self._idle = False

    def _latest(self, start: Offsets, limit: bool) -> Offsets:
        self.ends = ends = self._present_ends(start)
        begins = self._begins(start, ends)
        if limit and self._too_few(start, ends, begins):
            return start
        reached = {**ends, **begins}
        if limit and self._options.records_max is not None:
            reached = limited(start, reached, self._options.records_max, self._options.first_topics)
        self._remember()
        return reached

    def _present_ends(self, start: Offsets) -> Offsets:
        """The end offsets of all existing partitions. Metadata is cached for METADATA_S_MAX; if it
        contradicts `start`, a topic may have been deleted or created again, so it is refreshed."""
        for last_try in (False, True):
            try:
                partitions = self._partitions(start)
                ends = self._ends(start, partitions)
            except KafkaError as error:
                if last_try or error.code not in UNKNOWN_TOPIC:
                    raise
            else:
                if last_try or not any(
                    start.get(partition, 0) > ends[partition] for partition in ends
                ):
                    break
            self._looked_at = None
        gone = start.keys() - set(partitions)
        if gone:
            lose(self._options, f"{listed(gone)} no longer exist: the topic was deleted")
        return ends

    def _partitions(self, start: Offsets) -> list[TopicPartition]:
        """The existing partitions. A missing one is looked up several times."""
        found = existing(self._options, self._look())
        for _ in range(GONE_LOOKS):
            if start.keys() <= set(found):
                break
            self._brokers.sleep(GONE_LOOK_S)
            self._looked_at = None
            found = existing(self._options, self._look())
        return found

    def _ends(self, start: Offsets, partitions: Collection[TopicPartition]) -> Offsets:
        ends = self._find_all(partitions, LATEST)
        if self._target is None:
            return ends
        # A query that started at `latest` just after the target was set is already past it; newer
        # records belong to the next run.
        targets = {**start, **self._target}
        return {
            partition: min(end, max(targets[partition], start.get(partition, 0)))
            for partition, end in ends.items()
            if partition in targets
        }

    def _begins(self, start: Offsets, ends: Offsets) -> Offsets:
        """The first offsets of partitions new to the query: added, or of a topic created again."""
        new = ends.keys() - start.keys()
        known = ends.keys() & start.keys()
        remade = {
            partition
            for partition in known
            if self._is_remade(partition, start[partition] > ends[partition])
        }
        begins = self._find_all(remade | new, EARLIEST)
        for partition in sorted(known):
            if partition in remade or start[partition] > ends[partition]:
                lose(
                    self._options,
                    f"the offset of {partition} went from {start[partition]} to {ends[partition]}:"
                    " its topic was deleted and created again, or the query started beyond its"
                    " end",
                )
        for partition in sorted(new):
            if begins[partition] > 0:
                lose(
                    self._options,
                    f"the new partition {partition} begins at offset {begins[partition]} instead"
                    " of 0",
                )
        return begins

    def _is_remade(self, where: TopicPartition, went_back: bool) -> bool:
        """True if the topic id has changed. After a restart the old id is unknown: then an end
        before the start shows it."""
        before = self._ids.get(where.topic)
        return went_back if before is None else before != self._topics[where.topic].id

    def _remember(self) -> None:
        self._ids.update({name: topic.id for name, topic in self._topics.items()})

    def _too_few(self, start: Offsets, ends: Offsets, begins: Offsets) -> bool:
        """minOffsetsPerTrigger: True if the batch should wait for more records, at most
        maxTriggerDelay after the last batch. After a longer idle time the first record is read at
        once.

        small_batches_max is a credit of small batches without delay, of which each maxTriggerDelay
        earns one: occasional records are read at once, and only a steady trickle waits.
        """
        smallest = self._options.records_min
        if smallest is None or self._target is not None:
            return False
        now = self._clock()
        count = sum(
            max(0, ends[partition] - start.get(partition, begins.get(partition, 0)))
            for partition in ends
        )
        if count == 0:
            return False
        delay_s, most = self._options.delay_max_ms / 1000, self._options.small_batches_max
        credit = self._credit
        if self._triggered_at is not None:
            credit = min(credit + (now - self._triggered_at) / delay_s, most) if delay_s else most
        if count < smallest and credit < 1:
            return True
        self._triggered_at, self._credit = now, max(credit - 1, 0)
        return False

    def _look(self) -> dict[str, TopicLeaders]:
        """The topics' metadata, cached for METADATA_S_MAX."""
        now = self._clock()
        if self._looked_at is None or now - self._looked_at >= METADATA_S_MAX:
            self._topics = find_topics(self._options, self._brokers)
            self._looked_at = now
        return self._topics

    def _find(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return self._brokers.offsets(times, read_committed=self._options.read_committed)

    def _find_all(self, partitions: Iterable[TopicPartition], when: int) -> Offsets:
        return _offsets(self._find(dict.fromkeys(partitions, when)))


def batch_ranges(options: ReadOptions, brokers: ClusterClient) -> list[OffsetRange]:
    """The ranges that a batch query reads."""

    def find(times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return brokers.offsets(times, read_committed=options.read_committed)

    partitions = chosen(options, find_topics(options, brokers))
    starts = options.starting.resolve(partitions, find, latest_if_no_time=options.latest_if_no_time)
    ends = options.ending.resolve(partitions, find, latest_if_no_time=True)
    if options.ending.by_partition and not options.ending.by_time:
        ends = _no_further(options, ends, _offsets(find(dict.fromkeys(partitions, LATEST))))
    return [
        OffsetRange(*partition, starts[partition], ends[partition])
        for partition in sorted(partitions)
        if starts[partition] < ends[partition]
    ]


def _no_further(options: ReadOptions, ends: Offsets, last: Offsets) -> Offsets:
    """Reports configured ends beyond the last record now, instead of a task that waits for them."""
    for partition in sorted(ends):
        if ends[partition] > last[partition]:
            what = (
                f"{options.ending.option} has {ends[partition]} for {partition}, which ends at"
                f" {last[partition]}"
            )
            lose(options, what)
    return {partition: min(end, last[partition]) for partition, end in ends.items()}


def _offsets(found: Mapping[TopicPartition, int | None]) -> Offsets:
    """EARLIEST and LATEST always have an offset."""
    return {partition: offset or 0 for partition, offset in found.items()}


def lose(options: ReadOptions, what: str) -> None:
    message = (
        f"Some data may have been missed: {what}. If the query is to go on, set the source"
        ' option "failOnDataLoss" to "false"'
    )
    if options.fail_on_data_loss:
        raise DataLost(ErrorCode.OFFSET_OUT_OF_RANGE, message)
    log.warning("%s", message)


def find_topics(options: ReadOptions, brokers: ClusterClient) -> dict[str, TopicLeaders]:
    """The existing topics among those that the options name."""
    if not options.pattern:
        return brokers.topics(
            {*options.topics, *(partition.topic for partition in options.partitions)}
        )
    pattern = re.compile(options.pattern)
    return {
        name: topic
        for name, topic in brokers.topics(None).items()
        if not topic.internal and pattern.fullmatch(name)
    }


def existing(options: ReadOptions, topics: Mapping[str, TopicLeaders]) -> list[TopicPartition]:
    found = {
        TopicPartition(name, partition)
        for name, topic in topics.items()
        for partition in topic.leaders
    }
    return sorted(found.intersection(options.partitions) if options.partitions else found)


def chosen(options: ReadOptions, topics: Mapping[str, TopicLeaders]) -> list[TopicPartition]:
    """Like `existing`, at the start of a query, when all named topics must exist."""
    missing = sorted(set(options.topics) - topics.keys())
    found = existing(options, topics)
    missing += [str(partition) for partition in options.partitions if partition not in set(found)]
    if missing:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"{', '.join(missing)}: no such topic or partition. Create it first"
            " (ottla topics create NAME), or use subscribePattern for topics that are to come",
        )
    return found
