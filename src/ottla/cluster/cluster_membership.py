"""Membership in the cluster: the cluster's id, and this broker's registration."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable, Sequence

from ottla.cluster import layout
from ottla.cluster.image import BrokerRegistration, SupportedFeature
from ottla.cluster.metadata_cache import MetadataCache
from ottla.cluster.store import Conflict, Create, EphemeralKey, KeyChange, MetaStore, Put
from ottla.config import Listener
from ottla.errors import ErrorCode, KafkaError

CHECK_INTERVAL_S = 0.2

log = logging.getLogger("ottla.cluster")

Urandom = Callable[[int], bytes]


async def cluster_id(
    store: MetaStore,
    metadata: MetadataCache,
    urandom: Urandom = os.urandom,
    *,
    formatted: str | None = None,
) -> str:
    """The cluster's id, which the first broker that ever starts chooses.

    It is the id with which its log directories were `formatted`, if they were.
    """
    entry = await store.get(layout.CLUSTER_ID)
    if entry is None:
        chosen = formatted or layout.encode_uuid(random_uuid(urandom))
        value = layout.dump({"version": "1", "id": chosen})
        with contextlib.suppress(Conflict):  # another broker was first: use its id
            await store.create(layout.CLUSTER_ID, value)
        entry = await store.get(layout.CLUSTER_ID)
        assert entry is not None
    metadata.apply([KeyChange(layout.CLUSTER_ID, entry)])
    return str(layout.load(entry)["id"])


def random_uuid(urandom: Urandom = os.urandom) -> bytes:
    """A random version 4 UUID whose text does not begin with '-'.

    Ids are typed on command lines, where a leading '-' would look like an option; Kafka draws again
    in that case, too. Version 4 excludes the first hundred UUIDs, which Kafka reserves.
    """
    while True:
        raw = bytearray(urandom(16))
        raw[6] = raw[6] & 0x0F | 0x40  # version 4, in the variant of RFC 4122
        raw[8] = raw[8] & 0x3F | 0x80
        if not layout.encode_uuid(bytes(raw)).startswith("-"):
            return bytes(raw)


async def _no_isrs_to_leave() -> None:
    """For tests, and for a store without other brokers."""


class ClusterMembership:
    """This broker's registration, from `register` to `leave`."""

    def __init__(
        self, broker: BrokerRegistration, ephemeral_key: EphemeralKey, metadata: MetadataCache
    ) -> None:
        self.broker = broker
        self.ephemeral_key = ephemeral_key
        self._metadata = metadata

    @classmethod
    async def register(
        cls,
        store: MetaStore,
        metadata: MetadataCache,
        *,
        broker_id: int,
        listeners: tuple[Listener, ...],
        rack: str | None,
        now_ms: int,
        directories: Sequence[str] = (),
        features: tuple[SupportedFeature, ...] = (),
        timeout_s: float = 0,
        leave_isrs: Callable[[], Awaitable[None]] = _no_isrs_to_leave,
    ) -> ClusterMembership:
        """Register this broker. DUPLICATE_BROKER_REGISTRATION if a live broker has this id.

        A registration with log directories that this process has locked belongs to a dead process,
        and is deleted. Any other one has `timeout_s` to expire.

        `leave_isrs` leaves the ISRs of the former process. It runs after the epoch is raised, so
        that no leader can add the former process to an ISR again, and before other brokers see the
        new registration.
        """
        key = layout.broker_key(broker_id)
        await _wait_for_former_registration(store, broker_id, directories, timeout_s)
        epoch = await _next_epoch(store, broker_id)
        await leave_isrs()
        broker = BrokerRegistration(broker_id, epoch, listeners, rack, features=features)
        try:
            ephemeral_key = await store.create_ephemeral(
                key, layout.dump_broker(broker, now_ms, directories)
            )
        except Conflict:
            raise _duplicate(broker_id) from None
        metadata.apply([KeyChange(key, ephemeral_key.entry)])
        return cls(broker, ephemeral_key, metadata)

    async def leave(self) -> None:
        await self.ephemeral_key.release()
        self._metadata.apply([KeyChange(self.ephemeral_key.key, None)])


async def _wait_for_former_registration(
    store: MetaStore, broker_id: int, directories: Sequence[str], timeout_s: float
) -> None:
    """Wait until no other process is registered under this id; delete only a dead one's key."""
    key = layout.broker_key(broker_id)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    waiting = False
    while (entry := await store.get(key)) is not None:
        value = layout.load(entry)
        if set(directories) & set(value.get("directories", ())):
            log.warning(
                "Removing the registration of broker %d with epoch %d: this process has the lock"
                " of its log directories, so the former process is dead",
                broker_id,
                value["epoch"],
            )
            with contextlib.suppress(Conflict):
                await store.delete(key, version=entry.version)
            continue
        if loop.time() >= deadline:
            raise _duplicate(broker_id)
        if not waiting:
            address = f"{value['host']}:{value['port']}"
            log.warning(
                "node.id %d is already registered by a broker at %s; waiting up to %.0f s for"
                " its session to expire",
                broker_id,
                address,
                timeout_s,
            )
            waiting = True
        await asyncio.sleep(CHECK_INTERVAL_S)


def _duplicate(broker_id: int) -> KafkaError:
    return KafkaError(
        ErrorCode.DUPLICATE_BROKER_REGISTRATION,
        f"a broker with node.id {broker_id} is already part of this cluster",
    )


async def _next_epoch(store: MetaStore, broker_id: int) -> int:
    """Raise the broker epoch, which distinguishes this process from its predecessors."""
    key = layout.broker_epoch_key(broker_id)
    entry = await store.get(key)
    epoch = layout.load(entry) + 1 if entry is not None else 1
    value = layout.dump(epoch)
    await store.commit([Put(key, value, entry.version) if entry else Create(key, value)])
    return int(epoch)
