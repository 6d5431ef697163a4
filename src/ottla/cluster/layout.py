"""The layout of the store: Kafka's znodes in ZooKeeper, with their JSON.

/cluster/id                                   the cluster's id
/controller  /controller_epoch                the controller (ephemeral), and its epoch
/brokers/ids/<id>                             the registration of a live broker (ephemeral)
/brokers/epochs/<id>                          its epoch counter, raised by each start and
                                              controlled shutdown (not in Kafka)
/brokers/topics/<topic>                       topic id, replicas of each partition, and which of
                                              them are added or removed (reassignment)
/brokers/topics/<topic>/partitions/<p>/state  leader, leader epoch, ISR
/config/topics/<topic>                        the topic's own configs
/config/brokers/<id> or /<default>            dynamic broker configs
/config/groups/<group>                        a group's own configs
/config/client-metrics/<name>                 a client metrics subscription
/config/users/<user>                          a user's quotas and SCRAM credentials
/config/users/<user>/clients/<client id>      quotas of a user's client
/config/clients/<client id>, /config/ips/<ip> quotas of clients and of IP addresses
/latest_producer_id_block                     the last allocated block of producer ids
/feature                                      the finalized feature levels that were set
/kafka-acl, /kafka-acl-extended               ACLs (acls.py)
/delegation_token/tokens/<id>                 delegation tokens (credentials.py)

Names of groups, users and others that may contain any character are percent-encoded, as in Kafka;
the default of all users, clients or addresses is <default>.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote

from ottla.cluster.image import (
    NO_LEADER,
    BrokerRegistration,
    PartitionRegistration,
    QuotaEntity,
    StoredConfig,
    SupportedFeature,
)
from ottla.cluster.replica_assignment import ReplicaAssignment
from ottla.cluster.store import VersionedValue
from ottla.config import Listener

CLUSTER_ID = "/cluster/id"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
BROKERS = "/brokers/ids"
TOPICS = "/brokers/topics"
TOPIC_CONFIGS = "/config/topics"
BROKER_CONFIGS = "/config/brokers"
GROUP_CONFIGS = "/config/groups"
CLIENT_METRICS = "/config/client-metrics"
PRODUCER_IDS = "/latest_producer_id_block"
FEATURES = "/feature"
SENSITIVE = ("/config/users", "/delegation_token")
"""Only brokers may read below these keys, if the store can authenticate them."""

DEFAULT = "<default>"
EPHEMERAL_VERSION = 0  # an ephemeral key is never changed

_QUOTA_LAYOUT = {"user": "users", "client-id": "clients", "ip": "ips"}
_QUOTA_TYPES = {folder: kind for kind, folder in _QUOTA_LAYOUT.items()}

# Reused, because json.dumps would make one for each call.
_ENCODER = json.JSONEncoder(separators=(",", ":"))


def broker_key(broker_id: int) -> str:
    return f"{BROKERS}/{broker_id}"


def broker_epoch_key(broker_id: int) -> str:
    return f"/brokers/epochs/{broker_id}"


def topic_key(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def state_key(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def topic_config_key(topic: str) -> str:
    return f"{TOPIC_CONFIGS}/{topic}"


def broker_config_key(name: str) -> str:
    """The key of one broker's configs, or of all brokers' for ''."""
    return f"{BROKER_CONFIGS}/{name or DEFAULT}"


def group_config_key(group_id: str) -> str:
    return f"{GROUP_CONFIGS}/{encode_name(group_id)}"


def client_metrics_key(name: str) -> str:
    return f"{CLIENT_METRICS}/{encode_name(name)}"


def quota_key(entity: QuotaEntity) -> str:
    """The key of an entity's quotas; a user's clients are below the user, as in Kafka."""
    parts = ["/config"]
    for kind, name in reversed(entity):
        parts += (_QUOTA_LAYOUT[kind], DEFAULT if name is None else encode_name(name))
    return "/".join(parts)


def quota_entity(parts: Sequence[str]) -> QuotaEntity:
    """The entity of a key's parts, those after /config."""
    names = [
        (_QUOTA_TYPES[folder], None if name == DEFAULT else decode_name(name))
        for folder, name in zip(parts[::2], parts[1::2], strict=True)
    ]
    return tuple(reversed(names))


def encode_name(name: str) -> str:
    """Any name as one part of a path; ZooKeeper allows neither `.` nor `..` there."""
    encoded = quote(name, safe="")
    return encoded.replace(".", "%2E") if encoded in (".", "..") else encoded


def decode_name(encoded: str) -> str:
    return unquote(encoded)


def encode_uuid(raw: bytes) -> str:
    """A uuid as Kafka writes it: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decode_uuid(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "==")


def dump(value: object) -> bytes:
    return _ENCODER.encode(value).encode()


def load(entry: VersionedValue) -> Any:
    return json.loads(entry.value.decode())


def dump_topic(topic_id: bytes, assignments: Iterable[ReplicaAssignment]) -> bytes:
    numbered = [(str(index), assignment) for index, assignment in enumerate(assignments)]
    return dump(
        {
            "version": 3,
            "topic_id": encode_uuid(topic_id),
            "partitions": {index: list(assignment.replicas) for index, assignment in numbered},
            "adding_replicas": {
                index: list(assignment.adding)
                for index, assignment in numbered
                if assignment.adding
            },
            "removing_replicas": {
                index: list(assignment.removing)
                for index, assignment in numbered
                if assignment.removing
            },
        }
    )


def load_topic(entry: VersionedValue) -> tuple[bytes, list[ReplicaAssignment]]:
    """The topic's id, and the replicas of each partition in order."""
    value = load(entry)
    replicas = value["partitions"]
    adding = value.get("adding_replicas") or {}
    removing = value.get("removing_replicas") or {}
    assignments = [
        ReplicaAssignment(
            tuple(replicas[index]), tuple(adding.get(index, ())), tuple(removing.get(index, ()))
        )
        for index in map(str, range(len(replicas)))
    ]
    return decode_uuid(value["topic_id"]), assignments


def dump_state(leader: int, leader_epoch: int, isr: Sequence[int], controller_epoch: int) -> bytes:
    return _dump_state(leader, leader_epoch, tuple(isr), controller_epoch)


@lru_cache(maxsize=1024)  # thousands of partitions of a topic have the same state
def _dump_state(
    leader: int, leader_epoch: int, isr: tuple[int, ...], controller_epoch: int
) -> bytes:
    return dump(
        {
            "version": 1,
            "controller_epoch": controller_epoch,
            "leader": leader,
            "leader_epoch": leader_epoch,
            "isr": list(isr),
        }
    )


def load_partition(
    index: int, assignment: ReplicaAssignment, state: VersionedValue | None
) -> PartitionRegistration:
    replicas, adding, removing = assignment
    if state is None:  # the topic exists, but its first leader is not elected yet
        return PartitionRegistration(index, replicas, NO_LEADER, 0, (), -1, adding, removing)
    leader, leader_epoch, isr = _load_state(state.value)
    return PartitionRegistration(
        index, replicas, leader, leader_epoch, isr, state.version, adding, removing
    )


@lru_cache(maxsize=1024)  # as above
def _load_state(stored: bytes) -> tuple[int, int, tuple[int, ...]]:
    value = json.loads(stored.decode())
    return value["leader"], value["leader_epoch"], tuple(value["isr"])


def dump_config(values: Mapping[str, str]) -> bytes:
    return dump({"version": 1, "config": dict(values)})


def load_config(entry: VersionedValue | None) -> StoredConfig:
    if entry is None:
        return StoredConfig()
    return StoredConfig(load(entry)["config"], entry.version)


def dump_features(levels: Mapping[str, int]) -> bytes:
    return dump({"version": 2, "status": 1, "features": dict(levels)})


def load_features(entry: VersionedValue) -> dict[str, int]:
    return {str(name): int(level) for name, level in load(entry)["features"].items()}


def dump_broker(
    broker: BrokerRegistration, timestamp_ms: int, directories: Sequence[str] = ()
) -> bytes:
    """`directories` are the ids of the log directories that the broker has locked."""
    plain = [listener for listener in broker.listeners if listener.security_protocol == "PLAINTEXT"]
    return dump(
        {
            "version": 5,
            "host": plain[0].host if plain else None,  # for clients of early versions of Kafka
            "port": plain[0].port if plain else -1,
            "jmx_port": -1,
            "timestamp": str(timestamp_ms),
            "endpoints": [str(listener) for listener in broker.listeners],
            "listener_security_protocol_map": {
                listener.name: listener.security_protocol for listener in broker.listeners
            },
            "rack": broker.rack,
            "features": {
                feature.name: {"min_version": feature.level_min, "max_version": feature.level_max}
                for feature in broker.features
            },
            "epoch": broker.epoch,
            "directories": list(directories),
        }
    )


def load_broker(
    broker_id: int, entry: VersionedValue, epoch: VersionedValue | None = None
) -> BrokerRegistration:
    """`epoch` is the broker's epoch counter: above the registered epoch, it is shutting down."""
    value = load(entry)
    protocols = value["listener_security_protocol_map"]
    listeners = []
    for endpoint in value["endpoints"]:
        name, _, address = endpoint.partition("://")
        host, _, port = address.rpartition(":")
        listeners.append(Listener(name, host.strip("[]"), int(port), protocols[name]))
    shutting_down = epoch is not None and load(epoch) > value["epoch"]
    features = tuple(
        SupportedFeature(name, levels["min_version"], levels["max_version"])
        for name, levels in value.get("features", {}).items()
    )
    rack = value.get("rack")
    return BrokerRegistration(
        broker_id, value["epoch"], tuple(listeners), rack, shutting_down, features
    )
