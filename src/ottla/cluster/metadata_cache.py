"""The metadata cache: follows the store, and turns its entries into one image after the other.

Every change in the store arrives here as a key and its value, and makes a new image; then the
listeners are called in the order in which they registered. This broker's own commits are applied
directly, so that a client which created a topic sees it in its next request. When the same change
arrives from the store a moment later, it is already known and is dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from ottla.cluster import credentials, layout
from ottla.cluster.acls import AclKey, load_acls
from ottla.cluster.image import (
    BrokerRegistration,
    MetadataImage,
    PartitionRegistration,
    QuotaEntity,
    StoredAcls,
    StoredConfig,
    StoredToken,
    TopicImage,
)
from ottla.cluster.key_changes import KeyChanges
from ottla.cluster.replica_assignment import ReplicaAssignment
from ottla.cluster.store import KeyChange, MetaStore, MetaStoreError, VersionedValue

OnImage = Callable[[MetadataImage], None]
Name = TypeVar("Name", bound=Hashable)
Thing = TypeVar("Thing")

CLUSTER_KEYS = frozenset({layout.CLUSTER_ID, layout.CONTROLLER, layout.CONTROLLER_EPOCH})
TOKEN_PARTS = credentials.TOKENS.split("/")[1:]

log = logging.getLogger("ottla.cluster")


class MetadataCache:
    """What this broker knows about the cluster; `image` is always the newest."""

    def __init__(self, store: MetaStore) -> None:
        self.image = MetadataImage()
        self._store = store
        self._entries: dict[str, VersionedValue] = {}
        self._listeners: list[OnImage] = []
        self._following: asyncio.Task[None] | None = None

    def add_listener(self, callback: OnImage) -> None:
        """Register a callback for every new image, which runs synchronously on this thread."""
        self._listeners.append(callback)

    def remove_listener(self, callback: OnImage) -> None:
        """Unregister a callback."""
        self._listeners.remove(callback)

    async def start(self) -> None:
        """Read everything, then follow; the image is complete when this returns."""
        changes = self._store.changes("/")  # before the read, so that no change is missed
        await self.refresh()
        self._following = asyncio.create_task(self._follow(changes), name="follow-metadata")

    async def refresh(self) -> None:
        """Read everything again; known keys that are no longer there have been deleted."""
        entries = await self._store.list("/")
        gone = [KeyChange(key, None) for key in self._entries if key not in entries]
        self.apply([*gone, *(KeyChange(key, entry) for key, entry in entries.items())])

    async def stop(self) -> None:
        if self._following is not None:
            self._following.cancel()
            with contextlib.suppress(asyncio.CancelledError, MetaStoreError):
                await self._following
            self._following = None

    def apply(self, changes: Iterable[KeyChange]) -> None:
        """Apply changes, in any order; those already known make no new image."""
        new = [change for change in changes if self._entries.get(change.key) != change.entry]
        if not new:
            return
        for change in new:
            if change.entry is None:
                del self._entries[change.key]
            else:
                self._entries[change.key] = change.entry
        image = self._advance([change.key for change in new])
        if image is self.image:
            return
        self.image = image
        for callback in self._listeners:
            try:
                callback(self.image)
            except Exception:  # one faulty listener must not keep the others from the new image
                log.exception("A listener of metadata changes failed")

    async def _follow(self, changes: KeyChanges) -> None:
        async for change in changes:
            self.apply([change, *changes.take()])

    def _advance(self, keys: list[str]) -> MetadataImage:
        """The next image: everything that depends on these keys is read again."""
        # By topic, the partitions whose states changed; None: the whole topic.
        topics: dict[str, set[int] | None] = {}
        brokers: set[int] = set()
        configs: set[str] = set()
        groups: set[str] = set()
        metrics: set[str] = set()
        quotas: set[QuotaEntity] = set()
        others: list[list[str]] = []
        for key in keys:
            match key.split("/")[1:]:
                case ["brokers", "topics", topic, "partitions", index, "state"] if index.isdigit():
                    indexes = topics.setdefault(topic, set())
                    if indexes is not None:
                        indexes.add(int(index))
                case ["brokers", "topics", topic, *_] | ["config", "topics", topic]:
                    topics[topic] = None
                case ["brokers", "ids" | "epochs", broker_id] if broker_id.isdigit():
                    brokers.add(int(broker_id))
                case ["config", "brokers", name]:
                    configs.add("" if name == layout.DEFAULT else name)
                case ["config", "groups", name]:
                    groups.add(layout.decode_name(name))
                case ["config", "client-metrics", name]:
                    metrics.add(layout.decode_name(name))
                case ["config", *parts] if _is_quota(parts):
                    quotas.add(layout.quota_entity(parts))
                case parts:
                    others.append(parts)
        image = self.image
        if not CLUSTER_KEYS.isdisjoint(keys):
            image = self._with_cluster(image)
        if layout.FEATURES in keys:
            image = self._with_features(image)
        if topics:
            image = self._with_topics(image, topics)
        if brokers:
            # A change of a broker's epoch counter may leave its registration as it is.
            live = _merge(image.brokers, brokers, self._broker)
            image = replace(image, brokers=live) if live != image.brokers else image
        if configs:
            merged = _merge(image.broker_configs, configs, self._broker_config)
            image = replace(image, broker_configs=merged)
        if groups:
            merged = _merge(image.group_configs, groups, self._group_config)
            image = replace(image, group_configs=merged)
        if metrics:
            merged = _merge(image.client_metrics_configs, metrics, self._client_metrics)
            image = replace(image, client_metrics_configs=merged)
        if quotas:
            image = replace(image, quotas=_merge(image.quotas, quotas, self._quota))
        return self._with_access(image, others)

    def _with_access(self, image: MetadataImage, changed: list[list[str]]) -> MetadataImage:
        """With changed ACLs and delegation tokens; other keys are not part of the image."""
        acls = {key for parts in changed if (key := AclKey.of_parts(parts)) is not None}
        tokens = {parts[2] for parts in changed if parts[:2] == TOKEN_PARTS and len(parts) == 3}
        if acls:
            image = replace(image, acls=_merge(image.acls, acls, self._acls))
        if tokens:
            image = replace(image, tokens=_merge(image.tokens, tokens, self._token))
        return image

    def _with_cluster(self, image: MetadataImage) -> MetadataImage:
        cluster = self._entries.get(layout.CLUSTER_ID)
        controller = self._entries.get(layout.CONTROLLER)
        epoch = self._entries.get(layout.CONTROLLER_EPOCH)
        return replace(
            image,
            cluster_id=layout.load(cluster)["id"] if cluster else "",
            controller_id=layout.load(controller)["brokerid"] if controller else -1,
            controller_epoch=layout.load(epoch) if epoch else 0,
        )

    def _with_features(self, image: MetadataImage) -> MetadataImage:
        entry = self._entries.get(layout.FEATURES)
        levels = layout.load_features(entry) if entry else {}
        version = entry.version if entry else None
        return replace(image, feature_levels=levels, features_version=version)

    def _with_topics(
        self, image: MetadataImage, changed: Mapping[str, set[int] | None]
    ) -> MetadataImage:
        def read(name: str) -> TopicImage | None:
            indexes = changed[name]
            known = image.topics.get(name)
            if known is None or indexes is None:
                return self._topic(name)
            return self._with_states(known, indexes)

        topics = _merge(image.topics, changed.keys(), read)
        if all(indexes is not None and name in image.topics for name, indexes in changed.items()):
            return replace(image, topics=topics)
        names = dict(image.names_by_id)
        for name in changed:
            if name in image.topics:
                names.pop(image.topics[name].id, None)
        for name in changed:
            if name in topics:
                names[topics[name].id] = name
        return replace(image, topics=topics, names_by_id=names)

    def _topic(self, name: str) -> TopicImage | None:
        entry = self._entries.get(layout.topic_key(name))
        if entry is None:
            return None
        topic_id, assignments = layout.load_topic(entry)
        old = self.image.topics.get(name)
        known = old.partitions if old is not None and old.id == topic_id else ()
        config = self._entries.get(layout.topic_config_key(name))
        return TopicImage(
            name=name,
            id=topic_id,
            partitions=tuple(
                self._partition(
                    name, index, assignment, known[index] if index < len(known) else None
                )
                for index, assignment in enumerate(assignments)
            ),
            config=layout.load_config(config),
            version=entry.version,
        )

    def _with_states(self, topic: TopicImage, indexes: set[int]) -> TopicImage:
        """Read only the changed states, because a topic may have thousands of partitions.

        A state may arrive before the change that adds its partition, or after its topic is deleted.
        """
        partitions = list(topic.partitions)
        for index in indexes:
            if index < len(partitions):
                old = partitions[index]
                assignment = ReplicaAssignment(old.replicas, old.adding, old.removing)
                partitions[index] = self._partition(topic.name, index, assignment, old)
        return replace(topic, partitions=tuple(partitions))

    def _partition(
        self,
        topic: str,
        index: int,
        assignment: ReplicaAssignment,
        partition: PartitionRegistration | None,
    ) -> PartitionRegistration:
        """A partition whose version is known is not parsed again: topics may have thousands."""
        state = self._entries.get(layout.state_key(topic, index))
        version = state.version if state is not None else -1
        if (
            partition is not None
            and partition.version == version
            and (partition.replicas, partition.adding, partition.removing) == assignment
        ):
            return partition
        return layout.load_partition(index, assignment, state)

    def _broker(self, broker_id: int) -> BrokerRegistration | None:
        entry = self._entries.get(layout.broker_key(broker_id))
        if entry is None:
            return None
        epoch = self._entries.get(layout.broker_epoch_key(broker_id))
        return layout.load_broker(broker_id, entry, epoch)

    def _broker_config(self, name: str) -> StoredConfig | None:
        return self._config(layout.broker_config_key(name))

    def _group_config(self, group_id: str) -> StoredConfig | None:
        return self._config(layout.group_config_key(group_id))

    def _client_metrics(self, name: str) -> StoredConfig | None:
        return self._config(layout.client_metrics_key(name))

    def _quota(self, entity: QuotaEntity) -> StoredConfig | None:
        return self._config(layout.quota_key(entity))

    def _acls(self, pattern: tuple[int, int, str]) -> StoredAcls | None:
        key = AclKey(*pattern)
        entry = self._entries.get(key.path)
        return load_acls(key, entry) if entry is not None else None

    def _token(self, token_id: str) -> StoredToken | None:
        entry = self._entries.get(credentials.token_key(token_id))
        return credentials.load_token(entry) if entry is not None else None

    def _config(self, key: str) -> StoredConfig | None:
        entry = self._entries.get(key)
        return layout.load_config(entry) if entry is not None else None


def _is_quota(parts: list[str]) -> bool:
    match parts:
        case ["users" | "clients" | "ips", _] | ["users", _, "clients", _]:
            return True
    return False


def _merge(
    things: Mapping[Name, Thing], changed: Iterable[Name], read: Callable[[Name], Thing | None]
) -> dict[Name, Thing]:
    """A copy in which the changed items are read again; those that can't be read are left out."""
    merged = dict(things)
    for name in changed:
        merged.pop(name, None)
        try:
            thing = read(name)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            log.error("Ignoring the metadata of %r, which can't be read: %r", name, error)
            continue
        if thing is not None:
            merged[name] = thing
    return merged
