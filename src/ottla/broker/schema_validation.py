"""Validates that records name schemas of their subjects (confluent.value.schema.validation).

A Produce to such a topic is checked before any of it is appended. A schema that was found is cached
for good, because an id never changes. A schema that is not cached is looked up by a helper thread,
while this Produce, and everything behind it on its connection, waits. A schema that the registry
does not have is cached only for a moment, so that it is accepted soon after it is registered. If
the registry does not answer, the producer gets an error that it retries: the broker accepts nothing
unchecked, and loses nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.broker.promise import Promise
from ottla.broker.subject_rules import SubjectRule, judge, rules_of
from ottla.clock import Clock
from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import AppendOrigin, BatchHeader, check_batches
from ottla.records.record import RecordErrors, parse_records, read_payload
from ottla.records.schema_frames import distinct_schema_frames, frames_of
from ottla.replica.partition import Partition
from ottla.schemas.framing import FramingError, split_frame
from ottla.slices import FileSlice
from ottla.storage.log_config import LogConfig
from ottla.storage.rewrite import check_counts, unpacked_size_max
from ottla.wire.messages.produce import PartitionProduceData

if TYPE_CHECKING:
    from ottla.client.schema_registry import SchemaRegistry
    from ottla.config import ServerConfig

PREFIX: Final = "confluent."
URL: Final = "confluent.schema.registry.url"
LOOKUPS_MAX: Final = 4  # at a time
LOOKUP_S_MAX: Final = 5.0
LOOKUP_TRIES_MAX: Final = 2
REFUSED_MS: Final = 100  # for which a schema that was not found is not looked up again
DOWN_MS: Final = 1000  # for which a registry that failed is not queried again
FRAMES_MAX: Final = 10_000  # remembered for each subject; beyond it they are looked up again

log = logging.getLogger("ottla.broker")

TopicPartitionKey = tuple[str, int]  # topic, index
RejectedBatches = dict[TopicPartitionKey, KafkaError]


SchemaUse = tuple[SubjectRule, bytes]  # a frame where it was found


class CheckedBatch(NamedTuple):
    """One partition's batch; `unknown` are the schemas that have to be looked up."""

    partition: Partition
    data: PartitionProduceData
    unknown: list[SchemaUse]


class SchemaValidation:
    """`on` is True once a topic of this broker needs it. Before that it costs nothing."""

    def __init__(self, config: ServerConfig, clock: Clock) -> None:
        """KafkaError if the registry's settings are invalid."""
        self.on = False
        self._clock = clock
        self._settings = {
            name.removeprefix(PREFIX): value
            for name, value in config.static.items()
            if name.startswith(PREFIX)
        }
        self._registry: SchemaRegistry | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._accepted: dict[SubjectRule, set[bytes]] = {}
        self._refused: dict[SchemaUse, tuple[int, str]] = {}  # until when, and why
        self._lookups: dict[SchemaUse, asyncio.Task[str | None]] = {}
        self._checks: set[asyncio.Task[None]] = set()
        self._down_until_ms = 0
        if config.static.get(URL, "").strip():
            self.use("")

    def use(self, url: str) -> None:
        """Use this registry unless one is configured."""
        if self._registry is None:
            from ottla.client.schema_registry import SchemaRegistry  # few brokers need it

            self._registry = SchemaRegistry(
                url, self._settings, timeout_s=LOOKUP_S_MAX, tries_max=LOOKUP_TRIES_MAX
            )
            self._threads = ThreadPoolExecutor(LOOKUPS_MAX, thread_name_prefix="ottla-schemas")

    def noted(self, settings: LogConfig) -> LogConfig:
        """Switch validation on with the first topic that needs it."""
        self.on = self.on or settings.validates_schemas
        return settings

    def stop(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def check(
        self, batches: Iterable[tuple[Partition, PartitionProduceData]]
    ) -> Promise[RejectedBatches]:
        """The partitions whose batches are refused, and why. Resolved at once if all is known."""
        refused: RejectedBatches = {}
        waiting: list[CheckedBatch] = []
        for partition, data in batches:
            try:
                unknown = self._unknown(partition, data)
            except KafkaError as error:
                refused[partition.topic, partition.index] = error
                continue
            if unknown:
                waiting.append(CheckedBatch(partition, data, unknown))
        answer = Promise[RejectedBatches]()
        if not waiting:
            answer.resolve(refused)
            return answer
        task = asyncio.get_running_loop().create_task(self._settle(waiting, refused, answer))
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)
        return answer

    def _unknown(self, partition: Partition, data: PartitionProduceData) -> list[SchemaUse]:
        """The schemas that have to be looked up; RecordErrors for those known to be wrong."""
        unknown: list[SchemaUse] = []
        refused: dict[SchemaUse, str] = {}
        now_ms = self._clock.now_ms()
        for rule, frames in _frames(partition, data):
            frames -= self._accepted.get(rule, frozenset())
            for frame in frames:
                reason = self._known_reason((rule, frame), now_ms)
                if reason is None:
                    unknown.append((rule, frame))
                else:
                    refused[rule, frame] = reason
        if refused:
            raise _refusal(partition, data, refused)
        return unknown

    def _known_reason(self, use: SchemaUse, now_ms: int) -> str | None:
        until_ms, reason = self._refused.get(use, (0, ""))
        if until_ms > now_ms:
            return reason
        try:
            split_frame(use[1])
        except FramingError as error:
            return f"the {use[0].side} names no schema: {error}"
        return None

    async def _settle(
        self,
        waiting: list[CheckedBatch],
        refused: RejectedBatches,
        answer: Promise[RejectedBatches],
    ) -> None:
        for batch in waiting:
            key = (batch.partition.topic, batch.partition.index)
            try:
                for use in batch.unknown:
                    reason = await self._look_up(use)
                    if reason is not None:
                        raise _refusal(batch.partition, batch.data, {use: reason})
            except KafkaError as error:
                refused[key] = error
            except BaseException as error:  # or the Produce would wait forever
                log.error("Checking the schemas of %s-%d failed", *key, exc_info=error)
                refused[key] = _unavailable(str(error) or type(error).__name__)
        answer.resolve(refused)

    async def _look_up(self, use: SchemaUse) -> str | None:
        """None if the registry has it. Produces that need the same schema share one look-up."""
        if use[1] in self._accepted.get(use[0], ()):
            return None
        task = self._lookups.get(use)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._query_registry(use))
            self._lookups[use] = task
            task.add_done_callback(lambda _: self._lookups.pop(use, None))
        return await asyncio.shield(task)

    async def _query_registry(self, use: SchemaUse) -> str | None:
        if self._registry is None:
            raise _unavailable(f"this broker has no registry: set {URL}")
        if self._clock.now_ms() < self._down_until_ms:
            raise _unavailable("it did not answer a moment ago")
        loop = asyncio.get_running_loop()
        try:
            reason = await loop.run_in_executor(self._threads, judge, self._registry, *use)
        except Exception as error:
            log.error("Schema registry %s failed: %s", self._registry.url, error)
            self._down_until_ms = self._clock.now_ms() + DOWN_MS
            raise _unavailable(str(error)) from None
        if reason is None:
            accepted = self._accepted.setdefault(use[0], set())
            if len(accepted) >= FRAMES_MAX:
                accepted.clear()
            accepted.add(use[1])
        else:
            if len(self._refused) >= FRAMES_MAX:
                self._refused.clear()
            self._refused[use] = (self._clock.now_ms() + REFUSED_MS, reason)
        return reason


def _frames(
    partition: Partition, data: PartitionProduceData
) -> list[tuple[SubjectRule, set[bytes]]]:
    """The batch's frames; KafkaError for one that can't be read."""
    config = partition.log.config
    key_rule, value_rule = rules_of(partition.topic, config)
    key_frames: set[bytes] = set()
    value_frames: set[bytes] = set()
    for header, payload in _payloads(config, data):
        batch_frames = distinct_schema_frames(
            payload,
            header.record_count,
            keys=key_rule is not None,
            values=value_rule is not None,
        )
        key_frames |= batch_frames[0]
        value_frames |= batch_frames[1]
    both = ((key_rule, key_frames), (value_rule, value_frames))
    return [(rule, frames) for rule, frames in both if rule is not None]


def _payloads(config: LogConfig, data: PartitionProduceData) -> list[tuple[BatchHeader, bytes]]:
    records = data.records
    assert records is not None
    assert not isinstance(records, FileSlice)
    headers = check_batches(
        memoryview(records), batch_size_max=config.max_message_bytes, origin=AppendOrigin.CLIENT
    )
    check_counts(headers)
    size_max = unpacked_size_max(config)
    return [(header, read_payload(records, header, size_max=size_max)) for header in headers]


def _refusal(
    partition: Partition, data: PartitionProduceData, refused: dict[SchemaUse, str]
) -> RecordErrors:
    """INVALID_RECORD, with the indexes of the records (KIP-467)."""
    config = partition.log.config
    key_rule, value_rule = rules_of(partition.topic, config)
    errors: list[tuple[int, str]] = []
    index = 0
    for header, payload in _payloads(config, data):
        for record in parse_records(payload, header):
            key, value = frames_of(record)
            for rule, frame in ((key_rule, key), (value_rule, value)):
                if rule is not None and frame is not None and (rule, frame) in refused:
                    errors.append((index, refused[rule, frame]))
                    break
            index += 1
    return RecordErrors(errors)


def _unavailable(why: str) -> KafkaError:
    """An error that every producer retries, knowing that nothing was written."""
    return KafkaError(
        ErrorCode.NOT_ENOUGH_REPLICAS, f"The schema registry is unavailable, try again: {why}"
    )
