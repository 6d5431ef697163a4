"""Mirrors topics and groups of one cluster to another: two real brokers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from drives import PATIENCE_S, Source

from ottla.client import Producer
from ottla.client.acls import Acl, AclPattern, AclPermission, AclResource
from ottla.client.configs import ResourceType
from ottla.client.record import TopicPartition
from ottla.connect.api import SourceConnector
from ottla.connect.connectors.mirror import acls
from ottla.connect.connectors.mirror.checkpoints import MirrorCheckpointConnector
from ottla.connect.connectors.mirror.formats import MirrorCheckpoint, MirrorHeartbeat, OffsetSync
from ottla.connect.connectors.mirror.heartbeats import MirrorHeartbeatConnector
from ottla.connect.connectors.mirror.offset_sync_store import SYNCS_MAX, OffsetSyncStore
from ottla.connect.connectors.mirror.policies import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
)
from ottla.connect.connectors.mirror.source import MirrorSourceConnector
from ottla.connect.data import SourceRecord
from ottla.connect.errors import ConfigException, ConnectException
from ottla.testing import LocalCluster

pytestmark = pytest.mark.timeout(300)

ALLOW, DENY, LITERAL = AclPermission.ALLOW, AclPermission.DENY, AclPattern.LITERAL
Clusters = tuple[LocalCluster, LocalCluster]


@pytest.fixture(scope="module")
def brokers() -> Iterator[Clusters]:
    with LocalCluster() as one, LocalCluster() as two:
        yield one, two


@pytest.fixture
def clusters(brokers: Clusters) -> Clusters:
    """Empty ones."""
    for broker in brokers:
        with broker.admin() as admin:
            names = [name for name in admin.topics.names() if not name.startswith("__")]
            if names:
                admin.topics.delete(*names)
            groups = [group.name for group in admin.groups.list()]
            if groups:
                admin.groups.delete(*groups)
    return brokers


class Mirror(Source):
    """A source whose records go into the target, as a worker would send them."""

    def __init__(
        self,
        connector: SourceConnector,
        clusters: Clusters,
        offsets: dict[str, Any] | None = None,
        tasks: int = 2,
        **config: str,
    ) -> None:
        one, two = clusters
        props = {
            "source.cluster.alias": "A",
            "target.cluster.alias": "B",
            "source.cluster.bootstrap.servers": one.bootstrap_servers,
            "target.cluster.bootstrap.servers": two.bootstrap_servers,
            "consumer.poll.timeout.ms": "50",
            **{name.replace("_", "."): value for name, value in config.items()},
        }
        self._producer: Producer[bytes, bytes] = two.producer()
        super().__init__(connector, props, offsets, tasks)

    def deliver(self, records: Sequence[SourceRecord]) -> None:
        for record in records:
            self._producer.send(
                record.topic,
                record.value,
                key=record.key,
                partition=record.partition,
                headers=[(header.key, header.value) for header in record.headers],
                timestamp_ms=record.timestamp,
            )
        self._producer.flush()

    def stop(self) -> dict[str, Any]:
        committed = super().stop()
        self._producer.close()
        return committed


def fill(cluster: LocalCluster, topic: str, numbers: range, partition: int = 0) -> None:
    with cluster.producer() as producer:
        for n in numbers:
            producer.send(
                topic, b"%d" % n, key=b"k%d" % n, partition=partition,
                headers=[("h", b"\x00\xff"), ("none", None)], timestamp_ms=1_700_000_000_000 + n,
            )  # fmt: skip


def test_records_keep_their_partition_key_headers_and_time(clusters: Clusters) -> None:
    one, two = clusters
    one.create_topic("orders", partitions=2, configs={"retention.ms": "12345678"})
    one.create_topic("secret.replica")
    one.create_topic("B.orders")  # came from the target
    fill(one, "orders", range(3))
    fill(one, "orders", range(3, 5), partition=1)
    with one.producer() as producer:
        producer.send("orders", None, key=b"gone", partition=1)
    fill(one, "B.orders", range(2))
    with Mirror(MirrorSourceConnector(), clusters) as mirror:
        assert len(mirror.tasks) == 2
        mirror.take(6)
    with two.admin() as admin:
        names = [name for name in admin.topics.names() if not name.startswith("__")]
        configs = admin.configs.describe(ResourceType.TOPIC, "A.orders")
    assert names == ["A.orders"]
    assert {config.name: config.value for config in configs}["retention.ms"] == "12345678"
    with one.consumer("orders") as there, two.consumer("A.orders") as here:
        was = {(r.partition, r.offset): r for r in there.take(6)}
        found = {(r.partition, r.offset): r for r in here.take(6)}
    assert found.keys() == was.keys()
    for place, record in found.items():
        old = was[place]
        assert (record.key, record.value, record.headers) == (old.key, old.value, old.headers)
        assert record.timestamp_ms == old.timestamp_ms


def test_a_mirror_resumes_at_its_offsets(clusters: Clusters) -> None:
    one, two = clusters
    one.create_topic("orders")
    fill(one, "orders", range(10))
    with Mirror(MirrorSourceConnector(), clusters) as mirror:
        mirror.take(10)
    fill(one, "orders", range(10, 15))
    with Mirror(MirrorSourceConnector(), clusters, mirror.stop()) as mirror:
        found = mirror.take(5)
    assert [record.source_offset for record in found] == [{"offset": n} for n in range(10, 15)]
    assert found[0].source_partition == {"cluster": "A", "topic": "orders", "partition": 0}
    with two.consumer("A.orders") as consumer:
        assert [record.value for record in consumer.take(15)] == [b"%d" % n for n in range(15)]


def test_new_topics_partitions_and_configs_are_found(clusters: Clusters) -> None:
    one, two = clusters
    one.create_topic("first")
    config = {"refresh_topics_interval_seconds": "0", "sync_topic_configs_interval_seconds": "0"}
    with Mirror(MirrorSourceConnector(), clusters, topics="first, second", **config) as mirror:
        one.create_topic("second")
        one.create_topic("third")
        with one.admin() as admin:
            admin.topics.grow("first", 3)
            admin.configs.alter(ResourceType.TOPIC, "first", set={"retention.ms": "777"})
        deadline = time.monotonic() + PATIENCE_S
        with two.admin() as admin:
            while not (
                sum(len(json.loads(c["task.assigned.partitions"])) for c in _configs(mirror)) == 4
                and _retention(admin) == "777"
            ):
                assert time.monotonic() < deadline
                time.sleep(0.02)
            described: Any = admin.topics.describe("A.first", "A.second")
            assert len(described["A.first"].partitions) == 3
            assert "A.third" not in admin.topics.names()
        assert mirror.context.reconfigurations


def _configs(mirror: Mirror) -> list[dict[str, str]]:
    return mirror.connector.task_configs(9)


def _retention(admin: Any) -> str | None:
    found = admin.configs.describe(ResourceType.TOPIC, "A.first")
    return {item.name: item.value for item in found}["retention.ms"]


def test_groups_continue_in_the_target(clusters: Clusters) -> None:
    """100 records, in ten commits of the mirror; a group that has read 57 of them moves."""
    one, two = clusters
    one.create_topic("orders")
    with Mirror(MirrorSourceConnector(), clusters) as mirror:
        for n in range(0, 100, 10):
            fill(one, "orders", range(n, n + 10))
            mirror.take(10)
    partition = TopicPartition("orders", 0)
    with one.admin() as admin:
        for group, offset in {"readers": 57, "early": 0, "console-consumer-1": 9}.items():
            admin.groups.alter_offsets(group, {partition: offset})
    config = {"emit_checkpoints_interval_seconds": "0", "sync_group_offsets_enabled": "true"}
    with Mirror(MirrorCheckpointConnector(), clusters, **config) as mirror:
        (record,) = mirror.take(1)
        assert not mirror.poll(), "unchanged offsets are not written again"
    assert record.topic == "A.checkpoints.internal"
    checkpoint = MirrorCheckpoint.read(record.key, record.value)
    at = checkpoint.downstream
    assert checkpoint == ("readers", ("A.orders", 0), 57, at, "")
    assert 50 <= at <= 57, "the mirror has noted 50, and more if it read the ten in pieces"
    with two.admin() as admin:
        assert admin.groups.offsets("readers")[TopicPartition("A.orders", 0)].offset == at
    with two.consumer("A.orders", group="readers") as consumer:
        found = [int(record.value) for record in consumer.take(100 - at)]
    assert found == list(range(at, 100)), "no record is skipped, and a few are read again"


def test_a_group_that_is_read_in_the_target_is_not_moved_back(clusters: Clusters) -> None:
    one, two = clusters
    one.create_topic("orders")
    fill(one, "orders", range(10))
    with Mirror(MirrorSourceConnector(), clusters) as mirror:
        mirror.take(10)
    here, there = TopicPartition("A.orders", 0), TopicPartition("orders", 0)
    with one.admin() as first, two.admin() as second:
        first.groups.alter_offsets("readers", {there: 10})
        second.groups.alter_offsets("readers", {here: 10})
        fill(one, "orders", range(10, 12))
        with Mirror(MirrorSourceConnector(), clusters, mirror.context.committed) as mirror:
            mirror.take(2)
        second.groups.alter_offsets("readers", {here: 12})
        config = {"emit_checkpoints_interval_seconds": "0", "sync_group_offsets_enabled": "true"}
        with Mirror(MirrorCheckpointConnector(), clusters, **config) as mirror:
            mirror.take(1)
        assert second.groups.offsets("readers")[here].offset == 12


def test_heartbeats(clusters: Clusters) -> None:
    one, two = clusters
    config = {"emit_heartbeats_interval_seconds": "0"}
    with Mirror(MirrorHeartbeatConnector(), (one, two), **config) as mirror:
        mirror.take(2)
    with two.consumer("heartbeats") as consumer:
        record, _ = consumer.take(2)
    beat = MirrorHeartbeat.read(record.key, record.value)
    assert (beat.source, beat.target) == ("A", "B")
    assert record.key == b"\x00\x01A\x00\x01B"
    with Mirror(MirrorSourceConnector(), (two, one), topics="none") as back:
        assert back.take(2)[0].topic == "A.heartbeats", "they are copied regardless of `topics`"


def test_the_formats_are_those_of_mirror_maker() -> None:
    place = TopicPartition("t", 3)
    sync = OffsetSync(place, 7, 9)
    assert (sync.key(), sync.value()) == (b"\0\1t\0\0\0\3", b"\0" * 7 + b"\7" + b"\0" * 7 + b"\x09")
    checkpoint = MirrorCheckpoint("g", place, 7, 9, "m")
    assert checkpoint.key() == b"\0\1g\0\1t\0\0\0\3"
    assert checkpoint.value() == b"\0\0" + sync.value() + b"\0\1m"
    assert MirrorCheckpoint.read(checkpoint.key(), checkpoint.value()) == checkpoint
    assert OffsetSync.read(sync.key(), sync.value()) == sync


def test_translation_never_skips_records() -> None:
    translation, place = OffsetSyncStore(), TopicPartition("t", 0)
    assert translation.downstream(place, 5) is None
    for upstream in range(10, 5 * SYNCS_MAX, 10):
        translation.add(OffsetSync(place, upstream, 2 * upstream))
    assert translation.downstream(place, 9) is None
    assert translation.downstream(place, 5 * SYNCS_MAX) == 2 * (5 * SYNCS_MAX - 10)
    for offset in range(10, 5 * SYNCS_MAX, 37):
        found = translation.downstream(place, offset)
        assert found is not None
        assert found <= 2 * offset
    translation.add(OffsetSync(place, 100, 90_000))  # the mirror started again
    assert translation.downstream(place, 5000) == 90_000
    assert translation.downstream(place, 99) == 180


def test_names_of_topics() -> None:
    default, identity = DefaultReplicationPolicy(), IdentityReplicationPolicy()
    assert default.remote("A", "t") == "A.t"
    assert DefaultReplicationPolicy("_").remote("A", "t") == "A_t"
    assert identity.remote("A", "t") == "t"
    assert identity.remote("A", "heartbeats") == "A.heartbeats"
    assert default.source_of("A.t") == "A"
    assert not default.is_copyable("B.t", "B")
    assert default.is_copyable("B.t", "C")
    assert identity.is_copyable("B.t", "B")
    for name in ("mm2-offset-syncs.B.internal", "A.checkpoints.internal", "__consumer_offsets"):
        assert not default.is_copyable(name, "X")


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"topics": "("}, "invalid regular expression"),
        ({"replication.policy.class": "Mine"}, "DefaultReplicationPolicy"),
        ({"source.cluster.alias": ""}, "non-empty"),
    ],
)
def test_mirror_configs_that_can_not_work_are_refused(config: dict[str, str], text: str) -> None:
    props = {
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": "localhost:1",
        "target.cluster.bootstrap.servers": "localhost:1",
        **config,
    }
    with pytest.raises(ConfigException, match=text):
        MirrorSourceConnector().start(props)
    with pytest.raises(ConnectException, match="offset"):
        MirrorSourceConnector().alter_offsets(
            {}, [({"cluster": "A", "topic": "t", "partition": 0}, {"offset": "x"})]
        )


def test_rights_to_read_are_copied_and_those_to_write_are_not() -> None:
    def acl(name: str, operation: int, permission: int = ALLOW, pattern: int = LITERAL) -> Acl:
        return Acl(AclResource.TOPIC, name, pattern, "User:ann", "*", operation, permission)

    read, write, everything, alter = 3, 4, 2, 7
    there = [
        acl("orders", read),
        acl("orders", write),
        acl("orders", write, DENY),
        acl("orders", alter),
        acl("sales", everything),
        acl("other", read),
        acl("or", read, pattern=AclPattern.PREFIXED),
    ]
    found = acls.acls_of_copies(
        there, wanted=("orders", "sales").__contains__, remote=lambda name: f"A.{name}"
    )
    assert found == [
        acl("A.orders", read),
        acl("A.orders", write, DENY),
        acl("A.orders", alter),
        acl("A.sales", read),
    ]


def test_clusters_without_an_authorizer_have_no_rights_to_copy(
    clusters: Clusters, caplog: pytest.LogCaptureFixture
) -> None:
    clusters[0].create_topic("orders")
    with caplog.at_level("INFO"), Mirror(MirrorSourceConnector(), clusters, topics="orders"):
        assert "Topic ACLs are not replicated: a cluster has no authorizer" in caplog.text
