"""librdkafka's errors as KafkaErrors: one error type, Kafka's codes."""

from __future__ import annotations

from threading import current_thread, main_thread
from typing import Final

import confluent_kafka

from ottla.errors import ErrorCode, KafkaError

_Local = confluent_kafka.KafkaError

# librdkafka's local errors have codes below -100, which Kafka does not know.
_LOCAL: Final[dict[int, ErrorCode]] = {
    _Local._TRANSPORT: ErrorCode.NETWORK_EXCEPTION,
    _Local._RESOLVE: ErrorCode.NETWORK_EXCEPTION,
    _Local._SSL: ErrorCode.NETWORK_EXCEPTION,
    _Local._ALL_BROKERS_DOWN: ErrorCode.BROKER_NOT_AVAILABLE,
    _Local._TIMED_OUT: ErrorCode.REQUEST_TIMED_OUT,
    _Local._TIMED_OUT_QUEUE: ErrorCode.REQUEST_TIMED_OUT,
    _Local._MSG_TIMED_OUT: ErrorCode.REQUEST_TIMED_OUT,
    _Local._UNKNOWN_TOPIC: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    _Local._UNKNOWN_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    _Local._AUTHENTICATION: ErrorCode.SASL_AUTHENTICATION_FAILED,
    _Local._INVALID_ARG: ErrorCode.INVALID_REQUEST,
    _Local._UNSUPPORTED_FEATURE: ErrorCode.UNSUPPORTED_VERSION,
    _Local._FENCED: ErrorCode.PRODUCER_FENCED,
    _Local._AUTO_OFFSET_RESET: ErrorCode.OFFSET_OUT_OF_RANGE,
    _Local._UNKNOWN_GROUP: ErrorCode.GROUP_ID_NOT_FOUND,
    _Local._STATE: ErrorCode.INVALID_TXN_STATE,
}


def kafka_error_of(error: object) -> KafkaError:
    """The KafkaError for an exception or an error of confluent-kafka."""
    if isinstance(error, confluent_kafka.KafkaException):
        error = error.args[0] if error.args else error
    if not isinstance(error, confluent_kafka.KafkaError):
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
    return KafkaError(_code_of(error.code()), error.str())


def interrupted(error: SystemError) -> BaseException:
    """KeyboardInterrupt where confluent-kafka has lost it: its `poll` checks for signals, and then
    returns without the exception that their handler raised."""
    return KeyboardInterrupt() if current_thread() is main_thread() else error


def _code_of(code: int) -> ErrorCode:
    if code in _LOCAL:
        return _LOCAL[code]
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
