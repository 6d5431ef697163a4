"""mm2.properties -> replication flows with their workers and connectors."""

from __future__ import annotations

import pytest

from ottla.config import parse_properties
from ottla.connect.errors import ConfigException
from ottla.connect.mirror_flows import mirror_flows

FILE = """
clusters = primary, backup
primary.bootstrap.servers = a:9092
primary.security.protocol = SSL
backup.bootstrap.servers = b:9092
primary->backup.enabled = true
primary->backup.topics = orders.*
topics = nothing
replication.factor = 1
tasks.max = 4
config.storage.replication.factor = 1
"""


def test_a_flow_has_a_worker_in_its_target_and_three_connectors() -> None:
    forth, back = mirror_flows(parse_properties(FILE))
    assert forth.name == "primary->backup"
    assert forth.worker == {
        "bootstrap.servers": "b:9092",
        "group.id": "primary-mm2",
        "config.storage.topic": "mm2-configs.primary.internal",
        "offset.storage.topic": "mm2-offsets.primary.internal",
        "status.storage.topic": "mm2-status.primary.internal",
        "config.storage.replication.factor": "1",
        "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
    }
    names = ["MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector"]
    assert list(forth.connectors) == names
    assert forth.connectors["MirrorSourceConnector"] == {
        "name": "MirrorSourceConnector",
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "enabled": "true",
        "topics": "orders.*",
        "replication.factor": "1",
        "tasks.max": "4",
        "source.cluster.alias": "primary",
        "target.cluster.alias": "backup",
        "source.cluster.bootstrap.servers": "a:9092",
        "source.cluster.security.protocol": "SSL",
        "target.cluster.bootstrap.servers": "b:9092",
    }
    assert (back.name, list(back.connectors)) == ("backup->primary", names[2:])


def test_heartbeats_can_be_turned_off_and_clusters_chosen() -> None:
    quiet = parse_properties(FILE + "emit.heartbeats.enabled = false\n")
    (only,) = mirror_flows(quiet)
    assert list(only.connectors) == ["MirrorSourceConnector", "MirrorCheckpointConnector"]
    assert [flow.name for flow in mirror_flows(quiet, ["primary"])] == []
    assert [flow.name for flow in mirror_flows(parse_properties(FILE), ["backup"])] == [
        "primary->backup"
    ]


@pytest.mark.parametrize(
    ("properties", "near", "words"),
    [
        ({}, [], 'Missing required configuration "clusters" which has no default value.'),
        ({"clusters": "a"}, [], "a.bootstrap.servers: where is that cluster?"),
        ({"clusters": "a", "a.bootstrap.servers": "x:1"}, ["b"], "--clusters b: not one of a"),
    ],
)
def test_missing_settings_are_rejected(
    properties: dict[str, str], near: list[str], words: str
) -> None:
    with pytest.raises(ConfigException) as error:
        mirror_flows(properties, near)
    assert str(error.value) == words
