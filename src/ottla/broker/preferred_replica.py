"""KIP-392: a consumer that says where it stands is sent to a replica in its rack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.replica.partition import Partition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

RACK_AWARE: Final = "RackAwareReplicaSelector"  # of org.apache.kafka.common.replica
NOBODY: Final = -1


def is_rack_aware(broker: Broker) -> bool:
    """Whether `replica.selector.class` names Kafka's selector by rack."""
    name = broker.config.replica_selector_class
    return name is not None and name.endswith(RACK_AWARE)


def preferred(broker: Broker, partition: Partition, offset: int, rack: str) -> int:
    """The replica that this consumer should read from, or NOBODY if that is us, its leader.

    Of those in its rack the one that is furthest; only replicas in sync that hold the offset.
    """
    followers = partition.followers
    me = broker.image.brokers.get(broker.node_id)
    if followers is None or not rack or me is None or me.rack == rack:
        return NOBODY
    best, best_end = NOBODY, -1
    for each in followers:
        known = broker.image.brokers.get(each.broker_id)
        if known is None or known.rack != rack or each.broker_id not in partition.isr:
            continue
        holds = 0 <= each.start_offset <= offset <= each.end_offset
        if holds and each.end_offset > best_end:
            best, best_end = each.broker_id, each.end_offset
    return best
