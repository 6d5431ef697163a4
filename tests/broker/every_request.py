"""One request of each API that a broker serves, naming a topic, a group and a transaction."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from data_path_broker import batch

from ottla.wire.apis import ApiKey

TOPIC = "secret-topic"
GROUP = "secret-group"
TXN = "secret-txn"
ID = bytes(range(16))

LITERAL, ANY = 3, 1


def message(module: str, name: str, /, *fields: Any, **named: Any) -> Any:
    return getattr(import_module(f"ottla.wire.messages.{module}"), name)(*fields, **named)


def requests(topic_id: bytes, version: int) -> dict[ApiKey, Callable[[], Any]]:
    """For tests that visit all APIs; requests are built on demand."""

    def m(module: str, name: str, /, *fields: Any, **named: Any) -> Callable[[], Any]:
        return lambda: message(module, name, *fields, **named)

    def make(module: str, name: str, /, *fields: Any, **named: Any) -> Any:
        return message(module, name, *fields, **named)

    def state(module: str, name: str, kind: str, **partition: int) -> Callable[[], Any]:
        data = make(module, "PartitionData", partition=0, **partition)
        return m(module, name, GROUP, [make(module, kind, topic_id, [data])])

    records = batch(b"v")
    acl = (2, "x", LITERAL, "User:x", "*", 3, 3)
    return {
        ApiKey.PRODUCE: m(
            "produce",
            "ProduceRequest",
            acks=1,
            timeout=1000,
            topic_data=[
                make(
                    "produce",
                    "TopicProduceData",
                    TOPIC,
                    topic_id,
                    [make("produce", "PartitionProduceData", index=0, records=records)],
                )
            ],
        ),
        ApiKey.FETCH: m(
            "fetch",
            "FetchRequest",
            max_wait=0,
            min_bytes=1,
            topics=[
                make(
                    "fetch",
                    "FetchTopic",
                    TOPIC,
                    topic_id,
                    [make("fetch", "FetchPartition", partition=0, partition_max_bytes=1000)],
                )
            ],
        ),
        ApiKey.LIST_OFFSETS: m(
            "list_offsets",
            "ListOffsetsRequest",
            topics=[
                make(
                    "list_offsets",
                    "ListOffsetsTopic",
                    TOPIC,
                    [make("list_offsets", "ListOffsetsPartition", 0)],
                )
            ],
        ),
        ApiKey.METADATA: m(
            "metadata",
            "MetadataRequest",
            [make("metadata", "MetadataRequestTopic", name=TOPIC)],
            allow_auto_topic_creation=True,
        ),
        ApiKey.OFFSET_COMMIT: m(
            "offset_commit",
            "OffsetCommitRequest",
            GROUP,
            topics=[
                make(
                    "offset_commit",
                    "OffsetCommitRequestTopic",
                    TOPIC,
                    topic_id,
                    [make("offset_commit", "OffsetCommitRequestPartition", 0, 1)],
                )
            ],
        ),
        ApiKey.OFFSET_FETCH: m(
            "offset_fetch",
            "OffsetFetchRequest",
            GROUP,
            [make("offset_fetch", "OffsetFetchRequestTopic", TOPIC, [0])],
            [make("offset_fetch", "OffsetFetchRequestGroup", GROUP, topics=None)],
        ),
        ApiKey.FIND_COORDINATOR: m("find_coordinator", "FindCoordinatorRequest", GROUP, 0, [GROUP]),
        ApiKey.JOIN_GROUP: m("join_group", "JoinGroupRequest", GROUP, 10000, 10000),
        ApiKey.HEARTBEAT: m("heartbeat", "HeartbeatRequest", GROUP),
        ApiKey.LEAVE_GROUP: m("leave_group", "LeaveGroupRequest", GROUP),
        ApiKey.SYNC_GROUP: m("sync_group", "SyncGroupRequest", GROUP),
        ApiKey.DESCRIBE_GROUPS: m("describe_groups", "DescribeGroupsRequest", [GROUP]),
        ApiKey.LIST_GROUPS: m("list_groups", "ListGroupsRequest"),
        ApiKey.SASL_HANDSHAKE: m("sasl_handshake", "SaslHandshakeRequest", "PLAIN"),
        ApiKey.SASL_AUTHENTICATE: m("sasl_authenticate", "SaslAuthenticateRequest", b""),
        ApiKey.API_VERSIONS: m(
            "api_versions",
            "ApiVersionsRequest",
            client_software_name="a",
            client_software_version="1",
        ),
        ApiKey.CREATE_TOPICS: m(
            "create_topics",
            "CreateTopicsRequest",
            [make("create_topics", "CreatableTopic", "new-topic", 1, 1)],
            1000,
        ),
        ApiKey.DELETE_TOPICS: m(
            "delete_topics",
            "DeleteTopicsRequest",
            [TOPIC],
            [make("delete_topics", "DeleteTopicState", TOPIC)],
            1000,
        ),
        ApiKey.DELETE_RECORDS: m(
            "delete_records",
            "DeleteRecordsRequest",
            [
                make(
                    "delete_records",
                    "DeleteRecordsTopic",
                    TOPIC,
                    [make("delete_records", "DeleteRecordsPartition", 0, 1)],
                )
            ],
            1000,
        ),
        ApiKey.INIT_PRODUCER_ID: m("init_producer_id", "InitProducerIdRequest", None, 1000, -1, -1),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: m(
            "offset_for_leader_epoch",
            "OffsetForLeaderEpochRequest",
            -1,
            [
                make(
                    "offset_for_leader_epoch",
                    "OffsetForLeaderTopic",
                    TOPIC,
                    [make("offset_for_leader_epoch", "OffsetForLeaderPartition", 0, -1, 0)],
                )
            ],
        ),
        ApiKey.ADD_PARTITIONS_TO_TXN: m(
            "add_partitions_to_txn",
            "AddPartitionsToTxnRequest",
            transactions=[
                make(
                    "add_partitions_to_txn",
                    "AddPartitionsToTxnTransaction",
                    TXN,
                    topics=[make("add_partitions_to_txn", "AddPartitionsToTxnTopic", TOPIC, [0])],
                )
            ],
            v3_and_below_transactional_id=TXN,
            v3_and_below_topics=[
                make("add_partitions_to_txn", "AddPartitionsToTxnTopic", TOPIC, [0])
            ],
        ),
        ApiKey.ADD_OFFSETS_TO_TXN: m(
            "add_offsets_to_txn", "AddOffsetsToTxnRequest", TXN, 1, 0, GROUP
        ),
        ApiKey.END_TXN: m("end_txn", "EndTxnRequest", TXN, 1, 0, True),
        ApiKey.WRITE_TXN_MARKERS: m(
            "write_txn_markers",
            "WriteTxnMarkersRequest",
            [
                make(
                    "write_txn_markers",
                    "WritableTxnMarker",
                    1,
                    0,
                    True,
                    [make("write_txn_markers", "WritableTxnMarkerTopic", TOPIC, [0])],
                )
            ],
        ),
        ApiKey.TXN_OFFSET_COMMIT: m(
            "txn_offset_commit",
            "TxnOffsetCommitRequest",
            TXN,
            GROUP,
            1,
            0,
            topics=[
                make(
                    "txn_offset_commit",
                    "TxnOffsetCommitRequestTopic",
                    TOPIC,
                    topic_id,
                    [make("txn_offset_commit", "TxnOffsetCommitRequestPartition", 0, 1)],
                )
            ],
        ),
        ApiKey.DESCRIBE_ACLS: m(
            "describe_acls", "DescribeAclsRequest", 1, None, 1, None, None, 1, 1
        ),
        ApiKey.CREATE_ACLS: m(
            "create_acls", "CreateAclsRequest", [make("create_acls", "AclCreation", *acl)]
        ),
        ApiKey.DELETE_ACLS: m(
            "delete_acls",
            "DeleteAclsRequest",
            [make("delete_acls", "DeleteAclsFilter", 1, None, 1, None, None, 1, 1)],
        ),
        ApiKey.DESCRIBE_CONFIGS: m(
            "describe_configs",
            "DescribeConfigsRequest",
            [
                make("describe_configs", "DescribeConfigsResource", 2, TOPIC),
                make("describe_configs", "DescribeConfigsResource", 4, "0"),
                make("describe_configs", "DescribeConfigsResource", 32, GROUP),
            ],
        ),
        ApiKey.ALTER_CONFIGS: m(
            "alter_configs",
            "AlterConfigsRequest",
            [make("alter_configs", "AlterConfigsResource", 2, TOPIC, [])],
        ),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: m(
            "incremental_alter_configs",
            "IncrementalAlterConfigsRequest",
            [
                make("incremental_alter_configs", "AlterConfigsResource", 2, TOPIC, []),
                make("incremental_alter_configs", "AlterConfigsResource", 4, "", []),
            ],
        ),
        ApiKey.ALTER_REPLICA_LOG_DIRS: m(
            "alter_replica_log_dirs",
            "AlterReplicaLogDirsRequest",
            [
                make(
                    "alter_replica_log_dirs",
                    "AlterReplicaLogDir",
                    "/x",
                    [make("alter_replica_log_dirs", "AlterReplicaLogDirTopic", TOPIC, [0])],
                )
            ],
        ),
        ApiKey.DESCRIBE_LOG_DIRS: m("describe_log_dirs", "DescribeLogDirsRequest", None),
        ApiKey.CREATE_PARTITIONS: m(
            "create_partitions",
            "CreatePartitionsRequest",
            [make("create_partitions", "CreatePartitionsTopic", TOPIC, 9, None)],
            1000,
        ),
        ApiKey.CREATE_DELEGATION_TOKEN: m(
            "create_delegation_token", "CreateDelegationTokenRequest", None, None, [], 1000
        ),
        ApiKey.RENEW_DELEGATION_TOKEN: m(
            "renew_delegation_token", "RenewDelegationTokenRequest", b"x", 1
        ),
        ApiKey.EXPIRE_DELEGATION_TOKEN: m(
            "expire_delegation_token", "ExpireDelegationTokenRequest", b"x", 1
        ),
        ApiKey.DESCRIBE_DELEGATION_TOKEN: m(
            "describe_delegation_token", "DescribeDelegationTokenRequest"
        ),
        ApiKey.DELETE_GROUPS: m("delete_groups", "DeleteGroupsRequest", [GROUP]),
        ApiKey.ELECT_LEADERS: m(
            "elect_leaders",
            "ElectLeadersRequest",
            0,
            [make("elect_leaders", "TopicPartitions", TOPIC, [0])],
            1000,
        ),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: m(
            "alter_partition_reassignments", "AlterPartitionReassignmentsRequest"
        ),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: m(
            "list_partition_reassignments", "ListPartitionReassignmentsRequest"
        ),
        ApiKey.OFFSET_DELETE: m(
            "offset_delete",
            "OffsetDeleteRequest",
            GROUP,
            [
                make(
                    "offset_delete",
                    "OffsetDeleteRequestTopic",
                    TOPIC,
                    [make("offset_delete", "OffsetDeleteRequestPartition", 0)],
                )
            ],
        ),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: m("describe_client_quotas", "DescribeClientQuotasRequest"),
        ApiKey.ALTER_CLIENT_QUOTAS: m(
            "alter_client_quotas",
            "AlterClientQuotasRequest",
            [
                make(
                    "alter_client_quotas",
                    "EntryData",
                    [make("alter_client_quotas", "EntityData", "user", "u")],
                    [make("alter_client_quotas", "OpData", "producer_byte_rate", 1.0)],
                )
            ],
        ),
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: m(
            "describe_user_scram_credentials", "DescribeUserScramCredentialsRequest"
        ),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: m(
            "alter_user_scram_credentials",
            "AlterUserScramCredentialsRequest",
            [],
            [
                make(
                    "alter_user_scram_credentials",
                    "ScramCredentialUpsertion",
                    "u",
                    1,
                    4096,
                    b"s",
                    b"p",
                )
            ],
        ),
        ApiKey.ENVELOPE: m("envelope", "EnvelopeRequest", b"", b"", b"\x7f\0\0\1"),
        ApiKey.DESCRIBE_CLUSTER: m("describe_cluster", "DescribeClusterRequest", True),
        ApiKey.DESCRIBE_PRODUCERS: m(
            "describe_producers",
            "DescribeProducersRequest",
            [make("describe_producers", "TopicRequest", TOPIC, [0])],
        ),
        ApiKey.DESCRIBE_TRANSACTIONS: m(
            "describe_transactions", "DescribeTransactionsRequest", [TXN]
        ),
        ApiKey.UNREGISTER_BROKER: m("unregister_broker", "UnregisterBrokerRequest", 77),
        ApiKey.LIST_TRANSACTIONS: m("list_transactions", "ListTransactionsRequest"),
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: m(
            "get_telemetry_subscriptions", "GetTelemetrySubscriptionsRequest"
        ),
        ApiKey.PUSH_TELEMETRY: m("push_telemetry", "PushTelemetryRequest"),
        ApiKey.LIST_CONFIG_RESOURCES: m("list_config_resources", "ListConfigResourcesRequest"),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: m(
            "consumer_group_heartbeat",
            "ConsumerGroupHeartbeatRequest",
            GROUP,
            "member",
            0,
            rebalance_timeout=1000,
            subscribed_topic_names=[TOPIC],
            topic_partitions=[],
        ),
        ApiKey.CONSUMER_GROUP_DESCRIBE: m(
            "consumer_group_describe", "ConsumerGroupDescribeRequest", [GROUP]
        ),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: m(
            "describe_topic_partitions",
            "DescribeTopicPartitionsRequest",
            [make("describe_topic_partitions", "TopicRequest", TOPIC)],
        ),
        ApiKey.SHARE_GROUP_HEARTBEAT: m(
            "share_group_heartbeat",
            "ShareGroupHeartbeatRequest",
            GROUP,
            "member",
            0,
            subscribed_topic_names=[TOPIC],
        ),
        ApiKey.SHARE_GROUP_DESCRIBE: m(
            "share_group_describe", "ShareGroupDescribeRequest", [GROUP]
        ),
        ApiKey.STREAMS_GROUP_HEARTBEAT: m(
            "streams_group_heartbeat",
            "StreamsGroupHeartbeatRequest",
            GROUP,
            "member",
            topology=make(
                "streams_group_heartbeat",
                "Topology",
                1,
                [make("streams_group_heartbeat", "Subtopology", "0", [TOPIC])],
            ),
            rebalance_timeout=1000,
            process_id="process",
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
        ),
        ApiKey.STREAMS_GROUP_DESCRIBE: m(
            "streams_group_describe", "StreamsGroupDescribeRequest", [GROUP]
        ),
        ApiKey.UPDATE_FEATURES: m(
            "update_features",
            "UpdateFeaturesRequest",
            feature_updates=[make("update_features", "FeatureUpdateKey", "group.version", 1)],
        ),
        ApiKey.DESCRIBE_QUORUM: m("describe_quorum", "DescribeQuorumRequest", []),
        ApiKey.SHARE_FETCH: m(
            "share_fetch",
            "ShareFetchRequest",
            group_id=GROUP,
            member_id="m",
            topics=[
                make(
                    "share_fetch",
                    "FetchTopic",
                    topic_id,
                    [make("share_fetch", "FetchPartition", 0)],
                )
            ],
        ),
        ApiKey.SHARE_ACKNOWLEDGE: m(
            "share_acknowledge",
            "ShareAcknowledgeRequest",
            group_id=GROUP,
            member_id="m",
            share_session_epoch=1,
            topics=[
                make(
                    "share_acknowledge",
                    "AcknowledgeTopic",
                    topic_id,
                    [make("share_acknowledge", "AcknowledgePartition", 0)],
                )
            ],
        ),
        ApiKey.INITIALIZE_SHARE_GROUP_STATE: state(
            "initialize_share_group_state",
            "InitializeShareGroupStateRequest",
            "InitializeStateData",
        ),
        ApiKey.READ_SHARE_GROUP_STATE: state(
            "read_share_group_state", "ReadShareGroupStateRequest", "ReadStateData"
        ),
        ApiKey.WRITE_SHARE_GROUP_STATE: state(
            "write_share_group_state", "WriteShareGroupStateRequest", "WriteStateData"
        ),
        ApiKey.DELETE_SHARE_GROUP_STATE: state(
            "delete_share_group_state", "DeleteShareGroupStateRequest", "DeleteStateData"
        ),
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: state(
            "read_share_group_state_summary",
            "ReadShareGroupStateSummaryRequest",
            "ReadStateSummaryData",
        ),
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: m(
            "describe_share_group_offsets",
            "DescribeShareGroupOffsetsRequest",
            [
                make(
                    "describe_share_group_offsets",
                    "DescribeShareGroupOffsetsRequestGroup",
                    GROUP,
                    None,
                )
            ],
        ),
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: m(
            "alter_share_group_offsets",
            "AlterShareGroupOffsetsRequest",
            GROUP,
            [
                make(
                    "alter_share_group_offsets",
                    "AlterShareGroupOffsetsRequestTopic",
                    TOPIC,
                    [
                        make(
                            "alter_share_group_offsets",
                            "AlterShareGroupOffsetsRequestPartition",
                            0,
                            0,
                        )
                    ],
                )
            ],
        ),
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: m(
            "delete_share_group_offsets",
            "DeleteShareGroupOffsetsRequest",
            GROUP,
            [make("delete_share_group_offsets", "DeleteShareGroupOffsetsRequestTopic", TOPIC)],
        ),
    }


def codes(message: Any) -> set[int]:
    """Every error code of a response, at any depth."""
    found: set[int] = set()
    for name in message.__match_args__:
        value = getattr(message, name)
        if name.endswith("error_code"):
            found.add(value)
        for item in value if isinstance(value, list) else [value]:
            if hasattr(item, "__match_args__"):
                found |= codes(item)
    return found
