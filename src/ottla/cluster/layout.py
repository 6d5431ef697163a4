"""Where things lie in the store, and what they look like there: Kafka's ZooKeeper layout, in JSON.

/cluster/id                                   the cluster's id
/controller  /controller_epoch                who decides (held), and for which time round
/brokers/ids/<id>                             a live broker (held)
/brokers/epochs/<id>                          how often it has come to life (ours)
/brokers/topics/<topic>                       topic id, replicas of each partition, and which of
                                              them come and go (reassignment)
/brokers/topics/<topic>/partitions/<p>/state  leader, epoch, in-sync set
/config/topics/<topic>                        the topic's own configs
/config/brokers/<id> or /<default>            broker configs set at run time
/config/groups/<group>                        a group's own configs
/config/client-metrics/<name>                 a subscription to clients' metrics
/config/users/<user>                          a user's quotas
/config/users/<user>/clients/<client id>      quotas of a user's client
/config/clients/<client id>, /config/ips/<ip> quotas of clients and of addresses
/latest_producer_id_block                     the last block of producer ids given out

Names of groups and of whatever else may have any name are percent-encoded, as Kafka does; the
default of all users, clients or addresses is <default>.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from ottla.cluster.image import NO_LEADER, Broker, Config, Partition, QuotaEntity
from ottla.cluster.store import Entry
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

DEFAULT = "<default>"

_QUOTA_FOLDERS = {"user": "users", "client-id": "clients", "ip": "ips"}
_QUOTA_KINDS = {folder: kind for kind, folder in _QUOTA_FOLDERS.items()}

_ENCODER = json.JSONEncoder(separators=(",", ":"))  # kept: json.dumps would make one each time


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
    """Users come before their clients, so that one can look through all that a user has."""
    parts = ["/config"]
    for kind, name in reversed(entity):
        parts += (_QUOTA_FOLDERS[kind], DEFAULT if name is None else encode_name(name))
    return "/".join(parts)


def quota_entity(parts: Sequence[str]) -> QuotaEntity:
    """The entity of a key's parts, those after /config."""
    names = [
        (_QUOTA_KINDS[folder], None if name == DEFAULT else decode_name(name))
        for folder, name in zip(parts[::2], parts[1::2], strict=True)
    ]
    return tuple(reversed(names))


def encode_name(name: str) -> str:
    """Any name as one part of a path; ZooKeeper wants neither `.` nor `..` there."""
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


def load(entry: Entry) -> Any:
    return json.loads(entry.value.decode())


class Assignment(NamedTuple):
    """The replicas of one partition, and which of them come and go (KIP-455)."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


def dump_topic(topic_id: bytes, assignments: Iterable[Assignment]) -> bytes:
    numbered = [(str(index), each) for index, each in enumerate(assignments)]
    return dump(
        {
            "version": 3,
            "topic_id": encode_uuid(topic_id),
            "partitions": {index: list(each.replicas) for index, each in numbered},
            "adding_replicas": {
                index: list(each.adding) for index, each in numbered if each.adding
            },
            "removing_replicas": {
                index: list(each.removing) for index, each in numbered if each.removing
            },
        }
    )


def load_topic(entry: Entry) -> tuple[bytes, list[Assignment]]:
    """The topic's id, and the replicas of each partition in order."""
    value = load(entry)
    replicas = value["partitions"]
    adding = value.get("adding_replicas") or {}
    removing = value.get("removing_replicas") or {}
    assignments = [
        Assignment(
            tuple(replicas[index]), tuple(adding.get(index, ())), tuple(removing.get(index, ()))
        )
        for index in map(str, range(len(replicas)))
    ]
    return decode_uuid(value["topic_id"]), assignments


def dump_state(leader: int, leader_epoch: int, isr: Sequence[int], controller_epoch: int) -> bytes:
    return dump(
        {
            "version": 1,
            "controller_epoch": controller_epoch,
            "leader": leader,
            "leader_epoch": leader_epoch,
            "isr": list(isr),
        }
    )


def load_partition(index: int, assignment: Assignment, state: Entry | None) -> Partition:
    replicas, adding, removing = assignment
    if state is None:  # its topic is there, its first leader is not yet elected
        return Partition(index, replicas, NO_LEADER, 0, (), -1, adding, removing)
    value = load(state)
    return Partition(
        index,
        replicas,
        value["leader"],
        value["leader_epoch"],
        tuple(value["isr"]),
        state.version,
        adding,
        removing,
    )


def dump_config(values: Mapping[str, str]) -> bytes:
    return dump({"version": 1, "config": dict(values)})


def load_config(entry: Entry | None) -> Config:
    if entry is None:
        return Config()
    return Config(load(entry)["config"], entry.version)


def dump_broker(broker: Broker, timestamp_ms: int, directories: Sequence[str] = ()) -> bytes:
    """`directories` are the ids of its log directories, of which it has the locks."""
    first = broker.listeners[0]
    return dump(
        {
            "version": 5,
            "host": first.host,
            "port": first.port,
            "jmx_port": -1,
            "timestamp": str(timestamp_ms),
            "endpoints": [str(listener) for listener in broker.listeners],
            "listener_security_protocol_map": {
                listener.name: listener.security_protocol for listener in broker.listeners
            },
            "rack": broker.rack,
            "features": {},
            "epoch": broker.epoch,
            "directories": list(directories),
        }
    )


def load_broker(broker_id: int, entry: Entry) -> Broker:
    value = load(entry)
    protocols = value["listener_security_protocol_map"]
    listeners = []
    for endpoint in value["endpoints"]:
        name, _, address = endpoint.partition("://")
        host, _, port = address.rpartition(":")
        listeners.append(Listener(name, host.strip("[]"), int(port), protocols[name]))
    return Broker(broker_id, value["epoch"], tuple(listeners), value.get("rack"))
