"""A table joined with another one by a foreign key in its values (KIP-213); Kafka's class names.

    left table, by its key                        right table, by the foreign key
    ----------------------                        -------------------------------
    SubscriptionSend  -- registration topic -->   SubscriptionReceive: stores the subscription
                                                  SubscriptionJoin: answers with the right value
                                                  ForeignTableJoin: a right value has changed, so
                                                      answers all of its subscriptions
    ResponseJoin      <-- response topic --

A subscription carries a hash of the left value, and the response returns it. If the left value has
changed since, the hashes differ and the response is dropped: a newer response is on its way.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from hashlib import blake2b
from typing import Any, Final

from ottla.client.serde import Serde
from ottla.engine.graph import internal_topic
from ottla.engine.observed_stream_time import drop_null
from ottla.engine.processors import Processor, ProcessorContext
from ottla.engine.records import Change, Record, ValueAndTimestamp
from ottla.engine.stores import TimestampedKeyValueStore
from ottla.engine.views import TableView

HASH_BYTES: Final = 16
NO_HASH: Final = 0x80
VERSION: Final = 1
INT: Final = struct.Struct(">i")


class Instruction(IntEnum):
    """What the right side does with a subscription; Kafka's names and numbers."""

    DELETE_KEY_NO_PROPAGATE = 0
    DELETE_KEY_AND_PROPAGATE = 1
    PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE = 2
    PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE = 3


DELETES: Final = (Instruction.DELETE_KEY_NO_PROPAGATE, Instruction.DELETE_KEY_AND_PROPAGATE)

# Bytes that are only compared or hashed go to no topic, but a serde needs a topic's name: the
# subscription topic's with one of these suffixes, as in Kafka. A registry's subjects follow them.
FOREIGN_KEY: Final = "-fk"
PRIMARY_KEY: Final = "-pk"
VALUE_HASH: Final = "-vh"


@dataclass(frozen=True, slots=True)
class SubscriptionWrapper:
    digest: bytes | None
    instruction: Instruction
    primary_key: Any
    partition: int
    """The partition of the left side, to which the response goes."""


@dataclass(frozen=True, slots=True)
class SubscriptionResponseWrapper:
    digest: bytes | None
    value: Any
    partition: int | None = None
    """Not serialized: only the partitioner reads it."""


class SubscriptionWrapperSerde(Serde[SubscriptionWrapper]):
    """Kafka's layout: version and no-hash bit, instruction, hash, primary key, partition (4)."""

    def __init__(self, primary_key: Serde[Any]) -> None:
        self._key = primary_key

    def configured(self, settings: Mapping[str, Any], *, is_key: bool) -> SubscriptionWrapperSerde:
        """The subscription is a record's value, but the primary key in it has a key's serde."""
        return SubscriptionWrapperSerde(self._key.configured(settings, is_key=True))

    def serialize(self, topic: str, value: SubscriptionWrapper | None) -> bytes | None:
        if value is None:
            return None
        key = self._key.serialize(topic, value.primary_key) or b""
        head = bytes((_version(value.digest), value.instruction))
        return b"".join((head, value.digest or b"", key, INT.pack(value.partition)))

    def deserialize(self, topic: str, data: bytes | None) -> SubscriptionWrapper | None:
        if data is None:
            return None
        end = 2 if data[0] & NO_HASH else 2 + HASH_BYTES
        key = self._key.deserialize(topic, data[end : -INT.size])
        (partition,) = INT.unpack(data[-INT.size :])
        return SubscriptionWrapper(data[2:end] or None, Instruction(data[1]), key, partition)


class SubscriptionResponseWrapperSerde(Serde[SubscriptionResponseWrapper]):
    """Kafka's layout: version and no-hash bit, hash, foreign value; no bytes mean no value."""

    def __init__(self, value: Serde[Any]) -> None:
        self._value = value

    def configured(
        self, settings: Mapping[str, Any], *, is_key: bool
    ) -> SubscriptionResponseWrapperSerde:
        return SubscriptionResponseWrapperSerde(self._value.configured(settings, is_key=is_key))

    def serialize(self, topic: str, value: SubscriptionResponseWrapper | None) -> bytes | None:
        if value is None:
            return None
        data = None if value.value is None else self._value.serialize(topic, value.value)
        there = b"" if data is None else b"\x01" + data
        return bytes((_version(value.digest),)) + (value.digest or b"") + there

    def deserialize(self, topic: str, data: bytes | None) -> SubscriptionResponseWrapper | None:
        if data is None:
            return None
        end = 1 if data[0] & NO_HASH else 1 + HASH_BYTES
        found = self._value.deserialize(topic, data[end + 1 :]) if len(data) > end else None
        return SubscriptionResponseWrapper(data[1:end] or None, found)


class SubscriptionSendProcessor(Processor[Any, Change[Any]]):
    """Subscribes to the right side's value whenever a left value changes."""

    def __init__(
        self,
        foreign_key_of: Callable[[Any, Any], Any],
        foreign_key: Serde[Any],
        value: Serde[Any],
        *,
        topic: str,
        left_join: bool,
    ) -> None:
        self._topic = topic
        self._foreign_key_of = foreign_key_of
        self._foreign_key = foreign_key
        self._value = value
        self._left_join = left_join

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._partition = int(context.task_id.rpartition("_")[2])
        self._foreign_key = context.serdes.key(self._foreign_key)
        self._value = context.serdes.value(self._value)
        self._topic = internal_topic(context.application_id, self._topic)

    def process(self, record: Record[Any, Change[Any]]) -> None:
        change = record.value
        if change.old is None and change.new is None:
            return
        old = self._extract(record.key, change.old)
        new = self._extract(record.key, change.new)
        changed = old is not None and self._differ(old, new)
        if self._left_join:
            # A left join has a result even without a foreign key, so it always sends: a null
            # foreign key makes the right side answer null and store nothing.
            if changed:
                self._send(record, old, Instruction.DELETE_KEY_NO_PROPAGATE)
            self._send(record, new, Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE)
        else:
            self._inner(record, old, new, changed)

    def _inner(self, record: Record[Any, Change[Any]], old: Any, new: Any, changed: bool) -> None:
        if record.value.new is not None and new is None:
            drop_null(self.context, "foreign key")
        if new is None:
            if old is not None:
                self._send(record, old, Instruction.DELETE_KEY_AND_PROPAGATE)
        elif changed:
            # The result under the old foreign key must be retracted, so the new one is answered
            # with null if the right table has no value for it.
            self._send(record, old, Instruction.DELETE_KEY_NO_PROPAGATE)
            self._send(record, new, Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE)
        else:
            self._send(record, new, Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE)

    def _extract(self, key: Any, value: Any) -> Any:
        return None if value is None else self._foreign_key_of(key, value)

    def _differ(self, old: Any, new: Any) -> bool:
        topic = self._topic + FOREIGN_KEY
        serialize = self._foreign_key.serialize
        return serialize(topic, old) != serialize(topic, new)

    def _send(self, record: Record[Any, Change[Any]], key: Any, instruction: Instruction) -> None:
        digest = value_hash(self._value, self._topic, record.value.new)
        subscription = SubscriptionWrapper(digest, instruction, record.key, self._partition)
        self.context.forward(record.with_key(key).with_value(subscription))


class SubscriptionReceiveProcessor(Processor[Any, SubscriptionWrapper]):
    """Stores the subscriptions and forwards them under (foreign key, primary key)."""

    def __init__(self, store: str, keys: CombinedKeySchema) -> None:
        self._store_name = store
        self._keys = keys

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._store: TimestampedKeyValueStore[bytes, SubscriptionWrapper] = context.store(
            self._store_name
        )
        self._keys = self._keys.opened(context)

    def process(self, record: Record[Any, SubscriptionWrapper]) -> None:
        subscription = record.value
        if record.key is None:
            if subscription.instruction is not Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE:
                drop_null(self.context, "foreign key")
                return
        else:
            key = self._keys.join(record.key, subscription.primary_key)
            stored = None if subscription.instruction in DELETES else subscription
            self._store.put_value(key, stored, record.timestamp)
        self.context.forward(record.with_key((record.key, subscription.primary_key)))


class SubscriptionJoinProcessor(Processor[Any, SubscriptionWrapper]):
    """Answers a subscription with the right table's value."""

    def __init__(self, right: TableView) -> None:
        self._view = right

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._get = self._view.open(context)

    def process(self, record: Record[Any, SubscriptionWrapper]) -> None:
        foreign_key, primary_key = record.key
        subscription = record.value
        found = None if foreign_key is None else self._get(foreign_key)
        timestamp = record.timestamp if found is None else max(record.timestamp, found.timestamp)
        value = None if found is None else found.value
        match subscription.instruction:
            case Instruction.DELETE_KEY_NO_PROPAGATE:
                return
            case Instruction.DELETE_KEY_AND_PROPAGATE:
                value = None
            case Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE if found is None:
                return
        response = SubscriptionResponseWrapper(subscription.digest, value, subscription.partition)
        self.context.forward(Record(primary_key, response, timestamp, record.headers))


class ForeignTableJoinProcessor(Processor[Any, Change[Any]]):
    """Answers every subscription to a right value that has changed."""

    def __init__(self, store: str, keys: CombinedKeySchema) -> None:
        self._store_name = store
        self._keys = keys

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._store: TimestampedKeyValueStore[bytes, SubscriptionWrapper] = context.store(
            self._store_name
        )
        self._keys = self._keys.opened(context)

    def process(self, record: Record[Any, Change[Any]]) -> None:
        if record.key is None:
            drop_null(self.context, "key")
            return
        for _, (subscription, _) in self._store.prefix_scan(self._keys.prefix(record.key)):
            response = SubscriptionResponseWrapper(
                subscription.digest, record.value.new, subscription.partition
            )
            self.context.forward(record.with_key(subscription.primary_key).with_value(response))


class ResponseJoinProcessor(Processor[Any, SubscriptionResponseWrapper]):
    """Joins a response with the left value, unless that has changed since it subscribed."""

    def __init__(
        self,
        left: TableView,
        value: Serde[Any],
        joiner: Callable[[Any, Any, Any], Any],
        *,
        topic: str,
        left_join: bool,
    ) -> None:
        self._topic = topic
        self._view = left
        self._value = value
        self._joiner = joiner
        self._left_join = left_join

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._get = self._view.open(context)
        self._value = context.serdes.value(self._value)
        self._topic = internal_topic(context.application_id, self._topic)

    def process(self, record: Record[Any, SubscriptionResponseWrapper]) -> None:
        found: ValueAndTimestamp[Any] | None = self._get(record.key)
        left = None if found is None else found.value
        # The left value has changed since the subscription: the response to the new one follows.
        if value_hash(self._value, self._topic, left) != record.value.digest:
            return
        right = record.value.value
        result = None
        if left is not None and (right is not None or self._left_join):
            result = self._joiner(record.key, left, right)
        self.context.forward(record.with_value(result))


class CombinedKeySchema:
    """The key of a stored subscription: length of the foreign key (4), foreign key, primary key."""

    def __init__(self, foreign_key: Serde[Any], primary_key: Serde[Any], topic: str) -> None:
        self._foreign_key = foreign_key
        self._primary_key = primary_key
        self._topic = topic

    def opened(self, context: ProcessorContext) -> CombinedKeySchema:
        of_key = context.serdes.key
        topic = internal_topic(context.application_id, self._topic)
        return CombinedKeySchema(of_key(self._foreign_key), of_key(self._primary_key), topic)

    def prefix(self, foreign_key: Any) -> bytes:
        data = self._foreign_key.serialize(self._topic + FOREIGN_KEY, foreign_key) or b""
        return INT.pack(len(data)) + data

    def join(self, foreign_key: Any, primary_key: Any) -> bytes:
        return self.prefix(foreign_key) + (
            self._primary_key.serialize(self._topic + PRIMARY_KEY, primary_key) or b""
        )


def value_hash(serde: Serde[Any], topic: str, value: Any) -> bytes | None:
    data = None if value is None else serde.serialize(topic + VALUE_HASH, value)
    return None if data is None else blake2b(data, digest_size=HASH_BYTES).digest()


def response_partition(
    topic: str, key: Any, response: SubscriptionResponseWrapper, partitions: int
) -> int | None:
    return response.partition


def _version(digest: bytes | None) -> int:
    return VERSION | (NO_HASH if digest is None else 0)
