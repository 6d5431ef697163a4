"""Partitions of this broker: led or followed, in sync or not, and how large their logs are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.cluster.image import Image, Partition, Topic
from ottla.metrics import Family, Labels, Sample, by_label, gauge
from ottla.storage.log import Log

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

MIN_ISR = "min.insync.replicas"


class Held(NamedTuple):
    """How many partitions this broker has a part in, and of how many that is to be said."""

    replicas: int = 0
    led: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    at_min_isr: int = 0
    reassigning: int = 0


# Names below kafka_server_replicamanager, what they say, and whence.
HELD: Final[tuple[tuple[str, str, Callable[[Held], int]], ...]] = (
    ("partitioncount", "Replicas on this broker, led and followed.", lambda held: held.replicas),
    ("leadercount", "Partitions that this broker leads.", lambda held: held.led),
    (
        "underreplicatedpartitions",
        "Partitions led here of which a replica is not in sync.",
        lambda held: held.under_replicated,
    ),
    (
        "underminisrpartitioncount",
        "Partitions led here with fewer in sync than min.insync.replicas: acks=all fails.",
        lambda held: held.under_min_isr,
    ),
    (
        "atminisrpartitioncount",
        "Partitions led here with just min.insync.replicas in sync.",
        lambda held: held.at_min_isr,
    ),
    (
        "reassigningpartitions",
        "Partitions led here that are being moved.",
        lambda held: held.reassigning,
    ),
)

# The same below kafka_log_log, of each log.
LOGS: Final[tuple[tuple[str, str, Callable[[Log], int]], ...]] = (
    ("size", "Bytes of a log, without its indexes.", lambda log: log.size),
    ("numlogsegments", "Segments of a log.", lambda log: len(log.segments)),
    ("logstartoffset", "The first offset that a log still has.", lambda log: log.start_offset),
    ("logendoffset", "The offset that the next record will get.", lambda log: log.end_offset),
)


def families(broker: Broker) -> Iterator[Family]:
    image, node_id = broker.image, broker.node_id
    held = count(image, node_id, broker.config.min_insync_replicas)
    offline = sum(
        broker.partitions.is_offline(topic.name, each.index)
        for topic in image.topics.values()
        for each in topic.partitions
        if node_id in each.replicas
    )
    manager = "kafka_server_replicamanager"
    for name, help, value in HELD:
        yield gauge(f"{manager}_{name}", help, value(held))
    yield gauge(
        f"{manager}_offlinereplicacount", "Replicas here whose log directory has failed.", offline
    )
    yield _by_partition(image, node_id)
    yield from _logs(broker)


def count(image: Image, node_id: int, min_isr_default: int) -> Held:
    replicas = led = under = under_min = at_min = reassigning = 0
    for topic in image.topics.values():
        min_isr = int(topic.configs.get(MIN_ISR, min_isr_default))
        for each in topic.partitions:
            if node_id in each.replicas:
                replicas += 1
            if each.leader != node_id:
                continue
            led += 1
            in_sync = len(each.isr)
            under += is_under_replicated(each)
            under_min += in_sync < min(min_isr, len(each.replicas))
            at_min += in_sync == min_isr
            reassigning += each.reassigning
    return Held(replicas, led, under, under_min, at_min, reassigning)


def is_under_replicated(partition: Partition) -> bool:
    """One that is being moved needs as many as it shall have, not those that come in addition."""
    return len(partition.isr) < len(partition.replicas) - len(partition.adding)


def _by_partition(image: Image, node_id: int) -> Family:
    def samples() -> Iterator[Sample]:
        for topic in image.topics.values():
            for each in topic.partitions:
                if each.leader == node_id:
                    yield Sample(_labels(topic, each.index), int(is_under_replicated(each)))

    return Family(
        "kafka_cluster_partition_underreplicated",
        "gauge",
        "1 for a partition led here of which a replica is not in sync.",
        samples(),
    )


def _labels(topic: Topic, index: int) -> Labels:
    return {"topic": topic.name, "partition": str(index)}


def _logs(broker: Broker) -> Iterator[Family]:
    logs = [
        (each.log, {"topic": each.topic, "partition": str(each.index)})
        for each in broker.partitions
    ]
    for name, help, value in LOGS:
        samples = [Sample(labels, value(log)) for log, labels in logs]
        yield Family(f"kafka_log_log_{name}", "gauge", help, samples)
    yield gauge(
        "kafka_log_logmanager_offlinelogdirectorycount",
        "Log directories that have failed.",
        sum(each.offline for each in broker.store.dirs),
    )
    yield by_label(
        "kafka_log_logmanager_logdirectoryoffline",
        "gauge",
        "1 for a log directory that has failed.",
        "logDirectory",
        [(each.path, int(each.offline)) for each in broker.store.dirs],
    )
