"""KIP-392: a consumer that names its rack is sent to a replica in that rack."""

from __future__ import annotations

from typing import Final

from ottla.cluster.image import MetadataImage
from ottla.config import ServerConfig
from ottla.replica.partition import Partition

RACK_AWARE: Final = "RackAwareReplicaSelector"  # of org.apache.kafka.common.replica
NO_REPLICA: Final = -1


def is_rack_aware(config: ServerConfig) -> bool:
    """True if `replica.selector.class` names Kafka's rack-aware selector."""
    name = config.replica_selector_class
    return name is not None and name.endswith(RACK_AWARE)


def preferred_replica(image: MetadataImage, partition: Partition, offset: int, rack: str) -> int:
    """The replica that this consumer should read from, or NO_REPLICA for the leader.

    The replica in the consumer's rack with the largest end offset, if it is in sync and has the
    fetch offset.
    """
    followers = partition.followers
    me = image.brokers.get(partition.node_id)
    if followers is None or not rack or me is None or me.rack == rack:
        return NO_REPLICA
    best, best_end = NO_REPLICA, -1
    for follower in followers:
        known = image.brokers.get(follower.broker_id)
        if known is None or known.rack != rack or follower.broker_id not in partition.isr:
            continue
        holds = 0 <= follower.start_offset <= offset <= follower.end_offset
        if holds and follower.end_offset > best_end:
            best, best_end = follower.broker_id, follower.end_offset
    return best
