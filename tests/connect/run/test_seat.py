"""A sink connector's seat in its group: one has it, and who had it before commits nothing."""

from __future__ import annotations

import time

import pytest

from ottla.client.describing import GroupDescription
from ottla.client.record import TopicPartition
from ottla.connect.errors import ConnectException
from ottla.connect.run import committing, offsets, seat
from ottla.connect.run.committing import Committing
from ottla.connect.run.orders import Report
from ottla.connect.run.worker import Worker
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
    monkeypatch.setattr(seat, "BEAT_S", 0.05)
    monkeypatch.setattr(committing, "AGAIN_S", 0.05)


def committed(broker: LocalCluster, group: str) -> dict[TopicPartition, int]:
    with broker.admin() as admin:
        return {each: at.offset for each, at in admin.groups.offsets(group).items()}


def lost(sitting: Committing) -> str:
    deadline = time.monotonic() + WAIT_S_MAX
    while time.monotonic() < deadline:
        try:
            sitting.check()
        except ConnectException as error:
            return str(error)
        time.sleep(0.01)
    raise AssertionError("it still has the seat")


def test_who_was_replaced_commits_nothing(broker: LocalCluster, worker: Worker) -> None:
    zombie, heir = Committing("zombie", worker), Committing("zombie", worker)
    zombie.begin(CONFIG)
    zombie.take([Report(0, consumed={WHERE: 5})])
    assert committed(broker, "connect-zombie") == {WHERE: 5}
    heir.begin(CONFIG)  # at once, and the zombie is not asked
    heir.take([Report(0, consumed={WHERE: 9})])
    zombie.take([Report(0, consumed={WHERE: 6})])
    assert "another worker has taken over" in lost(zombie)
    zombie.end()  # and does not take the heir along
    heir.take([Report(0, consumed={WHERE: 10})])
    heir.check()
    assert committed(broker, "connect-zombie") == {WHERE: 10}
    zombie.begin(CONFIG)
    assert "another worker has taken over" in lost(heir)
    for each in (heir, zombie):
        each.end()


def test_a_group_is_shown_as_one_of_consumers(broker: LocalCluster, worker: Worker) -> None:
    sitting = Committing("shown", worker)
    sitting.begin(CONFIG)
    with broker.admin() as admin:
        (found,) = admin.groups.describe("connect-shown").values()
        assert isinstance(found, GroupDescription)
        (member,) = found.members
        assert (found.state, member.instance_id) == ("Stable", "connect-tests-shown")
        assert sorted(member.assignment) == [WHERE, TopicPartition("seats", 1)]
        broker.create_topic("seats-made-later")
        grown = TopicPartition("seats-made-later", 0)
        sitting.take([Report(0, consumed={grown: 1})])  # a topic that was not there at first
        (found,) = admin.groups.describe("connect-shown").values()
        assert isinstance(found, GroupDescription)
        assert grown in found.members[0].assignment
        sitting.check()
        with pytest.raises(KafkaError):  # Kafka's tools change groups that are empty only
            admin.groups.alter_offsets("connect-shown", {WHERE: 0})
        sitting.end()
        (found,) = admin.groups.describe("connect-shown").values()
        assert isinstance(found, GroupDescription)
        assert not found.members


def test_altered_offsets_stay_whoever_is_still_there(broker: LocalCluster, worker: Worker) -> None:
    sitting = Committing("altered", worker)
    sitting.begin(CONFIG)
    sitting.take([Report(0, consumed={WHERE: 7})])
    places = offsets.of("altered", CONFIG, worker)
    entry = {"partition": {"kafka_topic": "seats", "kafka_partition": 0}}
    places.alter([{**entry, "offset": {"kafka_offset": 2}}])
    sitting.take([Report(0, consumed={WHERE: 8})])
    assert "fenced out" in lost(sitting)
    assert places.read() == [{**entry, "offset": {"kafka_offset": 2}}]
    sitting.begin(CONFIG)
    places.reset()
    assert places.read() == []
    sitting.end()


def test_what_could_not_be_committed_is_tried_again(
    broker: LocalCluster, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    sitting = Committing("again", worker)
    sitting.begin(CONFIG)
    with monkeypatch.context() as patched:
        patched.setattr(seat.GroupMember, "_line", _nobody)
        sitting.take([Report(0, consumed={WHERE: 3})])
        assert committed(broker, "connect-again") == {}
    deadline = time.monotonic() + WAIT_S_MAX
    while committed(broker, "connect-again") != {WHERE: 3}:
        assert time.monotonic() < deadline
        sitting.check()
    sitting.end()


def _nobody(member: object, patient: bool) -> object:
    raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the broker is away")


def test_two_connectors_may_share_a_group(broker: LocalCluster, worker: Worker) -> None:
    config = {**CONFIG, "consumer.override.group.id": "shared"}
    one, two = Committing("one", worker), Committing("two", worker)
    one.begin(config)
    two.begin(config)  # when the first one has heard of it
    for each, at in ((one, 1), (two, 2)):
        deadline = time.monotonic() + WAIT_S_MAX
        each.take([Report(0, consumed={WHERE: at})])
        while committed(broker, "shared") != {WHERE: at}:
            assert time.monotonic() < deadline
            each.check()
    for each in (one, two):
        each.end()
