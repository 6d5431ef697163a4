"""librdkafka's messages as ConsumerRecords."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import confluent_kafka

from ottla.client.kafka_errors import kafka_error_of
from ottla.client.permissions import denied
from ottla.client.record import ConsumerRecord, Headers
from ottla.client.serde import Serde, SerializationError, is_infrastructure
from ottla.client.serde_arguments import deserializers_of, reading_serdes
from ottla.errors import ErrorCode
from ottla.wire.apis import ApiKey

CLOCK_NAMES: Final = ("CreateTime", "CreateTime", "LogAppendTime")

# Errors that no retry heals; librdkafka retries all others.
FATAL: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.OFFSET_OUT_OF_RANGE,
    }
)

log = logging.getLogger("ottla.client")


class RecordDeserializationError(SerializationError):
    """A record whose key or value can't be read, with its bytes and its offset.

    The message is that of Kafka's RecordDeserializationException, and names the record's schema.
    """

    def __init__(self, message: confluent_kafka.Message, error: Exception, *, is_key: bool) -> None:
        self.topic = message.topic() or ""
        self.partition = message.partition() or 0
        self.offset = message.offset() or 0
        self.timestamp_ms = message.timestamp()[1]
        self.key: bytes | None = message.key()
        self.value: bytes | None = message.value()
        self.headers = _headers(message)
        self.is_key = is_key
        schema = getattr(error, "schema", "")
        side = "key" if is_key else "value"
        position = f"{self.topic}-{self.partition} at offset {self.offset}"
        super().__init__(
            f"can't deserialize the {side} of {position}: {str(error) or type(error).__name__}",
            schema,
        )


def record_reader(
    key: Any, value: Any, settings: Mapping[str, Any]
) -> Callable[[confluent_kafka.Message], ConsumerRecord[Any, Any]]:
    """Turns messages into records. RecordDeserializationError for one that can't be read."""
    serdes = reading_serdes(key, value, settings)
    plain = deserializers_of(serdes)
    if plain is not None:  # no serde needs the topic
        return partial(_record, *plain)
    return partial(_record_in_topic, *serdes)


def _record(
    of_key: Callable[[bytes], Any],
    of_value: Callable[[bytes], Any],
    message: confluent_kafka.Message,
) -> ConsumerRecord[Any, Any]:
    """Errors that are not the record's fault, such as a registry that is down, pass unchanged."""
    key, value = message.key(), message.value()
    kind, timestamp_ms = message.timestamp()
    in_key = True
    try:
        read_key = None if key is None else of_key(key)
        in_key = False
        read_value = None if value is None else of_value(value)
    except Exception as error:
        if is_infrastructure(error):
            raise
        raise RecordDeserializationError(message, error, is_key=in_key) from error
    return ConsumerRecord(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        timestamp_ms,
        read_key,
        read_value,
        _headers(message),
        message.leader_epoch(),
        CLOCK_NAMES[kind],
    )


def _record_in_topic(
    of_key: Serde[Any], of_value: Serde[Any], message: confluent_kafka.Message
) -> ConsumerRecord[Any, Any]:
    topic, headers = message.topic() or "", _headers(message)
    kind, timestamp_ms = message.timestamp()
    in_key = True
    try:
        key = of_key.deserialize_with_headers(topic, headers, message.key())
        in_key = False
        value = of_value.deserialize_with_headers(topic, headers, message.value())
    except Exception as error:
        if is_infrastructure(error):
            raise
        raise RecordDeserializationError(message, error, is_key=in_key) from error
    return ConsumerRecord(
        topic,
        message.partition() or 0,
        message.offset() or 0,
        timestamp_ms,
        key,
        value,
        headers,
        message.leader_epoch(),
        CLOCK_NAMES[kind],
    )


def is_trouble(message: confluent_kafka.Message) -> bool:
    error = message.error()
    if error is None:
        return False
    failure = denied(kafka_error_of(error), ApiKey.FETCH, message.topic() or "")
    if error.fatal() or failure.code in FATAL:
        raise failure
    log.warning("%s", failure)
    return True


def _headers(message: confluent_kafka.Message) -> Headers:
    found: Any = message.headers()  # the stub has the types for sending: dicts and strings
    return tuple(found) if found else ()
