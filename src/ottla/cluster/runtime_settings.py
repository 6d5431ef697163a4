"""Runtime settings: configs, quotas, ACLs, users, tokens, and blocks of producer ids.

Any broker may change these without the controller: each has its own key, and a change is applied to
the newest version of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ottla.auth.acls import Acl, AclFilter
from ottla.auth.tokens import DelegationToken
from ottla.cluster import layout
from ottla.cluster.acls import AclKey, write_acls
from ottla.cluster.credentials import dump_token, token_key
from ottla.cluster.image import MetadataImage, QuotaEntity, StoredConfig
from ottla.cluster.metadata_writer import TRIES_MAX, MetadataWriter
from ottla.cluster.store import Check, Conflict, Create, Delete, MetaStore, Put, Write
from ottla.cluster.topics import write_config
from ottla.errors import ErrorCode, KafkaError

PRODUCER_ID_BLOCK = 1000
PRODUCER_ID_MAX = 2**63 - 1

ConfigChange = Callable[[Mapping[str, str]], Mapping[str, str]]
"""Maps the present configs to the new ones; KafkaError refuses the change."""


class RuntimeSettings:
    """Changes runtime settings; one instance per broker."""

    def __init__(self, store: MetaStore, writer: MetadataWriter, *, broker_id: int) -> None:
        self._store = store
        self._writer = writer
        self._broker_id = broker_id

    async def alter_topic_config(
        self, name: str, change: ConfigChange, *, validate_only: bool = False
    ) -> None:
        """Replace a topic's own configs by what `change` makes of the present ones."""

        def decide(image: MetadataImage) -> tuple[list[Write], None]:
            topic = image.topics.get(name)
            if topic is None:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
                )
            values = change(topic.configs)
            writes = write_config(layout.topic_config_key(name), topic.config, values)
            if writes:  # if the topic is deleted meanwhile, no configs may be left behind
                writes.append(Check(layout.topic_key(name), topic.version))
            return ([] if validate_only else writes), None

        await self._writer.commit_decision(decide)

    async def alter_broker_config(
        self, name: str, change: ConfigChange, *, validate_only: bool = False
    ) -> None:
        """The same for the dynamic configs of a broker, or for the cluster-wide defaults ('')."""
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
        """The same for a client metrics subscription."""
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

        def decide(image: MetadataImage, entity: QuotaEntity) -> list[Write]:
            present = image.quotas.get(entity, StoredConfig())
            values = change(entity, present.values)
            return write_config(layout.quota_key(entity), present, values)

        return await self._writer.commit_for_each(entities, decide, validate_only=validate_only)

    async def commit_decision(
        self, decide: Callable[[MetadataImage], list[Write]], *, validate_only: bool = False
    ) -> None:
        """Commit the writes that `decide` returns for the newest image; KafkaError refuses."""

        def decide_writes(image: MetadataImage) -> tuple[list[Write], None]:
            writes = decide(image)
            return ([] if validate_only else writes), None

        await self._writer.commit_decision(decide_writes)

    async def create_acls(self, acls: Iterable[Acl]) -> None:
        """Add all of these ACLs; those that exist already are left as they are."""
        added: dict[AclKey, set[Acl]] = {}
        for acl in acls:
            added.setdefault(AclKey.of(acl), set()).add(acl)

        def decide(image: MetadataImage) -> tuple[list[Write], None]:
            writes: list[Write] = []
            for key, rules in added.items():
                present = image.acls.get(key)
                known = present.acls if present is not None else frozenset()
                writes += write_acls(image, key, known | rules)
            return writes, None

        await self._writer.commit_decision(decide)

    async def delete_acls(self, filters: Sequence[AclFilter]) -> list[list[Acl]]:
        """Delete the ACLs that match any filter; returns the matches of each one."""

        def decide(image: MetadataImage) -> tuple[list[Write], list[list[Acl]]]:
            found: list[list[Acl]] = [[] for _ in filters]
            writes: list[Write] = []
            for pattern, stored in image.acls.items():
                deleted: set[Acl] = set()
                for position, wanted in enumerate(filters):
                    matches = [acl for acl in sorted(stored.acls) if wanted.matches(acl)]
                    found[position] += matches
                    deleted |= set(matches)
                if deleted:
                    writes += write_acls(image, AclKey(*pattern), stored.acls - deleted)
            return writes, found

        return await self._writer.commit_decision(decide)

    async def alter_token(
        self, token_id: str, change: Callable[[DelegationToken | None], DelegationToken | None]
    ) -> DelegationToken | None:
        """Replace a token by what `change` makes of it; None stands for no token, both ways."""

        def decide(image: MetadataImage) -> tuple[list[Write], DelegationToken | None]:
            present = image.tokens.get(token_id)
            token = change(None if present is None else present.token)
            key = token_key(token_id)
            if present is None:
                return ([] if token is None else [Create(key, dump_token(token))]), token
            if token is None:
                return [Delete(key, present.version)], None
            if token == present.token:
                return [], token
            return [Put(key, dump_token(token), present.version)], token

        return await self._writer.commit_decision(decide)

    async def _alter_config(
        self,
        key: str,
        find: Callable[[MetadataImage], StoredConfig | None],
        change: ConfigChange,
        *,
        validate_only: bool,
    ) -> None:
        def decide(image: MetadataImage) -> tuple[list[Write], None]:
            present = find(image) or StoredConfig()
            values = change(present.values)
            return ([] if validate_only else write_config(key, present, values)), None

        await self._writer.commit_decision(decide)

    async def allocate_producer_ids(self, count: int = PRODUCER_ID_BLOCK) -> tuple[int, int]:
        """(first, count) of a block of producer ids that is never allocated again."""
        for _ in range(TRIES_MAX):
            entry = await self._store.get(layout.PRODUCER_IDS)
            first = int(layout.load(entry)["block_end"]) + 1 if entry is not None else 0
            if first + count > PRODUCER_ID_MAX:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "producer ids are used up")
            block = {"block_start": str(first), "block_end": str(first + count - 1)}
            value = layout.dump({"version": 1, "broker": self._broker_id, **block})
            key = layout.PRODUCER_IDS
            try:
                await self._writer.commit(
                    [Put(key, value, entry.version) if entry else Create(key, value)]
                )
            except Conflict:
                continue
            return first, count
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
