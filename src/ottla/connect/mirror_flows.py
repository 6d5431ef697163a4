"""mm2.properties: which clusters are mirrored to which, and with what settings. No I/O.

    clusters = primary, backup
    primary.bootstrap.servers = a:9092
    backup.bootstrap.servers = b:9092
    primary->backup.enabled = true
    primary->backup.topics = orders.*

A flow is a pair of clusters, with a herder of its own in the cluster that is written to, whose
topics have Kafka's names. A setting of a pair wins over one of a cluster, that over a plain one.
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
class Flow:
    """`worker`: the properties of its worker. `connectors`: by name, their configs."""

    source: str
    target: str
    worker: Mapping[str, str]
    connectors: Mapping[str, Mapping[str, str]]

    @property
    def name(self) -> str:
        return f"{self.source}->{self.target}"


def flows_of(properties: Mapping[str, str], near: Collection[str] = ()) -> list[Flow]:
    """`near`: only what is written to these clusters (--clusters)."""
    clusters = [each.strip() for each in properties.get("clusters", "").split(",") if each.strip()]
    if not clusters:
        raise ConfigException(
            'Missing required configuration "clusters" which has no default value.'
        )
    for each in (*near, *clusters):
        if each not in clusters:
            raise ConfigException(f"--clusters {each}: not one of {', '.join(clusters)}")
        if not properties.get(f"{each}.bootstrap.servers"):
            raise ConfigException(f"{each}.bootstrap.servers: where is that cluster?")
    targets = [each for each in clusters if not near or each in near]
    pairs = [(one, other) for one in clusters for other in targets if one != other]
    found = [_flow(properties, clusters, *each) for each in pairs]
    return [each for each in found if each.connectors]


def _flow(properties: Mapping[str, str], clusters: list[str], source: str, target: str) -> Flow:
    own = _under(properties, f"{source}->{target}.")
    plain = {
        name: value
        for name, value in properties.items()
        if "->" not in name
        and name != "clusters"
        and not any(name.startswith(f"{each}.") for each in clusters)
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
    return Flow(source, target, worker, _connectors(settings))


def _connectors(settings: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """A heartbeat is sent also where nothing is mirrored, unless it is turned off, as in Kafka."""
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
