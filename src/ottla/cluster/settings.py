"""What is set at run time: configs, quotas, and the blocks of producer ids that are given out.

Any broker may change these, without the controller: each lies under a key of its own, and a change
is made on the newest state of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ottla.cluster import layout
from ottla.cluster.commits import TRIES_MAX, Commits
from ottla.cluster.decisions import write_config
from ottla.cluster.image import Config, Image, QuotaEntity
from ottla.cluster.store import Check, Conflict, Create, MetaStore, Put, Write
from ottla.errors import ErrorCode, KafkaError

PRODUCER_ID_BLOCK = 1000
PRODUCER_ID_MAX = 2**63 - 1

ConfigChange = Callable[[Mapping[str, str]], Mapping[str, str]]
"""From the configs that are set to those that shall be; KafkaError refuses."""


class Settings:
    """Changes of what is set."""

    def __init__(self, store: MetaStore, commits: Commits, *, broker_id: int) -> None:
        self._store = store
        self._commits = commits
        self._broker_id = broker_id

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
            writes = write_config(layout.topic_config_key(name), topic.config, values)
            if writes:  # a topic that is deleted at this moment must not leave configs behind
                writes.append(Check(layout.topic_key(name), topic.version))
            return ([] if validate_only else writes), None

        await self._commits.carry_out(decide)

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

        return await self._commits.for_each(entities, decide, validate_only=validate_only)

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

        await self._commits.carry_out(decide)

    async def allocate_producer_ids(self, count: int = PRODUCER_ID_BLOCK) -> tuple[int, int]:
        """(first, count) of a block of ids that nobody has had, or will have."""
        for _ in range(TRIES_MAX):
            entry = await self._store.get(layout.PRODUCER_IDS)
            first = int(layout.load(entry)["block_end"]) + 1 if entry is not None else 0
            if first + count > PRODUCER_ID_MAX:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "producer ids are used up")
            block = {"block_start": str(first), "block_end": str(first + count - 1)}
            value = layout.dump({"version": 1, "broker": self._broker_id, **block})
            key = layout.PRODUCER_IDS
            try:
                await self._commits.commit(
                    [Put(key, value, entry.version) if entry else Create(key, value)]
                )
            except Conflict:
                continue
            return first, count
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
