"""mm2.properties: which cluster is replicated to which, and with what settings. No I/O.

    clusters = primary, backup
    primary.bootstrap.servers = a:9092
    backup.bootstrap.servers = b:9092
    primary->backup.enabled = true
    primary->backup.topics = orders.*

A replication flow is a pair of clusters. Each flow has its own herder, whose internal topics are in
the target cluster and have Kafka's names. A flow's setting overrides a cluster's, which overrides a
global one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from ottla.connect.errors import ConfigException

PACKAGE: Final = "org.apache.kafka.connect.mirror."
CONNECTORS: Final = ("MirrorSourceConnector", "MirrorCheckpointConnector")
HEARTBEAT: Final = "MirrorHeartbeatConnector"
BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
OF_WORKER: Final = (
    *("offset.storage.", "config.storage.", "status.storage.", "session.timeout.ms"),
    *("heartbeat.interval.ms", "rebalance.timeout.ms", "exactly.once.source.support"),
    *("config.providers", "ottla.connect.", "spark."),
)


@dataclass(frozen=True, slots=True)
class MirrorFlow:
    """`worker`: the worker's properties. `connectors`: name -> config."""

    source: str
    target: str
    worker: Mapping[str, str]
    connectors: Mapping[str, Mapping[str, str]]

    @property
    def name(self) -> str:
        return f"{self.source}->{self.target}"


def mirror_flows(properties: Mapping[str, str], near: Collection[str] = ()) -> list[MirrorFlow]:
    """`near`: only the flows into these clusters (--clusters)."""
    clusters = [
        cluster.strip() for cluster in properties.get("clusters", "").split(",") if cluster.strip()
    ]
    if not clusters:
        raise ConfigException(
            'Missing required configuration "clusters" which has no default value.'
        )
    for cluster in (*near, *clusters):
        if cluster not in clusters:
            raise ConfigException(f"--clusters {cluster}: not one of {', '.join(clusters)}")
        if not properties.get(f"{cluster}.bootstrap.servers"):
            raise ConfigException(f"{cluster}.bootstrap.servers: where is that cluster?")
    targets = [cluster for cluster in clusters if not near or cluster in near]
    pairs = [(cluster, other) for cluster in clusters for other in targets if cluster != other]
    found = [_flow(properties, clusters, *pair) for pair in pairs]
    return [flow for flow in found if flow.connectors]


def _flow(
    properties: Mapping[str, str], clusters: list[str], source: str, target: str
) -> MirrorFlow:
    own = _under(properties, f"{source}->{target}.")
    plain = {
        name: value
        for name, value in properties.items()
        if "->" not in name
        and name != "clusters"
        and not any(name.startswith(f"{cluster}.") for cluster in clusters)
    }
    at_target = _under(properties, f"{target}.")
    worker = {name: value for name, value in plain.items() if name.startswith(OF_WORKER)}
    worker |= {
        **at_target,
        "group.id": f"{source}-mm2",
        "config.storage.topic": f"mm2-configs.{source}.internal",
        "offset.storage.topic": f"mm2-offsets.{source}.internal",
        "status.storage.topic": f"mm2-status.{source}.internal",
        "key.converter": BYTES,
        "value.converter": BYTES,
    }
    settings = {
        **{name: value for name, value in plain.items() if not name.startswith(OF_WORKER)},
        **{f"source.cluster.{k}": v for k, v in _under(properties, f"{source}.").items()},
        **{f"target.cluster.{k}": v for k, v in at_target.items()},
        **own,
        "source.cluster.alias": source,
        "target.cluster.alias": target,
    }
    return MirrorFlow(source, target, worker, _connectors(settings))


def _connectors(settings: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """As in Kafka, heartbeats are sent for disabled flows too, unless they are turned off."""
    enabled = settings.get("enabled", "false").lower() == "true"
    beats = settings.get("emit.heartbeats.enabled", "true").lower() == "true"
    names = [*(CONNECTORS if enabled else ()), *([HEARTBEAT] if beats else ())]
    return {name: {**settings, "name": name, "connector.class": PACKAGE + name} for name in names}


def _under(properties: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {
        name.removeprefix(prefix): value
        for name, value in properties.items()
        if name.startswith(prefix)
    }
