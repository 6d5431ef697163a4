"""From API key to handler: the one table of what this broker serves, and what comes before it.

large requests  served portion by portion (large_requests.py)
features        is the feature on? (features.py)
quota, timing   what it costs the client (quota_charges.py, if there are quotas)
authorization   is the client allowed to? (authorization/, if there is an authorizer)
handler         what is done
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.client_session import ClientSession
from ottla.broker.features import refusal
from ottla.broker.large_requests import WHOLE_BYTES_MAX, may_be_large
from ottla.broker.quota_charges import serve_with_quotas
from ottla.broker.request_context import Handler, RequestContext
from ottla.wire.apis import ApiKey
from ottla.wire.connection import Request

if TYPE_CHECKING:
    from ottla.broker.parts import BrokerParts


class Route:
    """An API's versions and its handler, whose module is imported with the first request."""

    __slots__ = ("_handle", "module", "version_max", "version_min")

    def __init__(self, version_min: int, version_max: int, module: str) -> None:
        self.version_min = version_min
        self.version_max = version_max
        self.module = module
        self._handle: Handler | None = None

    @property
    def handle(self) -> Handler:
        if self._handle is None:
            self._handle = import_module(f"ottla.broker.handlers.{self.module}").handle
        return self._handle


ROUTES: Final[dict[int, Route]] = {
    ApiKey.PRODUCE: Route(3, 13, "produce"),
    ApiKey.FETCH: Route(4, 18, "fetch"),
    ApiKey.LIST_OFFSETS: Route(1, 11, "list_offsets"),
    ApiKey.METADATA: Route(0, 13, "metadata"),
    ApiKey.OFFSET_COMMIT: Route(2, 10, "offset_commit"),
    ApiKey.OFFSET_FETCH: Route(1, 10, "offset_fetch"),
    ApiKey.FIND_COORDINATOR: Route(0, 6, "find_coordinator"),
    ApiKey.JOIN_GROUP: Route(0, 9, "join_group"),
    ApiKey.HEARTBEAT: Route(0, 4, "heartbeat"),
    ApiKey.LEAVE_GROUP: Route(0, 5, "leave_group"),
    ApiKey.SYNC_GROUP: Route(0, 5, "sync_group"),
    ApiKey.DESCRIBE_GROUPS: Route(0, 6, "describe_groups"),
    ApiKey.LIST_GROUPS: Route(0, 5, "list_groups"),
    ApiKey.SASL_HANDSHAKE: Route(0, 1, "sasl_handshake"),
    ApiKey.API_VERSIONS: Route(0, 5, "api_versions"),
    ApiKey.CREATE_TOPICS: Route(2, 7, "create_topics"),
    ApiKey.DELETE_TOPICS: Route(1, 6, "delete_topics"),
    ApiKey.DELETE_RECORDS: Route(0, 2, "delete_records"),
    ApiKey.INIT_PRODUCER_ID: Route(0, 5, "init_producer_id"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Route(2, 4, "offset_for_leader_epoch"),
    ApiKey.ADD_PARTITIONS_TO_TXN: Route(0, 5, "add_partitions_to_txn"),
    ApiKey.ADD_OFFSETS_TO_TXN: Route(0, 4, "add_offsets_to_txn"),
    ApiKey.END_TXN: Route(0, 5, "end_txn"),
    ApiKey.WRITE_TXN_MARKERS: Route(1, 2, "write_txn_markers"),
    ApiKey.TXN_OFFSET_COMMIT: Route(0, 6, "txn_offset_commit"),
    ApiKey.DESCRIBE_ACLS: Route(1, 3, "acls"),
    ApiKey.CREATE_ACLS: Route(1, 3, "acls"),
    ApiKey.DELETE_ACLS: Route(1, 3, "acls"),
    ApiKey.DESCRIBE_CONFIGS: Route(1, 4, "describe_configs"),
    ApiKey.ALTER_CONFIGS: Route(0, 2, "alter_configs"),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Route(1, 2, "alter_replica_log_dirs"),
    ApiKey.DESCRIBE_LOG_DIRS: Route(1, 5, "describe_log_dirs"),
    ApiKey.SASL_AUTHENTICATE: Route(0, 2, "sasl_authenticate"),
    ApiKey.CREATE_PARTITIONS: Route(0, 3, "create_partitions"),
    ApiKey.CREATE_DELEGATION_TOKEN: Route(1, 3, "delegation_tokens"),
    ApiKey.RENEW_DELEGATION_TOKEN: Route(1, 2, "delegation_tokens"),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Route(1, 2, "delegation_tokens"),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Route(1, 3, "delegation_tokens"),
    ApiKey.DELETE_GROUPS: Route(0, 3, "delete_groups"),
    ApiKey.ELECT_LEADERS: Route(0, 2, "elect_leaders"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Route(0, 1, "incremental_alter_configs"),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Route(0, 1, "alter_partition_reassignments"),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Route(0, 0, "list_partition_reassignments"),
    ApiKey.OFFSET_DELETE: Route(0, 0, "offset_delete"),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Route(0, 1, "describe_client_quotas"),
    ApiKey.ALTER_CLIENT_QUOTAS: Route(0, 1, "alter_client_quotas"),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Route(0, 0, "describe_user_scram_credentials"),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Route(0, 0, "alter_user_scram_credentials"),
    ApiKey.DESCRIBE_QUORUM: Route(0, 2, "describe_quorum"),
    ApiKey.UPDATE_FEATURES: Route(0, 2, "update_features"),
    ApiKey.ENVELOPE: Route(0, 0, "envelope"),
    ApiKey.DESCRIBE_CLUSTER: Route(0, 2, "describe_cluster"),
    ApiKey.DESCRIBE_PRODUCERS: Route(0, 0, "describe_producers"),
    ApiKey.DESCRIBE_TRANSACTIONS: Route(0, 0, "describe_transactions"),
    ApiKey.UNREGISTER_BROKER: Route(0, 0, "unregister_broker"),
    ApiKey.LIST_TRANSACTIONS: Route(0, 2, "list_transactions"),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: Route(0, 0, "get_telemetry_subscriptions"),
    ApiKey.PUSH_TELEMETRY: Route(0, 0, "push_telemetry"),
    ApiKey.LIST_CONFIG_RESOURCES: Route(0, 1, "list_config_resources"),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Route(0, 1, "consumer_group_heartbeat"),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Route(0, 1, "consumer_group_describe"),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Route(0, 0, "describe_topic_partitions"),
    ApiKey.SHARE_GROUP_HEARTBEAT: Route(1, 1, "share_group_heartbeat"),
    ApiKey.SHARE_GROUP_DESCRIBE: Route(1, 1, "share_group_describe"),
    ApiKey.SHARE_FETCH: Route(1, 2, "share_fetch"),
    ApiKey.SHARE_ACKNOWLEDGE: Route(1, 2, "share_acknowledge"),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: Route(0, 0, "initialize_share_group_state"),
    ApiKey.READ_SHARE_GROUP_STATE: Route(0, 0, "read_share_group_state"),
    ApiKey.WRITE_SHARE_GROUP_STATE: Route(0, 1, "write_share_group_state"),
    ApiKey.DELETE_SHARE_GROUP_STATE: Route(0, 0, "delete_share_group_state"),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: Route(0, 1, "read_share_group_state_summary"),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Route(0, 1, "describe_share_group_offsets"),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Route(0, 0, "alter_share_group_offsets"),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Route(0, 0, "delete_share_group_offsets"),
    ApiKey.STREAMS_GROUP_HEARTBEAT: Route(0, 0, "streams_group_heartbeat"),
    ApiKey.STREAMS_GROUP_DESCRIBE: Route(0, 0, "streams_group_describe"),
}

SERVED: Final[dict[int, tuple[int, int]]] = {
    int(key): (route.version_min, route.version_max) for key, route in ROUTES.items()
}


def dispatch(broker: BrokerParts, session: ClientSession, request: Request) -> Any:
    """HOT. What the handler returns: a response, an awaitable of one, or None."""
    if request.size > WHOLE_BYTES_MAX and may_be_large(request):
        return broker.large_requests.serve(session, request, partial(_serve, broker, session))
    return _serve(broker, session, request)


def _serve(broker: BrokerParts, session: ClientSession, request: Request) -> Any:
    now_ms = broker.clock.now_ms()
    context = RequestContext(broker, session, request.version, request.client_id, now_ms)
    if broker.disabled_apis and request.api_key in broker.disabled_apis:
        refused = refusal(request.api_key)
        if refused is not None:
            return refused
    if broker.access is not None:
        handle = broker.access.guarded[request.api_key]
    else:
        handle = ROUTES[request.api_key].handle
    if broker.quotas.active:
        return serve_with_quotas(handle, context, request)
    return handle(context, request.body)


def handler_of(ctx: RequestContext, api_key: int) -> Handler:
    """The handler of a request inside an Envelope: the rights of the client that sent it count,
    and requests of brokers need none."""
    if ctx.broker.access is None or ctx.session.internal:
        return ROUTES[api_key].handle
    return ctx.broker.access.guarded[api_key]
