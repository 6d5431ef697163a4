"""The member of a sink's group: one worker has it, and the previous one cannot commit."""

from __future__ import annotations

import time

import pytest

from ottla.client.group_descriptions import GroupDescription
from ottla.client.record import TopicPartition
from ottla.connect.errors import ConnectException
from ottla.connect.run import connector_offsets, offset_committer, sink_group_member
from ottla.connect.run.offset_committer import OffsetCommitter
from ottla.connect.run.task_requests import TaskReport
from ottla.connect.run.worker_context import WorkerContext
from ottla.errors import ErrorCode, KafkaError
from ottla.testing import LocalCluster

WAIT_S_MAX = 240.0
CONFIG = {"connector.class": "connect_for_tests:Lines", "topics": "seats"}
WHERE = TopicPartition("seats", 0)


@pytest.fixture(scope="module", autouse=True)
def topic(broker: LocalCluster) -> None:
    broker.create_topic("seats", partitions=2)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_group_member, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(offset_committer, "COMMIT_RETRY_S", 0.05)


def committed(broker: LocalCluster, group: str) -> dict[TopicPartition, int]:
    with broker.admin() as admin:
        return {partition: at.offset for partition, at in admin.groups.offsets(group).items()}


def lost(committer: OffsetCommitter) -> str:
    deadline = time.monotonic() + WAIT_S_MAX
    while time.monotonic() < deadline:
        try:
            committer.check()
        except ConnectException as error:
            return str(error)
        time.sleep(0.01)
    raise AssertionError("it is still the member")


def test_a_fenced_worker_commits_nothing(broker: LocalCluster, worker: WorkerContext) -> None:
    zombie, heir = OffsetCommitter("zombie", worker), OffsetCommitter("zombie", worker)
    zombie.join(CONFIG)
    zombie.handle_reports([TaskReport(0, consumed={WHERE: 5})])
    assert committed(broker, "connect-zombie") == {WHERE: 5}
    heir.join(CONFIG)  # at once, without the zombie's consent
    heir.handle_reports([TaskReport(0, consumed={WHERE: 9})])
    zombie.handle_reports([TaskReport(0, consumed={WHERE: 6})])
    assert "another worker has taken over" in lost(zombie)
    zombie.leave()  # and leaves its successor alone
    heir.handle_reports([TaskReport(0, consumed={WHERE: 10})])
    heir.check()
    assert committed(broker, "connect-zombie") == {WHERE: 10}
    zombie.join(CONFIG)
    assert "another worker has taken over" in lost(heir)
    for member in (heir, zombie):
        member.leave()


def test_a_group_is_shown_as_one_of_consumers(broker: LocalCluster, worker: WorkerContext) -> None:
    committer = OffsetCommitter("shown", worker)
    committer.join(CONFIG)
    with broker.admin() as admin:
        (found,) = admin.groups.describe("connect-shown").values()
        assert isinstance(found, GroupDescription)
        (member,) = found.members
        assert (found.state, member.instance_id) == ("Stable", "connect-tests-shown")
        assert sorted(member.assignment) == [WHERE, TopicPartition("seats", 1)]
        broker.create_topic("seats-made-later")
        grown = TopicPartition("seats-made-later", 0)
        committer.handle_reports(
            [TaskReport(0, consumed={grown: 1})]
        )  # a topic that was not there at first
        (found,) = admin.groups.describe("connect-shown").values()
        assert isinstance(found, GroupDescription)
        assert grown in found.members[0].assignment
        committer.check()
        with pytest.raises(KafkaError):  # Kafka's tools change groups that are empty only
            admin.groups.alter_offsets("connect-shown", {WHERE: 0})
        committer.leave()
        (found,) = admin.groups.describe("connect-shown").values()
        assert isinstance(found, GroupDescription)
        assert not found.members


def test_altering_offsets_fences_the_member(broker: LocalCluster, worker: WorkerContext) -> None:
    committer = OffsetCommitter("altered", worker)
    committer.join(CONFIG)
    committer.handle_reports([TaskReport(0, consumed={WHERE: 7})])
    places = connector_offsets.connector_offsets("altered", CONFIG, worker)
    entry = {"partition": {"kafka_topic": "seats", "kafka_partition": 0}}
    places.alter([{**entry, "offset": {"kafka_offset": 2}}])
    committer.handle_reports([TaskReport(0, consumed={WHERE: 8})])
    assert "was fenced" in lost(committer)
    assert places.read() == [{**entry, "offset": {"kafka_offset": 2}}]
    committer.join(CONFIG)
    places.reset()
    assert places.read() == []
    committer.leave()


def test_a_failed_commit_is_retried(
    broker: LocalCluster, worker: WorkerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    committer = OffsetCommitter("again", worker)
    committer.join(CONFIG)
    with monkeypatch.context() as patched:
        patched.setattr(sink_group_member.GroupMember, "_connection", _nobody)
        committer.handle_reports([TaskReport(0, consumed={WHERE: 3})])
        assert committed(broker, "connect-again") == {}
    deadline = time.monotonic() + WAIT_S_MAX
    while committed(broker, "connect-again") != {WHERE: 3}:
        assert time.monotonic() < deadline
        committer.check()
    committer.leave()


def _nobody(member: object, patient: bool) -> object:
    raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the broker is away")


def test_two_connectors_may_share_a_group(broker: LocalCluster, worker: WorkerContext) -> None:
    config = {**CONFIG, "consumer.override.group.id": "shared"}
    one, two = OffsetCommitter("one", worker), OffsetCommitter("two", worker)
    one.join(config)
    two.join(config)  # once the first one has noticed
    for committer, at in ((one, 1), (two, 2)):
        deadline = time.monotonic() + WAIT_S_MAX
        committer.handle_reports([TaskReport(0, consumed={WHERE: at})])
        while committed(broker, "shared") != {WHERE: at}:
            assert time.monotonic() < deadline
            committer.check()
    for committer in (one, two):
        committer.leave()
