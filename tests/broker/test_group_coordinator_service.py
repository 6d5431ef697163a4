"""Groups on a real broker, without sockets: the log, the timer, and restarts."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.broker import coordinator_service
from ottla.broker.broker import Broker
from ottla.broker.client_session import ClientSession
from ottla.broker.dispatch import ROUTES
from ottla.broker.internal_topic import InternalTopic
from ottla.broker.request_context import RequestContext
from ottla.cluster.topics import TopicSpec
from ottla.config import ServerConfig
from ottla.coordinator.group_coordinator import GroupCoordinator
from ottla.coordinator.records import OFFSETS_TOPIC, partition_for
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import APIS, ApiKey
from ottla.wire.fields import Writer
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

SETTINGS = {"offsets.topic.num.partitions": "5", "group.initial.rebalance.delay.ms": "0"}


class Client:
    """Calls handlers with requests encoded in the client's version."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.session = ClientSession(listener="PLAINTEXT", client_host="127.0.0.1", client_port=1)

    async def ask(self, key: ApiKey, request: Any, version: int | None = None) -> Any:
        route, api = ROUTES[key], APIS[key]
        version = route.version_max if version is None else version
        now_ms = self.broker.clock.now_ms()
        context = RequestContext(self.broker, self.session, version, "client", now_ms)
        answer = route.handle(context, through_bytes(request, api.request, version))
        if inspect.isawaitable(answer):
            answer = await answer
        return through_bytes(answer, api.response, version)

    async def join(self, group: str, version: int = 3) -> tuple[str, int]:
        request = JoinGroupRequest(
            group, 10_000, 10_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")]
        )
        joined = await self.ask(ApiKey.JOIN_GROUP, request, version)
        assert joined.error_code == 0
        return joined.member_id, joined.generation_id

    async def sync(self, group: str, member_id: str, generation: int) -> Any:
        assignment = SyncGroupRequestAssignment(member_id, b"all of it")
        request = SyncGroupRequest(
            group, generation, member_id, None, "consumer", "range", [assignment]
        )
        return await self.ask(ApiKey.SYNC_GROUP, request)

    async def commit(
        self, group: str, offset: int, partition: int = 0, version: int = 9, **member: Any
    ) -> int:
        topic_id = self.broker.image.topics["t"].id
        partitions = [OffsetCommitRequestPartition(partition, offset, 0, "m")]
        topic = OffsetCommitRequestTopic("t", topic_id, partitions)
        request = OffsetCommitRequest(group, topics=[topic], **member)
        response = await self.ask(ApiKey.OFFSET_COMMIT, request, version)
        return int(response.topics[0].partitions[0].error_code)

    async def committed(self, group: str) -> dict[int, int]:
        asked = [OffsetFetchRequestGroup(group, topics=None)]
        response = await self.ask(ApiKey.OFFSET_FETCH, OffsetFetchRequest(groups=asked), 9)
        assert response.groups[0].error_code == 0
        return {
            partition.partition_index: partition.committed_offset
            for topic in response.groups[0].topics
            for partition in topic.partitions
        }


def through_bytes(message: Any, kind: Any, version: int) -> Any:
    writer = Writer()
    message.write(writer, version)
    data = b"".join(bytes(part) for part in writer.finish())  # type: ignore[arg-type]
    decoded, end = kind.read(data, 0, version)
    assert end == len(data)
    return decoded


def run(
    path: Path, *acts: Callable[[Client], Awaitable[None]], topic: bool = True, **more: str
) -> None:
    """Runs the acts one after another; the broker restarts between them."""

    async def play() -> None:
        for number, act in enumerate(acts):
            settings = {k.replace("_", "."): v for k, v in more.items()}
            config = ServerConfig(
                {
                    "log.dirs": str(path),
                    "listeners": "PLAINTEXT://127.0.0.1:0",
                    **SETTINGS,
                    **settings,
                }
            )
            broker = Broker(config)
            await broker.start()
            try:
                client = Client(broker)
                if number == 0 and topic:
                    await broker.controller.create_topics([TopicSpec("t", 3)])
                    await client.ask(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest("g"), 0)
                await act(client)
            finally:
                await broker.stop()

    asyncio.run(play())


@pytest.mark.parametrize("version", range(7))
def test_the_first_search_for_a_coordinator_creates_the_topic(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        listing = await client.ask(ApiKey.LIST_GROUPS, ListGroupsRequest())
        assert (listing.error_code, listing.groups) == (0, [])
        request = FindCoordinatorRequest("g", coordinator_keys=["g", "h"])
        found = await client.ask(ApiKey.FIND_COORDINATOR, request, version)
        for coordinator in [found] if version < 4 else found.coordinators:
            assert coordinator.error_code == 0
            assert coordinator.node_id == client.broker.node_id
            assert (coordinator.host, coordinator.port) == ("127.0.0.1", client.broker.port)
        topic = client.broker.image.topics[OFFSETS_TOPIC]
        assert len(topic.partitions) == 5
        assert topic.configs["cleanup.policy"] == "compact"

    run(tmp_path, act, topic=False)


def test_find_coordinator_handles_other_key_types(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        transactions = FindCoordinatorRequest(key_type=1, coordinator_keys=["t"])
        found = await client.ask(ApiKey.FIND_COORDINATOR, transactions)
        assert found.coordinators[0].node_id == client.broker.node_id
        shares = FindCoordinatorRequest(key_type=2, coordinator_keys=["s"])
        found = await client.ask(ApiKey.FIND_COORDINATOR, shares)
        assert found.coordinators[0].error_code == ErrorCode.INVALID_REQUEST
        assert found.coordinators[0].node_id == -1

    run(tmp_path, act)


def test_a_group_survives_a_restart(tmp_path: Path) -> None:
    member: dict[str, Any] = {}

    async def before(client: Client) -> None:
        member_id, generation = await client.join("g")
        assert (await client.sync("g", member_id, generation)).assignment == b"all of it"
        member.update(member_id=member_id, generation_id_or_member_epoch=generation)
        assert await client.commit("g", 41, **member) == 0
        assert await client.commit("g", 42, **member) == 0
        assert await client.commit("simple", 7, partition=2) == 0

    async def after(client: Client) -> None:
        assert await client.committed("g") == {0: 42}
        assert await client.committed("simple") == {2: 7}
        generation = member["generation_id_or_member_epoch"]
        beat = HeartbeatRequest("g", generation, member["member_id"])
        assert (await client.ask(ApiKey.HEARTBEAT, beat)).error_code == 0
        described = await client.ask(
            ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest(["g"], include_authorized_operations=True)
        )
        (group,) = described.groups
        assert (group.group_state, group.protocol_data) == ("Stable", "range")
        assert group.members[0].client_host == "/127.0.0.1"
        assert group.authorized_operations > 0
        leaving = LeaveGroupRequest("g", members=[MemberIdentity(member["member_id"])])
        assert (await client.ask(ApiKey.LEAVE_GROUP, leaving)).members[0].error_code == 0

    async def at_last(client: Client) -> None:
        listing = await client.ask(ApiKey.LIST_GROUPS, ListGroupsRequest(["Empty"]))
        assert sorted(group.group_id for group in listing.groups) == ["g", "simple"]
        deletion = DeleteGroupsRequest(["g", "simple", "x"])
        results = (await client.ask(ApiKey.DELETE_GROUPS, deletion)).results
        assert {result.group_id: result.error_code for result in results} == {
            "g": 0,
            "simple": 0,
            "x": ErrorCode.GROUP_ID_NOT_FOUND,
        }

    async def nothing(client: Client) -> None:
        assert (await client.ask(ApiKey.LIST_GROUPS, ListGroupsRequest())).groups == []
        assert await client.committed("g") == {}

    run(tmp_path, before, after, at_last, nothing)


def test_a_join_waits_for_the_timer(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        joining = asyncio.ensure_future(client.join("g"))
        await asyncio.sleep(0)
        assert not joining.done()
        assert (await joining)[1] == 1

    run(tmp_path, act, group_initial_rebalance_delay_ms="20")


def test_large_logs_are_loaded_between_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def before(client: Client) -> None:
        for offset in range(30):
            assert await client.commit("g", offset, partition=offset % 3) == 0
        monkeypatch.setattr(InternalTopic, "load_at_once_bytes_max", -1)

    async def after(client: Client) -> None:
        code = await client.commit("g", 99)
        assert code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        while code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            await asyncio.sleep(0)
            code = await client.commit("g", 99)
        assert await client.committed("g") == {0: 99, 1: 28, 2: 29}

    run(tmp_path, before, after, offsets_load_buffer_size="200")


def test_the_topic_may_be_deleted_while_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def before(client: Client) -> None:
        for offset in range(30):
            assert await client.commit("g", offset, partition=offset % 3) == 0
        monkeypatch.setattr(InternalTopic, "load_at_once_bytes_max", -1)

    async def after(client: Client) -> None:
        await asyncio.sleep(0)  # the load has begun
        assert await client.commit("g", 99) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await client.broker.controller.delete_topics([OFFSETS_TOPIC])
        for _ in range(40):
            await asyncio.sleep(0)
        assert not any(log_dir.offline for log_dir in client.broker.store.dirs)
        assert await client.commit("g", 99) == ErrorCode.NOT_COORDINATOR

    run(tmp_path, before, after, offsets_load_buffer_size="200")
    assert [record for record in caplog.records if record.name == "asyncio"] == []


def test_partitions_that_do_not_exist_are_refused_and_the_others_committed(
    tmp_path: Path,
) -> None:
    async def act(client: Client) -> None:
        partitions = [OffsetCommitRequestPartition(index, 5) for index in (0, 9, 1)]
        known = OffsetCommitRequestTopic("t", partitions=partitions)
        unknown = OffsetCommitRequestTopic("u", partitions=partitions[:1])
        request = OffsetCommitRequest("g", topics=[unknown, known])
        response = await client.ask(ApiKey.OFFSET_COMMIT, request, 9)
        reply = {
            (topic.name, partition.partition_index): partition.error_code
            for topic in response.topics
            for partition in topic.partitions
        }
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert reply == {("u", 0): missing, ("t", 0): 0, ("t", 1): 0, ("t", 9): missing}
        assert await client.committed("g") == {0: 5, 1: 5}
        only_unknown = OffsetCommitRequest("h", topics=[unknown])
        response = await client.ask(ApiKey.OFFSET_COMMIT, only_unknown, 9)
        assert response.topics[0].partitions[0].error_code == missing

    run(tmp_path, act)


def test_topics_by_id(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        assert await client.commit("g", 5, version=10) == 0
        topic_id = client.broker.image.topics["t"].id
        other = bytes(range(16))
        partitions = [OffsetCommitRequestPartition(0, 5)]
        unknown = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("", other, partitions)])
        response = await client.ask(ApiKey.OFFSET_COMMIT, unknown, 10)
        assert response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
        asked = [
            OffsetFetchRequestTopics("", topic_id, [0, 1]),
            OffsetFetchRequestTopics("", other, [0]),
        ]
        groups = [OffsetFetchRequestGroup("g", topics=asked), OffsetFetchRequestGroup("g")]
        response = await client.ask(ApiKey.OFFSET_FETCH, OffsetFetchRequest(groups=groups), 10)
        reply = [
            [
                (topic.topic_id, partition.committed_offset, partition.error_code)
                for topic in group.topics
                for partition in topic.partitions
            ]
            for group in response.groups
        ]
        unknown_id = (other, -1, ErrorCode.UNKNOWN_TOPIC_ID)
        assert reply == [[(topic_id, 5, 0), (topic_id, -1, 0), unknown_id], [(topic_id, 5, 0)]]

    run(tmp_path, act)


@pytest.mark.parametrize("version", range(1, 8))
def test_offset_fetch_serves_single_group_versions(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.commit("g", 5)
        request = OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", [0, 1])])
        response = await client.ask(ApiKey.OFFSET_FETCH, request, version)
        partitions = response.topics[0].partitions
        assert [(p.committed_offset, p.metadata) for p in partitions] == [(5, "m"), (-1, "")]
        if version >= 2:
            every = await client.ask(ApiKey.OFFSET_FETCH, OffsetFetchRequest("g", None), version)
            assert len(every.topics[0].partitions) == 1

    run(tmp_path, act)


def test_offsets_are_deleted_one_by_one_and_with_their_topic(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        for partition in range(3):
            await client.commit("g", 5, partition=partition)
        partitions = [OffsetDeleteRequestPartition(index) for index in (0, 9)]
        topics = [OffsetDeleteRequestTopic(name, partitions) for name in ("t", "u")]
        request = OffsetDeleteRequest("g", topics)
        response = await client.ask(ApiKey.OFFSET_DELETE, request)
        reply = {
            (topic.name, partition.partition_index): partition.error_code
            for topic in response.topics
            for partition in topic.partitions
        }
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert reply == {("t", 0): 0, ("t", 9): missing, ("u", 0): missing, ("u", 9): missing}
        assert await client.committed("g") == {1: 5, 2: 5}
        await client.broker.controller.delete_topics(["t"])
        assert await client.committed("g") == {}

    run(tmp_path, act)


def test_offsets_of_a_deleted_topic_do_not_apply_to_its_successor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker died after deleting the topic, and before deleting the offsets."""

    async def act(client: Client) -> None:
        await client.commit("g", 5)
        monkeypatch.setattr(GroupCoordinator, "forget_topic", lambda *args, **more: [])
        await client.broker.controller.delete_topics(["t"])
        await client.broker.controller.create_topics([TopicSpec("t", partition_count=3)])
        request = OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", [0])])
        response = await client.ask(ApiKey.OFFSET_FETCH, request, 7)
        assert response.topics[0].partitions[0].committed_offset == -1
        asked = [OffsetFetchRequestTopics("t", partition_indexes=[0])]
        several = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=asked)])
        response = await client.ask(ApiKey.OFFSET_FETCH, several, 9)
        assert response.groups[0].topics[0].partitions[0].committed_offset == -1

    run(tmp_path, act)


def test_a_change_that_cannot_be_stored_is_undone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def act(client: Client) -> None:
        assert await client.commit("g", 5) == 0
        partition = client.broker.partitions.find(OFFSETS_TOPIC, partition_for("g", 5))
        append = type(partition).append

        def refuse(*_: object, **__: object) -> None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")

        try:
            type(partition).append = refuse  # type: ignore[assignment, method-assign]
            assert await client.commit("g", 6) == ErrorCode.NOT_COORDINATOR
        finally:
            type(partition).append = append  # type: ignore[method-assign]
        assert await client.committed("g") == {0: 5}
        assert await client.commit("g", 7) == 0
        assert await client.committed("g") == {0: 7}

    run(tmp_path, act)
    assert "the disk is full" in caplog.text


def test_many_records_are_split_into_batches() -> None:
    records: list[tuple[bytes, bytes | None]] = [(b"k" * 100, None)] * 25
    batches = list(coordinator_service._batches(records, 1_000))
    assert [len(batch) for batch in batches] == [7, 7, 7, 4]
    assert list(coordinator_service._batches(records[:1], 10)) == [records[:1]]
