"""What librdkafka hands to a consumer, as ours."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

import confluent_kafka

from ottla.client.failures import failure_of
from ottla.client.permissions import denied
from ottla.client.record import Headers, K, Record, V
from ottla.errors import ErrorCode
from ottla.wire.apis import ApiKey

CLOCK_NAMES: Final = ("CreateTime", "CreateTime", "LogAppendTime")

# Nothing gets better by waiting after these; all other errors are librdkafka's to retry.
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


def record_of(
    message: confluent_kafka.Message, of_key: Callable[[bytes], K], of_value: Callable[[bytes], V]
) -> Record[K, V]:
    key, value = message.key(), message.value()
    kind, timestamp_ms = message.timestamp()
    return Record(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        timestamp_ms,
        None if key is None else of_key(key),
        None if value is None else of_value(value),
        _headers(message),
        message.leader_epoch(),
        CLOCK_NAMES[kind],
    )


def is_trouble(message: confluent_kafka.Message) -> bool:
    error = message.error()
    if error is None:
        return False
    failure = denied(failure_of(error), ApiKey.FETCH, message.topic() or "")
    if error.fatal() or failure.code in FATAL:
        raise failure
    log.warning("%s", failure)
    return True


def _headers(message: confluent_kafka.Message) -> Headers:
    found: Any = message.headers()  # the stub allows what is only sent: dicts and strings
    return tuple(found) if found else ()
