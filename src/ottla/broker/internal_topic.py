"""A coordinator's topic: whatever of it this broker leads is loaded, and let go of when it is not.

The rules are the same for groups and for transactions. A partition that this broker begins to lead
is read from its start; requests for it are told to wait meanwhile. One that it leads in another
epoch is read anew: somebody else may have written to it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from ottla.broker.journal import Stored, stored
from ottla.cluster.image import Image, Topic
from ottla.errors import KafkaError
from ottla.replica.partition import Partition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

# Logs of this size together are loaded before the broker accepts; what is larger, beside its work.
LOAD_AT_ONCE_BYTES_MAX: Final = 4 * 1024 * 1024

Take = Callable[[list[Stored]], object]  # the next batches of a partition, in order

log = logging.getLogger("ottla.broker")


class Driver(Protocol):
    """What a coordinator's driver does about its partitions."""

    def reset(self, partition_count: int) -> None:
        """The topic is there, or another one of its name is: begin with nothing."""

    def begin(self, index: int, leader_epoch: int) -> Take:
        """A partition is going to be loaded."""

    def finish(self, index: int, now_ms: int) -> None:
        """That was all of it."""

    def drop(self, index: int) -> None:
        """A partition, loaded or not, is not here any more."""


class _Led:
    """A partition for as long as this broker leads it, in one epoch."""

    __slots__ = ("epoch", "index")

    def __init__(self, index: int, epoch: int) -> None:
        self.index = index
        self.epoch = epoch


class InternalTopic:
    """`buffer_size` is how many bytes are read and taken at once."""

    def __init__(
        self, name: str, broker: Broker, driver: Driver, *, buffer_size: Callable[[], int]
    ) -> None:
        self.name = name
        self._broker = broker
        self._driver = driver
        self._buffer_size = buffer_size
        self._topic_id = b""
        self._led: dict[int, _Led] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._drop(list(self._led))

    def apply(self, image: Image, now_ms: int) -> None:
        topic = image.topics.get(self.name)
        topic_id = b"" if topic is None else topic.id
        if topic_id != self._topic_id:
            self._drop(list(self._led))
            self._topic_id = topic_id
            if topic is not None:
                self._driver.reset(len(topic.partitions))
        if topic is not None:
            self._follow(topic, now_ms)

    def _follow(self, topic: Topic, now_ms: int) -> None:
        """Load what this broker leads now, drop what it no longer does or was given anew."""
        held = self._broker.partitions.of_topic(topic.name)
        leads = {index: each.leader_epoch for index, each in held.items() if each.leads}
        self._drop([led.index for led in self._led.values() if leads.get(led.index) != led.epoch])
        size = 0
        for index, epoch in leads.items():
            if index not in self._led:
                size += self._load(_Led(index, epoch), size, now_ms)

    def _drop(self, indexes: list[int]) -> None:
        for index in indexes:
            del self._led[index]
            self._driver.drop(index)

    # -- loading

    def _load(self, led: _Led, size_before: int, now_ms: int) -> int:
        """Begin to load a partition, and give its size."""
        self._led[led.index] = led
        try:
            partition = self._broker.partitions.find(self.name, led.index)
        except KafkaError as error:
            log.error("%s-%d is not here: %s", self.name, led.index, error)
            return 0
        take = self._driver.begin(led.index, led.epoch)
        size = partition.log.size
        if size_before + size <= LOAD_AT_ONCE_BYTES_MAX:
            self._load_now(partition, led, take, now_ms)
        else:
            task = asyncio.get_running_loop().create_task(self._load_beside(partition, led, take))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return size

    def _load_now(self, partition: Partition, led: _Led, take: Take, now_ms: int) -> None:
        try:
            for batches in stored(partition, size_max=self._buffer_size()):
                take(batches)
        except Exception as error:
            self._give_up(led, error)
            return
        self._driver.finish(led.index, now_ms)

    async def _load_beside(self, partition: Partition, led: _Led, take: Take) -> None:
        """A buffer at a time, so that the broker serves others meanwhile."""
        try:
            for batches in stored(partition, size_max=self._buffer_size()):
                take(batches)
                await asyncio.sleep(0)
                if self._led.get(led.index) is not led:
                    return
        except Exception as error:
            if self._led.get(led.index) is led:
                self._give_up(led, error)
            return
        self._driver.finish(led.index, self._broker.clock.now_ms())

    def _give_up(self, led: _Led, error: Exception) -> None:
        """Damage has been told in words; anything else is a bug, of which the place is told too."""
        trace = None if isinstance(error, KafkaError) else error
        log.error("%s-%d cannot be read: %s", self.name, led.index, error, exc_info=trace)
        self._driver.drop(led.index)
