"""Metrics of this broker's partitions: replicas, leaders, ISRs, and the sizes of their logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.cluster.image import MetadataImage, PartitionRegistration, TopicImage
from ottla.metrics import Labels, MetricFamily, Sample, by_label, gauge
from ottla.storage.log import Log

if TYPE_CHECKING:
    from ottla.broker.parts import BrokerParts

MIN_ISR = "min.insync.replicas"


class ReplicaCounts(NamedTuple):
    """Counts of the partitions that have a replica on this broker."""

    replicas: int = 0
    led: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    at_min_isr: int = 0
    reassigning: int = 0


# (name below kafka_server_replicamanager, help, value)
REPLICA_GAUGES: Final[tuple[tuple[str, str, Callable[[ReplicaCounts], int]], ...]] = (
    (
        "partitioncount",
        "Replicas on this broker, leaders and followers.",
        lambda held: held.replicas,
    ),
    ("leadercount", "Partitions that this broker leads.", lambda held: held.led),
    (
        "underreplicatedpartitions",
        "Partitions led here that have a replica outside of the ISR.",
        lambda held: held.under_replicated,
    ),
    (
        "underminisrpartitioncount",
        "Partitions led here with an ISR smaller than min.insync.replicas: acks=all fails.",
        lambda held: held.under_min_isr,
    ),
    (
        "atminisrpartitioncount",
        "Partitions led here with an ISR of just min.insync.replicas.",
        lambda held: held.at_min_isr,
    ),
    (
        "reassigningpartitions",
        "Partitions led here that are being reassigned.",
        lambda held: held.reassigning,
    ),
)

# The same below kafka_log_log, for each log.
LOG_GAUGES: Final[tuple[tuple[str, str, Callable[[Log], int]], ...]] = (
    ("size", "Bytes of a log, without its indexes.", lambda log: log.size),
    ("numlogsegments", "Segments of a log.", lambda log: len(log.segments)),
    ("logstartoffset", "The first offset in a log.", lambda log: log.start_offset),
    ("logendoffset", "The offset of the next record.", lambda log: log.end_offset),
)


def partition_families(broker: BrokerParts) -> Iterator[MetricFamily]:
    image, node_id = broker.image, broker.node_id
    held = count_replicas(image, node_id, broker.config.min_insync_replicas)
    offline = sum(
        broker.partitions.is_offline(topic.name, partition.index)
        for topic in image.topics.values()
        for partition in topic.partitions
        if node_id in partition.replicas
    )
    manager = "kafka_server_replicamanager"
    for name, help, value in REPLICA_GAUGES:
        yield gauge(f"{manager}_{name}", help, value(held))
    yield gauge(
        f"{manager}_offlinereplicacount", "Replicas here whose log directory has failed.", offline
    )
    yield _by_partition(image, node_id)
    yield from _logs(broker)


def count_replicas(image: MetadataImage, node_id: int, min_isr_default: int) -> ReplicaCounts:
    replicas = led = under = under_min = at_min = reassigning = 0
    for topic in image.topics.values():
        min_isr = int(topic.configs.get(MIN_ISR, min_isr_default))
        for partition in topic.partitions:
            if node_id in partition.replicas:
                replicas += 1
            if partition.leader != node_id:
                continue
            led += 1
            in_sync = len(partition.isr)
            under += is_under_replicated(partition)
            under_min += in_sync < min(min_isr, len(partition.replicas))
            at_min += in_sync == min_isr
            reassigning += partition.reassigning
    return ReplicaCounts(replicas, led, under, under_min, at_min, reassigning)


def is_under_replicated(partition: PartitionRegistration) -> bool:
    """During a reassignment the added replicas don't count, as in Kafka."""
    return len(partition.isr) < len(partition.replicas) - len(partition.adding)


def _by_partition(image: MetadataImage, node_id: int) -> MetricFamily:
    def samples() -> Iterator[Sample]:
        for topic in image.topics.values():
            for partition in topic.partitions:
                if partition.leader == node_id:
                    yield Sample(
                        _labels(topic, partition.index), int(is_under_replicated(partition))
                    )

    return MetricFamily(
        "kafka_cluster_partition_underreplicated",
        "gauge",
        "1 for a partition led here that has a replica outside of the ISR.",
        samples(),
    )


def _labels(topic: TopicImage, index: int) -> Labels:
    return {"topic": topic.name, "partition": str(index)}


def _logs(broker: BrokerParts) -> Iterator[MetricFamily]:
    logs = [
        (partition.log, {"topic": partition.topic, "partition": str(partition.index)})
        for partition in broker.partitions
    ]
    for name, help, value in LOG_GAUGES:
        samples = [Sample(labels, value(log)) for log, labels in logs]
        yield MetricFamily(f"kafka_log_log_{name}", "gauge", help, samples)
    yield gauge(
        "kafka_log_logmanager_offlinelogdirectorycount",
        "Log directories that have failed.",
        sum(log_dir.offline for log_dir in broker.store.dirs),
    )
    yield by_label(
        "kafka_log_logmanager_logdirectoryoffline",
        "gauge",
        "1 for a log directory that has failed.",
        "logDirectory",
        [(log_dir.path, int(log_dir.offline)) for log_dir in broker.store.dirs],
    )
