"""Who leads a partition: pure functions from an image to the writes that elect.

The rules are the same whoever asks. Only a live member of the in-sync set may lead, the first one
in the order of the replicas; the set loses its dead members, but never its last one, because the
last one is known to have every committed record. With `unclean.leader.election.enable` a live
replica outside of the set may lead when nobody in it lives, and the set is then that replica alone.

A new leader means a new leader epoch. A change of the in-sync set alone does not: its leader learns
of it by the state's version, against which its own changes of the set are checked.

    replicas  isr    live   ->  leader  isr    epoch
    1 2 3     1 2 3  2 3        2       2 3    + 1     broker 1, which led, is gone
    1 2 3     2 1 3  2 3        2       2 3            broker 1 is gone, 2 leads already
    1 2 3     1      2 3        none    1      + 1     nobody in the set lives; unclean: 2, {2}
    1         1      -          1       1              nobody else could lead: left as it is
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum

from ottla.cluster import layout
from ottla.cluster.decisions import dump_state
from ottla.cluster.image import NO_LEADER, Image, Partition, Topic
from ottla.cluster.store import Check, Put, Write
from ottla.config import ServerConfig, topic_config
from ottla.errors import ErrorCode, KafkaError

UNCLEAN = "unclean.leader.election.enable"
REBALANCE_AT_ONCE_MAX = 1000
"""Leaders that move in one round of the automatic rebalance; Kafka's controller has that limit."""

AllowsUnclean = Callable[[Topic], bool]


class Election(IntEnum):
    """Kafka's two kinds (KIP-460)."""

    PREFERRED = 0
    UNCLEAN = 1


def never(topic: Topic) -> bool:
    """No unclean elections."""
    return False


def by_config(config: ServerConfig) -> AllowsUnclean:
    """As the topic's own setting says, or the brokers'."""

    def allows(topic: Topic) -> bool:
        if UNCLEAN in topic.configs:
            return bool(topic_config(config, topic.configs)[UNCLEAN])
        return config.unclean_leader_election_enable

    return allows


def broker_gone(image: Image, broker_id: int, unclean: AllowsUnclean = never) -> list[Write]:
    """A broker is dead, or has come back and doesn't know what it lost: it leads nothing, and is in
    no in-sync set of which it isn't the only member."""
    live = image.brokers.keys() - {broker_id}

    def without(partition: Partition, allowed: bool) -> Partition:
        if partition.leader != broker_id and broker_id not in partition.isr:
            return partition
        isr = tuple(each for each in partition.isr if each != broker_id) or partition.isr
        return _settled(replace(partition, isr=isr), live, unclean=allowed)

    return _for_each(image, image.topics.values(), without, unclean)


def broker_leaving(image: Image, broker_id: int) -> list[Write]:
    """A broker is about to stop: another member of the in-sync set leads what it led.

    It leaves all sets at once, so that no leader waits for it any more. What only it can lead it
    leads to its end.
    """
    active = image.active_epochs().keys() - {broker_id}

    def handed_over(partition: Partition, allowed: bool) -> Partition:
        if broker_id not in partition.isr:
            return partition
        if partition.leader != broker_id:
            isr = tuple(each for each in partition.isr if each != broker_id)
            return replace(partition, isr=isr) if isr else partition
        isr = tuple(each for each in partition.isr if each in active)
        leader = _first(partition.replicas, isr)
        return partition if leader == NO_LEADER else _led(partition, leader, isr)

    return _for_each(image, image.topics.values(), handed_over, never)


def replicas_failed(
    image: Image, broker_id: int, failed: Collection[tuple[str, int]]
) -> list[Write]:
    """A broker lives on without the disk of some partitions: others lead them, if they can.

    What only it has stays as it is, and is there again when the disk is.
    """
    writes: list[Write] = []
    live = image.brokers.keys() - {broker_id}
    for name in {name for name, _ in failed} & image.topics.keys():
        topic = image.topics[name]
        changed = []
        for partition in topic.partitions:
            isr = tuple(each for each in partition.isr if each != broker_id)
            others = [each for each in isr if each in live]
            if (name, partition.index) in failed and broker_id in partition.isr and others:
                changed.append(with_leader(replace(partition, isr=isr), live))
        writes.extend(state_writes(image, topic, changed))
    return writes


def settle(
    image: Image, unclean: AllowsUnclean = never, topics: Iterable[Topic] | None = None
) -> list[Write]:
    """Whatever the brokers that live and those that don't ask for, in these topics or in all."""
    live = image.brokers.keys()

    def settled(partition: Partition, allowed: bool) -> Partition:
        return _settled(partition, live, unclean=allowed)

    return _for_each(image, image.topics.values() if topics is None else topics, settled, unclean)


def elect(image: Image, name: str, index: int, election: Election) -> list[Write]:
    """Elect one partition's leader because somebody asked for it (ElectLeaders); KafkaError if
    there is no need, or no way."""
    topic, partition = find(image, name, index)
    live = image.brokers.keys()
    if election is Election.PREFERRED:
        elected = _preferred(partition, live)
        refusal = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    else:
        elected = _settled(partition, live, unclean=True) if partition.leader not in live else None
        refusal = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    if elected is None:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed.")
    if elected.leader not in live:
        raise KafkaError(refusal, "No eligible leader is available for the partition.")
    return state_writes(image, topic, [elected])


def rebalance(image: Image, imbalance_percentage: int) -> list[Write]:
    """Give leadership back to preferred leaders, of brokers which lack more than so many percent
    of what they should lead. What is being reassigned is left alone."""
    wanted: dict[int, list[tuple[Topic, Partition]]] = {}
    led: dict[int, int] = {}
    for topic in image.topics.values():
        for partition in topic.partitions:
            preferred = partition.replicas[0]
            if partition.leader == preferred:
                led[preferred] = led.get(preferred, 0) + 1
            else:
                wanted.setdefault(preferred, []).append((topic, partition))
    writes: list[Write] = []
    for broker_id, lacking in wanted.items():
        total = len(lacking) + led.get(broker_id, 0)
        if broker_id not in image.brokers or len(lacking) * 100 <= imbalance_percentage * total:
            continue
        for topic, partition in lacking:
            elected = _preferred(partition, image.brokers.keys())
            if elected is not None and elected.leader == broker_id and not partition.reassigning:
                writes.extend(state_writes(image, topic, [elected]))
    return writes[:REBALANCE_AT_ONCE_MAX]


def alter_isr(
    image: Image, name: str, partition: Partition, isr: Sequence[int], epochs: Mapping[int, int]
) -> list[Write]:
    """A leader changes the in-sync set of a partition that it leads.

    `epochs` has the broker epochs of the members that are added: which of their lives it was that
    caught up. A broker counts its epoch up before it looks which sets it has to leave, both when it
    comes to life and when it shuts down, so either the count fails this write, or that look finds
    what it wrote. The other check is that of the registration: the controller sees a broker that
    goes after this write, and takes it out of the set.
    """
    checks: list[Write] = []
    for broker_id, epoch in epochs.items():
        # Epochs count from 1, versions from 0.
        checks.append(Check(layout.broker_epoch_key(broker_id), epoch - 1))
        checks.append(Check(layout.broker_key(broker_id), layout.HELD_VERSION))
    changed = replace(partition, isr=tuple(isr))
    key = layout.state_key(name, partition.index)
    return [*checks, Put(key, dump_state(changed, image.controller_epoch), partition.version)]


def find(image: Image, name: str, index: int) -> tuple[Topic, Partition]:
    """The partition, or Kafka's refusal."""
    topic = image.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    if not 0 <= index < len(topic.partitions):
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}"
        )
    return topic, topic.partitions[index]


def state_writes(image: Image, topic: Topic, partitions: Iterable[Partition]) -> list[Write]:
    return [
        Put(
            layout.state_key(topic.name, each.index),
            dump_state(each, image.controller_epoch),
            each.version,
        )
        for each in partitions
    ]


def with_leader(partition: Partition, live: Collection[int]) -> Partition:
    """With a leader from the in-sync set: the one it has if it may lead, or another, or none."""
    if partition.leader in partition.isr and partition.leader in live:
        return partition
    leader = _first(partition.replicas, [each for each in partition.isr if each in live])
    return partition if leader == partition.leader else _led(partition, leader, partition.isr)


def _settled(partition: Partition, live: Collection[int], *, unclean: bool) -> Partition:
    """HOT: every partition of the cluster is looked at when a broker comes or goes."""
    if partition.leader in live and all(each in live for each in partition.isr):
        return partition
    if len(partition.replicas) == 1 and partition.leader == partition.replicas[0]:
        return partition  # nobody else could lead; it goes on when it is back
    isr = tuple(each for each in partition.isr if each in live)
    if isr:
        return with_leader(replace(partition, isr=isr), live)
    if unclean:
        leader = _first(partition.replicas, live)
        if leader != NO_LEADER:
            return _led(partition, leader, (leader,))
    return partition if partition.leader == NO_LEADER else _led(partition, NO_LEADER, partition.isr)


def _preferred(partition: Partition, live: Collection[int]) -> Partition | None:
    """Led by its first replica, or by nobody where that can't lead; None if it does already."""
    preferred = partition.replicas[0]
    if partition.leader == preferred and preferred in live:
        return None
    if preferred in live and preferred in partition.isr:
        return _led(partition, preferred, partition.isr)
    return replace(partition, leader=NO_LEADER)


def _first(replicas: Iterable[int], eligible: Collection[int]) -> int:
    return next((each for each in replicas if each in eligible), NO_LEADER)


def _led(partition: Partition, leader: int, isr: Sequence[int]) -> Partition:
    epoch = partition.leader_epoch + 1
    return replace(partition, leader=leader, leader_epoch=epoch, isr=tuple(isr))


def _for_each(
    image: Image,
    topics: Iterable[Topic],
    change: Callable[[Partition, bool], Partition],
    unclean: AllowsUnclean,
) -> list[Write]:
    writes: list[Write] = []
    for topic in topics:
        allowed = unclean(topic)
        writes.extend(state_writes(image, topic, _changed(topic, change, allowed)))
    return writes


def _changed(
    topic: Topic, change: Callable[[Partition, bool], Partition], allowed: bool
) -> Iterator[Partition]:
    for partition in topic.partitions:
        if partition.version >= 0:
            after = change(partition, allowed)
            if after is not partition and after != partition:
                yield after
