"""Following the store: its entries, made into one Image after the other.

Every change, whoever made it, arrives here as a key and its value and becomes a new Image; then
those who asked are told, in the order in which they asked. The controller hands over what it has
just committed itself, so that a client which created a topic sees it in its very next request;
the same change comes again from the store a moment later, is found to be known, and is dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from ottla.cluster import access, layout
from ottla.cluster.changes import Changes
from ottla.cluster.image import (
    Broker,
    Config,
    Image,
    Partition,
    QuotaEntity,
    StoredAcls,
    StoredToken,
    Topic,
)
from ottla.cluster.store import Change, Entry, MetaStore, StoreError

OnImage = Callable[[Image], None]
Name = TypeVar("Name", bound=Hashable)
Thing = TypeVar("Thing")

CLUSTER_KEYS = frozenset({layout.CLUSTER_ID, layout.CONTROLLER, layout.CONTROLLER_EPOCH})
TOKEN_PARTS = access.TOKENS.split("/")[1:]

log = logging.getLogger("ottla.cluster")


class Metadata:
    """What this broker knows of the cluster; `image` is always the newest."""

    def __init__(self, store: MetaStore) -> None:
        self.image = Image()
        self._store = store
        self._entries: dict[str, Entry] = {}
        self._listeners: list[OnImage] = []
        self._following: asyncio.Task[None] | None = None

    def on_image(self, callback: OnImage) -> None:
        """Call back with every image from now on, at once and on this thread."""
        self._listeners.append(callback)

    def off_image(self, callback: OnImage) -> None:
        """No more, from now on."""
        self._listeners.remove(callback)

    async def start(self) -> None:
        """Read all there is, then follow; the image is complete when this returns."""
        changes = self._store.changes("/")  # first this, so that nothing falls between the two
        await self.refresh()
        self._following = asyncio.create_task(self._follow(changes), name="follow-metadata")

    async def refresh(self) -> None:
        """Read everything again: what is known and no longer there has been deleted."""
        entries = await self._store.list("/")
        gone = [Change(key, None) for key in self._entries if key not in entries]
        self.apply([*gone, *(Change(key, entry) for key, entry in entries.items())])

    async def stop(self) -> None:
        if self._following is not None:
            self._following.cancel()
            with contextlib.suppress(asyncio.CancelledError, StoreError):
                await self._following
            self._following = None

    def apply(self, changes: Iterable[Change]) -> None:
        """Take changes over, in any order; those already known make no new image."""
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
            except Exception:  # the metadata is as it is, whoever cannot cope with it
                log.exception("a follower of the metadata failed")

    async def _follow(self, changes: Changes) -> None:
        async for change in changes:
            self.apply([change, *changes.take()])

    def _advance(self, keys: list[str]) -> Image:
        """The next image: whatever hangs on one of these keys is read again from the entries."""
        topics: dict[str, set[int] | None] = {}  # which partitions changed; None: more than that
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
            # A broker's epoch counter is read with its registration: its echo changes nothing.
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

    def _with_access(self, image: Image, changed: list[list[str]]) -> Image:
        """ACLs and delegation tokens; of anything else the image has nothing."""
        acls = {key for parts in changed if (key := access.AclKey.of_parts(parts)) is not None}
        tokens = {parts[2] for parts in changed if parts[:2] == TOKEN_PARTS and len(parts) == 3}
        if acls:
            image = replace(image, acls=_merge(image.acls, acls, self._acls))
        if tokens:
            image = replace(image, tokens=_merge(image.tokens, tokens, self._token))
        return image

    def _with_cluster(self, image: Image) -> Image:
        cluster = self._entries.get(layout.CLUSTER_ID)
        held = self._entries.get(layout.CONTROLLER)
        epoch = self._entries.get(layout.CONTROLLER_EPOCH)
        return replace(
            image,
            cluster_id=layout.load(cluster)["id"] if cluster else "",
            controller_id=layout.load(held)["brokerid"] if held else -1,
            controller_epoch=layout.load(epoch) if epoch else 0,
        )

    def _with_features(self, image: Image) -> Image:
        entry = self._entries.get(layout.FEATURES)
        levels = layout.load_features(entry) if entry else {}
        version = entry.version if entry else None
        return replace(image, feature_levels=levels, features_version=version)

    def _with_topics(self, image: Image, changed: Mapping[str, set[int] | None]) -> Image:
        def read(name: str) -> Topic | None:
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

    def _topic(self, name: str) -> Topic | None:
        entry = self._entries.get(layout.topic_key(name))
        if entry is None:
            return None
        topic_id, assignments = layout.load_topic(entry)
        old = self.image.topics.get(name)
        known = old.partitions if old is not None and old.id == topic_id else ()
        config = self._entries.get(layout.topic_config_key(name))
        return Topic(
            name=name,
            id=topic_id,
            partitions=tuple(
                self._partition(name, index, each, known[index] if index < len(known) else None)
                for index, each in enumerate(assignments)
            ),
            config=layout.load_config(config),
            version=entry.version,
        )

    def _with_states(self, topic: Topic, indexes: set[int]) -> Topic:
        """Only states have changed: the other partitions, which may be thousands, stay as they are.

        A state may be told before the topic that has grown, or after one that is gone.
        """
        partitions = list(topic.partitions)
        for index in indexes:
            if index < len(partitions):
                old = partitions[index]
                assignment = layout.Assignment(old.replicas, old.adding, old.removing)
                partitions[index] = self._partition(topic.name, index, assignment, old)
        return replace(topic, partitions=tuple(partitions))

    def _partition(
        self, topic: str, index: int, assignment: layout.Assignment, known: Partition | None
    ) -> Partition:
        """A partition whose state did not change is not read again: topics may have thousands."""
        state = self._entries.get(layout.state_key(topic, index))
        version = state.version if state is not None else -1
        if (
            known is not None
            and known.version == version
            and (known.replicas, known.adding, known.removing) == assignment
        ):
            return known
        return layout.load_partition(index, assignment, state)

    def _broker(self, broker_id: int) -> Broker | None:
        entry = self._entries.get(layout.broker_key(broker_id))
        if entry is None:
            return None
        epoch = self._entries.get(layout.broker_epoch_key(broker_id))
        return layout.load_broker(broker_id, entry, epoch)

    def _broker_config(self, name: str) -> Config | None:
        return self._config(layout.broker_config_key(name))

    def _group_config(self, group_id: str) -> Config | None:
        return self._config(layout.group_config_key(group_id))

    def _client_metrics(self, name: str) -> Config | None:
        return self._config(layout.client_metrics_key(name))

    def _quota(self, entity: QuotaEntity) -> Config | None:
        return self._config(layout.quota_key(entity))

    def _acls(self, pattern: tuple[int, int, str]) -> StoredAcls | None:
        key = access.AclKey(*pattern)
        entry = self._entries.get(key.path)
        return access.load_acls(key, entry) if entry is not None else None

    def _token(self, token_id: str) -> StoredToken | None:
        entry = self._entries.get(access.token_key(token_id))
        return access.load_token(entry) if entry is not None else None

    def _config(self, key: str) -> Config | None:
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
    """A copy in which the changed things are read again; what cannot be read is left out."""
    merged = dict(things)
    for name in changed:
        merged.pop(name, None)
        try:
            thing = read(name)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            log.error("metadata of %r is not as it should be, and is left out: %r", name, error)
            continue
        if thing is not None:
            merged[name] = thing
    return merged
