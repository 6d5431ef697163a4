"""Requests for the tests of all permissions: those of tests/broker/every_request.py, and variants.

Each list of names gets two more: one that does not exist but may be touched (`secret-missing`), and
one that exists and may not (`other-topic`).
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Mapping
from typing import Any

from compat_brokers import REPOSITORY
from compat_raw import batch
from compat_rights import MEMBER

from ottla.wire.apis import ApiKey

sys.path.append(str(REPOSITORY / "tests/broker"))

from every_request import GROUP, TOPIC, TXN, message, requests

Topics = Mapping[str, bytes]
Make = Callable[[Topics, int], Any]

K = ApiKey
MISSING = "secret-missing"
OTHER = "other-topic"
DOOMED = "secret-doomed"
OWNER = "secret-owner"
PRODUCER_ID = 99_999
TRANSACTIONAL = 1 << 4  # of a batch's attributes
UNKNOWN_ID = bytes(range(100, 116))

# The names beside each name: without a thing behind it, and without rights.
BESIDE = {
    TOPIC: (MISSING, OTHER),
    GROUP: ("secret-nogroup", "other-group"),
    TXN: ("secret-notxn", "other-txn"),
    DOOMED: (MISSING, OTHER),
}
# All or nothing, or a question about one thing: these stay as they are.
SINGLE = {
    K.ADD_PARTITIONS_TO_TXN,
    K.CONSUMER_GROUP_HEARTBEAT,
    K.SHARE_GROUP_HEARTBEAT,
    K.STREAMS_GROUP_HEARTBEAT,
}
# Kafka's answer to an id of no topic is not about rights here, or an UNKNOWN_SERVER_ERROR.
WITHOUT_MISSING = {
    K.SHARE_FETCH,
    K.SHARE_ACKNOWLEDGE,
    K.READ_SHARE_GROUP_STATE,
    K.WRITE_SHARE_GROUP_STATE,
}


def base(key: ApiKey) -> Make:
    """The request of every_request, with names beside its own."""

    def make(topics: Topics, version: int) -> Any:
        request = requests(topics[TOPIC], version)[key]()
        settle(key, request, topics)
        if key in WITHOUT_MISSING:
            return widened(request, topics, (1,))
        return request if key in SINGLE else widened(request, topics)

    return make


def settle(key: ApiKey, request: Any, topics: Topics) -> None:
    """Requests that change state each time are left out, or use separate names."""
    changes: dict[ApiKey, dict[str, Any]] = {
        K.METADATA: {"allow_auto_topic_creation": False},
        K.JOIN_GROUP: {"session_timeout": 1},  # refused behind the guard, at once
        K.SYNC_GROUP: {"protocol_type": "consumer", "protocol_name": "range"},
        K.LIST_OFFSETS: {"replica_id": -1},
        K.CREATE_TOPICS: {"validate_only": True},
        K.CREATE_PARTITIONS: {"validate_only": True},
        K.UPDATE_FEATURES: {"validate_only": True},
        K.CONSUMER_GROUP_HEARTBEAT: {"group_id": "secret-consumer"},
        K.SHARE_GROUP_HEARTBEAT: {"group_id": "secret-share", "member_id": MEMBER},
        K.STREAMS_GROUP_HEARTBEAT: {"group_id": "secret-streams"},
        K.CONSUMER_GROUP_DESCRIBE: {"group_ids": ["secret-consumer", "other-group"]},
        K.SHARE_GROUP_DESCRIBE: {"group_ids": ["secret-share", "other-group"]},
        K.STREAMS_GROUP_DESCRIBE: {"group_ids": ["secret-streams", "other-group"]},
        K.SHARE_FETCH: {"group_id": "secret-share", "member_id": MEMBER},
        K.SHARE_ACKNOWLEDGE: {
            "group_id": "secret-share",
            "member_id": MEMBER,
            "share_session_epoch": 5,  # of no session
        },
        K.DELETE_GROUPS: {"groups_names": ["secret-nogroup", "other-group"]},
        K.OFFSET_DELETE: {"group_id": "secret-kept"},
        K.ALTER_SHARE_GROUP_OFFSETS: {"group_id": "secret-nogroup"},
        K.DELETE_SHARE_GROUP_OFFSETS: {"group_id": "secret-nogroup"},
        K.DELETE_TOPICS: {"topic_names": [DOOMED]},
        K.ADD_OFFSETS_TO_TXN: {"producer_id": PRODUCER_ID},
        K.END_TXN: {"producer_id": PRODUCER_ID},
        K.TXN_OFFSET_COMMIT: {"producer_id": PRODUCER_ID},
        K.DESCRIBE_DELEGATION_TOKEN: {"owners": [owner()]},
        # Kafka never answers a client without rights that asks for all users.
        K.DESCRIBE_USER_SCRAM_CREDENTIALS: {"users": [scram_user()]},
        K.DESCRIBE_ACLS: {"principal_filter": "User:nobody"},
    }
    for name, value in changes.get(key, {}).items():
        assert hasattr(request, name), f"{key.name} has no {name}"
        setattr(request, name, value)
    match key:
        case K.OFFSET_FETCH:
            kind = "OffsetFetchRequestTopics"
            request.groups[0].topics = [message("offset_fetch", kind, TOPIC, topics[TOPIC], [0])]
        case K.DESCRIBE_CONFIGS:
            for resource in request.resources:
                resource.configuration_keys = ["retention.ms"]
        case K.DELETE_TOPICS:
            request.topics[0].name = DOOMED
        case K.CREATE_TOPICS:
            request.topics[0].name = MISSING
            request.topics.append(message("create_topics", "CreatableTopic", "other-new", 1, 1))
        case K.DELETE_ACLS:
            request.filters[0].principal_filter = "User:nobody-has-this"
        case K.WRITE_TXN_MARKERS:
            request.markers[0].producer_id = PRODUCER_ID
        case K.ADD_PARTITIONS_TO_TXN:
            request.transactions[0].producer_id = PRODUCER_ID
            request.v3_and_below_producer_id = PRODUCER_ID
        case K.ALTER_USER_SCRAM_CREDENTIALS:
            request.upsertions[0].salt = b"0123456789abcdef"
            request.upsertions[0].salted_password = bytes(32)


def owner() -> Any:
    kind = "DescribeDelegationTokenOwner"
    return message("describe_delegation_token", kind, "User", OWNER)


def scram_user() -> Any:
    return message("describe_user_scram_credentials", "UserName", "u")


def widened(request: Any, topics: Topics, beside: tuple[int, ...] = (0, 1)) -> Any:
    """The same, with the names beside each name of its lists."""
    for field in request.__match_args__:
        pieces = getattr(request, field)
        if not isinstance(pieces, list):
            continue
        more = []
        for piece in pieces:
            if hasattr(piece, "__match_args__"):
                widened(piece, topics, beside)
            if _named(piece, topics) is not None:
                more += [_renamed(piece, name, topics) for name in beside]
        setattr(request, field, pieces + more)
    return request


def _named(piece: Any, topics: Topics) -> str | None:
    if isinstance(piece, str):
        return piece if piece in BESIDE else None
    for field in getattr(piece, "__match_args__", ()):
        value = getattr(piece, field)
        if isinstance(value, str) and value in BESIDE:
            return value
        if isinstance(value, bytes) and value == topics[TOPIC]:
            return TOPIC
    return None


def _renamed(piece: Any, which: int, topics: Topics) -> Any:
    if isinstance(piece, str):
        return BESIDE[piece][which]
    made = copy.deepcopy(piece)
    for field in made.__match_args__:
        value = getattr(made, field)
        if isinstance(value, str) and value in BESIDE:
            setattr(made, field, BESIDE[value][which])
        elif isinstance(value, bytes) and value == topics[TOPIC]:
            setattr(made, field, (UNKNOWN_ID, topics[OTHER])[which])
    return made


def _variant(module: str, name: str, **fields: Any) -> Make:
    return lambda topics, version: message(module, name, **copy.deepcopy(fields))


def _changed(key: ApiKey, change: Callable[[Any, Topics], Any]) -> Make:
    def make(topics: Topics, version: int) -> Any:
        request = base(key)(topics, version)
        change(request, topics)
        return request

    return make


def _set(key: ApiKey, **fields: Any) -> Make:
    def change(request: Any, topics: Topics) -> None:
        for name, value in fields.items():
            assert hasattr(request, name), f"{key.name} has no {name}"
            setattr(request, name, value)

    return _changed(key, change)


def _metadata_by_id(request: Any, topics: Topics) -> None:
    kind = type(request.topics[0])
    request.topics = [
        kind(topic_id, None) for topic_id in (topics[TOPIC], UNKNOWN_ID, topics[OTHER])
    ]


def _delete_by_id(request: Any, topics: Topics) -> None:
    kind = type(request.topics[0])
    request.topics = [
        kind(None, topic_id) for topic_id in (topics[DOOMED], UNKNOWN_ID, topics[OTHER])
    ]


def _all_topics(request: Any, topics: Topics) -> None:
    for group in request.groups:
        group.topics = None


def _as_follower(request: Any, topics: Topics) -> None:
    request.replica_state = message("fetch", "ReplicaState", 7, 1)
    request.replica_id = 7


def _configs(module: str, kind: str, *pieces: tuple[Any, ...]) -> Callable[[Any, Topics], None]:
    def change(request: Any, topics: Topics) -> None:
        request.resources = [message(module, kind, *piece) for piece in pieces]

    return change


def _transactional(request: Any, topics: Topics) -> None:
    """The bit of the batch counts, and the name of the request."""
    request.transactional_id = TXN
    request.topic_data = request.topic_data[:1]
    partition = request.topic_data[0].partition_data[0]
    partition.records = batch([b"v"], producer=(PRODUCER_ID, 0, 0), attributes=TRANSACTIONAL)


def _two_topics(request: Any, topics: Topics) -> None:
    kind = type(request.v3_and_below_topics[0])
    request.v3_and_below_topics.append(kind(OTHER, [0]))


def _internal_topics(request: Any, topics: Topics) -> None:
    part = request.topology.subtopologies[0]
    info = message("streams_group_heartbeat", "TopicInfo", "secret-changelog")
    part.state_changelog_topics = [info]
    request.group_id = "secret-streams-with-state"


RESOURCES: tuple[tuple[Any, ...], ...] = (
    (8, "", []),  # a broker's loggers
    (16, "secret-metrics", []),  # client metrics
    (32, GROUP, []),
    (32, "other-group", []),
)
OWNED = {"owner_principal_type": "User", "owner_principal_name": OWNER, "renewers": []}

VARIANTS: dict[str, tuple[ApiKey, int | None, Make]] = {
    "a transactional Produce": (K.PRODUCE, None, _changed(K.PRODUCE, _transactional)),
    "Fetch of a follower": (K.FETCH, None, _changed(K.FETCH, _as_follower)),
    "Metadata of all topics": (
        K.METADATA,
        10,
        _set(
            K.METADATA,
            topics=None,
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        ),
    ),
    "Metadata with authorized operations": (
        K.METADATA,
        None,
        _set(K.METADATA, include_topic_authorized_operations=True),
    ),
    "Metadata by id": (K.METADATA, None, _changed(K.METADATA, _metadata_by_id)),
    "OffsetFetch of all topics": (
        K.OFFSET_FETCH,
        None,
        _changed(K.OFFSET_FETCH, _all_topics),
    ),
    "FindCoordinator of transactions": (
        K.FIND_COORDINATOR,
        None,
        _set(K.FIND_COORDINATOR, key_type=1, coordinator_keys=[TXN, "other-txn"]),
    ),
    "FindCoordinator of a share group's state": (
        K.FIND_COORDINATOR,
        None,
        _set(K.FIND_COORDINATOR, key_type=2, coordinator_keys=[f"{GROUP}:{MEMBER}:0"]),
    ),
    "FindCoordinator of a wrong type": (
        K.FIND_COORDINATOR,
        None,
        _set(K.FIND_COORDINATOR, key_type=9),
    ),
    "DescribeGroups with authorized operations": (
        K.DESCRIBE_GROUPS,
        None,
        _set(K.DESCRIBE_GROUPS, include_authorized_operations=True),
    ),
    "ConsumerGroupDescribe with authorized operations": (
        K.CONSUMER_GROUP_DESCRIBE,
        None,
        _set(K.CONSUMER_GROUP_DESCRIBE, include_authorized_operations=True),
    ),
    "ShareGroupDescribe with authorized operations": (
        K.SHARE_GROUP_DESCRIBE,
        None,
        _set(K.SHARE_GROUP_DESCRIBE, include_authorized_operations=True),
    ),
    "StreamsGroupDescribe with authorized operations": (
        K.STREAMS_GROUP_DESCRIBE,
        None,
        _set(K.STREAMS_GROUP_DESCRIBE, include_authorized_operations=True),
    ),
    "InitProducerId of a transaction": (
        K.INIT_PRODUCER_ID,
        None,
        _set(K.INIT_PRODUCER_ID, transactional_id="secret-new-txn"),
    ),
    "AddPartitionsToTxn of a client": (K.ADD_PARTITIONS_TO_TXN, 3, base(K.ADD_PARTITIONS_TO_TXN)),
    "AddPartitionsToTxn with a topic that it may not": (
        K.ADD_PARTITIONS_TO_TXN,
        3,
        _changed(K.ADD_PARTITIONS_TO_TXN, _two_topics),
    ),
    "DescribeConfigs of other resources": (
        K.DESCRIBE_CONFIGS,
        None,
        _changed(
            K.DESCRIBE_CONFIGS,
            _configs("describe_configs", "DescribeConfigsResource", *(r[:2] for r in RESOURCES)),
        ),
    ),
    "IncrementalAlterConfigs of other resources": (
        K.INCREMENTAL_ALTER_CONFIGS,
        None,
        _changed(
            K.INCREMENTAL_ALTER_CONFIGS,
            _configs("incremental_alter_configs", "AlterConfigsResource", *RESOURCES),
        ),
    ),
    "CreateDelegationToken for another": (
        K.CREATE_DELEGATION_TOKEN,
        None,
        _variant("create_delegation_token", "CreateDelegationTokenRequest", **OWNED),
    ),
    "DescribeTopicPartitions of all topics": (
        K.DESCRIBE_TOPIC_PARTITIONS,
        None,
        _set(K.DESCRIBE_TOPIC_PARTITIONS, topics=[], response_partition_limit=100),
    ),
    "ConsumerGroupHeartbeat by a regular expression": (
        K.CONSUMER_GROUP_HEARTBEAT,
        1,
        _set(
            K.CONSUMER_GROUP_HEARTBEAT,
            group_id="secret-regex",
            subscribed_topic_names=None,
            subscribed_topic_regex=".*",
        ),
    ),
    "StreamsGroupHeartbeat with a changelog": (
        K.STREAMS_GROUP_HEARTBEAT,
        None,
        _changed(K.STREAMS_GROUP_HEARTBEAT, _internal_topics),
    ),
    "DeleteTopics by id": (K.DELETE_TOPICS, None, _changed(K.DELETE_TOPICS, _delete_by_id)),
}
