"""What each API asks for, and what a client without that right is answered.

An API that is not in this table is not served by a broker that has an authorizer.
"""

from __future__ import annotations

from typing import Any, Final

from ottla.auth.acls import AclOperation, AclResource
from ottla.broker.guards import admin, groups, records
from ottla.broker.guards.steps import ApiGuard, Asks, PieceRight, RequestRight, free
from ottla.wire.apis import ApiKey

O, R = AclOperation, AclResource  # noqa: E741

_CLUSTER_ACTION: Final = (O.CLUSTER_ACTION, R.CLUSTER)
_READ_GROUP: Final = ApiGuard(RequestRight(O.READ, R.GROUP, "group_id"))
_WRITE_TXN: Final = RequestRight(O.WRITE, R.TRANSACTIONAL_ID, "transactional_id")
_BY_BROKERS: Final = ApiGuard(RequestRight(*_CLUSTER_ACTION))

GUARDS: Final[dict[int, Any]] = {
    # records
    ApiKey.PRODUCE: records.produce,
    ApiKey.FETCH: Asks("READ TOPIC, 29 for each partition; followers CLUSTER_ACTION"),
    ApiKey.LIST_OFFSETS: records.list_offsets,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: ApiGuard(
        PieceRight(O.DESCRIBE, R.TOPIC, records.epochs_denied, name="topic", unless=_CLUSTER_ACTION)
    ),
    ApiKey.DELETE_RECORDS: ApiGuard(PieceRight(O.DELETE, R.TOPIC, records.delete_records_denied)),
    ApiKey.DESCRIBE_PRODUCERS: ApiGuard(PieceRight(O.READ, R.TOPIC, records.producers_denied)),
    # transactions
    ApiKey.INIT_PRODUCER_ID: records.init_producer_id,
    ApiKey.ADD_PARTITIONS_TO_TXN: records.add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: ApiGuard(_WRITE_TXN, RequestRight(O.READ, R.GROUP, "group_id")),
    ApiKey.END_TXN: ApiGuard(_WRITE_TXN),
    ApiKey.WRITE_TXN_MARKERS: ApiGuard(
        RequestRight(O.ALTER, R.CLUSTER, refuse=records.markers_denied, or_else=_CLUSTER_ACTION)
    ),
    ApiKey.TXN_OFFSET_COMMIT: ApiGuard(
        RequestRight(
            O.WRITE,
            R.TRANSACTIONAL_ID,
            "transactional_id",
            refuse=records.txn_commit_refused,
        ),
        RequestRight(O.READ, R.GROUP, "group_id", refuse=records.txn_commit_refused),
        PieceRight(O.READ, R.TOPIC, records.txn_commit_denied),
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: Asks("DESCRIBE TRANSACTIONAL_ID, 53; topics DESCRIBE, left out"),
    ApiKey.LIST_TRANSACTIONS: Asks("DESCRIBE TRANSACTIONAL_ID, left out"),
    # groups
    ApiKey.FIND_COORDINATOR: groups.find_coordinator,
    ApiKey.JOIN_GROUP: ApiGuard(
        RequestRight(O.READ, R.GROUP, "group_id", refuse=groups.join_refused)
    ),
    ApiKey.SYNC_GROUP: _READ_GROUP,
    ApiKey.HEARTBEAT: _READ_GROUP,
    ApiKey.LEAVE_GROUP: _READ_GROUP,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: groups.subscription,
    ApiKey.SHARE_GROUP_HEARTBEAT: groups.subscription,
    ApiKey.STREAMS_GROUP_HEARTBEAT: groups.topology,
    ApiKey.OFFSET_COMMIT: ApiGuard(
        RequestRight(O.READ, R.GROUP, "group_id", refuse=groups.commit_refused),
        PieceRight(O.READ, R.TOPIC, groups.commit_denied),
    ),
    ApiKey.OFFSET_FETCH: Asks("DESCRIBE GROUP, 30; DESCRIBE TOPIC, 29 or left out"),
    ApiKey.OFFSET_DELETE: ApiGuard(
        RequestRight(O.DELETE, R.GROUP, "group_id"),
        PieceRight(O.READ, R.TOPIC, groups.offset_delete_denied),
    ),
    ApiKey.DESCRIBE_GROUPS: ApiGuard(
        PieceRight(O.DESCRIBE, R.GROUP, groups.classic_denied, pieces="groups", into="groups")
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ApiGuard(
        PieceRight(O.DESCRIBE, R.GROUP, groups.consumer_denied, pieces="group_ids", into="groups")
    ),
    ApiKey.SHARE_GROUP_DESCRIBE: ApiGuard(
        PieceRight(O.DESCRIBE, R.GROUP, groups.share_denied, pieces="group_ids", into="groups")
    ),
    ApiKey.STREAMS_GROUP_DESCRIBE: ApiGuard(
        PieceRight(O.DESCRIBE, R.GROUP, groups.streams_denied, pieces="group_ids", into="groups")
    ),
    ApiKey.LIST_GROUPS: Asks("DESCRIBE CLUSTER, or DESCRIBE GROUP, left out"),
    ApiKey.DELETE_GROUPS: ApiGuard(
        PieceRight(
            O.DELETE,
            R.GROUP,
            groups.delete_group_denied,
            pieces="groups_names",
            into="results",
        )
    ),
    ApiKey.SHARE_FETCH: ApiGuard(
        RequestRight(O.READ, R.GROUP, "group_id"),
        PieceRight(O.READ, R.TOPIC, groups.share_fetch_denied, into="responses"),
    ),
    ApiKey.SHARE_ACKNOWLEDGE: ApiGuard(
        RequestRight(O.READ, R.GROUP, "group_id"),
        PieceRight(
            O.READ,
            R.TOPIC,
            groups.share_acknowledge_denied,
            into="responses",
            asks_when_empty=True,
        ),
    ),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Asks("DESCRIBE GROUP, 30; DESCRIBE TOPIC, 29 or left out"),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: ApiGuard(
        RequestRight(O.READ, R.GROUP, "group_id"),
        PieceRight(
            O.READ,
            R.TOPIC,
            groups.alter_share_offsets_denied,
            name="topic_name",
            into="responses",
        ),
    ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: ApiGuard(
        RequestRight(O.DELETE, R.GROUP, "group_id"),
        PieceRight(
            O.READ,
            R.TOPIC,
            groups.delete_share_offsets_denied,
            name="topic_name",
            into="responses",
        ),
    ),
    # topics
    ApiKey.METADATA: Asks("DESCRIBE TOPIC, 29 or left out; CREATE for topics that it creates"),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Asks("DESCRIBE TOPIC, 29 or left out"),
    ApiKey.CREATE_TOPICS: ApiGuard(
        PieceRight(O.CREATE, R.TOPIC, admin.create_topic_denied, unless=(O.CREATE, R.CLUSTER))
    ),
    ApiKey.DELETE_TOPICS: admin.delete_topics,
    ApiKey.CREATE_PARTITIONS: ApiGuard(
        PieceRight(O.ALTER, R.TOPIC, admin.create_partitions_denied, into="results")
    ),
    # configs, quotas, users
    ApiKey.DESCRIBE_CONFIGS: admin.ConfigsGuard(
        O.DESCRIBE_CONFIGS, "describe_configs", "DescribeConfigsResult", "results"
    ),
    ApiKey.ALTER_CONFIGS: admin.ConfigsGuard(
        O.ALTER_CONFIGS, "alter_configs", "AlterConfigsResourceResponse", "responses"
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: admin.ConfigsGuard(
        O.ALTER_CONFIGS, "incremental_alter_configs", "AlterConfigsResourceResponse", "responses"
    ),
    ApiKey.LIST_CONFIG_RESOURCES: ApiGuard(RequestRight(O.DESCRIBE_CONFIGS, R.CLUSTER)),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: ApiGuard(
        RequestRight(O.DESCRIBE_CONFIGS, R.CLUSTER, refuse=admin.describe_quotas_refused)
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: ApiGuard(
        RequestRight(O.ALTER_CONFIGS, R.CLUSTER, refuse=admin.alter_quotas_refused)
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: ApiGuard(
        RequestRight(O.DESCRIBE, R.CLUSTER, refuse=admin.describe_scram_refused)
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ApiGuard(
        RequestRight(O.ALTER, R.CLUSTER, refuse=admin.alter_scram_refused)
    ),
    ApiKey.DESCRIBE_ACLS: ApiGuard(RequestRight(O.DESCRIBE, R.CLUSTER)),
    ApiKey.CREATE_ACLS: ApiGuard(
        RequestRight(O.ALTER, R.CLUSTER, refuse=admin.create_acls_refused)
    ),
    ApiKey.DELETE_ACLS: ApiGuard(
        RequestRight(O.ALTER, R.CLUSTER, refuse=admin.delete_acls_refused)
    ),
    ApiKey.CREATE_DELEGATION_TOKEN: Asks("CREATE_TOKENS USER for another owner, 65"),
    ApiKey.RENEW_DELEGATION_TOKEN: Asks("owner or renewer, 63"),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Asks("owner or renewer, 63"),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Asks(
        "owner, renewer, DESCRIBE DELEGATION_TOKEN or DESCRIBE_TOKENS USER, left out"
    ),
    # the cluster
    ApiKey.DESCRIBE_CLUSTER: Asks("nothing; authorized operations DESCRIBE CLUSTER, else none"),
    ApiKey.DESCRIBE_LOG_DIRS: ApiGuard(RequestRight(O.DESCRIBE, R.CLUSTER)),
    ApiKey.ALTER_REPLICA_LOG_DIRS: ApiGuard(
        RequestRight(O.ALTER, R.CLUSTER, refuse=admin.move_refused)
    ),
    ApiKey.ELECT_LEADERS: ApiGuard(RequestRight(O.ALTER, R.CLUSTER, refuse=admin.elect_refused)),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ApiGuard(RequestRight(O.ALTER, R.CLUSTER)),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: ApiGuard(RequestRight(O.DESCRIBE, R.CLUSTER)),
    ApiKey.UNREGISTER_BROKER: ApiGuard(RequestRight(O.ALTER, R.CLUSTER)),
    ApiKey.UPDATE_FEATURES: ApiGuard(RequestRight(O.ALTER, R.CLUSTER)),
    ApiKey.DESCRIBE_QUORUM: ApiGuard(RequestRight(O.DESCRIBE, R.CLUSTER)),
    ApiKey.ENVELOPE: _BY_BROKERS,
    **{
        key: ApiGuard(
            RequestRight(*_CLUSTER_ACTION, refuse=admin.ShareStateRefusal(module, result))
        )
        for key, module, result in (
            (
                ApiKey.INITIALIZE_SHARE_GROUP_STATE,
                "initialize_share_group_state",
                "InitializeStateResult",
            ),
            (ApiKey.READ_SHARE_GROUP_STATE, "read_share_group_state", "ReadStateResult"),
            (ApiKey.WRITE_SHARE_GROUP_STATE, "write_share_group_state", "WriteStateResult"),
            (ApiKey.DELETE_SHARE_GROUP_STATE, "delete_share_group_state", "DeleteStateResult"),
            (
                ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
                "read_share_group_state_summary",
                "ReadStateSummaryResult",
            ),
        )
    },
    # for everybody
    ApiKey.API_VERSIONS: free,
    ApiKey.SASL_HANDSHAKE: free,
    ApiKey.SASL_AUTHENTICATE: free,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: free,
    ApiKey.PUSH_TELEMETRY: free,
}
