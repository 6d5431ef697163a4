"""The rights that each API requires, and the response to a client without them.

An API that is missing in this table is not served by a broker with an authorizer.
"""

from __future__ import annotations

from typing import Any, Final

from ottla.auth.acls import AclOperation, AclResource
from ottla.broker.authorization import groups, records, refusals, topics
from ottla.broker.authorization.authorization_steps import (
    ApiAuthorization,
    AuthorizedByHandler,
    ItemStep,
    RequestStep,
    unrestricted,
)
from ottla.broker.authorization.configs import ConfigsAuthorization
from ottla.wire.apis import ApiKey

O, R = AclOperation, AclResource  # noqa: E741

_CLUSTER_ACTION: Final = (O.CLUSTER_ACTION, R.CLUSTER)
_READ_GROUP: Final = ApiAuthorization(RequestStep(O.READ, R.GROUP, "group_id"))
_WRITE_TXN: Final = RequestStep(O.WRITE, R.TRANSACTIONAL_ID, "transactional_id")
_BY_BROKERS: Final = ApiAuthorization(RequestStep(*_CLUSTER_ACTION))

API_AUTHORIZATIONS: Final[dict[int, Any]] = {
    # records
    ApiKey.PRODUCE: records.produce,
    ApiKey.FETCH: AuthorizedByHandler(
        "READ TOPIC, 29 for each partition; followers CLUSTER_ACTION"
    ),
    ApiKey.LIST_OFFSETS: records.list_offsets,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: ApiAuthorization(
        ItemStep(O.DESCRIBE, R.TOPIC, records.epochs_denied, name="topic", unless=_CLUSTER_ACTION)
    ),
    ApiKey.DELETE_RECORDS: ApiAuthorization(
        ItemStep(O.DELETE, R.TOPIC, records.delete_records_denied)
    ),
    ApiKey.DESCRIBE_PRODUCERS: ApiAuthorization(
        ItemStep(O.READ, R.TOPIC, records.producers_denied)
    ),
    # transactions
    ApiKey.INIT_PRODUCER_ID: records.init_producer_id,
    ApiKey.ADD_PARTITIONS_TO_TXN: records.add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: ApiAuthorization(
        _WRITE_TXN, RequestStep(O.READ, R.GROUP, "group_id")
    ),
    ApiKey.END_TXN: ApiAuthorization(_WRITE_TXN),
    ApiKey.WRITE_TXN_MARKERS: ApiAuthorization(
        RequestStep(O.ALTER, R.CLUSTER, refuse=records.markers_denied, or_else=_CLUSTER_ACTION)
    ),
    ApiKey.TXN_OFFSET_COMMIT: ApiAuthorization(
        RequestStep(
            O.WRITE,
            R.TRANSACTIONAL_ID,
            "transactional_id",
            refuse=records.txn_commit_refused,
        ),
        RequestStep(O.READ, R.GROUP, "group_id", refuse=records.txn_commit_refused),
        ItemStep(O.READ, R.TOPIC, records.txn_commit_denied),
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: AuthorizedByHandler(
        "DESCRIBE TRANSACTIONAL_ID, 53; topics DESCRIBE, left out"
    ),
    ApiKey.LIST_TRANSACTIONS: AuthorizedByHandler("DESCRIBE TRANSACTIONAL_ID, left out"),
    # groups
    ApiKey.FIND_COORDINATOR: groups.find_coordinator,
    ApiKey.JOIN_GROUP: ApiAuthorization(
        RequestStep(O.READ, R.GROUP, "group_id", refuse=groups.join_refused)
    ),
    ApiKey.SYNC_GROUP: _READ_GROUP,
    ApiKey.HEARTBEAT: _READ_GROUP,
    ApiKey.LEAVE_GROUP: _READ_GROUP,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: groups.subscription,
    ApiKey.SHARE_GROUP_HEARTBEAT: groups.subscription,
    ApiKey.STREAMS_GROUP_HEARTBEAT: groups.topology,
    ApiKey.OFFSET_COMMIT: ApiAuthorization(
        RequestStep(O.READ, R.GROUP, "group_id", refuse=groups.commit_refused),
        ItemStep(O.READ, R.TOPIC, groups.commit_denied),
    ),
    ApiKey.OFFSET_FETCH: AuthorizedByHandler("DESCRIBE GROUP, 30; DESCRIBE TOPIC, 29 or left out"),
    ApiKey.OFFSET_DELETE: ApiAuthorization(
        RequestStep(O.DELETE, R.GROUP, "group_id"),
        ItemStep(O.READ, R.TOPIC, groups.offset_delete_denied),
    ),
    ApiKey.DESCRIBE_GROUPS: ApiAuthorization(
        ItemStep(O.DESCRIBE, R.GROUP, groups.classic_denied, items="groups", into="groups")
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ApiAuthorization(
        ItemStep(O.DESCRIBE, R.GROUP, groups.consumer_denied, items="group_ids", into="groups")
    ),
    ApiKey.SHARE_GROUP_DESCRIBE: ApiAuthorization(
        ItemStep(O.DESCRIBE, R.GROUP, groups.share_denied, items="group_ids", into="groups")
    ),
    ApiKey.STREAMS_GROUP_DESCRIBE: ApiAuthorization(
        ItemStep(O.DESCRIBE, R.GROUP, groups.streams_denied, items="group_ids", into="groups")
    ),
    ApiKey.LIST_GROUPS: AuthorizedByHandler("DESCRIBE CLUSTER, or DESCRIBE GROUP, left out"),
    ApiKey.DELETE_GROUPS: ApiAuthorization(
        ItemStep(
            O.DELETE,
            R.GROUP,
            groups.delete_group_denied,
            items="groups_names",
            into="results",
        )
    ),
    ApiKey.SHARE_FETCH: ApiAuthorization(
        RequestStep(O.READ, R.GROUP, "group_id"),
        ItemStep(O.READ, R.TOPIC, groups.share_fetch_denied, into="responses"),
    ),
    ApiKey.SHARE_ACKNOWLEDGE: ApiAuthorization(
        RequestStep(O.READ, R.GROUP, "group_id"),
        ItemStep(
            O.READ,
            R.TOPIC,
            groups.share_acknowledge_denied,
            into="responses",
            handle_when_empty=True,
        ),
    ),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: AuthorizedByHandler(
        "DESCRIBE GROUP, 30; DESCRIBE TOPIC, 29 or left out"
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: ApiAuthorization(
        RequestStep(O.READ, R.GROUP, "group_id"),
        ItemStep(
            O.READ,
            R.TOPIC,
            groups.alter_share_offsets_denied,
            name="topic_name",
            into="responses",
        ),
    ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: ApiAuthorization(
        RequestStep(O.DELETE, R.GROUP, "group_id"),
        ItemStep(
            O.READ,
            R.TOPIC,
            groups.delete_share_offsets_denied,
            name="topic_name",
            into="responses",
        ),
    ),
    # topics
    ApiKey.METADATA: AuthorizedByHandler(
        "DESCRIBE TOPIC, 29 or left out; CREATE for topics that it creates"
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: AuthorizedByHandler("DESCRIBE TOPIC, 29 or left out"),
    ApiKey.CREATE_TOPICS: ApiAuthorization(
        ItemStep(O.CREATE, R.TOPIC, topics.create_topic_denied, unless=(O.CREATE, R.CLUSTER))
    ),
    ApiKey.DELETE_TOPICS: topics.delete_topics,
    ApiKey.CREATE_PARTITIONS: ApiAuthorization(
        ItemStep(O.ALTER, R.TOPIC, topics.create_partitions_denied, into="results")
    ),
    # configs, quotas, users
    ApiKey.DESCRIBE_CONFIGS: ConfigsAuthorization(
        O.DESCRIBE_CONFIGS, "describe_configs", "DescribeConfigsResult", "results"
    ),
    ApiKey.ALTER_CONFIGS: ConfigsAuthorization(
        O.ALTER_CONFIGS, "alter_configs", "AlterConfigsResourceResponse", "responses"
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ConfigsAuthorization(
        O.ALTER_CONFIGS, "incremental_alter_configs", "AlterConfigsResourceResponse", "responses"
    ),
    ApiKey.LIST_CONFIG_RESOURCES: ApiAuthorization(RequestStep(O.DESCRIBE_CONFIGS, R.CLUSTER)),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: ApiAuthorization(
        RequestStep(O.DESCRIBE_CONFIGS, R.CLUSTER, refuse=refusals.describe_quotas_refusal)
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: ApiAuthorization(
        RequestStep(O.ALTER_CONFIGS, R.CLUSTER, refuse=refusals.alter_quotas_refusal)
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: ApiAuthorization(
        RequestStep(O.DESCRIBE, R.CLUSTER, refuse=refusals.describe_scram_refusal)
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ApiAuthorization(
        RequestStep(O.ALTER, R.CLUSTER, refuse=refusals.alter_scram_refusal)
    ),
    ApiKey.DESCRIBE_ACLS: ApiAuthorization(RequestStep(O.DESCRIBE, R.CLUSTER)),
    ApiKey.CREATE_ACLS: ApiAuthorization(
        RequestStep(O.ALTER, R.CLUSTER, refuse=refusals.create_acls_refusal)
    ),
    ApiKey.DELETE_ACLS: ApiAuthorization(
        RequestStep(O.ALTER, R.CLUSTER, refuse=refusals.delete_acls_refusal)
    ),
    ApiKey.CREATE_DELEGATION_TOKEN: AuthorizedByHandler("CREATE_TOKENS USER for another owner, 65"),
    ApiKey.RENEW_DELEGATION_TOKEN: AuthorizedByHandler("owner or renewer, 63"),
    ApiKey.EXPIRE_DELEGATION_TOKEN: AuthorizedByHandler("owner or renewer, 63"),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: AuthorizedByHandler(
        "owner, renewer, DESCRIBE DELEGATION_TOKEN or DESCRIBE_TOKENS USER, left out"
    ),
    # cluster
    ApiKey.DESCRIBE_CLUSTER: AuthorizedByHandler(
        "nothing; authorized operations DESCRIBE CLUSTER, else none"
    ),
    ApiKey.DESCRIBE_LOG_DIRS: ApiAuthorization(RequestStep(O.DESCRIBE, R.CLUSTER)),
    ApiKey.ALTER_REPLICA_LOG_DIRS: ApiAuthorization(
        RequestStep(O.ALTER, R.CLUSTER, refuse=refusals.move_refusal)
    ),
    ApiKey.ELECT_LEADERS: ApiAuthorization(
        RequestStep(O.ALTER, R.CLUSTER, refuse=refusals.elect_refusal)
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ApiAuthorization(RequestStep(O.ALTER, R.CLUSTER)),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: ApiAuthorization(RequestStep(O.DESCRIBE, R.CLUSTER)),
    ApiKey.UNREGISTER_BROKER: ApiAuthorization(RequestStep(O.ALTER, R.CLUSTER)),
    ApiKey.UPDATE_FEATURES: ApiAuthorization(RequestStep(O.ALTER, R.CLUSTER)),
    ApiKey.DESCRIBE_QUORUM: ApiAuthorization(RequestStep(O.DESCRIBE, R.CLUSTER)),
    ApiKey.ENVELOPE: _BY_BROKERS,
    **{
        key: ApiAuthorization(
            RequestStep(*_CLUSTER_ACTION, refuse=refusals.ShareStateRefusal(module, result))
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
    # without authorization
    ApiKey.API_VERSIONS: unrestricted,
    ApiKey.SASL_HANDSHAKE: unrestricted,
    ApiKey.SASL_AUTHENTICATE: unrestricted,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: unrestricted,
    ApiKey.PUSH_TELEMETRY: unrestricted,
}
