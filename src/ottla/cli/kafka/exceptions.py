"""The names of errors in Kafka's tools: classes of the Java client, which scripts look for."""

from __future__ import annotations

from typing import Final

from ottla.errors import ErrorCode, KafkaError

_PACKAGE: Final = "org.apache.kafka.common.errors"

# Classes that are not simply the code's name in camel case.
_IRREGULAR: Final = {
    ErrorCode.BROKER_NOT_AVAILABLE: "BrokerNotAvailableException",
    ErrorCode.CORRUPT_MESSAGE: "CorruptRecordException",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "DelegationTokenDisabledException",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "DelegationTokenAuthorizationException",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "UnsupportedByAuthenticationException",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "GroupSubscribedToTopicException",
    ErrorCode.INVALID_CONFIG: "InvalidConfigurationException",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "InvalidTopicException",
    ErrorCode.KAFKA_STORAGE_ERROR: "KafkaStorageException",
    ErrorCode.MESSAGE_TOO_LARGE: "RecordTooLargeException",
    ErrorCode.NETWORK_EXCEPTION: "NetworkException",
    ErrorCode.NON_EMPTY_GROUP: "GroupNotEmptyException",
    ErrorCode.POLICY_VIOLATION: "PolicyViolationException",
    ErrorCode.RECORD_LIST_TOO_LARGE: "RecordBatchTooLargeException",
    ErrorCode.REQUEST_TIMED_OUT: "TimeoutException",
    ErrorCode.SASL_AUTHENTICATION_FAILED: "SaslAuthenticationException",
    ErrorCode.TOPIC_ALREADY_EXISTS: "TopicExistsException",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "TopicAuthorizationException",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "GroupAuthorizationException",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "ClusterAuthorizationException",
    ErrorCode.UNKNOWN_SERVER_ERROR: "UnknownServerException",
}

# The meanings of bare codes, for responses without a message.
_MEANINGS: Final = {
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: (
        "The brokers have no delegation.token.secret.key, so there are no delegation tokens."
    ),
    ErrorCode.DELEGATION_TOKEN_EXPIRED: "The delegation token has expired.",
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "No delegation token has this HMAC.",
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: (
        "Only the owner, the requester and the renewers of a delegation token may change it."
    ),
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: (
        "Delegation tokens are only for clients that have authenticated by SASL or with a"
        " certificate, and not by a delegation token."
    ),
    ErrorCode.INVALID_PRINCIPAL_TYPE: "A renewer must be of the type User.",
    ErrorCode.GROUP_ID_NOT_FOUND: "The group id does not exist.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (
        "The group has members that read this topic; its offsets can't be deleted meanwhile."
    ),
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
    ErrorCode.OFFSET_OUT_OF_RANGE: "The offset is not within the range that the broker has.",
    ErrorCode.UNKNOWN_TOPIC_ID: "No topic has this id.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "The broker does not have this topic or partition.",
    ErrorCode.UNSUPPORTED_VERSION: "The broker does not serve this version of the API.",
}


def exception_name(code: ErrorCode) -> str:
    """`org.apache.kafka.common.errors.TopicExistsException`."""
    simple = _IRREGULAR.get(code) or f"{code.name.title().replace('_', '')}Exception"
    return f"{_PACKAGE}.{simple}"


def message_of(error: KafkaError) -> str:
    """The broker's message; without one librdkafka fills in its own, which this replaces."""
    message = str(error)
    bare = not message or message == error.code.name or message.startswith("Broker: ")
    return _MEANINGS.get(error.code, message.removeprefix("Broker: ")) if bare else message


def describe(error: KafkaError) -> str:
    return f"{exception_name(error.code)}: {message_of(error)}"
