"""ElectLeaders, reassignments and UnregisterBroker, through any broker of a cluster."""

from __future__ import annotations

from pathlib import Path

from cluster_brokers import Brokers, with_brokers

from ottla.cluster import layout
from ottla.cluster.store import ANY_VERSION, Put
from ottla.errors import ErrorCode
from ottla.wire.apis import ApiKey
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from ottla.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)

Codes = dict[tuple[str, int], int]


async def create(brokers: Brokers, *replicas: list[int]) -> None:
    assignments = [
        CreatableReplicaAssignment(replica, place) for replica, place in enumerate(replicas)
    ]
    topic = CreatableTopic(
        name="t", num_partitions=-1, replication_factor=-1, assignments=assignments
    )
    request = CreateTopicsRequest(topics=[topic], timeout=60_000)
    answer = await brokers.ask(1, request, ApiKey.CREATE_TOPICS, CreateTopicsResponse)
    assert not answer.topics[0].error_code
    await brokers.until(
        lambda: all("t" in broker.image.topics for broker in brokers.running.values())
    )


async def lead(brokers: Brokers, index: int, leader: int, isr: list[int]) -> None:
    """Sets the leaders."""
    epoch = brokers.partition(1, "t", index).leader_epoch + 1
    state = layout.dump_state(leader, epoch, isr, 1)
    await brokers[1]._meta_store.commit([Put(layout.state_key("t", index), state, ANY_VERSION)])
    await brokers.until(
        lambda: all(
            brokers.partition(number, "t", index).leader == leader for number in brokers.running
        )
    )


async def elect(
    brokers: Brokers,
    broker_id: int,
    places: list[TopicPartitions] | None,
    *,
    kind: int = 0,
    version: int = 2,
) -> tuple[int, Codes]:
    answer = await brokers.ask(
        broker_id,
        ElectLeadersRequest(kind, places, 5000),
        ApiKey.ELECT_LEADERS,
        ElectLeadersResponse,
        version=version,
    )
    codes = {
        (topic.topic, partition.partition_id): partition.error_code
        for topic in answer.replica_election_results
        for partition in topic.partition_result
    }
    return answer.error_code, codes


async def reassign(
    brokers: Brokers, broker_id: int, *wishes: tuple[int, list[int] | None], keep: bool = False
) -> dict[int, int]:
    topic = ReassignableTopic("t", [ReassignablePartition(*target) for target in wishes])
    answer = await brokers.ask(
        broker_id,
        AlterPartitionReassignmentsRequest(5000, not keep, [topic]),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        AlterPartitionReassignmentsResponse,
    )
    assert answer.error_code == 0
    return {
        partition.partition_index: partition.error_code
        for found in answer.responses
        for partition in found.partitions
    }


def test_preferred_leaders_are_elected_through_any_broker(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        await create(brokers, [2, 1], [1, 2], [2, 3])
        await lead(brokers, 0, 1, [1, 2])
        code, codes = await elect(brokers, 3, [TopicPartitions("t", [0, 1, 9])])
        assert code == 0
        assert codes == {
            ("t", 0): ErrorCode.NONE,
            ("t", 1): ErrorCode.ELECTION_NOT_NEEDED,
            ("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert brokers.partition(3).leader == 2  # as soon as the response has arrived
        assert await elect(brokers, 2, None) == (0, {})
        await brokers.crash(2)
        await brokers.until(lambda: brokers.partition(1).leader == 1)
        refused = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        assert await elect(brokers, 3, None, version=0) == (
            0,
            {("t", 0): refused, ("t", 2): refused},
        )

    with_brokers(tmp_path, scenario, auto_leader_rebalance_enable="false")


def test_elections_may_be_unclean_and_unknown_partitions_are_reported(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        await create(brokers, [2, 3])
        place = [TopicPartitions("t", [0])]
        assert await elect(brokers, 1, place, kind=1) == (
            0,
            {("t", 0): ErrorCode.ELECTION_NOT_NEEDED},
        )
        await brokers.crash(3)
        await brokers.until(lambda: brokers.partition(1).isr == (2,))
        await brokers.crash(2)
        await brokers.until(lambda: brokers.partition(1).leader == -1)
        await brokers.start(3)
        assert await elect(brokers, 3, place, kind=1) == (0, {("t", 0): 0})
        assert brokers.partition(3).isr == (3,)
        code, codes = await elect(brokers, 1, place, kind=7)
        assert code == ErrorCode.INVALID_REQUEST
        assert codes == {("t", 0): ErrorCode.INVALID_REQUEST}

    with_brokers(tmp_path, scenario)


def test_reassignments_are_started_listed_and_cancelled(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        # Broker 9 does not exist, and broker 3 must not catch up before the check.
        await create(brokers, [1, 2], [1, 2])
        await brokers.stop(3)
        await brokers.until(lambda: 3 not in brokers[2].image.brokers)
        codes = await reassign(brokers, 2, (0, [1, 3]), (1, None), (7, [1]))
        assert codes == {
            0: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            1: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
            7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert await reassign(brokers, 2, (0, [2])) == {0: 0}
        assert brokers.partition(2).replicas == (2,)  # at once, because no replica has to catch up
        codes = await reassign(brokers, 2, (1, [2]), keep=True)
        assert codes == {1: ErrorCode.INVALID_REPLICATION_FACTOR}

    with_brokers(tmp_path, scenario)


def test_any_broker_lists_ongoing_reassignments(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        await create(brokers, [2], [1])
        await brokers.crash(2)  # no replica can catch up
        await brokers.until(lambda: 2 not in brokers[3].image.brokers)
        assert await reassign(brokers, 3, (0, [1, 3])) == {0: 0}
        everything = ListPartitionReassignmentsRequest(topics=None)
        some = ListPartitionReassignmentsRequest(
            topics=[
                ListPartitionReassignmentsTopics("t", [0, 1, 5]),
                ListPartitionReassignmentsTopics("u", [0]),
            ]
        )
        for request in (everything, some):
            answer = await brokers.ask(
                3,
                request,
                ApiKey.LIST_PARTITION_REASSIGNMENTS,
                ListPartitionReassignmentsResponse,
            )
            (topic,) = answer.topics
            (found,) = topic.partitions
            assert (topic.name, found.partition_index) == ("t", 0)
            assert (found.replicas, found.adding_replicas) == ([1, 3, 2], [1, 3])
            assert found.removing_replicas == [2]
        assert await reassign(brokers, 1, (0, None)) == {0: 0}
        assert brokers.partition(1).replicas == (2,)

    with_brokers(tmp_path, scenario)


def test_brokers_are_unregistered_through_any_other(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        await brokers.crash(3)
        await brokers.until(lambda: 3 not in brokers[1].image.brokers)
        codes = []
        for broker_id in (2, 1):
            answer = await brokers.ask(
                broker_id,
                UnregisterBrokerRequest(3),
                ApiKey.UNREGISTER_BROKER,
                UnregisterBrokerResponse,
            )
            codes.append((answer.error_code, answer.error_message))
        assert codes == [
            (0, None),
            (ErrorCode.BROKER_ID_NOT_REGISTERED, "Broker ID 3 is not currently registered"),
        ]

    with_brokers(tmp_path, scenario)


def test_a_stopping_broker_moves_its_leaders_first(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        await create(brokers, [1, 2], [3, 1], [1, 3])
        await brokers.stop(1)  # the controller, too
        await brokers.until(lambda: brokers[2].image.controller_id in (2, 3))
        await brokers.until(lambda: brokers.partition(2, "t", 1).isr == (3,))
        assert [brokers.partition(2, "t", index).leader for index in range(3)] == [2, 3, 3]
        await brokers.start(1)
        assert [brokers.partition(1, "t", index).leader for index in range(3)] == [2, 3, 3]

    with_brokers(tmp_path, scenario)


def test_a_cluster_recovers_from_a_crash_of_all_brokers(tmp_path: Path) -> None:
    """A restarted broker leaves every ISR that has another member; the last member leads."""

    async def scenario(brokers: Brokers) -> None:
        await create(brokers, [1, 2, 3], [2, 3, 1], [3, 1, 2])
        for broker_id in brokers.ids:
            await brokers.crash(broker_id)
        for broker_id in brokers.ids:
            await brokers.start(broker_id)
        await brokers.until(
            lambda: all(
                brokers.partition(1, "t", index).leader in brokers.ids for index in range(3)
            )
        )
        await brokers.until(
            lambda: all(len(brokers.partition(1, "t", index).isr) == 3 for index in range(3))
        )

    with_brokers(tmp_path, scenario)


def test_a_partition_moves_with_its_records_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        await create(brokers, [1, 2])
        assert await reassign(brokers, 2, (0, [3, 2])) == {0: 0}
        await brokers.until(lambda: brokers.partition(1).replicas == (3, 2))
        assert set(brokers.partition(1).isr) == {2, 3}
        assert brokers.partition(1).leader in (2, 3)
        await brokers.until(lambda: not brokers[1].partitions.of_topic("t"))
        assert brokers[3].partitions.find("t", 0) is not None

    with_brokers(tmp_path, scenario)
