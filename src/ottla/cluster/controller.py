"""The controller: the one broker that carries decisions out.

It holds one key, and counts up an epoch when it takes it. Each of its methods decides on the newest
image, commits what was decided in one go, and publishes that here before it returns: a client
that created a topic finds it in its next request. When somebody else changed the same thing in the
meantime, it decides anew.
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from ottla.cluster import decisions, layout
from ottla.cluster.decisions import Dice, NewTopic, write_config
from ottla.cluster.image import Config, Image, QuotaEntity, Topic
from ottla.cluster.membership import random_uuid
from ottla.cluster.metadata import Metadata
from ottla.cluster.store import (
    Change,
    Check,
    Conflict,
    Create,
    Delete,
    Entry,
    Hold,
    MetaStore,
    Put,
    StoreError,
    Write,
)
from ottla.config import ServerConfig
from ottla.errors import ErrorCode, KafkaError

COMMIT_TRIES_MAX = 10
PRODUCER_ID_BLOCK = 1000
PRODUCER_ID_MAX = 2**63 - 1

Result = TypeVar("Result")
Name = TypeVar("Name", bound=Hashable)
Decision = Callable[[Image], tuple[list[Write], Result]]
ConfigChange = Callable[[Mapping[str, str]], Mapping[str, str]]
"""From the configs that are set to those that shall be; KafkaError refuses."""
Charge = Callable[[str, int], None]
"""Told of a topic and how many partitions are made or deleted, before they are; KafkaError refuses.
Told again where a decision has to be made anew."""

log = logging.getLogger("ottla.cluster")


class Controller:
    """Creates, changes and deletes. `config` gives the broker's configuration of this moment."""

    def __init__(
        self,
        store: MetaStore,
        metadata: Metadata,
        *,
        broker_id: int,
        config: Callable[[], ServerConfig],
        dice: random.Random | None = None,
        urandom: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._store = store
        self._metadata = metadata
        self._broker_id = broker_id
        self._config = config
        self._dice = dice if dice is not None else random.Random()
        self._urandom = urandom
        self._hold: Hold | None = None
        self._epoch_version = -1

    async def elect(self, now_ms: int) -> bool:
        """Try to become the controller; False if another broker is."""
        who = {"version": 1, "brokerid": self._broker_id, "timestamp": str(now_ms)}
        try:
            self._hold = await self._store.hold(layout.CONTROLLER, layout.dump(who))
        except Conflict:
            return False
        key = layout.CONTROLLER_EPOCH
        entry = await self._store.get(key)
        if entry is None:
            entry = Entry(layout.dump(1), await self._store.create(key, layout.dump(1)))
        else:
            value = layout.dump(layout.load(entry) + 1)
            entry = Entry(value, await self._store.put(key, value, version=entry.version))
        self._epoch_version = entry.version
        self._metadata.apply([Change(layout.CONTROLLER, self._hold.entry), Change(key, entry)])
        return True

    async def resign(self) -> None:
        if self._hold is not None:
            await self._hold.release()
            self._metadata.apply([Change(layout.CONTROLLER, None)])
            self._hold = None

    async def create_topics(
        self,
        wishes: Sequence[NewTopic],
        *,
        validate_only: bool = False,
        charge: Charge | None = None,
    ) -> dict[str, Topic | KafkaError]:
        """Each topic as it is now, or why it could not be; names are different from each other."""
        throws = {wish.name: self._throw() for wish in wishes}

        def decide(image: Image) -> tuple[list[Write], dict[str, Topic | KafkaError]]:
            results: dict[str, Topic | KafkaError] = {}
            writes: list[Write] = []
            partition_count = 0
            for wish in wishes:
                try:
                    topic, more = decisions.create_topic(
                        image, self._config(), wish, throws[wish.name]
                    )
                    partition_count += len(topic.partitions)
                    decisions.check_partition_total(partition_count)
                    if charge is not None:
                        charge(wish.name, len(topic.partitions))
                except KafkaError as error:
                    results[wish.name] = error
                else:
                    results[wish.name] = topic
                    writes.extend(more)
            return ([] if validate_only else writes), results

        return await self._carry_out(decide)

    async def create_partitions(
        self,
        counts: Mapping[str, tuple[int, Sequence[Sequence[int]] | None]],
        *,
        validate_only: bool = False,
        charge: Charge | None = None,
    ) -> dict[str, KafkaError | None]:
        """Let topics grow: name -> (new count, replicas of the new ones or None)."""
        throw = self._throw()

        def grow(image: Image, name: str) -> list[Write]:
            count, assignment = counts[name]
            writes = decisions.create_partitions(image, name, count, assignment, throw)
            if charge is not None:
                charge(name, count - len(image.topics[name].partitions))
            return writes

        return await self._for_each(counts, grow, validate_only=validate_only)

    async def delete_topics(
        self, names: Iterable[str], *, charge: Charge | None = None
    ) -> dict[str, KafkaError | None]:
        def delete(image: Image, name: str) -> list[Write]:
            writes = decisions.delete_topic(image, name)
            if charge is not None:
                charge(name, len(image.topics[name].partitions))
            return writes

        return await self._for_each(names, delete, validate_only=False)

    async def alter_topic_config(
        self, name: str, change: ConfigChange, *, validate_only: bool = False
    ) -> None:
        """Set a topic's own configs to what `change` makes of those that are set now."""

        def decide(image: Image) -> tuple[list[Write], None]:
            topic = image.topics.get(name)
            if topic is None:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
                )
            values = change(topic.configs)
            key = layout.topic_config_key(name)
            return ([] if validate_only else write_config(key, topic.config, values)), None

        await self._carry_out(decide)

    async def alter_broker_config(
        self, name: str, change: ConfigChange, *, validate_only: bool = False
    ) -> None:
        """The same for what is set at run time for a broker, or for all of them ('')."""
        key = layout.broker_config_key(name)
        await self._alter_config(
            key, lambda image: image.broker_configs.get(name), change, validate_only=validate_only
        )

    async def alter_group_config(
        self, group_id: str, change: ConfigChange, *, validate_only: bool = False
    ) -> None:
        """The same for a group, which need not exist."""
        key = layout.group_config_key(group_id)
        await self._alter_config(
            key,
            lambda image: image.group_configs.get(group_id),
            change,
            validate_only=validate_only,
        )

    async def alter_client_metrics(
        self, name: str, change: ConfigChange, *, validate_only: bool = False
    ) -> None:
        """The same for a subscription to clients' metrics."""
        key = layout.client_metrics_key(name)
        await self._alter_config(
            key,
            lambda image: image.client_metrics_configs.get(name),
            change,
            validate_only=validate_only,
        )

    async def alter_quotas(
        self,
        entities: Iterable[QuotaEntity],
        change: Callable[[QuotaEntity, Mapping[str, str]], Mapping[str, str]],
        *,
        validate_only: bool = False,
    ) -> dict[QuotaEntity, KafkaError | None]:
        """The same for the quotas of many entities, each of which succeeds or fails by itself."""

        def decide(image: Image, entity: QuotaEntity) -> list[Write]:
            present = image.quotas.get(entity, Config())
            values = change(entity, present.values)
            return write_config(layout.quota_key(entity), present, values)

        return await self._for_each(entities, decide, validate_only=validate_only)

    async def _alter_config(
        self,
        key: str,
        find: Callable[[Image], Config | None],
        change: ConfigChange,
        *,
        validate_only: bool,
    ) -> None:
        def decide(image: Image) -> tuple[list[Write], None]:
            present = find(image) or Config()
            values = change(present.values)
            return ([] if validate_only else write_config(key, present, values)), None

        await self._carry_out(decide)

    async def allocate_producer_ids(self, count: int = PRODUCER_ID_BLOCK) -> tuple[int, int]:
        """(first, count) of a block of ids that nobody has had, or will have."""
        for _ in range(COMMIT_TRIES_MAX):
            entry = await self._store.get(layout.PRODUCER_IDS)
            first = int(layout.load(entry)["block_end"]) + 1 if entry is not None else 0
            if first + count > PRODUCER_ID_MAX:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "producer ids are used up")
            block = {"block_start": str(first), "block_end": str(first + count - 1)}
            value = layout.dump({"version": 1, "broker": self._broker_id, **block})
            key = layout.PRODUCER_IDS
            try:
                await self._commit(
                    [Put(key, value, entry.version) if entry else Create(key, value)]
                )
            except Conflict:
                continue
            return first, count
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)

    async def _for_each(
        self,
        names: Iterable[Name],
        decide_one: Callable[[Image, Name], list[Write]],
        *,
        validate_only: bool,
    ) -> dict[Name, KafkaError | None]:
        """Decide on each name by itself, commit what came out of it all together."""

        def decide(image: Image) -> tuple[list[Write], dict[Name, KafkaError | None]]:
            results: dict[Name, KafkaError | None] = {}
            writes: list[Write] = []
            for name in names:
                try:
                    writes.extend(decide_one(image, name))
                    results[name] = None
                except KafkaError as error:
                    results[name] = error
            return ([] if validate_only else writes), results

        return await self._carry_out(decide)

    async def _carry_out(self, decide: Decision[Result]) -> Result:
        """Decide, commit, publish; decide anew if somebody else was faster."""
        for _ in range(COMMIT_TRIES_MAX):
            writes, result = decide(self._metadata.image)
            try:
                await self._commit(writes)
            except Conflict as conflict:
                log.info("deciding anew: %s", conflict)
                await self._metadata.refresh()
                continue
            return result
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "metadata changes too fast to keep up")

    async def _commit(self, writes: Sequence[Write]) -> None:
        """With every commit the epoch is checked: a controller of old changes nothing more."""
        if not writes:
            return
        if self._hold is None or self._hold.lost.is_set():
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        writes = [Check(layout.CONTROLLER_EPOCH, self._epoch_version), *writes]
        try:
            versions = await self._store.commit(writes)
        except Conflict as conflict:
            if conflict.key == layout.CONTROLLER_EPOCH:
                raise KafkaError(ErrorCode.NOT_CONTROLLER) from conflict
            raise
        except StoreError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        self._metadata.apply(_changes(writes, versions))

    def _throw(self) -> Dice:
        count = max(1, len(self._metadata.image.brokers))
        return Dice(
            topic_id=random_uuid(self._urandom),
            start=self._dice.randrange(count),
            shift=self._dice.randrange(count),
        )


def _changes(writes: Sequence[Write], versions: Sequence[int]) -> Iterable[Change]:
    for write, version in zip(writes, versions, strict=True):
        match write:
            case Create(key, value) | Put(key, value):
                yield Change(key, Entry(value, version))
            case Delete(key):
                yield Change(key, None)
            case Check():
                pass
