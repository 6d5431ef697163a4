"""A coordinator's topic: the partitions that this broker leads are loaded, and unloaded again.

A partition that this broker begins to lead is read from its start; its requests get
COORDINATOR_LOAD_IN_PROGRESS meanwhile. A partition that it leads in another epoch is read again,
because another broker may have written to it in between.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, Protocol

from ottla.broker.stored_batches import StoredBatch, read_stored_batches
from ottla.clock import Clock
from ottla.cluster.image import MetadataImage, TopicImage
from ottla.coordinator.latest_records import NO_PRODUCER_ID
from ottla.coordinator.runtime import CoordinatorRuntime, CoordinatorShard
from ottla.errors import KafkaError
from ottla.replica.partition import Partition
from ottla.replica.partitions import Partitions

# Logs of this size together are loaded before the broker accepts connections. Larger ones are
# loaded while it serves.
LOAD_AT_ONCE_BYTES_MAX: Final = 4 * 1024 * 1024

# Limits of what one turn of the loop loads while the broker serves; the first one reached ends it.
SLICE_BYTES_MAX: Final = 256 * 1024
SLICE_MS_MAX: Final = 5
SLICE_RECORDS: Final = 64  # between two looks at the clock

log = logging.getLogger("ottla.broker")


class ShardLoader(Protocol):
    """Loads and unloads the shards of a topic: a `CoordinatorService`."""

    @property
    def coordinator(self) -> CoordinatorRuntime[Any]: ...

    @property
    def load_buffer_size(self) -> int: ...

    def reset(self, partition_count: int) -> None: ...

    def finish_load(self, partition: int, now_ms: int) -> None: ...

    def unload(self, partition: int) -> None: ...


class _LedPartition:
    """A partition that this broker leads, in one leader epoch."""

    __slots__ = ("epoch", "index")

    def __init__(self, index: int, epoch: int) -> None:
        self.index = index
        self.epoch = epoch


class _PendingLoad(NamedTuple):
    """A large partition that waits to be loaded while the broker serves requests."""

    partition: Partition
    led: _LedPartition
    shard: CoordinatorShard


class InternalTopic:
    """Follows one topic, and loads and unloads the shards of `service`."""

    load_at_once_bytes_max = LOAD_AT_ONCE_BYTES_MAX

    def __init__(
        self,
        name: str,
        service: ShardLoader,
        partitions: Partitions,
        *,
        clock: Clock,
    ) -> None:
        self.name = name
        self._service = service
        self._partitions = partitions
        self._clock = clock
        self._topic_id = b""
        self._led: dict[int, _LedPartition] = {}
        self._pending: deque[_PendingLoad] = deque()
        self._loading: asyncio.Task[None] | None = None  # while there are pending loads

    def stop(self) -> None:
        self._pending.clear()
        if self._loading is not None:
            self._loading.cancel()
        self._unload(list(self._led))

    def apply(self, image: MetadataImage, now_ms: int) -> None:
        topic = image.topics.get(self.name)
        topic_id = b"" if topic is None else topic.id
        if topic_id != self._topic_id:
            self._unload(list(self._led))
            self._topic_id = topic_id
            if topic is not None:
                self._service.reset(len(topic.partitions))
        if topic is not None:
            self._follow(topic, now_ms)

    def _follow(self, topic: TopicImage, now_ms: int) -> None:
        """Unload partitions that this broker no longer leads, or leads in another epoch, and load
        those that it leads now."""
        held = self._partitions.of_topic(topic.name)
        epochs = {index: found.leader_epoch for index, found in held.items() if found.leads}
        self._unload(
            [led.index for led in self._led.values() if epochs.get(led.index) != led.epoch]
        )
        size = 0
        for index, epoch in epochs.items():
            if index not in self._led:
                size += self._load(_LedPartition(index, epoch), size, now_ms)

    def _unload(self, indexes: Iterable[int]) -> None:
        for index in indexes:
            del self._led[index]
            self._service.unload(index)

    # -- loading

    def _load(self, led: _LedPartition, size_before: int, now_ms: int) -> int:
        """Begin to load a partition; returns its size."""
        self._led[led.index] = led
        try:
            partition = self._partitions.find(self.name, led.index)
        except KafkaError as error:
            log.error("Failed to load %s-%d: %s", self.name, led.index, error)
            return 0
        shard = self._service.coordinator.begin_load(led.index, led.epoch)
        size = partition.log.size
        if size_before + size <= self.load_at_once_bytes_max:
            self._load_now(partition, led, shard, now_ms)
        else:
            self._pending.append(_PendingLoad(partition, led, shard))
            if self._loading is None:
                self._loading = asyncio.get_running_loop().create_task(self._load_pending())
        return size

    def _load_now(
        self, partition: Partition, led: _LedPartition, shard: CoordinatorShard, now_ms: int
    ) -> None:
        try:
            for batches in read_stored_batches(partition, size_max=self._service.load_buffer_size):
                for _ in _replay(shard, batches):
                    pass
        except Exception as error:
            self._give_up(led, error)
            return
        self._service.finish_load(led.index, now_ms)

    async def _load_pending(self) -> None:
        """Load one partition after another, so that each turn of the loop stays short."""
        try:
            while self._pending:
                await self._load_beside(self._pending.popleft())
                await asyncio.sleep(0)
        finally:
            self._loading = None

    async def _load_beside(self, load: _PendingLoad) -> None:
        """Load a partition slice by slice, so that the broker serves requests in between."""
        if not self._is_led(load.led):
            return
        try:
            for _ in self._slices(load):
                await asyncio.sleep(0)
                if not self._is_led(load.led):
                    return
            self._service.finish_load(load.led.index, self._clock.now_ms())
        except Exception as error:  # of this partition; the others are loaded all the same
            if self._is_led(load.led):
                self._give_up(load.led, error)

    def _is_led(self, led: _LedPartition) -> bool:
        """False once it was unloaded, even if it is being loaded again."""
        return self._led.get(led.index) is led

    def _slices(self, load: _PendingLoad) -> Iterator[None]:
        """Replay the partition; yields after each slice."""
        size_max = min(self._service.load_buffer_size, SLICE_BYTES_MAX)
        began_ms = self._clock.now_ms()
        for batches in read_stored_batches(load.partition, size_max=size_max):
            for _ in _replay(load.shard, batches):
                if self._clock.now_ms() - began_ms >= SLICE_MS_MAX:
                    yield
                    began_ms = self._clock.now_ms()
            yield
            began_ms = self._clock.now_ms()

    def _give_up(self, led: _LedPartition, error: Exception) -> None:
        """A KafkaError names the damage. Any other error is a bug, so its traceback is logged."""
        trace = None if isinstance(error, KafkaError) else error
        log.error("Failed to read %s-%d: %s", self.name, led.index, error, exc_info=trace)
        self._service.unload(led.index)


def _replay(shard: CoordinatorShard, batches: list[StoredBatch]) -> Iterator[None]:
    """Yields after each few records: a batch may have thousands."""
    for header, records, marker in batches:
        if marker is not None:
            shard.load_marker(header.producer_id, commit=marker.commit)
            yield
        producer_id = header.producer_id if header.transactional else NO_PRODUCER_ID
        for start in range(0, len(records), SLICE_RECORDS):
            shard.load(records[start : start + SLICE_RECORDS], producer_id)
            yield
