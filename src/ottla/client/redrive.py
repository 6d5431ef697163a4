"""Redrive: sends the dead letters of a share group back to the topics that they came from.

Exactly once: one transaction writes the records and the position in the dead letter queue, so that
a redrive that is killed or fenced neither loses nor repeats a record. Positions are committed
offsets of the group `ottla.redrive.<share group>`.

The source record goes back whole, with its own headers, if it still exists. If it does not, the
copy in the letter goes back, which has key and value only. A letter without a copy whose source
record is gone counts as lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self

import confluent_kafka

from ottla.client.admin_session import AdminSession
from ottla.client.committed_offsets import OffsetAndMetadata, committed_offsets
from ottla.client.configs import ConfigAdmin, ResourceType
from ottla.client.kafka_errors import kafka_error_of
from ottla.client.log_reader import LogReader
from ottla.client.offsets import EARLIEST, LATEST, OffsetAdmin
from ottla.client.producer import Producer
from ottla.client.record import TopicPartition
from ottla.client.redrive_position import RedrivePosition
from ottla.client.settings import LOG_LEVEL, client_with, librdkafka_settings
from ottla.client.topics import TopicAdmin, TopicDescription
from ottla.errors import ErrorCode, KafkaError
from ottla.records.record import Record

TOPIC_NAME: Final = "errors.deadletterqueue.topic.name"
GROUP_PREFIX: Final = "ottla.redrive."
TRANSACTION_RECORDS_MAX: Final = 500
COMMIT_S_MAX: Final = 60.0

_GONE: Final = (ErrorCode.OFFSET_OUT_OF_RANGE,)
_NO_TOPIC: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


@dataclass(slots=True, frozen=True)
class RedriveFilter:
    """Which letters go back. Times are those of the letters: when their records were rejected."""

    topics: tuple[str, ...] = ()  # source topics; empty: any
    from_ms: int | None = None
    to_ms: int | None = None  # exclusive
    limit: int | None = None

    def takes(self, letter: DeadLetter) -> bool:
        if self.topics and letter.source.topic not in self.topics:
            return False
        if self.from_ms is not None and letter.record.timestamp < self.from_ms:
            return False
        return self.to_ms is None or letter.record.timestamp < self.to_ms


@dataclass(slots=True)
class RedriveSummary:
    """What happened to the letters that were not done before."""

    dead_letter_topic: str
    redriven: Counter[TopicPartition] = field(default_factory=Counter)  # by source partition
    filtered: int = 0
    lost: int = 0  # no copy, and the source record is gone
    homeless: int = 0  # their topic is gone: kept for later

    @property
    def count(self) -> int:
        return sum(self.redriven.values())


class DeadLetter(NamedTuple):
    """A record of the dead letter queue, and the source record that it is about."""

    record: Record
    group_id: str
    source: TopicPartition
    offset: int

    @property
    def has_copy(self) -> bool:
        return self.record.key is not None or self.record.value is not None


Progress = Callable[[RedriveSummary], None]


def redrive(
    session: AdminSession,
    group: str,
    choice: RedriveFilter | None = None,
    *,
    dry_run: bool = False,
    progress: Progress = lambda summary: None,
) -> RedriveSummary:
    """Send dead letters back; `progress` is called after each transaction.

    A dry run only counts.
    """
    topic = _dead_letter_topic(session, group)
    choice = choice or RedriveFilter()
    if dry_run:
        return _Redrive(session, group, topic, choice, None).run(progress)
    with _RedriveProducer(session, group) as writer:
        return _Redrive(session, group, topic, choice, writer).run(progress)


def _dead_letter_topic(session: AdminSession, group: str) -> str:
    for config in ConfigAdmin(session).describe(ResourceType.GROUP, group):
        if config.name == TOPIC_NAME and config.value:
            return config.value
    raise KafkaError(
        ErrorCode.INVALID_CONFIG, f"share group {group} has no dead letter queue ({TOPIC_NAME})"
    )


class _Redrive:
    """One run over the queue, up to its end at the start."""

    def __init__(
        self,
        session: AdminSession,
        group: str,
        topic: str,
        choice: RedriveFilter,
        writer: _RedriveProducer | None,
    ) -> None:
        self._session = session
        self._group = group
        self._choice = choice
        self._writer = writer
        self._reader = LogReader(session)
        self._sources: dict[TopicPartition, dict[int, Record]] = {}  # last read of each
        self._batch: list[tuple[TopicPartition, Record]] = []
        self._positions: dict[TopicPartition, RedrivePosition] = {}
        self._summary = RedriveSummary(topic)

    def run(self, progress: Progress) -> RedriveSummary:
        summary, limit = self._summary, self._choice.limit
        committed = committed_offsets(self._session, GROUP_PREFIX + self._group)
        ends = self._offsets(LATEST)
        starts = self._offsets(EARLIEST)
        for partition, end in ends.items():
            found = committed.get(partition) or OffsetAndMetadata(0)
            position = RedrivePosition(found.offset, found.metadata)
            position.mark(0, starts[partition] - 1)
            self._positions[partition] = position
            for letter in self._letters(partition, position, end):
                if limit is not None and summary.count >= limit:
                    break
                self._take(position, letter)
                if len(self._batch) >= TRANSACTION_RECORDS_MAX:
                    self._commit()
                    progress(summary)
        self._commit()
        return summary

    def _offsets(self, spec: int) -> dict[TopicPartition, int]:
        topic = self._summary.dead_letter_topic
        described = TopicAdmin(self._session).describe(topic)[topic]
        if not isinstance(described, TopicDescription):
            raise described
        partitions = [
            TopicPartition(topic, described_partition.partition)
            for described_partition in described.partitions
        ]
        found: dict[TopicPartition, int] = {}
        for partition, at in OffsetAdmin(self._session).find(partitions, spec).items():
            if isinstance(at, KafkaError):
                raise at
            found[partition] = at.offset
        return found

    def _letters(
        self, partition: TopicPartition, position: RedrivePosition, end: int
    ) -> Iterator[Record]:
        """Letters that are not done. Offsets without a record count as done.

        Stops at `end`: records that go back may be rejected again during the run.
        """
        offset = position.offset
        while offset < end:
            records = self._reader.read(partition, offset)
            if not records:
                return
            for record in records:
                if record.offset >= end:
                    return
                position.mark(offset, record.offset - 1)
                offset = record.offset + 1
                if not position.is_done(record.offset):
                    yield record

    # -- one letter

    def _take(self, position: RedrivePosition, record: Record) -> None:
        letter = read_letter(record)
        if letter is None or letter.group_id != self._group:
            position.mark(record.offset)  # another group's letter; that group has its own position
            return
        if not self._choice.takes(letter):
            self._summary.filtered += 1
            return
        try:
            found = self._whole(letter)
        except KafkaError as error:
            if error.code not in _NO_TOPIC:
                raise
            self._summary.homeless += 1
            return
        position.mark(record.offset)
        if found is None:
            self._summary.lost += 1
            return
        self._batch.append((letter.source, found))
        self._summary.redriven[letter.source] += 1

    def _whole(self, letter: DeadLetter) -> Record | None:
        """The source record, or the letter's copy if that record is gone."""
        found = self._source(letter.source, letter.offset)
        copy = letter.record
        if not letter.has_copy:
            return found
        if found is not None and (found.key, found.value) == (copy.key, copy.value):
            return found
        return Record(key=copy.key, value=copy.value)

    def _source(self, partition: TopicPartition, offset: int) -> Record | None:
        """Letters are mostly in the order of their source records, so the last read is kept."""
        if offset not in self._sources.get(partition, ()):
            try:
                records = self._reader.read(partition, offset)
            except KafkaError as error:
                if error.code not in _GONE:
                    raise
                records = []
            self._sources[partition] = {record.offset: record for record in records}
        return self._sources[partition].get(offset)

    def _commit(self) -> None:
        batch, self._batch = self._batch, []
        if self._writer is None:
            return
        if not all(position.fits for position in self._positions.values()):
            raise KafkaError(
                ErrorCode.OFFSET_METADATA_TOO_LARGE,
                "too many dead letters were left out for the others to be remembered:"
                " redrive those first, or without a filter",
            )
        self._writer.write(batch, self._positions)


class _RedriveProducer:
    """Writes records and positions in one transaction.

    Its transactional id fences an earlier redrive of the same group.
    """

    def __init__(self, session: AdminSession, group: str) -> None:
        name = GROUP_PREFIX + group
        self._producer = Producer[bytes, bytes](
            session.bootstrap_servers,
            delivery="exactly_once",
            transactional_id=name,
            settings=session.settings,
        )
        # Only a consumer has group metadata. This one never joins the group.
        where = {"bootstrap.servers": session.bootstrap_servers, "log_level": LOG_LEVEL}
        config: dict[str, Any] = {
            **where,
            **librdkafka_settings(session.settings),
            "group.id": name,
        }
        self._member = client_with(confluent_kafka.Consumer, config)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._member.close()
        self._producer.close()

    def write(
        self,
        batch: Sequence[tuple[TopicPartition, Record]],
        positions: Mapping[TopicPartition, RedrivePosition],
    ) -> None:
        producer = self._producer
        offsets = [
            confluent_kafka.TopicPartition(*partition, position.offset, position.metadata)
            for partition, position in positions.items()
        ]
        with producer.transaction():
            sent = [
                producer.send(
                    source.topic,
                    record.value,
                    key=record.key,
                    partition=source.partition,
                    headers=record.headers,
                )
                for source, record in batch
            ]
            for future in sent:
                future.result(COMMIT_S_MAX)
            try:
                group = self._member.consumer_group_metadata()
                producer.raw.send_offsets_to_transaction(offsets, group, COMMIT_S_MAX)
            except confluent_kafka.KafkaException as error:
                raise kafka_error_of(error) from None


def read_letter(record: Record) -> DeadLetter | None:
    """None: not a dead letter."""
    headers = {name: value for name, value in record.headers if value is not None}
    try:
        source = TopicPartition(
            headers["__dlq.errors.topic"].decode(), int(headers["__dlq.errors.partition"])
        )
        group_id = headers["__dlq.errors.group"].decode()
        return DeadLetter(record, group_id, source, int(headers["__dlq.errors.offset"]))
    except (KeyError, ValueError):
        return None
