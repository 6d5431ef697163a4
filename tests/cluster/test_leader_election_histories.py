"""Random histories of a cluster: whatever fails, no election loses committed records.

For each partition the model keeps the replicas certain to have every committed record: the ISR at
each commit, and replicas that catch up with a leader. A crashed broker is no longer certain to have
them. Leaders act on images that may be old; the store refuses outdated changes.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from model_store import ModelStore

from ottla.cluster.image import NO_LEADER, MetadataImage, PartitionRegistration
from ottla.cluster.leader_election import (
    LeaderElectionType,
    alter_isr,
    broker_failed,
    broker_shutting_down,
    elect,
    rebalance,
    reconcile,
)
from ottla.cluster.reassignments import complete_reassignments, reassign
from ottla.cluster.store import Write
from ottla.errors import KafkaError

BROKERS = 4
PARTITIONS = ((1, 2, 3), (2, 3, 4), (3, 1), (4,))
brokers = st.integers(1, BROKERS)
indexes = st.integers(0, len(PARTITIONS) - 1)


@dataclass
class Intention:
    """A leader's ISR change on its way to the store."""

    index: int
    version: int
    writes: list[Write]
    added: int


class Histories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = ModelStore(BROKERS)
        self.world.topic("t", *PARTITIONS)
        self.sure = [set(replicas) for replicas in PARTITIONS]
        self.coming: set[int] = set()  # with a raised epoch, but not registered yet
        self.intentions: list[Intention] = []
        self.before: MetadataImage = self.world.image

    def commit(self, writes: list[Write]) -> None:
        self.world.commit(writes)
        self.check_step()

    def check_step(self) -> None:
        """A new leader has a new epoch, and an epoch has only one leader."""
        after = self.world.image
        for old, new in zip(
            self.before.topics["t"].partitions, after.topics["t"].partitions, strict=True
        ):
            if old.leader != new.leader:
                assert new.leader_epoch == old.leader_epoch + 1
            else:
                assert new.leader_epoch in (old.leader_epoch, old.leader_epoch + 1)
        self.before = after

    def partition(self, index: int) -> PartitionRegistration:
        return self.world.partition("t", index)

    # Brokers

    @precondition(lambda self: self.world.live)
    @rule(broker=brokers)
    def crash(self, broker: int) -> None:
        if broker in self.world.live:
            self.world.die(broker)
            self.check_step()
        self.doubt(broker)

    def doubt(self, broker: int) -> None:
        for index in range(len(PARTITIONS)):
            if self.partition(index).isr != (broker,):
                self.sure[index].discard(broker)

    @rule(broker=brokers)
    def begin_to_come_back(self, broker: int) -> None:
        if broker not in self.world.live and broker not in self.coming:
            self.world.count_up(broker)
            self.doubt(broker)
            self.commit(broker_failed(self.world.image, broker))
            self.coming.add(broker)

    @rule(broker=brokers)
    def come_back(self, broker: int) -> None:
        if broker in self.coming:
            self.coming.discard(broker)
            self.world.register(broker)
            self.check_step()

    @rule(broker=brokers)
    def stop_cleanly(self, broker: int) -> None:
        if broker in self.world.live:
            self.commit(broker_shutting_down(self.world.image, broker))
            self.commit(broker_failed(self.world.image, broker))
            self.world.die(broker)

    # The controller

    @rule()
    def look(self) -> None:
        self.commit(reconcile(self.world.image))
        self.commit(complete_reassignments(self.world.image, self.world.image.topics["t"]))
        self.commit(reconcile(self.world.image))
        assert reconcile(self.world.image) == []
        assert complete_reassignments(self.world.image, self.world.image.topics["t"]) == []
        for partition in self.world.image.topics["t"].partitions:
            if self.world.live & set(partition.isr):
                assert partition.leader in self.world.live

    @rule(index=indexes)
    def prefer(self, index: int) -> None:
        try:
            self.commit(elect(self.world.image, "t", index, LeaderElectionType.PREFERRED))
        except KafkaError:
            return
        assert self.partition(index).leader == self.partition(index).replicas[0]

    @rule()
    def balance(self) -> None:
        self.commit(rebalance(self.world.image, 0))

    @rule(
        index=indexes, replicas=st.none() | st.lists(brokers, min_size=1, max_size=3, unique=True)
    )
    def move(self, index: int, replicas: list[int] | None) -> None:
        writes, _ = reassign(self.world.image, "t", {index: replicas})
        self.commit(writes)

    # Leaders

    @rule(index=indexes)
    def commit_records(self, index: int) -> None:
        """The members of the ISR get them; a dead or fenced leader commits nothing."""
        partition = self.partition(index)
        if partition.leader in self.world.live:
            awaited = {
                intention.added
                for intention in self.intentions
                if intention.index == index and intention.version == partition.version
            }
            self.sure[index] = set(partition.isr) | (awaited & self.sure[index])

    @rule(index=indexes, broker=brokers)
    def intend_to_add(self, index: int, broker: int) -> None:
        partition = self.partition(index)
        live = self.world.live
        if broker in partition.isr or broker not in partition.replicas or broker not in live:
            return
        if partition.leader in live:
            epochs = {broker: self.world.image.brokers[broker].epoch}
            isr = (*partition.isr, broker)
            writes = alter_isr(self.world.image, "t", partition, isr, epochs)
            # From now on the leader waits for it, too (the maximal ISR): it has what is committed.
            self.sure[index].add(broker)
            self.intentions.append(Intention(index, partition.version, writes, broker))

    @rule(index=indexes, broker=brokers)
    def shrink(self, index: int, broker: int) -> None:
        partition = self.partition(index)
        if partition.leader in self.world.live - {broker} and broker in partition.isr:
            isr = [replica for replica in partition.isr if replica != broker]
            self.commit(alter_isr(self.world.image, "t", partition, isr, {}))

    @precondition(lambda self: self.intentions)
    @rule(data=st.data())
    def arrive(self, data: st.DataObject) -> None:
        intention = self.intentions.pop(data.draw(st.integers(0, len(self.intentions) - 1)))
        try:
            self.world.commit(intention.writes)
        except AssertionError:
            return  # too old
        self.check_step()

    # Invariants

    @invariant()
    def committed_records_are_safe(self) -> None:
        for index, partition in enumerate(self.world.image.topics["t"].partitions):
            assert partition.isr
            assert set(partition.isr) <= set(partition.replicas)
            if partition.leader != NO_LEADER:
                assert partition.leader in partition.isr
            # The last member may have crashed: no other replica is known to have more.
            alive = [replica for replica in partition.isr if replica in self.world.live]
            if len(partition.isr) > 1:
                assert set(alive) <= self.sure[index], (index, partition, self.sure[index])


Histories.TestCase.settings = settings(max_examples=50, stateful_step_count=50, deadline=None)
TestHistories = Histories.TestCase
