"""The guarantees of a replicated cluster, one function each: ClusterHistory in, violations out.

The guarantees of one broker (tests/delivery/delivery_checks.py: no acknowledged record is lost or
duplicated, transactions are atomic, observers see what was committed, ...) are checked on the log
that all brokers together have shown; those in this file compare the brokers with each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise

from chaos_history import FOLLOWING, ClusterHistory
from delivery_checks import SHOWN_MAX
from delivery_checks import violations as delivery_violations
from delivery_history import TopicPartitionKey
from delivery_log import Batch


def violations(history: ClusterHistory) -> list[str]:
    """All violations of this run."""
    found = delivery_violations(history)
    for check in CLUSTER:
        broken = list(check(history))
        found += broken[:SHOWN_MAX]
        if len(broken) > SHOWN_MAX:
            found.append(f"... and {len(broken) - SHOWN_MAX} more of that kind")
    return found


def acknowledged_records_are_on_every_replica(history: ClusterHistory) -> Iterator[str]:
    """After healing the ISR is complete, so every acknowledged record is on each disk."""
    for (broker, place), batches in history.replicas.items():
        stored = {record.offset: record.value for batch in batches for record in batch.records}
        for name, topic, partition, offset in history.entries("acked"):
            if (topic, partition) != place or offset is None:
                continue
            if stored.get(offset) != name.encode():
                yield (
                    f"{name} was acknowledged at {topic}-{partition}@{offset};"
                    f" broker {broker} has {stored.get(offset)!r} there"
                )


def an_offset_has_one_value(history: ClusterHistory) -> Iterator[str]:
    """An offset has the same record on every replica and in every poll."""
    first: dict[tuple[TopicPartitionKey, int], tuple[str, Batch]] = {}
    reported: set[tuple[TopicPartitionKey, int]] = set()
    for who, place, batch in _sightings(history):
        for offset in range(batch.base_offset, batch.last_offset + 1):
            before, known = first.setdefault((place, offset), (who, batch))
            if known == batch or (place, offset) in reported:
                continue
            reported.update(
                (place, offset) for offset in range(batch.base_offset, batch.last_offset + 1)
            )
            yield f"{place}@{offset}: {before} had {short(known)}, {who} had {short(batch)}"


def _sightings(history: ClusterHistory) -> Iterator[tuple[str, TopicPartitionKey, Batch]]:
    for poll in history.polls:
        yield f"broker {poll.broker} at {poll.at_s:.2f} s", poll.place, poll.batch
    for (broker, place), batches in history.replicas.items():
        for batch in batches:
            yield f"the disk of broker {broker}", place, batch


def what_was_polled_stays(history: ClusterHistory) -> Iterator[str]:
    """Readers get only committed records, and committed records are on every disk."""
    stored = {
        key: {batch.base_offset for batch in batches} for key, batches in history.replicas.items()
    }
    seen = {(poll.place, poll.batch.base_offset): poll for poll in history.polls}
    for (place, base), poll in seen.items():
        for (broker, where), bases in stored.items():
            if where == place and base not in bases:
                yield (
                    f"{place}@{base} was shown by broker {poll.broker} at {poll.at_s:.2f} s;"
                    f" broker {broker} does not have it"
                )


def replicas_are_alike(history: ClusterHistory) -> Iterator[str]:
    ends: dict[TopicPartitionKey, dict[int, int]] = defaultdict(dict)
    for (broker, place), batches in history.replicas.items():
        ends[place][broker] = batches[-1].last_offset + 1 if batches else 0
    for place, of_broker in ends.items():
        if len(set(of_broker.values())) > 1:
            yield f"{place} ends differently at each broker: {of_broker}"


def epochs_rise_along_the_log(history: ClusterHistory) -> Iterator[str]:
    for (broker, place), batches in history.replicas.items():
        for before, after in pairwise(batches):
            if after.leader_epoch < before.leader_epoch:
                yield (
                    f"{place} of broker {broker}: epoch {after.leader_epoch} at offset"
                    f" {after.base_offset} follows epoch {before.leader_epoch}"
                )


def an_epoch_has_one_leader(history: ClusterHistory) -> Iterator[str]:
    """An epoch has one leader: by who acted as the leader, and by the brokers' metadata."""
    leaders: dict[tuple[TopicPartitionKey, int], dict[int, float]] = defaultdict(dict)
    for led in history.leaderships:
        if led.broker >= 0:
            leaders[led.place, led.epoch].setdefault(led.broker, led.at_s)
    for (place, epoch), of_epoch in leaders.items():
        if len(of_epoch) > 1:
            yield f"{place} had several leaders in epoch {epoch} (broker: at): {of_epoch}"


def marks_never_go_back(history: ClusterHistory) -> Iterator[str]:
    """Marks never decrease: not in one life of a broker, nor from a leader to the next one.

    A former leader that does not know of its successor yet may still report old values. Its epoch
    is the lower one, so epochs are compared first, and times within an epoch.
    """
    lives: dict[tuple[TopicPartitionKey, str, int, int], list[tuple[float, int]]] = defaultdict(
        list
    )
    leaders: dict[tuple[TopicPartitionKey, str], list[tuple[int, float, int]]] = defaultdict(list)
    for mark in history.marks:
        lives[mark.place, mark.name, mark.broker, mark.life].append((mark.at_s, mark.value))
        if mark.epoch != FOLLOWING and mark.name in OF_THE_CLUSTER:
            leaders[mark.place, mark.name].append((mark.epoch, mark.at_s, mark.value))
    for (place, name, broker, life), values in lives.items():
        for (_, before), (at_s, after) in pairwise(sorted(values, key=lambda sample: sample[0])):
            if after < before:
                yield (
                    f"{place}: the {name} of broker {broker} (life {life}) went back"
                    f" from {before} to {after} at {at_s:.2f} s"
                )
    for (place, name), said in leaders.items():
        for (epoch, _, before), (later, at_s, after) in pairwise(sorted(said)):
            if after < before and later != epoch:
                yield (
                    f"{place}: the {name} went back from {before} in epoch {epoch}"
                    f" to {after} in epoch {later} at {at_s:.2f} s"
                )


# A new leader's high watermark may lag behind the last one's, and Fetch shows that; ListOffsets
# does not answer until it has caught up (KIP-207).
OF_THE_CLUSTER = frozenset({"end offset"})


def everything_converges(history: ClusterHistory) -> Iterator[str]:
    for healing in history.healings:
        if healing.took_s is None:
            yield (
                f"healed at {healing.at_s:.1f} s, and {healing.limit_s:.0f} s later not well:"
                f" {healing.what}"
            )


def short(batch: Batch) -> str:
    names = [record.value for record in batch.records][:2]
    where = f"{batch.base_offset}..{batch.last_offset} of epoch {batch.leader_epoch}"
    marker = "" if batch.marker is None else f", marker {batch.marker}"
    return f"[{where}, producer {batch.producer_id}{marker}: {names}]"


Check = Callable[[ClusterHistory], Iterator[str]]
CLUSTER: tuple[Check, ...] = (
    acknowledged_records_are_on_every_replica,
    an_offset_has_one_value,
    what_was_polled_stays,
    replicas_are_alike,
    epochs_rise_along_the_log,
    an_epoch_has_one_leader,
    marks_never_go_back,
    everything_converges,
)


def cluster_evidence(history: ClusterHistory) -> dict[str, int]:
    """How much of each kind these checks have examined: none of the counts may be 0."""
    return {
        "batches polled": len(history.polls),
        "brokers polled": len({poll.broker for poll in history.polls}),
        "batches on disks": sum(map(len, history.replicas.values())),
        "leaders seen to act": sum(not led.named for led in history.leaderships),
        "epochs": len({(led.place, led.epoch) for led in history.leaderships}),
        "marks": len(history.marks),
        "healings": len(history.healings),
    }
