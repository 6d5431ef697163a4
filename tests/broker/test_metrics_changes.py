"""What is counted when one image of the cluster follows another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.broker.metrics.changes import Changes
from ottla.broker.metrics.partitions import Held, count
from ottla.cluster.image import Config, Image, Partition, Topic

ME = 1


def image(*partitions: Partition, controller_id: int = ME, **configs: str) -> Image:
    topic = Topic("t", b"t" * 16, partitions, Config(configs), 0)
    return Image(controller_id=controller_id, topics={"t": topic})


def partition(leader: int = ME, isr: tuple[int, ...] = (1, 2, 3), index: int = 0) -> Partition:
    return Partition(index, (1, 2, 3), leader, 0, isr, 0)


def counted(before: Partition, after: Partition, controller_id: int = ME) -> tuple[int, ...]:
    changes = Changes(ME, image(before, controller_id=controller_id))
    changes.apply(image(after, controller_id=controller_id))
    return changes.isr_shrinks, changes.isr_expands, changes.elections, changes.unclean_elections


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (partition(), partition(), (0, 0, 0, 0)),
        (partition(), partition(isr=(1, 2)), (1, 0, 0, 0)),
        (partition(isr=(1,)), partition(isr=(1, 2)), (0, 1, 0, 0)),
        (partition(leader=2), partition(leader=2, isr=(2,)), (0, 0, 0, 0)),  # another's to count
        (partition(leader=2), partition(leader=3, isr=(3,)), (0, 0, 1, 0)),
        (partition(leader=2, isr=(2,)), partition(leader=3, isr=(3,)), (0, 0, 1, 1)),
        (partition(leader=2, isr=(2,)), partition(leader=-1, isr=(2,)), (0, 0, 0, 0)),
    ],
)
def test_a_change_is_counted_by_whom_it_concerns(
    before: Partition, after: Partition, found: tuple[int, ...]
) -> None:
    assert counted(before, after) == found


def test_elections_are_the_controllers() -> None:
    after = partition(leader=3, isr=(3,))
    assert counted(partition(leader=2), after, controller_id=2) == (0, 0, 0, 0)


def test_new_topics_grown_topics_and_topics_made_anew_are_no_changes() -> None:
    changes = Changes(ME, Image(controller_id=ME))
    first = image(partition())
    changes.apply(first)
    changes.apply(image(partition(), partition(index=1, isr=(1,))))
    again = replace(first.topics["t"], id=b"u" * 16, partitions=(partition(isr=(1,)),))
    changes.apply(replace(first, topics={"t": again}))
    assert (changes.isr_shrinks, changes.isr_expands, changes.elections) == (0, 0, 0)


def test_partitions_are_counted_by_how_many_are_in_sync() -> None:
    world = image(
        partition(index=0),
        partition(index=1, isr=(1, 2)),
        partition(index=2, isr=(1,)),
        partition(index=3, leader=2, isr=(2,)),
        **{"min.insync.replicas": "2"},
    )
    assert count(world, ME, min_isr_default=1) == Held(
        replicas=4, led=3, under_replicated=2, under_min_isr=1, at_min_isr=1, reassigning=0
    )


def test_a_partition_that_moves_needs_as_many_as_it_shall_have() -> None:
    moving = replace(partition(isr=(1, 2)), replicas=(1, 2, 3), adding=(3,), removing=(2,))
    found = count(image(moving), ME, min_isr_default=1)
    assert (found.under_replicated, found.reassigning) == (0, 1)
