"""A group of many members on plain sockets, in its own process. Prints one JSON line.

    python -m benchmarks.group_load --port 9092 --topic t --members 100 --protocol classic

Measured is the group, not a client's threads and timers: a member here sends what a member has to
send, at once where it has something to say and else every HEARTBEAT_S. It is the same for both
brokers and both protocols. Three times are taken, each until every partition has one owner and
every member has one: all members start; one more joins; one leaves.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import struct
import time
import uuid
from abc import ABC, abstractmethod
from typing import TypeVar

from ottla.errors import ErrorCode
from ottla.wire.apis import ApiKey
from ottla.wire.fields import Message
from ottla.wire.messages import consumer_group_heartbeat as heartbeats
from ottla.wire.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from ottla.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from ottla.wire.peer import Peer

HEARTBEAT_S = 0.25
SESSION_MS = 45_000
REBALANCE_MS = 60_000
PATIENCE_S = 90.0
RECEIVE_BYTES = 1 << 16
FIND_V, JOIN_V, SYNC_V, HEARTBEAT_V, LEAVE_V, CONSUMER_HEARTBEAT_V = 2, 5, 3, 3, 3, 1

R = TypeVar("R", bound=Message)


class MemberConnection:
    """One connection; a request and its answer, one after another."""

    async def open(self, port: int) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", port)
        self._peer = Peer()

    async def call(self, request: Message, key: ApiKey, version: int, answer: type[R]) -> R:
        for part in self._peer.request(request, key, version, "bench"):
            assert isinstance(part, (bytes, bytearray, memoryview))
            self._writer.write(part)
        while (response := self._peer.next_response()) is None:
            data = await self._reader.read(RECEIVE_BYTES)
            if not data:
                raise ConnectionError("the broker closed the connection")
            self._peer.receive_data(data)
        assert isinstance(response.body, answer)
        return response.body

    def close(self) -> None:
        self._writer.close()


class Member(ABC):
    """A member: its connection, its partitions, and its life until it leaves."""

    def __init__(self, port: int, topic: str, group: str, partitions: int) -> None:
        self.port, self.topic, self.group, self.partitions = port, topic, group, partitions
        self.owned: frozenset[int] = frozenset()
        self.line = MemberConnection()
        self.leaving = asyncio.Event()

    async def live(self) -> None:
        await self.line.open(self.port)
        try:
            await self.take_part()
        finally:
            self.owned = frozenset()
            self.line.close()

    @abstractmethod
    async def take_part(self) -> None:
        """Joins, sends heartbeats, leaves."""

    async def pause(self) -> bool:
        """Wait until the next heartbeat is due; False if it is time to leave."""
        try:
            await asyncio.wait_for(self.leaving.wait(), HEARTBEAT_S)
        except TimeoutError:
            return True
        return False


class ClassicMember(Member):
    """JoinGroup, SyncGroup, Heartbeat; the leader assigns partitions round robin."""

    member_id = ""

    async def take_part(self) -> None:
        while await self.join():
            while await self.pause():
                request = HeartbeatRequest(self.group, self.generation, self.member_id)
                answer = await self.line.call(
                    request, ApiKey.HEARTBEAT, HEARTBEAT_V, HeartbeatResponse
                )
                if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                    break
                check(answer.error_code)
            else:
                await self.leave()
                return

    async def join(self) -> bool:
        """Wait until the member has its partitions; False if it is to leave instead."""
        metadata = struct.pack(">hih", 0, 1, len(self.topic)) + self.topic.encode() + b"\xff" * 4
        while not self.leaving.is_set():
            request = JoinGroupRequest(
                self.group, SESSION_MS, REBALANCE_MS, self.member_id, None, "consumer",
                [JoinGroupRequestProtocol("range", metadata)],
            )  # fmt: skip
            joined = await self.line.call(request, ApiKey.JOIN_GROUP, JOIN_V, JoinGroupResponse)
            if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = joined.member_id
                continue
            check(joined.error_code)
            self.member_id, self.generation = joined.member_id, joined.generation_id
            names = [member.member_id for member in joined.members]
            dealt = [
                SyncGroupRequestAssignment(
                    name, self.assignment(range(at, self.partitions, len(names)))
                )
                for at, name in enumerate(names)
            ]
            sync = SyncGroupRequest(self.group, self.generation, self.member_id, None)
            sync.assignments = dealt
            answer = await self.line.call(sync, ApiKey.SYNC_GROUP, SYNC_V, SyncGroupResponse)
            if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                continue
            check(answer.error_code)
            self.owned = self.parsed(bytes(answer.assignment))
            return True
        return False

    def assignment(self, numbers: range) -> bytes:
        name = self.topic.encode()
        head = struct.pack(f">hih{len(name)}si", 0, 1, len(name), name, len(numbers))
        return head + struct.pack(f">{len(numbers)}i", *numbers) + b"\xff" * 4

    def parsed(self, data: bytes) -> frozenset[int]:
        at = 2 + 4 + 2 + len(self.topic)
        (count,) = struct.unpack_from(">i", data, at)
        return frozenset(struct.unpack_from(f">{count}i", data, at + 4))

    async def leave(self) -> None:
        request = LeaveGroupRequest(self.group, self.member_id)
        request.members = [MemberIdentity(self.member_id)]
        await self.line.call(request, ApiKey.LEAVE_GROUP, LEAVE_V, LeaveGroupResponse)


class ConsumerMember(Member):
    """KIP-848: heartbeats with the owned partitions; the response has the assignment."""

    async def take_part(self) -> None:
        member_id = str(uuid.uuid4())
        request = heartbeats.ConsumerGroupHeartbeatRequest(
            self.group, member_id, 0, rebalance_timeout=REBALANCE_MS,
            subscribed_topic_names=[self.topic], topic_partitions=[],
        )  # fmt: skip
        while True:
            answer = await self.beat(request)
            check(answer.error_code)
            request = heartbeats.ConsumerGroupHeartbeatRequest(
                self.group, member_id, answer.member_epoch
            )
            if answer.assignment is not None:  # it reports that at once, as the acknowledgement
                given = answer.assignment.topic_partitions
                self.owned = frozenset(number for topic in given for number in topic.partitions)
                request.topic_partitions = given
            elif not await self.pause():
                break
        request.member_epoch = -1
        await self.beat(request)

    async def beat(
        self, request: heartbeats.ConsumerGroupHeartbeatRequest
    ) -> heartbeats.ConsumerGroupHeartbeatResponse:
        return await self.line.call(
            request, ApiKey.CONSUMER_GROUP_HEARTBEAT, CONSUMER_HEARTBEAT_V,
            heartbeats.ConsumerGroupHeartbeatResponse,
        )  # fmt: skip


class Group:
    def __init__(self, kind: type[Member], port: int, topic: str, partitions: int) -> None:
        self.name = f"bench-{uuid.uuid4().hex}"
        self.make = lambda: kind(port, topic, self.name, partitions)
        self.partitions = partitions
        self.members: list[Member] = []
        self.lives: list[asyncio.Task[None]] = []

    def add(self, count: int) -> None:
        for _ in range(count):
            member = self.make()
            self.members.append(member)
            self.lives.append(asyncio.create_task(member.live()))

    async def remove(self) -> None:
        member, life = self.members.pop(), self.lives.pop()
        member.leaving.set()
        await life

    async def settled_ms(self, start: float) -> float:
        """Wait until every partition has one owner and every member has a partition."""
        while not self.is_settled():
            for life in self.lives:
                if life.done():
                    life.result()
                    raise SystemExit("a member left by itself")
            if time.perf_counter() - start > PATIENCE_S:
                raise SystemExit(f"the group is not settled after {PATIENCE_S:.0f} s")
            await asyncio.sleep(0.001)
        return (time.perf_counter() - start) * 1000

    def is_settled(self) -> bool:
        owned = [number for member in self.members for number in member.owned]
        everyone = all(member.owned for member in self.members)
        return everyone and len(owned) == len(set(owned)) == self.partitions


async def run(kind: type[Member], port: int, topic: str, members: int) -> dict[str, float]:
    group = Group(kind, port, topic, partitions=members)
    await coordinator_is_there(port, group.name)
    start = time.perf_counter()
    group.add(members - 1)
    first_ms = await group.settled_ms(start)
    await asyncio.sleep(2 * HEARTBEAT_S)  # until requests in flight are done
    start = time.perf_counter()
    group.add(1)
    join_ms = await group.settled_ms(start)
    await asyncio.sleep(2 * HEARTBEAT_S)
    start = time.perf_counter()
    await group.remove()
    leave_ms = await group.settled_ms(start)
    for member in group.members:
        member.leaving.set()
    await asyncio.gather(*group.lives)
    return {"start_ms": first_ms, "join_ms": join_ms, "leave_ms": leave_ms}


async def coordinator_is_there(port: int, group: str) -> None:
    """The first request makes the broker create its groups' topic, which is not to be measured."""
    line = MemberConnection()
    await line.open(port)
    deadline = time.perf_counter() + PATIENCE_S
    request = FindCoordinatorRequest(group)
    while True:
        answer = await line.call(request, ApiKey.FIND_COORDINATOR, FIND_V, FindCoordinatorResponse)
        if answer.error_code == ErrorCode.NONE:
            break
        if time.perf_counter() > deadline:
            check(answer.error_code)
        await asyncio.sleep(0.05)
    line.close()


def check(code: int) -> None:
    if code:
        raise SystemExit(f"the broker answered {ErrorCode(code).name}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.group_load")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--topic", required=True, help="with one partition for each member")
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--protocol", choices=["classic", "consumer"], default="classic")
    given = parser.parse_args()
    kind = ClassicMember if given.protocol == "classic" else ConsumerMember
    result = asyncio.run(run(kind, given.port, given.topic, given.members))
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
