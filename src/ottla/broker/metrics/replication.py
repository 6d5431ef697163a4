"""Replication: how far followers are behind, as leaders see it, and what came from leaders."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.metrics import Family, Sample, by_label, counter
from ottla.replica.partition import Partition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def families(broker: Broker) -> Iterator[Family]:
    led = [each for each in broker.partitions if each.followers is not None]
    yield by_label(
        "kafka_server_replicafetchermanager_maxlag",
        "gauge",
        "Records that the slowest follower of a partition led here is behind.",
        "clientId",
        [("Replica", max((lag for each in led for _, lag in lags(each)), default=0))],
    )
    yield Family(
        "ottla_follower_lag",
        "gauge",
        "Records that a follower of a partition led here is behind its leader.",
        (
            Sample({"topic": each.topic, "partition": str(each.index), "follower": str(who)}, lag)
            for each in led
            for who, lag in lags(each)
        ),
    )
    yield counter(
        "kafka_server_brokertopicmetrics_replicationbytesin_total",
        "Bytes of record batches that came from leaders.",
        sum(each.following.bytes_taken for each in broker.replication.fetching),
    )


def lags(partition: Partition) -> Iterator[tuple[int, int]]:
    """Of each follower; one that has not fetched yet in this epoch has all of it to fetch."""
    log = partition.log
    for follower in partition.followers or ():
        end = follower.end_offset if follower.end_offset >= 0 else log.start_offset
        yield follower.broker_id, max(0, log.end_offset - end)
