"""Records that can't be read: Kafka's deserialization exception handlers.

A handler gets the error. If it raises the error, the consumer's caller gets it; if it returns, the
consumer goes on behind the record.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla.client.producer import Producer
    from ottla.client.record_reader import RecordDeserializationError

OnUndecodable = Callable[["RecordDeserializationError"], None]
LETTER_S_MAX: Final = 60.0
_PREFIX: Final = "__dlq.errors."

log = logging.getLogger("ottla.client")


def fail(error: RecordDeserializationError) -> None:
    raise error


def log_and_continue(error: RecordDeserializationError) -> None:
    log.warning("%s", error)


def dead_letters(producer: Producer[bytes, bytes], topic: str, group: str = "") -> OnUndecodable:
    """Log the error, and send the record unchanged to `topic`, with the error in its headers.

    The consumer waits until the letter is delivered, so that no crash loses the record.
    """

    def handle(error: RecordDeserializationError) -> None:
        log.warning("%s; the record is sent to %s", error, topic)
        cause = error.__cause__ or error
        words = {
            "topic": error.topic,
            "partition": str(error.partition),
            "offset": str(error.offset),
            "group": group,
            "exception": type(cause).__name__,
            "message": str(error),
        }
        headers = [
            *error.headers,
            *((_PREFIX + name, text.encode()) for name, text in words.items()),
        ]
        sent = producer.send(
            topic, error.value, key=error.key, headers=headers, timestamp_ms=error.timestamp_ms
        )
        sent.result(LETTER_S_MAX)

    return handle


_WORDS: Final = {"fail": fail, "continue": log_and_continue}


def handler_of(handler: str | OnUndecodable) -> OnUndecodable | None:
    """Handlers by Kafka's words; None if the error is simply raised."""
    if callable(handler):
        return handler
    if handler not in _WORDS:
        raise ValueError(
            "deserialization_exception_handler is 'fail', 'continue' or a function, not "
            f"{handler!r}"
        )
    named = _WORDS[handler]
    return None if named is fail else named
