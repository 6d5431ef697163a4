"""Leader election: pure functions from an image to the writes that change leaders and ISRs.

The rules are the same for all causes. Only a live member of the ISR may lead; the first one in the
order of the replicas is elected. The ISR loses its dead members, but never the last one, because
that one is known to have every committed record. With `unclean.leader.election.enable` a live
replica outside of the ISR is elected when no member is alive, and becomes the only member.

A new leader gets a new leader epoch. A change of the ISR alone does not raise the epoch: the leader
sees it by the state's version, which its own ISR changes name as the one they replace.

    replicas  isr    live   ->  leader  isr    epoch
    1 2 3     1 2 3  2 3        2       2 3    + 1     the leader, broker 1, is dead
    1 2 3     2 1 3  2 3        2       2 3            broker 1 is dead, broker 2 still leads
    1 2 3     1      2 3        none    1      + 1     no member is alive; unclean: 2, {2}
    1         1      -          1       1              no other replica: left as it is
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum

from ottla.cluster import layout
from ottla.cluster.image import NO_LEADER, MetadataImage, PartitionRegistration, TopicImage
from ottla.cluster.store import Check, Put, Write
from ottla.cluster.topics import dump_state
from ottla.config import ServerConfig, topic_config
from ottla.errors import ErrorCode, KafkaError

UNCLEAN = "unclean.leader.election.enable"
REBALANCE_AT_ONCE_MAX = 1000
"""Elections in one round of the automatic rebalance; Kafka's controller has the same limit."""

AllowsUnclean = Callable[[TopicImage], bool]


class LeaderElectionType(IntEnum):
    """The election types of ElectLeaders (KIP-460)."""

    PREFERRED = 0
    UNCLEAN = 1


def never_unclean(topic: TopicImage) -> bool:
    """No unclean elections."""
    return False


def unclean_by_config(config: ServerConfig) -> AllowsUnclean:
    """By the topic's own config, else by the broker's."""

    def allows(topic: TopicImage) -> bool:
        if UNCLEAN in topic.configs:
            return bool(topic_config(config, topic.configs)[UNCLEAN])
        return config.unclean_leader_election_enable

    return allows


def broker_failed(
    image: MetadataImage, broker_id: int, unclean: AllowsUnclean = never_unclean
) -> list[Write]:
    """A broker is dead, or restarted and may have lost records: it leads nothing, and leaves every
    ISR of which it is not the only member."""
    live = image.brokers.keys() - {broker_id}

    def without(partition: PartitionRegistration, allowed: bool) -> PartitionRegistration:
        if partition.leader != broker_id and broker_id not in partition.isr:
            return partition
        isr = tuple(replica for replica in partition.isr if replica != broker_id) or partition.isr
        return _reconciled(replace(partition, isr=isr), live, unclean=allowed)

    return _for_each(image, image.topics.values(), without, unclean)


def broker_shutting_down(image: MetadataImage, broker_id: int) -> list[Write]:
    """Controlled shutdown: other members of the ISRs are elected where this broker leads.

    It leaves all ISRs at once, so that no leader waits for it. Partitions that no other broker can
    lead keep it as their leader until it stops.
    """
    active = image.active_epochs().keys() - {broker_id}

    def handed_over(partition: PartitionRegistration, allowed: bool) -> PartitionRegistration:
        if broker_id not in partition.isr:
            return partition
        if partition.leader != broker_id:
            isr = tuple(replica for replica in partition.isr if replica != broker_id)
            return replace(partition, isr=isr) if isr else partition
        isr = tuple(replica for replica in partition.isr if replica in active)
        leader = _first_eligible(partition.replicas, isr)
        return partition if leader == NO_LEADER else _with_elected(partition, leader, isr)

    return _for_each(image, image.topics.values(), handed_over, never_unclean)


def replicas_failed(
    image: MetadataImage, broker_id: int, failed: Collection[tuple[str, int]]
) -> list[Write]:
    """A log directory of a live broker failed: other members of the ISRs are elected.

    Partitions without another live member are left as they are, until the directory is back.
    """
    writes: list[Write] = []
    live = image.brokers.keys() - {broker_id}
    for name in {name for name, _ in failed} & image.topics.keys():
        topic = image.topics[name]
        changed = []
        for partition in topic.partitions:
            isr = tuple(replica for replica in partition.isr if replica != broker_id)
            others = [replica for replica in isr if replica in live]
            if (name, partition.index) in failed and broker_id in partition.isr and others:
                changed.append(with_leader(replace(partition, isr=isr), live))
        writes.extend(state_writes(image, topic, changed))
    return writes


def reconcile(
    image: MetadataImage,
    unclean: AllowsUnclean = never_unclean,
    topics: Iterable[TopicImage] | None = None,
) -> list[Write]:
    """Elections and ISR changes that the set of live brokers requires, in these topics or all."""
    live = image.brokers.keys()

    def reconciled(partition: PartitionRegistration, allowed: bool) -> PartitionRegistration:
        return _reconciled(partition, live, unclean=allowed)

    return _for_each(
        image, image.topics.values() if topics is None else topics, reconciled, unclean
    )


def elect(image: MetadataImage, name: str, index: int, election: LeaderElectionType) -> list[Write]:
    """Elect a partition's leader on request (ElectLeaders); KafkaError if that is not needed or
    not possible."""
    topic, partition = find_partition(image, name, index)
    live = image.brokers.keys()
    if election is LeaderElectionType.PREFERRED:
        elected = _preferred(partition, live)
        refusal = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    else:
        elected = (
            _reconciled(partition, live, unclean=True) if partition.leader not in live else None
        )
        refusal = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    if elected is None:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed.")
    if elected.leader not in live:
        raise KafkaError(refusal, "No eligible leader is available for the partition.")
    return state_writes(image, topic, [elected])


def rebalance(image: MetadataImage, imbalance_percentage: int) -> list[Write]:
    """Elect the preferred leaders of brokers that lack more than `imbalance_percentage` of the
    partitions they should lead. Partitions that are being reassigned are left alone."""
    not_led: dict[int, list[tuple[TopicImage, PartitionRegistration]]] = {}
    led: dict[int, int] = {}
    for topic in image.topics.values():
        for partition in topic.partitions:
            preferred = partition.replicas[0]
            if partition.leader == preferred:
                led[preferred] = led.get(preferred, 0) + 1
            else:
                not_led.setdefault(preferred, []).append((topic, partition))
    writes: list[Write] = []
    for broker_id, lacking in not_led.items():
        total = len(lacking) + led.get(broker_id, 0)
        if broker_id not in image.brokers or len(lacking) * 100 <= imbalance_percentage * total:
            continue
        for topic, partition in lacking:
            elected = _preferred(partition, image.brokers.keys())
            if elected is not None and elected.leader == broker_id and not partition.reassigning:
                writes.extend(state_writes(image, topic, [elected]))
    return writes[:REBALANCE_AT_ONCE_MAX]


def alter_isr(
    image: MetadataImage,
    name: str,
    partition: PartitionRegistration,
    isr: Sequence[int],
    epochs: Mapping[int, int],
) -> list[Write]:
    """A leader changes the in-sync set of a partition that it leads.

    `epochs` has the broker epochs of the members that are added: the ones that caught up (KIP-841).
    A broker raises its epoch counter before it reads which ISRs it has to leave, both at startup
    and at shutdown. So either the raised counter fails this write, or the broker reads an image
    that includes it. The second check is on the registration: if the broker dies after this write,
    the controller sees that and removes it from the ISR.
    """
    assert partition.leader in isr, "a leader is always a member of the ISR"
    checks: list[Write] = []
    for broker_id, epoch in epochs.items():
        # The counter is written once per epoch: epoch 1 is version 0.
        checks.append(Check(layout.broker_epoch_key(broker_id), epoch - 1))
        checks.append(Check(layout.broker_key(broker_id), layout.EPHEMERAL_VERSION))
    changed = replace(partition, isr=tuple(isr))
    key = layout.state_key(name, partition.index)
    return [*checks, Put(key, dump_state(changed, image.controller_epoch), partition.version)]


def find_partition(
    image: MetadataImage, name: str, index: int
) -> tuple[TopicImage, PartitionRegistration]:
    """The partition; UNKNOWN_TOPIC_OR_PARTITION if there is none."""
    topic = image.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    if not 0 <= index < len(topic.partitions):
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}"
        )
    return topic, topic.partitions[index]


def state_writes(
    image: MetadataImage, topic: TopicImage, partitions: Iterable[PartitionRegistration]
) -> list[Write]:
    return [
        Put(
            layout.state_key(topic.name, partition.index),
            dump_state(partition, image.controller_epoch),
            partition.version,
        )
        for partition in partitions
    ]


def with_leader(partition: PartitionRegistration, live: Collection[int]) -> PartitionRegistration:
    """The partition with a leader from its ISR: the present one if possible, another, or none."""
    if partition.leader in partition.isr and partition.leader in live:
        return partition
    leader = _first_eligible(
        partition.replicas, [replica for replica in partition.isr if replica in live]
    )
    return (
        partition if leader == partition.leader else _with_elected(partition, leader, partition.isr)
    )


def _reconciled(
    partition: PartitionRegistration, live: Collection[int], *, unclean: bool
) -> PartitionRegistration:
    """HOT: runs for every partition of the cluster when a broker comes or goes."""
    if partition.leader in live and all(replica in live for replica in partition.isr):
        return partition
    if len(partition.replicas) == 1 and partition.leader == partition.replicas[0]:
        return partition  # no other replica; a new epoch when it returns would gain nothing
    isr = tuple(replica for replica in partition.isr if replica in live)
    if isr:
        return with_leader(replace(partition, isr=isr), live)
    if unclean:
        leader = _first_eligible(partition.replicas, live)
        if leader != NO_LEADER:
            return _with_elected(partition, leader, (leader,))
    return (
        partition
        if partition.leader == NO_LEADER
        else _with_elected(partition, NO_LEADER, partition.isr)
    )


def _preferred(
    partition: PartitionRegistration, live: Collection[int]
) -> PartitionRegistration | None:
    """Led by its first replica, or by none if that can't lead; None if it leads already."""
    preferred = partition.replicas[0]
    if partition.leader == preferred and preferred in live:
        return None
    if preferred in live and preferred in partition.isr:
        return _with_elected(partition, preferred, partition.isr)
    return replace(partition, leader=NO_LEADER)


def _first_eligible(replicas: Iterable[int], eligible: Collection[int]) -> int:
    return next((replica for replica in replicas if replica in eligible), NO_LEADER)


def _with_elected(
    partition: PartitionRegistration, leader: int, isr: Sequence[int]
) -> PartitionRegistration:
    assert leader == NO_LEADER or leader in isr
    epoch = partition.leader_epoch + 1
    return replace(partition, leader=leader, leader_epoch=epoch, isr=tuple(isr))


def _for_each(
    image: MetadataImage,
    topics: Iterable[TopicImage],
    change: Callable[[PartitionRegistration, bool], PartitionRegistration],
    unclean: AllowsUnclean,
) -> list[Write]:
    writes: list[Write] = []
    for topic in topics:
        allowed = unclean(topic)
        writes.extend(state_writes(image, topic, _changed(topic, change, allowed)))
    return writes


def _changed(
    topic: TopicImage,
    change: Callable[[PartitionRegistration, bool], PartitionRegistration],
    allowed: bool,
) -> Iterator[PartitionRegistration]:
    for partition in topic.partitions:
        if partition.version >= 0:
            after = change(partition, allowed)
            if after is not partition and after != partition:
                yield after
