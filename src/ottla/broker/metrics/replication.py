"""Metrics of replication: the lag of followers, as leaders see it, and bytes fetched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.metrics import MetricFamily, Sample, by_label, counter
from ottla.replica.partition import Partition

if TYPE_CHECKING:
    from ottla.broker.parts import BrokerParts


def replication_families(broker: BrokerParts) -> Iterator[MetricFamily]:
    led = [partition for partition in broker.partitions if partition.followers is not None]
    yield by_label(
        "kafka_server_replicafetchermanager_maxlag",
        "gauge",
        "The largest lag, in records, of a follower of a partition led here.",
        "clientId",
        [("Replica", max((lag for partition in led for _, lag in lags(partition)), default=0))],
    )
    yield MetricFamily(
        "ottla_follower_lag",
        "gauge",
        "Lag, in records, of a follower of a partition led here.",
        (
            Sample(
                {"topic": partition.topic, "partition": str(partition.index), "follower": str(who)},
                lag,
            )
            for partition in led
            for who, lag in lags(partition)
        ),
    )
    yield counter(
        "kafka_server_brokertopicmetrics_replicationbytesin_total",
        "Bytes of record batches fetched from leaders.",
        sum(fetcher.leader_fetcher.bytes_taken for fetcher in broker.replication.fetchers),
    )


def lags(partition: Partition) -> Iterator[tuple[int, int]]:
    """(follower, lag); a follower that has not fetched in this epoch lags by the whole log."""
    log = partition.log
    for follower in partition.followers or ():
        end = follower.end_offset if follower.end_offset >= 0 else log.start_offset
        yield follower.broker_id, max(0, log.end_offset - end)
