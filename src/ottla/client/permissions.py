"""Which ACL is missing when a broker denies a request.

The error code gives the type of resource, the API gives the operation, by the table that brokers
use (Kafka's documentation, "Authorization in the protocol").
"""

from __future__ import annotations

from typing import Final

from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey

CLUSTER_NAME: Final = "kafka-cluster"

RESOURCES: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "TransactionalId",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "DelegationToken",
}
AUTHORIZATION: Final = frozenset(RESOURCES)

# APIs that need another operation than the usual one of their resource.
_OPERATIONS: Final[dict[tuple[int, str], str]] = {
    (ApiKey.PRODUCE, "Topic"): "Write",
    (ApiKey.FETCH, "Topic"): "Read",
    (ApiKey.CREATE_TOPICS, "Topic"): "Create",
    (ApiKey.DELETE_TOPICS, "Topic"): "Delete",
    (ApiKey.DELETE_RECORDS, "Topic"): "Delete",
    (ApiKey.CREATE_PARTITIONS, "Topic"): "Alter",
    (ApiKey.OFFSET_COMMIT, "Topic"): "Read",
    (ApiKey.OFFSET_DELETE, "Topic"): "Read",
    (ApiKey.TXN_OFFSET_COMMIT, "Topic"): "Read",
    (ApiKey.ADD_PARTITIONS_TO_TXN, "Topic"): "Write",
    (ApiKey.DESCRIBE_PRODUCERS, "Topic"): "Read",
    (ApiKey.DESCRIBE_CONFIGS, "Topic"): "DescribeConfigs",
    (ApiKey.ALTER_CONFIGS, "Topic"): "AlterConfigs",
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, "Topic"): "AlterConfigs",
    (ApiKey.OFFSET_FETCH, "Group"): "Describe",
    (ApiKey.FIND_COORDINATOR, "Group"): "Describe",
    (ApiKey.DESCRIBE_GROUPS, "Group"): "Describe",
    (ApiKey.CONSUMER_GROUP_DESCRIBE, "Group"): "Describe",
    (ApiKey.SHARE_GROUP_DESCRIBE, "Group"): "Describe",
    (ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, "Group"): "Describe",
    (ApiKey.DELETE_SHARE_GROUP_OFFSETS, "Group"): "Delete",
    (ApiKey.DELETE_GROUPS, "Group"): "Delete",
    (ApiKey.OFFSET_DELETE, "Group"): "Delete",
    (ApiKey.DESCRIBE_CONFIGS, "Group"): "DescribeConfigs",
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, "Group"): "AlterConfigs",
    (ApiKey.FIND_COORDINATOR, "TransactionalId"): "Describe",
    (ApiKey.DESCRIBE_TRANSACTIONS, "TransactionalId"): "Describe",
    (ApiKey.CREATE_TOPICS, "Cluster"): "Create",
    (ApiKey.INIT_PRODUCER_ID, "Cluster"): "IdempotentWrite",
    (ApiKey.DESCRIBE_CONFIGS, "Cluster"): "DescribeConfigs",
    (ApiKey.DESCRIBE_CLIENT_QUOTAS, "Cluster"): "DescribeConfigs",
    (ApiKey.ALTER_CONFIGS, "Cluster"): "AlterConfigs",
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, "Cluster"): "AlterConfigs",
    (ApiKey.ALTER_CLIENT_QUOTAS, "Cluster"): "AlterConfigs",
    (ApiKey.LIST_CONFIG_RESOURCES, "Cluster"): "DescribeConfigs",
    (ApiKey.DESCRIBE_ACLS, "Cluster"): "Describe",
    (ApiKey.DESCRIBE_LOG_DIRS, "Cluster"): "Describe",
    (ApiKey.LIST_PARTITION_REASSIGNMENTS, "Cluster"): "Describe",
    (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "Cluster"): "Describe",
}
_USUAL: Final = {
    "Topic": "Describe",
    "Group": "Read",
    "Cluster": "Alter",
    "TransactionalId": "Write",
    "DelegationToken": "Describe",
}


def needed_permission(code: ErrorCode, api_key: int, name: str) -> str:
    """`Write on Topic:orders`; empty if the code is not about authorization."""
    resource = RESOURCES.get(code)
    if resource is None:
        return ""
    shown = CLUSTER_NAME if resource == "Cluster" else name
    operation = _OPERATIONS.get((api_key, resource), _USUAL[resource])
    return f"{operation} on {resource}:{shown}" if shown else f"{operation} on the {resource}"


def denied(error: KafkaError, api_key: int, name: str = "") -> KafkaError:
    """The same error, with the ACL that is needed; other errors unchanged."""
    acl = needed_permission(error.code, api_key, name)
    if not acl or acl in str(error):
        return error
    api = ApiKey(api_key).name.title().replace("_", "")
    return KafkaError(error.code, f"{api} is not authorized: it needs the ACL {acl}")
