"""Metrics of this broker's coordinators: groups, offsets, transactions; and of fetch sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.metrics import MetricFamily, Sample, by_label, gauge

if TYPE_CHECKING:
    from ottla.broker.parts import BrokerParts

KINDS = ("classic", "consumer", "share", "streams")


def coordinator_families(broker: BrokerParts) -> Iterator[MetricFamily]:
    shards = list(broker.groups.coordinator.shards.values())
    states = Counter(
        (group.kind, group.state_name) for shard in shards for group in shard.groups.values()
    )
    kinds: Counter[str] = Counter()
    for (kind, _), count in states.items():
        kinds[kind] += count
    yield by_label(
        "kafka_server_group_coordinator_metrics_group_count",
        "gauge",
        "Groups that this broker coordinates, by protocol.",
        "protocol",
        [(kind, kinds[kind]) for kind in KINDS],
    )
    yield MetricFamily(
        "ottla_groups",
        "gauge",
        "Groups that this broker coordinates, by protocol and state.",
        [
            Sample({"protocol": kind, "state": state}, count)
            for (kind, state), count in sorted(states.items())
        ],
    )
    yield gauge(
        "kafka_coordinator_group_groupmetadatamanager_numoffsets",
        "Committed offsets of the groups that this broker coordinates.",
        sum(
            len(partitions)
            for shard in shards
            for topics in shard.offsets.by_group.values()
            for partitions in topics.values()
        ),
    )
    yield from _transactions(broker)
    yield from _shares(broker)
    yield gauge(
        "kafka_server_fetchsessioncache_numincrementalfetchsessions",
        "Fetch sessions in the cache.",
        len(broker.fetch_sessions),
    )


def _transactions(broker: BrokerParts) -> Iterator[MetricFamily]:
    states = Counter(
        transaction.state.title
        for shard in broker.transactions.coordinator.shards.values()
        for transaction in shard.transactions.values()
    )
    yield by_label(
        "ottla_transactions",
        "gauge",
        "Transactional ids that this broker coordinates, by the state of their transaction.",
        "state",
        sorted(states.items()),
    )


def _shares(broker: BrokerParts) -> Iterator[MetricFamily]:
    """Metrics of share groups, reported by the leaders of the partitions that they read."""
    name, letters = "kafka_server_sharegroupmetrics_deadletterqueue", broker.shares.dead_letters
    yield by_label(
        f"{name}recordcount_total",
        "counter",
        "Dead letters that were written (KIP-1191).",
        "group",
        sorted(letters.written.items()),
    )
    yield by_label(
        f"{name}totalproducerequests_total",
        "counter",
        "Attempts to write a batch of dead letters.",
        "group",
        sorted(letters.attempts.items()),
    )
    yield by_label(
        f"{name}failedproducerequests_total",
        "counter",
        "Attempts to write a batch of dead letters that failed.",
        "group",
        sorted(letters.failures.items()),
    )
    yield by_label(
        "ottla_share_delayed_records",
        "gauge",
        "Records whose delivery is delayed by their header ottla.deliver.at.",
        "group",
        sorted(broker.shares.delayed_counts().items()),
    )
