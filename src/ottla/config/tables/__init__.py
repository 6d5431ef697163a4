"""The tables of all broker properties of Kafka 4, and the names that it has retired."""

from __future__ import annotations

from ottla.config.definition import (
    READ_ONLY,
    Check,
    ConfigDefinition,
    ConfigType,
    UpdateMode,
    Value,
)
from ottla.config.tables.accepted_cluster import ACCEPTED_CLUSTER
from ottla.config.tables.accepted_groups import ACCEPTED_GROUPS
from ottla.config.tables.accepted_security import ACCEPTED_SECURITY
from ottla.config.tables.access import ACCESS
from ottla.config.tables.consumer_groups import CONSUMER_GROUPS
from ottla.config.tables.controller import CONTROLLER
from ottla.config.tables.general import GENERAL
from ottla.config.tables.groups import GROUPS
from ottla.config.tables.logs import LOGS
from ottla.config.tables.replication import REPLICATION
from ottla.config.tables.schema_validation import SCHEMA_VALIDATION
from ottla.config.tables.shares import SHARES
from ottla.config.tables.streams_groups import STREAMS_GROUPS
from ottla.config.tables.tls import TLS
from ottla.config.tables.transactions import TRANSACTIONS
from ottla.config.tables.zookeeper import ZOOKEEPER

ACCEPTED = "A property of Kafka's, which Ottla accepts and ignores."


def accepted(
    name: str, kind: ConfigType, default: Value, check: Check | None, update: UpdateMode = READ_ONLY
) -> ConfigDefinition:
    return ConfigDefinition(name, kind, default, check, ACCEPTED, update, used=False)


BROKER_CONFIGS: dict[str, ConfigDefinition] = {
    definition.name: definition
    for definition in (
        *GENERAL,
        *CONTROLLER,
        *LOGS,
        *REPLICATION,
        *GROUPS,
        *CONSUMER_GROUPS,
        *SHARES,
        *STREAMS_GROUPS,
        *TLS,
        *TRANSACTIONS,
        *ZOOKEEPER,
        *ACCESS,
        *SCHEMA_VALIDATION,
    )
}
for _row in ACCEPTED_CLUSTER + ACCEPTED_GROUPS + ACCEPTED_SECURITY:
    BROKER_CONFIGS[_row[0]] = accepted(*_row)

RETIRED = frozenset(
    {
        "auto.include.jmx.reporter",
        "broker.id.generation.enable",
        "confluent.support.metrics.enable",
        "control.plane.listener.name",
        "controlled.shutdown.max.retries",
        "controlled.shutdown.retry.backoff.ms",
        "eligible.leader.replicas.enable",
        "group.coordinator.new.enable",
        "inter.broker.protocol.version",
        "log.message.downconversion.enable",
        "log.message.format.version",
        "log.message.timestamp.difference.max.ms",
        "offsets.commit.required.acks",
        "reserved.broker.max.id",
        "zookeeper.metadata.migration.enable",
    }
)
"""Names in older files that neither Kafka 4 nor Ottla uses any more."""

INTERNAL = frozenset(
    {
        "controller.performance.always.log.threshold.ms",
        "controller.performance.sample.period.ms",
        "group.share.dlq.manager.class.name",
        "group.share.persister.class.name",
        "internal.metadata.delete.delay.millis",
        "internal.metadata.log.segment.bytes",
        "internal.metadata.max.batch.size.in.bytes",
        "remote.log.index.file.cache.ttl.ms",
        "server.max.startup.time.ms",
        "share.coordinator.cold.partition.snapshot.interval.ms",
        "unclean.leader.election.interval.ms",
        "unstable.api.versions.enable",
        "unstable.feature.versions.enable",
    }
)
"""Kafka's undocumented properties: accepted without a warning, and never described."""

FAMILIES = ("listener.name.", "config.providers.", "rsm.config.", "rlmm.config.", "zookeeper.")
"""Prefixes under which any name is accepted: per-listener settings, plug-ins, ZooKeeper."""
