"""A query's topics, watched from the driver: where it begins, and how far it may read now."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from ottla.client.protocol.cluster_client import ClusterClient, Topic
from ottla.client.protocol.fetching import DataLost, Range
from ottla.client.protocol.retries import UNKNOWN_TOPIC
from ottla.client.record import TopicPartition
from ottla.errors import ErrorCode, KafkaError
from ottla.spark.limits import EARLIEST, LATEST, listed
from ottla.spark.offsets import Offsets, limited
from ottla.spark.options import ReadOptions

log = logging.getLogger("ottla.spark")

METADATA_S_MAX: Final = 1.0  # new partitions and topics are seen after so long
IDLE_WAIT_MS: Final = 50  # half of what lies between two looks: another source may wait as well
IDLE_WAIT_ALONE_MS: Final = 90
GONE_LOOKS: Final = 5  # a broker that has just started may not know all topics yet
GONE_LOOK_S: Final = 0.5


class Following:
    """What a streaming query asks of its source. `clock` counts seconds."""

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
        self._topics: dict[str, Topic] = {}
        self._looked_at: float | None = None
        self._ids: dict[str, bytes] = {}
        self._target: Offsets | None = None
        self._triggered_at: float | None = None
        self._credit = float(options.small_batches_max)
        self._idle = False
        self.ends: Offsets | None = None
        """Where the partitions ended when they were last looked at."""

    def begin(self) -> Offsets:
        """The offsets of a query that has none yet."""
        partitions = chosen(self._options, self._look())
        self._remember()
        return self._options.starting.resolve(
            partitions, self._find, latest_if_no_time=self._options.latest_if_no_time
        )

    def stop_at_present_end(self) -> None:
        """Trigger.AvailableNow: what comes after this moment is for the next run."""
        self._looked_at = None
        self._target = self._find_all(existing(self._options, self._look()), LATEST)

    def latest(self, start: Offsets, *, limit: bool = True) -> Offsets:
        """How far the next batch reads; `start` if there is nothing to read.

        Spark asks a hundred times a second. Who has asked in vain before, with no batch since,
        waits a little: for the first record, not for a clock.
        """
        if self._idle and self._target is None and self.ends:
            committed = self._options.read_committed
            # Who has work done where records are read (Streams) has no other source.
            wait_ms = IDLE_WAIT_ALONE_MS if self._options.work else IDLE_WAIT_MS
            self._brokers.wait(self.ends, wait_ms, read_committed=committed)
        reached = self._latest(start, limit)
        self._idle = reached == start
        return reached

    def batch_ran(self) -> None:
        """There is something to do: perhaps because of another source of the same query."""
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
        """Of all partitions there are. Topics are looked at now and then only: what contradicts
        `start` is looked at again, as one may have gone, or been made anew, since then."""
        for last_try in (False, True):
            try:
                partitions = self._partitions(start)
                ends = self._ends(start, partitions)
            except KafkaError as error:
                if last_try or error.code not in UNKNOWN_TOPIC:
                    raise
            else:
                if last_try or not any(start.get(each, 0) > ends[each] for each in ends):
                    break
            self._looked_at = None
        gone = start.keys() - set(partitions)
        if gone:
            lose(self._options, f"{listed(gone)} are gone: the topic was deleted")
        return ends

    def _partitions(self, start: Offsets) -> list[TopicPartition]:
        """Those there are; for one that was there and is not, we look more than once."""
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
        # A query that began at `latest` a moment after the target was set is beyond it already;
        # and what is new since then is for the next run.
        targets = {**start, **self._target}
        return {
            each: min(end, max(targets[each], start.get(each, 0)))
            for each, end in ends.items()
            if each in targets
        }

    def _begins(self, start: Offsets, ends: Offsets) -> Offsets:
        """Where partitions begin that the query has not met before: new ones, or made anew."""
        new = ends.keys() - start.keys()
        known = ends.keys() & start.keys()
        remade = {each for each in known if self._is_remade(each, start[each] > ends[each])}
        begins = self._find_all(remade | new, EARLIEST)
        for each in sorted(known):
            if each in remade or start[each] > ends[each]:
                lose(
                    self._options,
                    f"the offset of {each} went from {start[each]} to {ends[each]}: its topic was"
                    " deleted and made anew, or the query started beyond its end",
                )
        for each in sorted(new):
            if begins[each] > 0:
                lose(
                    self._options,
                    f"the new partition {each} begins at offset {begins[each]} instead of 0",
                )
        return begins

    def _is_remade(self, where: TopicPartition, went_back: bool) -> bool:
        """Another id says so. Where none is known, as after a restart, an end before the start."""
        before = self._ids.get(where.topic)
        return went_back if before is None else before != self._topics[where.topic].id

    def _remember(self) -> None:
        self._ids.update({name: topic.id for name, topic in self._topics.items()})

    def _too_few(self, start: Offsets, ends: Offsets, begins: Offsets) -> bool:
        """minOffsetsPerTrigger: wait for more, but no longer than maxTriggerDelay since the last
        batch. A query that has had none for so long reads the first record at once.

        With small_batches_max it has credit for so many batches of few records, and gets one more
        in each maxTriggerDelay: now and then a record is read at once, only a trickle waits.
        """
        smallest = self._options.records_min
        if smallest is None or self._target is not None:
            return False
        now = self._clock()
        count = sum(max(0, ends[each] - start.get(each, begins.get(each, 0))) for each in ends)
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

    def _look(self) -> dict[str, Topic]:
        """The topics, as they were a moment ago at most."""
        now = self._clock()
        if self._looked_at is None or now - self._looked_at >= METADATA_S_MAX:
            self._topics = find_topics(self._options, self._brokers)
            self._looked_at = now
        return self._topics

    def _find(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return self._brokers.offsets(times, read_committed=self._options.read_committed)

    def _find_all(self, partitions: Iterable[TopicPartition], when: int) -> Offsets:
        return _offsets(self._find(dict.fromkeys(partitions, when)))


def batch_ranges(options: ReadOptions, brokers: ClusterClient) -> list[Range]:
    """What a batch query reads."""

    def find(times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return brokers.offsets(times, read_committed=options.read_committed)

    partitions = chosen(options, find_topics(options, brokers))
    starts = options.starting.resolve(partitions, find, latest_if_no_time=options.latest_if_no_time)
    ends = options.ending.resolve(partitions, find, latest_if_no_time=True)
    if options.ending.each and not options.ending.by_time:
        ends = _no_further(options, ends, _offsets(find(dict.fromkeys(partitions, LATEST))))
    return [
        Range(*each, starts[each], ends[each])
        for each in sorted(partitions)
        if starts[each] < ends[each]
    ]


def _no_further(options: ReadOptions, ends: Offsets, last: Offsets) -> Offsets:
    """Ends that were named may lie beyond the last record: said now, not by a task that waits."""
    for each in sorted(ends):
        if ends[each] > last[each]:
            what = (
                f"{options.ending.option} has {ends[each]} for {each}, which ends at {last[each]}"
            )
            lose(options, what)
    return {each: min(end, last[each]) for each, end in ends.items()}


def _offsets(found: Mapping[TopicPartition, int | None]) -> Offsets:
    """EARLIEST and LATEST are always found."""
    return {each: offset or 0 for each, offset in found.items()}


def lose(options: ReadOptions, what: str) -> None:
    message = (
        f"Some data may have been missed: {what}. If the query is to go on, set the source"
        ' option "failOnDataLoss" to "false"'
    )
    if options.fail_on_data_loss:
        raise DataLost(ErrorCode.OFFSET_OUT_OF_RANGE, message)
    log.warning("%s", message)


def find_topics(options: ReadOptions, brokers: ClusterClient) -> dict[str, Topic]:
    """Those that exist of the topics which the options name."""
    if not options.pattern:
        return brokers.topics({*options.topics, *(each.topic for each in options.partitions)})
    pattern = re.compile(options.pattern)
    return {
        name: topic
        for name, topic in brokers.topics(None).items()
        if not topic.internal and pattern.fullmatch(name)
    }


def existing(options: ReadOptions, topics: Mapping[str, Topic]) -> list[TopicPartition]:
    found = {
        TopicPartition(name, partition)
        for name, topic in topics.items()
        for partition in topic.leaders
    }
    return sorted(found.intersection(options.partitions) if options.partitions else found)


def chosen(options: ReadOptions, topics: Mapping[str, Topic]) -> list[TopicPartition]:
    """The same at the start, where whatever is named has to exist."""
    missing = sorted(set(options.topics) - topics.keys())
    found = existing(options, topics)
    missing += [str(each) for each in options.partitions if each not in set(found)]
    if missing:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"{', '.join(missing)}: no such topic or partition. Create it first"
            " (ottla topics create NAME), or use subscribePattern for topics that are to come",
        )
    return found
