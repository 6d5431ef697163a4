"""The broker's configuration: `server.properties`, overrides, and dynamic changes.

Values come in layers, and upper layers win: dynamic values of this broker, dynamic values of the
whole cluster, the file (and `--override`), the defaults. A ServerConfig never changes; a dynamic
change makes a new one (`with_dynamic`), so that its users always see one consistent state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ottla.config.contradictions import contradictions
from ottla.config.definition import ConfigDefinition, ConfigError, Value, ValueSource, format_value
from ottla.config.listener_settings import PER_LISTENER, PER_MECHANISM
from ottla.config.listeners import Listener, parse_listeners, parse_protocol_map
from ottla.config.properties import parse_properties
from ottla.config.tables import BROKER_CONFIGS, FAMILIES, INTERNAL, RETIRED
from ottla.config.tables.topics import TOPIC_CONFIGS, TOPIC_SYNONYMS, BrokerSynonym
from ottla.config.tables.zookeeper import CLUSTER_DEFAULTS

Problem = tuple[str, str | None, str]

_BROKER_SYNONYMS = {
    synonyms[0].name: tuple(synonym.name for synonym in synonyms)
    for synonyms in TOPIC_SYNONYMS.values()
    if len(synonyms) > 1
}
"""Names that can replace the first of them: hours for milliseconds, but not the reverse."""


@dataclass(slots=True, frozen=True)
class LayerValue:
    """One layer's value of a property: DescribeConfigs lists them all, the effective one first."""

    name: str
    value: str | None
    source: ValueSource


class ServerConfig:
    """The typed properties of one broker: `config.num_partitions` is `num.partitions`."""

    node_id: int
    broker_rack: str | None
    controlled_shutdown_enable: bool

    listeners: tuple[Listener, ...]
    advertised_listeners: tuple[Listener, ...]
    listener_security_protocol_map: dict[str, str]
    inter_broker_listener_name: str
    socket_send_buffer_bytes: int
    socket_receive_buffer_bytes: int
    socket_request_max_bytes: int
    socket_listen_backlog_size: int
    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: dict[str, int]
    max_connection_creation_rate: int
    connections_max_idle_ms: int
    queued_max_requests: int
    queued_max_request_bytes: int
    connection_failed_authentication_delay_ms: int
    security_inter_broker_protocol: str
    ottla_ssl_files_check_interval_ms: int
    ottla_ssl_ktls_enable: bool

    auto_create_topics_enable: bool
    delete_topic_enable: bool
    num_partitions: int
    default_replication_factor: int
    message_max_bytes: int
    min_insync_replicas: int
    unclean_leader_election_enable: bool
    compression_type: str
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    fetch_max_bytes: int
    max_incremental_fetch_session_cache_slots: int
    max_request_partition_size_limit: int
    replica_high_watermark_checkpoint_interval_ms: int
    replica_lag_time_max_ms: int
    auto_leader_rebalance_enable: bool
    leader_imbalance_check_interval_seconds: int
    leader_imbalance_per_broker_percentage: int
    replica_fetch_max_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_wait_max_ms: int
    replica_fetch_min_bytes: int
    replica_fetch_backoff_ms: int
    replica_socket_timeout_ms: int
    replica_selector_class: str | None
    replication_quota_window_num: int
    replication_quota_window_size_seconds: int
    leader_replication_throttled_rate: int
    follower_replication_throttled_rate: int
    producer_id_expiration_ms: int
    producer_id_expiration_check_interval_ms: int

    log_dirs: tuple[str, ...]
    num_recovery_threads_per_data_dir: int
    log_segment_bytes: int
    log_roll_ms: int
    log_roll_jitter_ms: int
    log_index_size_max_bytes: int
    log_index_interval_bytes: int
    log_preallocate: bool
    log_segment_delete_delay_ms: int
    log_retention_ms: int
    log_retention_bytes: int
    log_retention_check_interval_ms: int
    log_cleanup_policy: tuple[str, ...]
    log_initial_task_delay_ms: int
    log_flush_interval_messages: int
    log_flush_interval_ms: int
    log_flush_scheduler_interval_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    log_message_timestamp_type: str
    log_message_timestamp_before_max_ms: int
    log_message_timestamp_after_max_ms: int
    log_cleaner_enable: bool
    log_cleaner_threads: int
    log_cleaner_io_max_bytes_per_second: float
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_io_buffer_size: int
    log_cleaner_io_buffer_load_factor: float
    log_cleaner_backoff_ms: int
    log_cleaner_min_cleanable_ratio: float
    log_cleaner_delete_retention_ms: int
    log_cleaner_min_compaction_lag_ms: int
    log_cleaner_max_compaction_lag_ms: int

    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int
    offsets_topic_compression_codec: int
    offsets_load_buffer_size: int
    offsets_commit_timeout_ms: int
    offsets_retention_minutes: int
    offsets_retention_check_interval_ms: int
    offset_metadata_max_bytes: int
    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_size: int
    group_coordinator_rebalance_protocols: tuple[str, ...]
    group_consumer_session_timeout_ms: int
    group_consumer_min_session_timeout_ms: int
    group_consumer_max_session_timeout_ms: int
    group_consumer_heartbeat_interval_ms: int
    group_consumer_min_heartbeat_interval_ms: int
    group_consumer_max_heartbeat_interval_ms: int
    group_consumer_max_size: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_migration_policy: str
    group_consumer_assignment_interval_ms: int
    group_consumer_min_assignment_interval_ms: int
    group_consumer_max_assignment_interval_ms: int

    group_streams_session_timeout_ms: int
    group_streams_min_session_timeout_ms: int
    group_streams_max_session_timeout_ms: int
    group_streams_heartbeat_interval_ms: int
    group_streams_min_heartbeat_interval_ms: int
    group_streams_max_heartbeat_interval_ms: int
    group_streams_max_size: int
    group_streams_num_standby_replicas: int
    group_streams_max_standby_replicas: int
    group_streams_initial_rebalance_delay_ms: int
    group_streams_assignment_interval_ms: int
    group_streams_min_assignment_interval_ms: int
    group_streams_max_assignment_interval_ms: int

    group_share_session_timeout_ms: int
    group_share_min_session_timeout_ms: int
    group_share_max_session_timeout_ms: int
    group_share_heartbeat_interval_ms: int
    group_share_min_heartbeat_interval_ms: int
    group_share_max_heartbeat_interval_ms: int
    group_share_max_size: int
    group_share_delivery_count_limit: int
    group_share_min_delivery_count_limit: int
    group_share_max_delivery_count_limit: int
    group_share_record_lock_duration_ms: int
    group_share_min_record_lock_duration_ms: int
    group_share_max_record_lock_duration_ms: int
    group_share_partition_max_record_locks: int
    group_share_min_partition_max_record_locks: int
    group_share_max_partition_max_record_locks: int
    group_share_max_share_sessions: int
    errors_deadletterqueue_topic_name_prefix: str
    errors_deadletterqueue_auto_create_topics_enable: bool
    share_coordinator_state_topic_num_partitions: int
    share_coordinator_state_topic_replication_factor: int
    share_coordinator_state_topic_min_isr: int
    share_coordinator_state_topic_segment_bytes: int
    share_coordinator_state_topic_compression_codec: int
    share_coordinator_state_topic_prune_interval_ms: int
    share_coordinator_snapshot_update_records_per_snapshot: int
    share_coordinator_load_buffer_size: int
    share_coordinator_write_timeout_ms: int

    transaction_state_log_num_partitions: int
    transaction_state_log_replication_factor: int
    transaction_state_log_min_isr: int
    transaction_state_log_segment_bytes: int
    transaction_state_log_load_buffer_size: int
    transaction_max_timeout_ms: int
    transactional_id_expiration_ms: int
    transaction_partition_verification_enable: bool
    add_partitions_to_txn_retry_backoff_ms: int
    add_partitions_to_txn_retry_backoff_max_ms: int
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_remove_expired_transaction_cleanup_interval_ms: int

    telemetry_max_bytes: int
    quota_window_num: int
    quota_window_size_seconds: int
    controller_quota_window_num: int
    controller_quota_window_size_seconds: int

    zookeeper_connect: str | None
    zookeeper_session_timeout_ms: int
    zookeeper_connection_timeout_ms: int | None
    zookeeper_set_acl: bool
    zookeeper_ssl_client_enable: bool
    zookeeper_ssl_keystore_location: str | None
    zookeeper_ssl_keystore_password: str | None
    zookeeper_ssl_keystore_type: str
    zookeeper_ssl_truststore_location: str | None
    zookeeper_ssl_truststore_type: str
    zookeeper_ssl_endpoint_identification_algorithm: str
    ottla_zookeeper_sasl_username: str | None
    ottla_zookeeper_sasl_password: str | None
    metrics_port: int | None
    metrics_host: str | None
    ottla_metadata_sync_enable: bool

    authorizer_class_name: str
    super_users: str
    allow_everyone_if_no_acl_found: bool
    ottla_authorizer_audit_format: str
    delegation_token_secret_key: str | None
    delegation_token_max_lifetime_ms: int
    delegation_token_expiry_time_ms: int
    delegation_token_expiry_check_interval_ms: int

    def __init__(
        self,
        properties: Mapping[str, str],
        *,
        dynamic_default: Mapping[str, str] | None = None,
        dynamic_broker: Mapping[str, str] | None = None,
    ) -> None:
        """ConfigError names all problems, not only the first."""
        self.static = dict(properties)
        self.dynamic_default = dict(dynamic_default or {})
        self.dynamic_broker = dict(dynamic_broker or {})
        self.unknown: tuple[str, ...] = tuple(name for name in properties if not known(name))
        self.notes: tuple[str, ...] = _unused(properties)
        problems: list[Problem] = []
        self._values = self._parse(problems)
        if not problems:
            self._resolve(problems)
        if not problems:
            problems.extend(contradictions(self))
        if problems:
            raise ConfigError(problems)
        self.topic_defaults: dict[str, Value] = {
            name: self.first_set(TOPIC_SYNONYMS[name])
            if name in TOPIC_SYNONYMS
            else definition.default
            for name, definition in TOPIC_CONFIGS.items()
        }

    @classmethod
    def load(cls, path: str | Path | None, overrides: Mapping[str, str]) -> ServerConfig:
        """From a properties file, if any, and overrides, which win over it."""
        properties: dict[str, str] = {}
        if path is not None:
            try:
                properties = parse_properties(Path(path).read_text(encoding="utf-8"))
            except (OSError, ValueError) as error:
                raise ConfigError([("server.properties", str(path), str(error))]) from error
        return cls({**properties, **overrides})

    def with_dynamic(
        self, *, default: Mapping[str, str], broker: Mapping[str, str]
    ) -> ServerConfig:
        """The configuration after a dynamic change."""
        return ServerConfig(self.static, dynamic_default=default, dynamic_broker=broker)

    def get(self, name: str) -> Value:
        """The value of a property by Kafka's name; None if it is unset by default."""
        return self._values[name]

    def settings(self, name: str) -> list[LayerValue]:
        """Every layer's value of a property and its synonyms; the first one is effective."""
        layers = (
            (self.dynamic_broker, ValueSource.DYNAMIC_BROKER),
            (self.dynamic_default, ValueSource.DYNAMIC_DEFAULT_BROKER),
            (self.static, ValueSource.STATIC_BROKER),
        )
        names = _BROKER_SYNONYMS.get(name, (name,))
        found = [
            LayerValue(synonym, _shown(synonym, layer[synonym]), source)
            for layer, source in layers
            for synonym in names
            if synonym in layer
        ]
        definition = BROKER_CONFIGS.get(name)
        if definition is not None and (default := self._default(definition)) is not None:
            found.append(LayerValue(name, format_value(default), ValueSource.DEFAULT))
        return found

    def _default(self, definition: ConfigDefinition) -> Value:
        """The default of a property, which may differ in a cluster from that of a single broker."""
        if definition.name in CLUSTER_DEFAULTS and self.static.get("zookeeper.connect"):
            return CLUSTER_DEFAULTS[definition.name]
        return definition.default

    def first_set(self, synonyms: Iterable[BrokerSynonym]) -> Value:
        """The first of these that is set, in the unit of the topic config."""
        for layer in (self.dynamic_broker, self.dynamic_default, self.static):
            for synonym in synonyms:
                if synonym.name in layer:
                    return _scaled(BROKER_CONFIGS[synonym.name].parse(layer[synonym.name]), synonym)
        for synonym in synonyms:
            default = BROKER_CONFIGS[synonym.name].default
            if default is not None:
                return _scaled(default, synonym)
        return None

    def _texts(self) -> dict[str, str]:
        """What is set in any layer; upper layers win."""
        return {**self.static, **self.dynamic_default, **self.dynamic_broker}

    def _parse(self, problems: list[Problem]) -> dict[str, Value]:
        values: dict[str, Value] = {}
        merged = self._texts()
        for name, definition in BROKER_CONFIGS.items():
            text = merged.get(name)
            values[name] = self._default(definition)
            if text is None:
                continue
            try:
                values[name] = definition.parse(text)
            except ValueError as error:
                problems.append((name, _shown(name, text), str(error)))
        return values

    def _resolve(self, problems: list[Problem]) -> None:
        """Set the typed attributes: the plain ones as parsed, then the derived ones."""
        for name, definition in BROKER_CONFIGS.items():
            if definition.used and not name.startswith(PER_LISTENER):
                setattr(self, name.replace(".", "_"), self._values[name])
        self._resolve_identity(problems)
        self._resolve_times(problems)
        directories = self._values["log.dirs"] or self._values["log.dir"]
        assert isinstance(directories, tuple)
        self.log_dirs = directories
        self._resolve_listeners(problems)
        self._resolve_connection_overrides(problems)

    def _resolve_identity(self, problems: list[Problem]) -> None:
        if "node.id" in self.static:
            if self.static.get("broker.id", self.static["node.id"]) != self.static["node.id"]:
                reason = "node.id and broker.id are both set and differ"
                problems.append(("broker.id", self.static["broker.id"], reason))
        elif isinstance(broker_id := self._values["broker.id"], int) and broker_id >= 0:
            self.node_id = broker_id

    def _resolve_times(self, problems: list[Problem]) -> None:
        """Of ms, minutes and hours the finest one that is set; negative means no limit."""
        for topic_name, attribute, least in (
            ("segment.ms", "log_roll_ms", 1),
            ("segment.jitter.ms", "log_roll_jitter_ms", 0),
            ("flush.ms", "log_flush_interval_ms", None),
            ("retention.ms", "log_retention_ms", None),
        ):
            value = self.first_set(TOPIC_SYNONYMS[topic_name])
            assert isinstance(value, int)
            name = attribute.replace("_", ".")
            if least is not None and value < least:
                problems.append((name, str(value), f"Value must be at least {least}"))
            setattr(self, attribute, value)
        if self.log_retention_ms == 0:
            reason = "must be unlimited (-1) or, equal or greater than 1"
            problems.append(("log.retention.ms", "0", reason))
        self.log_retention_ms = max(self.log_retention_ms, -1)

    def _resolve_listeners(self, problems: list[Problem]) -> None:
        map_text = str(self._values["listener.security.protocol.map"])
        try:
            self.listener_security_protocol_map = parse_protocol_map(map_text)
        except ValueError as error:
            problems.append(("listener.security.protocol.map", map_text, str(error)))
            return
        for name in ("listeners", "advertised.listeners"):
            entries = self._values[name]
            if entries is None:
                self.advertised_listeners = self.listeners
                continue
            assert isinstance(entries, tuple)
            try:
                found = parse_listeners(entries, self.listener_security_protocol_map)
            except ValueError as error:
                problems.append((name, ",".join(entries), str(error)))
                return
            setattr(self, name.replace(".", "_"), self._without_controllers(found))
        self._resolve_inter_broker(problems)

    def _resolve_inter_broker(self, problems: list[Problem]) -> None:
        """By name or by protocol. If neither is set: PLAINTEXT as in Kafka, else the first one."""
        chosen = self._values["inter.broker.listener.name"]
        protocol = self._texts().get("security.inter.broker.protocol")
        names = [listener.name for listener in self.advertised_listeners]
        if chosen is not None and protocol is not None:
            reason = "only one of it and security.inter.broker.protocol should be set"
            problems.append(("inter.broker.listener.name", str(chosen), reason))
        elif chosen is not None or protocol is not None:
            self.inter_broker_listener_name = str(chosen or protocol).strip().upper()
        elif names:
            self.inter_broker_listener_name = "PLAINTEXT" if "PLAINTEXT" in names else names[0]

    def _without_controllers(self, listeners: list[Listener]) -> tuple[Listener, ...]:
        """Drop the controllers' listeners of a KRaft file, which have no server here."""
        names = self._values["controller.listener.names"]
        assert isinstance(names, tuple)
        if names or self._values["process.roles"]:
            note = (
                "this is not a KRaft node: process.roles and controller.* are accepted and ignored,"
                " and so are the controller's listeners"
            )
            self.notes = tuple(dict.fromkeys((*self.notes, note)))
        controllers = {name.upper() for name in names}
        return tuple(listener for listener in listeners if listener.name not in controllers)

    def _resolve_connection_overrides(self, problems: list[Problem]) -> None:
        text = str(self._values["max.connections.per.ip.overrides"])
        overrides: dict[str, int] = {}
        for entry in filter(None, (part.strip() for part in text.split(","))):
            host, colon, count = entry.rpartition(":")
            if not colon or not host or not count.strip().isdigit():
                reason = f"'{entry}' is not of the form address:count"
                problems.append(("max.connections.per.ip.overrides", text, reason))
            else:
                overrides[host.strip()] = int(count)
        self.max_connections_per_ip_overrides = overrides


def _unused(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The properties that have no effect, apart from those about controllers in a KRaft file."""
    names = [
        name
        for name in properties
        if name in RETIRED or (name in BROKER_CONFIGS and not BROKER_CONFIGS[name].used)
        if not name.startswith(("controller.", "process.roles"))
    ]
    return (f"set, and not used here: {', '.join(names)}",) if names else ()


def known(name: str) -> bool:
    """True if Kafka or Ottla has a property with this name."""
    return (
        name in BROKER_CONFIGS or name in RETIRED or name in INTERNAL or name.startswith(FAMILIES)
    )


def definition_of(name: str) -> ConfigDefinition | None:
    """The definition of a name, without the prefix `listener.name.<listener>.` and the mechanism
    after it."""
    if not name.startswith("listener.name."):
        return BROKER_CONFIGS.get(name)
    _, _, own = name.removeprefix("listener.name.").partition(".")
    _, _, of_mechanism = own.partition(".")
    if of_mechanism in PER_MECHANISM:
        return BROKER_CONFIGS[of_mechanism]
    return BROKER_CONFIGS.get(own)


def _scaled(value: Value, synonym: BrokerSynonym) -> Value:
    """Hours to milliseconds; -1 means no limit in every unit."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value * synonym.factor
    return value


def _shown(name: str, text: str) -> str | None:
    """None for a secret, and for an unknown property, which may be one."""
    definition = definition_of(name)
    return None if definition is None or definition.sensitive else text
