"""Checks over several properties: values that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.config.definition import ConfigError
from ottla.config.listener_settings import ListenerSettings

if TYPE_CHECKING:
    from ottla.config.server import Problem, ServerConfig

UNROUTABLE = ("0.0.0.0", "::")


def contradictions(config: ServerConfig) -> Iterator[Problem]:
    yield from _listener_problems(config)
    yield from _connection_problems(config)
    yield from _inter_broker_problems(config)
    yield from _missing_protection(config)
    low, high = config.log_cleaner_min_compaction_lag_ms, config.log_cleaner_max_compaction_lag_ms
    if low > high:
        reason = f"must not be more than log.cleaner.max.compaction.lag.ms ({high})"
        yield "log.cleaner.min.compaction.lag.ms", str(low), reason
    shortest, longest = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
    if shortest > longest:
        reason = f"must not be more than group.max.session.timeout.ms ({longest})"
        yield "group.min.session.timeout.ms", str(shortest), reason


def _listener_problems(config: ServerConfig) -> Iterator[Problem]:
    names = [listener.name for listener in config.listeners]
    if not names:
        yield "listeners", None, "there must be at least one listener for clients"
        return
    for listener in config.advertised_listeners:
        if listener.name not in names:
            reason = f"listener names must be among those of listeners: {','.join(names)}"
            yield "advertised.listeners", str(listener), reason
        if listener.host in UNROUTABLE:
            reason = f"{listener.host} is not an address that a client could connect to"
            yield "advertised.listeners", str(listener), reason
    advertised = [listener.name for listener in config.advertised_listeners]
    chosen = config.inter_broker_listener_name
    if chosen not in advertised:
        name = "inter.broker.listener.name"
        if config.get(name) is None:
            name = "security.inter.broker.protocol"
        reason = f"must be one of the advertised listeners: {','.join(advertised)}"
        yield name, chosen, reason


def _connection_problems(config: ServerConfig) -> Iterator[Problem]:
    queued = config.queued_max_request_bytes
    if 0 < queued < config.socket_request_max_bytes:
        reason = (
            f"must not be less than socket.request.max.bytes ({config.socket_request_max_bytes})"
        )
        yield "queued.max.request.bytes", str(queued), reason
    if config.max_connections_per_ip == 0 and not config.max_connections_per_ip_overrides:
        reason = "can be zero only if max.connections.per.ip.overrides is set"
        yield "max.connections.per.ip", "0", reason
    delay, idle = config.connection_failed_authentication_delay_ms, config.connections_max_idle_ms
    if 0 <= idle <= delay:
        reason = f"must be less than connections.max.idle.ms ({idle})"
        yield "connection.failed.authentication.delay.ms", str(delay), reason


def _inter_broker_problems(config: ServerConfig) -> Iterator[Problem]:
    """If the inter-broker listener requires SASL, brokers must be able to log in to it."""
    name = config.inter_broker_listener_name
    found = [listener for listener in config.listeners if listener.name == name]
    if not found or not found[0].security_protocol.startswith("SASL_"):
        return
    mechanism = str(config.get("sasl.mechanism.inter.broker.protocol"))
    try:
        enabled = ListenerSettings(config, name).get("sasl.enabled.mechanisms")
    except ConfigError as error:
        yield from error.problems
        return
    assert isinstance(enabled, tuple)
    if mechanism not in enabled:
        reason = f"must be one of the mechanisms that listener {name} enables: {','.join(enabled)}"
        yield "sasl.mechanism.inter.broker.protocol", mechanism, reason


def _missing_protection(config: ServerConfig) -> Iterator[Problem]:
    """Settings that ask for protection, or for a cluster, and lack what that needs."""
    if config.zookeeper_set_acl and not (
        config.ottla_zookeeper_sasl_username or config.zookeeper_ssl_keystore_location
    ):
        reason = "needs SASL or a TLS keystore, by which ZooKeeper can authenticate this broker"
        yield "zookeeper.set.acl", "true", reason
