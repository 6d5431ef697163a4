"""Several brokers on one store: exactly one is the controller, whatever fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from ottla.cluster import layout
from ottla.cluster.cluster_membership import ClusterMembership
from ottla.cluster.controlled_shutdown import (
    controlled_shutdown,
    leave_isrs_at_shutdown,
    leave_isrs_at_startup,
)
from ottla.cluster.controller import Controller
from ottla.cluster.controller_election import ControllerElection
from ottla.cluster.dead_brokers import unregister_dead_broker
from ottla.cluster.embedded import EmbeddedStore
from ottla.cluster.image import NO_LEADER, MetadataImage
from ottla.cluster.leader_election import LeaderElectionType, alter_isr
from ottla.cluster.metadata_cache import MetadataCache
from ottla.cluster.metadata_writer import MetadataWriter
from ottla.cluster.store import ANY_VERSION, Conflict, Put
from ottla.cluster.topics import TopicSpec
from ottla.config import Listener, ServerConfig
from ottla.errors import ErrorCode, KafkaError

PATIENCE_S = 60.0


class ElectionBroker:
    """The cluster parts of a broker."""

    def __init__(self, store: EmbeddedStore, broker_id: int, **configs: str) -> None:
        self.id = broker_id
        self.session = store.session()
        self.config = ServerConfig(
            {key.replace("_", "."): config for key, config in configs.items()}
        )
        self.metadata = MetadataCache(self.session)
        self.writer = MetadataWriter(self.session, self.metadata)
        self.now_ms = 0
        self.controller = Controller(
            self.session,
            self.metadata,
            self.writer,
            broker_id=broker_id,
            config=lambda: self.config,
        )
        self.election = ControllerElection(
            self.controller,
            self.metadata,
            broker_id=broker_id,
            config=lambda: self.config,
            now_ms=lambda: self.now_ms,
        )

    @property
    def image(self) -> MetadataImage:
        return self.metadata.image

    async def start(self) -> None:
        await self.metadata.start()
        await self.register()
        await self.election.start()

    async def register(self) -> None:
        self.membership = await ClusterMembership.register(
            self.session,
            self.metadata,
            broker_id=self.id,
            listeners=(Listener("PLAINTEXT", "127.0.0.1", 9092 + self.id, "PLAINTEXT"),),
            rack=None,
            now_ms=0,
            leave_isrs=lambda: leave_isrs_at_startup(self.writer, self.metadata, self.id),
        )

    async def shut_down(self) -> None:
        await controlled_shutdown(self.session, self.writer, self.metadata, self.membership.broker)

    async def stop(self) -> None:
        await self.shut_down()
        await leave_isrs_at_shutdown(self.writer, self.id)
        await self.election.stop()
        await self.membership.leave()
        await self.metadata.stop()
        await self.session.close()

    async def crash(self) -> None:
        await self.election.halt()
        await self.metadata.stop()
        await self.session.close()

    def state_of(self, index: int = 0) -> tuple[int, int, tuple[int, ...]]:
        partition = self.image.topics["t"].partitions[index]
        return partition.leader, partition.leader_epoch, partition.isr

    async def create(self, *replicas: tuple[int, ...]) -> None:
        spec = TopicSpec("t", assignment=dict(enumerate(replicas)))
        result = (await self.controller.create_topics([spec]))["t"]
        assert not isinstance(result, KafkaError), result


class ElectionCluster:
    def __init__(self, count: int = 3, **configs: str) -> None:
        self.store = EmbeddedStore(None)
        self.configs = configs
        self.members = {
            broker_id: ElectionBroker(self.store, broker_id, **configs)
            for broker_id in range(1, count + 1)
        }

    def __iter__(self) -> Iterator[ElectionBroker]:
        return iter(self.members.values())

    def __getitem__(self, broker_id: int) -> ElectionBroker:
        return self.members[broker_id]

    async def crash(self, broker_id: int) -> None:
        await self.members.pop(broker_id).crash()

    async def join(self, broker_id: int) -> ElectionBroker:
        member = self.members[broker_id] = ElectionBroker(self.store, broker_id, **self.configs)
        await member.start()
        return member

    @property
    def rulers(self) -> list[int]:
        return [member.id for member in self.members.values() if member.controller.active]


def run(
    scenario: Callable[[ElectionCluster], Awaitable[None]], count: int = 3, **configs: str
) -> None:
    async def session() -> None:
        house = ElectionCluster(count, **configs)
        for member in house.members.values():
            await member.start()
        await until(lambda: all(len(member.image.brokers) == count for member in house))
        await scenario(house)
        for member in house.members.values():
            await member.stop()
        await house.store.close()

    asyncio.run(session())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.002)


def test_the_first_broker_is_the_controller_and_the_others_see_it() -> None:
    async def scenario(house: ElectionCluster) -> None:
        assert house.rulers == [1]
        await until(lambda: all(member.image.controller_id == 1 for member in house))
        with pytest.raises(KafkaError) as caught:
            await house[2].create((1,))
        assert caught.value.code is ErrorCode.NOT_CONTROLLER

    run(scenario)


def test_another_controller_elects_leaders_after_a_death() -> None:
    async def scenario(house: ElectionCluster) -> None:
        await house[1].create((1, 2, 3), (3, 2, 1))
        await house.crash(1)
        await until(lambda: len(house.rulers) == 1 and house[2].state_of()[0] == 2)
        assert house[2].state_of(0) == (2, 1, (2, 3))
        assert house[2].state_of(1) == (3, 0, (3, 2))
        assert house[2].image.controller_epoch == 2

    run(scenario)


def test_a_controller_that_lost_its_key_takes_part_in_the_election_again() -> None:
    async def scenario(house: ElectionCluster) -> None:
        await house.store.delete(layout.CONTROLLER, version=ANY_VERSION)
        await until(lambda: len(house.rulers) == 1)
        first = house.rulers[0]
        await house.store.delete(layout.CONTROLLER, version=ANY_VERSION)
        await until(lambda: house[1].image.controller_epoch == 3 and len(house.rulers) == 1)
        assert first in house.members

    run(scenario)


def test_a_controller_that_restarts_before_its_session_expires_is_elected_again() -> None:
    async def scenario(house: ElectionCluster) -> None:
        old = house.members.pop(1)
        await old.election.halt()  # as after a kill: its session has not expired yet
        await house.store.delete(
            layout.broker_key(1), version=ANY_VERSION
        )  # as its next process does
        await house.join(1)
        assert house.rulers == [1]
        assert house[1].image.controller_epoch == 2
        assert not old.controller.active
        await old.crash()

    run(scenario, 1)


def test_a_superseded_controller_changes_nothing() -> None:
    """It has lost its key without noticing, so the epoch check fails its commits."""

    async def scenario(house: ElectionCluster) -> None:
        entry = await house.store.get(layout.CONTROLLER_EPOCH)
        assert entry is not None
        await house.store.put(layout.CONTROLLER_EPOCH, b"99", version=entry.version)
        with pytest.raises(KafkaError) as caught:
            await house[1].create((1,))
        assert caught.value.code is ErrorCode.NOT_CONTROLLER
        assert "t" not in house[1].image.topics

    run(scenario, 1)


def test_a_superseded_controller_is_elected_again() -> None:
    """Another broker raised the epoch after it had lost the key, so a new election is needed."""

    async def scenario(house: ElectionCluster) -> None:
        entry = await house.store.get(layout.CONTROLLER_EPOCH)
        assert entry is not None
        await house.store.put(layout.CONTROLLER_EPOCH, b"99", version=entry.version)
        await until(lambda: house[1].image.controller_epoch == 100)
        await house[house.rulers[0]].create((1,))
        assert "t" in house[1].image.topics

    run(scenario)


def test_an_unregistered_controller_resigns() -> None:
    async def scenario(house: ElectionCluster) -> None:
        await house.store.delete(layout.broker_key(1), version=ANY_VERSION)
        await until(lambda: house.rulers in ([2], [3]))
        await house[1].register()

    run(scenario)


def test_a_restarted_broker_is_in_no_isr_until_it_has_caught_up() -> None:
    async def scenario(house: ElectionCluster) -> None:
        await house[1].create((2, 3), (3, 2))
        await house.crash(2)
        member = await house.join(2)  # before any broker noticed
        assert member.state_of(0) == (3, 1, (3,))
        assert member.state_of(1) == (3, 0, (3,))

    run(scenario)


def test_the_last_isr_member_leads_again_after_its_restart() -> None:
    async def scenario(house: ElectionCluster) -> None:
        await house[1].create((2, 3))
        await house.crash(3)
        await until(lambda: house[1].state_of() == (2, 0, (2,)))
        await house.crash(2)
        await until(lambda: house[1].state_of() == (NO_LEADER, 1, (2,)))
        await house.join(3)
        await house.join(2)
        await until(lambda: house[1].state_of() == (2, 2, (2,)))

    run(scenario)


def test_controlled_shutdown_moves_leadership() -> None:
    async def scenario(house: ElectionCluster) -> None:
        await house[1].create((1, 2), (2, 1))
        await house.members.pop(1).stop()
        await until(lambda: len(house.rulers) == 1)
        assert house[2].state_of(0) == (2, 1, (2,))
        assert house[2].state_of(1) == (2, 0, (2,))

    run(scenario)


def test_a_broker_in_controlled_shutdown_joins_no_isr_until_it_restarts() -> None:
    async def scenario(house: ElectionCluster) -> None:
        await house[1].create((1, 2), (2, 1))
        epoch = house[2].membership.broker.epoch
        before = house[1].image  # the image of a leader that has not noticed the shutdown
        await house[2].shut_down()
        assert [house[2].state_of(index) for index in range(2)] == [(1, 0, (1,)), (1, 1, (1,))]
        await until(lambda: house[1].image.brokers[2].shutting_down)
        assert 2 not in house[1].image.active_epochs()
        partition = house[1].image.topics["t"].partitions[0]
        with pytest.raises(Conflict, match="/brokers/epochs/2"):
            await house.store.commit(alter_isr(before, "t", partition, (1, 2), {2: epoch}))
        await house.members.pop(2).stop()
        await house.join(2)
        await until(lambda: house[1].image.active_epochs().get(2, 0) > epoch)
        epoch = house[2].membership.broker.epoch
        partition = house[1].image.topics["t"].partitions[0]
        writes = alter_isr(house[1].image, "t", partition, (1, 2), {2: epoch})
        await house.store.commit(writes)
        await until(lambda: house[1].state_of(0) == (1, 0, (1, 2)))

    run(scenario)


def test_a_leader_does_not_add_a_broker_whose_registration_is_gone() -> None:
    async def scenario(house: ElectionCluster) -> None:
        await house[1].create((1, 2))
        await house.crash(2)
        await until(lambda: house[1].state_of() == (1, 0, (1,)))
        partition = house[1].image.topics["t"].partitions[0]
        with pytest.raises(Conflict, match="/brokers/ids/2"):
            await house.store.commit(alter_isr(house[1].image, "t", partition, (1, 2), {2: 1}))

    run(scenario)


def test_a_stopping_process_leaves_its_successor_alone() -> None:
    """Its session expired, and another process has registered under its id since."""

    async def scenario(house: ElectionCluster) -> None:
        await house[1].create((1, 2))
        old = house.members.pop(2)
        await old.election.halt()
        await house.store.delete(layout.broker_key(2), version=ANY_VERSION)
        await house.join(2)
        await old.shut_down()
        await until(lambda: 2 in house[1].image.active_epochs())
        assert not house[2].image.brokers[2].shutting_down
        await old.crash()

    run(scenario)


def test_a_broker_that_dies_during_shutdown_is_unregistered_at_once() -> None:
    async def scenario(house: ElectionCluster) -> None:
        await house[2].shut_down()
        await until(lambda: house[1].image.brokers[2].shutting_down)
        dead = house[1].image.brokers[2]
        assert await unregister_dead_broker(house[1].session, house[1].writer, dead)
        await until(lambda: 2 not in house[1].image.brokers)
        assert not await unregister_dead_broker(house[1].session, house[1].writer, dead)
        await house[2].register()
        assert not await unregister_dead_broker(house[1].session, house[1].writer, dead)
        assert house[2].image.brokers[2].epoch == dead.epoch + 2

    run(scenario)


def test_two_brokers_with_one_id_do_not_disturb_each_other() -> None:
    async def scenario(house: ElectionCluster) -> None:
        await house[1].create((2, 3))
        other = ElectionBroker(house.store, 2)
        await other.metadata.start()
        with pytest.raises(KafkaError) as caught:
            await other.register()
        assert caught.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
        await other.crash()
        assert house[1].state_of() == (2, 0, (2, 3))

    run(scenario)


def test_reassignments_complete_under_a_new_controller() -> None:
    async def scenario(house: ElectionCluster) -> None:
        await house[1].create((1, 2))
        results = await house[1].controller.reassign({"t": {0: (3, 2)}, "u": {0: (1,)}})
        assert results["t", 0] is None
        missing = results["u", 0]
        assert missing is not None
        assert missing.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await house.crash(1)
        await until(lambda: house[2].state_of() == (2, 1, (2,)))
        assert house[2].image.topics["t"].partitions[0].reassigning
        state = layout.dump_state(2, 1, (2, 3), 1)
        await house.store.commit([Put(layout.state_key("t", 0), state, ANY_VERSION)])
        await until(lambda: not house[2].image.topics["t"].partitions[0].reassigning)
        assert house[2].image.topics["t"].partitions[0].replicas == (3, 2)

    run(scenario)


def test_preferred_leaders_are_elected_on_request_and_automatically() -> None:
    async def scenario(house: ElectionCluster) -> None:
        ruler = house[1]
        await ruler.create((2, 1), (2, 1))
        for index in (0, 1):
            state = layout.dump_state(1, 0, (1, 2), 1)
            await house.store.commit([Put(layout.state_key("t", index), state, ANY_VERSION)])
        await until(lambda: ruler.state_of(1)[0] == 1)
        results = await ruler.controller.elect_leaders(
            [("t", 0), ("t", 7)], LeaderElectionType.PREFERRED
        )
        assert results["t", 0] is None
        assert results["t", 7] is not None
        assert ruler.state_of(0) == (2, 1, (1, 2))
        assert ruler.state_of(1) == (1, 0, (1, 2))
        ruler.now_ms = 300_000
        await until(lambda: ruler.state_of(1) == (2, 1, (1, 2)))

    run(scenario)


def test_rebalance_can_be_switched_off() -> None:
    async def scenario(house: ElectionCluster) -> None:
        await house[1].create((2, 1))
        state = layout.dump_state(1, 0, (1, 2), 1)
        await house.store.commit([Put(layout.state_key("t", 0), state, ANY_VERSION)])
        house[1].now_ms = 900_000
        await asyncio.sleep(0.05)
        assert house[1].state_of() == (1, 0, (1, 2))

    run(scenario, auto_leader_rebalance_enable="false")


def test_unclean_elections_follow_the_config() -> None:
    async def scenario(house: ElectionCluster) -> None:
        await house[1].create((2, 3))
        await house.crash(3)
        await until(lambda: house[1].state_of() == (2, 0, (2,)))
        await house.join(3)
        await house.crash(2)
        await until(lambda: house[1].state_of() == (3, 1, (3,)))

    run(scenario, unclean_leader_election_enable="true")


def test_an_unregistered_broker_disappears_or_registers_again() -> None:
    async def scenario(house: ElectionCluster) -> None:
        ruler = house[1].controller
        with pytest.raises(KafkaError) as caught:
            await ruler.unregister(9)
        assert caught.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED
        await ruler.unregister(3)
        await until(lambda: house[3].membership.ephemeral_key.lost.is_set())
        await house[3].register()
        assert house[3].image.brokers[3].epoch == 2
        await house.crash(2)
        await until(lambda: 2 not in house[1].image.brokers)
        await ruler.unregister(2)
        with pytest.raises(KafkaError):
            await ruler.unregister(2)

    run(scenario)


def test_many_partitions_are_reconciled_in_commits_of_bounded_size() -> None:
    async def scenario(house: ElectionCluster) -> None:
        await house[1].create(*[(2, 3)] * 1200)
        await house.crash(2)
        await until(lambda: house[1].state_of(1199) == (3, 1, (3,)))
        assert all(house[1].state_of(index) == (3, 1, (3,)) for index in range(1200))

    run(scenario)


def test_a_decision_is_retried_after_a_conflict_with_another_broker() -> None:
    async def scenario(house: ElectionCluster) -> None:
        await house[1].create((1, 2, 3))
        house[1].metadata.apply([])  # nothing: broker 1 gets the next change from the store only
        state = layout.dump_state(1, 0, (1, 3), 1)
        await house.store.commit([Put(layout.state_key("t", 0), state, ANY_VERSION)])
        results = await house[1].controller.reassign({"t": {0: (3, 1)}})  # no turn of the loop yet
        assert results["t", 0] is None
        assert house[1].state_of() == (1, 0, (1, 3))

    run(scenario)
