"""Being one of the brokers: the cluster's id, and this broker's registration while it lives."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable, Sequence

from ottla.cluster import layout
from ottla.cluster.image import Broker, SupportedFeature
from ottla.cluster.metadata import Metadata
from ottla.cluster.store import Change, Conflict, Create, Hold, MetaStore, Put
from ottla.config import Listener
from ottla.errors import ErrorCode, KafkaError

LOOK_EVERY_S = 0.2

log = logging.getLogger("ottla.cluster")

Urandom = Callable[[int], bytes]


async def cluster_id(
    store: MetaStore,
    metadata: Metadata,
    urandom: Urandom = os.urandom,
    *,
    formatted: str | None = None,
) -> str:
    """The cluster's id, made up by the first broker that ever starts.

    It takes the one that its log directories were `formatted` with, if they were.
    """
    entry = await store.get(layout.CLUSTER_ID)
    if entry is None:
        chosen = formatted or layout.encode_uuid(random_uuid(urandom))
        value = layout.dump({"version": "1", "id": chosen})
        with contextlib.suppress(Conflict):  # another broker was first; its id is as good
            await store.create(layout.CLUSTER_ID, value)
        entry = await store.get(layout.CLUSTER_ID)
        assert entry is not None
    metadata.apply([Change(layout.CLUSTER_ID, entry)])
    return str(layout.load(entry)["id"])


def random_uuid(urandom: Urandom = os.urandom) -> bytes:
    """Random bytes that make a good id: not among Kafka's reserved ones, nor like an option.

    An id is typed on command lines, where a leading '-' would be taken for one; Kafka
    draws again, and so do we. The first hundred numbers are Kafka's own.
    """
    while True:
        raw = bytearray(urandom(16))
        raw[6] = raw[6] & 0x0F | 0x40  # a version 4 uuid, of the usual variant
        raw[8] = raw[8] & 0x3F | 0x80
        if not layout.encode_uuid(bytes(raw)).startswith("-"):
            return bytes(raw)


async def _nothing_to_leave() -> None:
    """A broker's first life, or a test's."""


class Membership:
    """This broker among the others, from `register` to `leave`."""

    def __init__(self, broker: Broker, hold: Hold, metadata: Metadata) -> None:
        self.broker = broker
        self.hold = hold
        self._metadata = metadata

    @classmethod
    async def register(
        cls,
        store: MetaStore,
        metadata: Metadata,
        *,
        broker_id: int,
        listeners: tuple[Listener, ...],
        rack: str | None,
        now_ms: int,
        directories: Sequence[str] = (),
        features: tuple[SupportedFeature, ...] = (),
        patience_s: float = 0,
        step_back: Callable[[], Awaitable[None]] = _nothing_to_leave,
    ) -> Membership:
        """Become visible. DUPLICATE_BROKER_REGISTRATION if a live broker has this id already.

        One that had the log directories which we have locked is no longer alive: its registration
        is removed. Any other is given `patience_s` to expire.

        `step_back` makes it leave what an earlier life of it held, after the epoch was counted up
        (so that nobody can add that life to anything any more) and before others see this one.
        """
        key = layout.broker_key(broker_id)
        await _make_way(store, broker_id, directories, patience_s)
        epoch = await _next_epoch(store, broker_id)
        await step_back()
        broker = Broker(broker_id, epoch, listeners, rack, features=features)
        try:
            hold = await store.hold(key, layout.dump_broker(broker, now_ms, directories))
        except Conflict:
            raise _duplicate(broker_id) from None
        metadata.apply([Change(key, hold.entry)])
        return cls(broker, hold, metadata)

    async def leave(self) -> None:
        await self.hold.release()
        self._metadata.apply([Change(self.hold.key, None)])


async def _make_way(
    store: MetaStore, broker_id: int, directories: Sequence[str], patience_s: float
) -> None:
    """Nobody has our id when this returns, and nothing was taken away from a live broker."""
    key = layout.broker_key(broker_id)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience_s
    waiting = False
    while (entry := await store.get(key)) is not None:
        value = layout.load(entry)
        if set(directories) & set(value.get("directories", ())):
            log.warning(
                "broker %d: our former process is still registered, in epoch %d; we have the lock"
                " of its log directories, so it is dead and its registration is removed",
                broker_id,
                value["epoch"],
            )
            with contextlib.suppress(Conflict):
                await store.delete(key, version=entry.version)
            continue
        if loop.time() >= deadline:
            raise _duplicate(broker_id)
        if not waiting:
            place = f"{value['host']}:{value['port']}"
            log.warning(
                "node.id %d is taken by a broker at %s; it has %.0f s to disappear",
                broker_id,
                place,
                patience_s,
            )
            waiting = True
        await asyncio.sleep(LOOK_EVERY_S)


def _duplicate(broker_id: int) -> KafkaError:
    return KafkaError(
        ErrorCode.DUPLICATE_BROKER_REGISTRATION,
        f"a broker with node.id {broker_id} is already part of this cluster",
    )


async def _next_epoch(store: MetaStore, broker_id: int) -> int:
    """A number that grows with every life of this broker, so that an old life can be told apart."""
    key = layout.broker_epoch_key(broker_id)
    entry = await store.get(key)
    epoch = layout.load(entry) + 1 if entry is not None else 1
    value = layout.dump(epoch)
    await store.commit([Put(key, value, entry.version) if entry else Create(key, value)])
    return int(epoch)
