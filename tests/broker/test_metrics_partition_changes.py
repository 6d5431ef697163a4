"""Counts ISR changes and elections between metadata images."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.broker.metrics.partition_changes import PartitionChangeCounts
from ottla.broker.metrics.partitions import ReplicaCounts, count_replicas
from ottla.cluster.image import MetadataImage, PartitionRegistration, StoredConfig, TopicImage

ME = 1


def image(
    *partitions: PartitionRegistration, controller_id: int = ME, **configs: str
) -> MetadataImage:
    topic = TopicImage("t", b"t" * 16, partitions, StoredConfig(configs), 0)
    return MetadataImage(controller_id=controller_id, topics={"t": topic})


def partition(
    leader: int = ME, isr: tuple[int, ...] = (1, 2, 3), index: int = 0
) -> PartitionRegistration:
    return PartitionRegistration(index, (1, 2, 3), leader, 0, isr, 0)


def counted(
    before: PartitionRegistration, after: PartitionRegistration, controller_id: int = ME
) -> tuple[int, ...]:
    changes = PartitionChangeCounts(ME, image(before, controller_id=controller_id))
    changes.apply(image(after, controller_id=controller_id))
    return changes.isr_shrinks, changes.isr_expands, changes.elections, changes.unclean_elections


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (partition(), partition(), (0, 0, 0, 0)),
        (partition(), partition(isr=(1, 2)), (1, 0, 0, 0)),
        (partition(isr=(1,)), partition(isr=(1, 2)), (0, 1, 0, 0)),
        (
            partition(leader=2),
            partition(leader=2, isr=(2,)),
            (0, 0, 0, 0),
        ),  # counted by another broker
        (partition(leader=2), partition(leader=3, isr=(3,)), (0, 0, 1, 0)),
        (partition(leader=2, isr=(2,)), partition(leader=3, isr=(3,)), (0, 0, 1, 1)),
        (partition(leader=2, isr=(2,)), partition(leader=-1, isr=(2,)), (0, 0, 0, 0)),
    ],
)
def test_isr_changes_are_counted_by_the_leader(
    before: PartitionRegistration, after: PartitionRegistration, found: tuple[int, ...]
) -> None:
    assert counted(before, after) == found


def test_elections_are_counted_by_the_controller() -> None:
    after = partition(leader=3, isr=(3,))
    assert counted(partition(leader=2), after, controller_id=2) == (0, 0, 0, 0)


def test_new_grown_and_recreated_topics_are_no_changes() -> None:
    changes = PartitionChangeCounts(ME, MetadataImage(controller_id=ME))
    first = image(partition())
    changes.apply(first)
    changes.apply(image(partition(), partition(index=1, isr=(1,))))
    again = replace(first.topics["t"], id=b"u" * 16, partitions=(partition(isr=(1,)),))
    changes.apply(replace(first, topics={"t": again}))
    assert (changes.isr_shrinks, changes.isr_expands, changes.elections) == (0, 0, 0)


def test_partitions_are_counted_by_the_size_of_their_isr() -> None:
    world = image(
        partition(index=0),
        partition(index=1, isr=(1, 2)),
        partition(index=2, isr=(1,)),
        partition(index=3, leader=2, isr=(2,)),
        **{"min.insync.replicas": "2"},
    )
    assert count_replicas(world, ME, min_isr_default=1) == ReplicaCounts(
        replicas=4, led=3, under_replicated=2, under_min_isr=1, at_min_isr=1, reassigning=0
    )


def test_added_replicas_do_not_make_a_partition_under_replicated() -> None:
    moving = replace(partition(isr=(1, 2)), replicas=(1, 2, 3), adding=(3,), removing=(2,))
    found = count_replicas(image(moving), ME, min_isr_default=1)
    assert (found.under_replicated, found.reassigning) == (0, 1)
