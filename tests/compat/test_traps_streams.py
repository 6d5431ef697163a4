"""Streams groups (KIP-1071), request by request: our responses equal Apache Kafka 4.3.1's.

`streams_group_answers.txt` has the answers of both. With OTTLA_COMPAT_BROKER=apache the test runs
on Apache Kafka; OTTLA_REWRITE=1 writes the file again, to be read as a diff.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from compat_brokers import Broker

from ottla.client import Admin
from ottla.errors import ErrorCode
from ottla.wire.apis import ApiKey
from ottla.wire.messages import streams_group_describe as describing
from ottla.wire.messages import streams_group_heartbeat as beating
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.streams_group_heartbeat import Subtopology, TaskIds, TopicInfo

ANSWERS = Path(__file__).parent / "streams_group_answers.txt"
SETTINGS = {
    "group_streams_initial_rebalance_delay_ms": "0",
    "group_streams_assignment_interval_ms": "0",
}
LOADING = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)

pytestmark = [pytest.mark.timeout(1000)]


class StreamsGroupClient:
    """Sends requests to the coordinator, and records its responses."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self.lines: list[str] = []

    def ask(self, request: Any, key: ApiKey, response: Any) -> Any:
        while True:
            node_id = self._admin.groups.coordinator("g")
            answer = self._admin._session.connections.call(request, key, response, node_id=node_id)
            if getattr(answer, "error_code", 0) not in LOADING:
                return answer
            time.sleep(0.1)

    def beat(
        self,
        what: str,
        member: str = "m",
        epoch: int = 0,
        *,
        group: str = "g",
        runs: tuple[int, ...] | None = (),
        topology: list[Subtopology] | None = None,
        **fields: Any,
    ) -> None:
        if epoch == 0:
            declared = topology or [Subtopology("0", ["t"])]
            fields.setdefault("topology", beating.Topology(0, declared))
            fields.setdefault("rebalance_timeout", 60_000)
            fields.setdefault("process_id", member)
        if runs is not None:
            fields.setdefault("active_tasks", [TaskIds("0", [*runs])] if runs else [])
            fields.setdefault("standby_tasks", [])
            fields.setdefault("warmup_tasks", [])
        request = beating.StreamsGroupHeartbeatRequest(group, member, epoch, **fields)
        answer = self.ask(
            request, ApiKey.STREAMS_GROUP_HEARTBEAT, beating.StreamsGroupHeartbeatResponse
        )
        self.lines.append(f"{what}: {shown_beat(answer)}")

    def commit(self, what: str, member: str, epoch: int, partition: int) -> None:
        """Version 9 names the topic, later ones have its id: both are given."""
        topic = OffsetCommitRequestTopic(
            "t",
            topic_id=self._admin.topics.describe("t")["t"].topic_id,
            partitions=[OffsetCommitRequestPartition(partition, 5, -1, "")],
        )
        request = OffsetCommitRequest("g", epoch, member, topics=[topic])
        answer = self.ask(request, ApiKey.OFFSET_COMMIT, OffsetCommitResponse)
        code = ErrorCode(answer.topics[0].partitions[0].error_code)
        self.lines.append(f"{what}: {code.name}")

    def describe(self, *names: str) -> None:
        answer = self.ask(
            describing.StreamsGroupDescribeRequest([*names]),
            ApiKey.STREAMS_GROUP_DESCRIBE,
            describing.StreamsGroupDescribeResponse,
        )
        for group in sorted(answer.groups, key=lambda described: str(described.group_id)):
            line = f"{group.group_id} is {group.group_state or group.error_message}"
            line += f" epoch {group.group_epoch} target {group.assignment_epoch}"
            for member in sorted(group.members, key=lambda described: str(described.member_id)):
                has = shown_tasks(member.assignment.active_tasks)
                line += f", {member.member_id} epoch {member.member_epoch} has {has}"
            self.lines.append(line)


def shown_tasks(tasks: list[TaskIds]) -> str:
    listed = sorted((task.subtopology_id, sorted(task.partitions)) for task in tasks)
    return " ".join(f"{name}:{indexes}" for name, indexes in listed) or "nothing"


def shown_beat(answer: beating.StreamsGroupHeartbeatResponse) -> str:
    if answer.error_code:
        return f"{ErrorCode(answer.error_code).name} {answer.error_message}"
    line = f"epoch {answer.member_epoch}"
    if answer.active_tasks is not None:
        line += f" runs {shown_tasks(answer.active_tasks)}"
    for status in sorted(answer.status or [], key=lambda reported: int(reported.status_code)):
        line += f", status {status.status_code} {status.status_detail}"
    for partition in answer.partitions_by_user_endpoint or ():
        places = sorted((topic.topic, topic.partitions) for topic in partition.active_partitions)
        line += f", {partition.user_endpoint.host} has {places}"
    return line


def refused(client: StreamsGroupClient) -> None:
    client.beat("static", instance_id="i")
    client.beat("warm-up tasks", warmup_tasks=[TaskIds("0", [0])])
    client.beat("no tasks given", runs=None)
    client.beat("no rebalance timeout", rebalance_timeout=-1)
    client.beat("no member", member="")
    client.beat("no group", group="")
    client.beat("an empty rack", rack_id="")
    client.beat("epoch -3", epoch=-3, runs=None)
    client.beat("epoch -2", epoch=-2, runs=None)
    client.beat("leaves nothing", epoch=-1, runs=None, group="nogroup")
    client.beat("goes on in nothing", epoch=1, group="nogroup")
    client.beat("some tasks", epoch=1, runs=None, active_tasks=[])
    client.beat("regex", topology=[Subtopology("0", ["t"], ["r.*"])])
    changelog = [TopicInfo("c", 3)]
    counted = [Subtopology("0", ["t"], state_changelog_topics=changelog)]
    client.beat("a changelog's count", topology=counted)
    nobody_writes = [Subtopology("0", ["t"], repartition_source_topics=[TopicInfo("r")])]
    client.beat("nobody writes", group="w", topology=nobody_writes)
    loop = [
        Subtopology("0", repartition_sink_topics=["r"], repartition_source_topics=[TopicInfo("r")])
    ]
    client.beat("a loop", group="l", topology=loop)
    client.beat("no source", group="n", topology=[Subtopology("0")])


def not_ready(client: StreamsGroupClient) -> None:
    missing = [Subtopology("0", ["t", "x1", "x2", "x3", "x4"])]
    client.beat("missing sources", group="ms", topology=missing)
    together = [beating.CopartitionGroup([0, 1])]
    client.beat(
        "counts differ",
        group="mf",
        topology=[Subtopology("0", ["t", "u"], copartition_groups=together)],
    )


def two_members(client: StreamsGroupClient) -> None:
    client.beat("joins")
    client.beat("goes on", epoch=2, runs=None)
    client.beat("a greater epoch", epoch=9)
    client.beat("a smaller epoch", epoch=1)
    client.beat("a wrong task", epoch=2, runs=(7,))
    client.beat("a wrong subtopology", epoch=2, active_tasks=[TaskIds("9", [0])])
    client.beat("another topology", member="o", topology=[Subtopology("0", ["u"])])
    client.beat("n joins", member="n", user_endpoint=beating.Endpoint("host", 80))
    client.beat("m is to revoke", epoch=2, runs=(0, 1))
    client.beat("n waits", member="n", epoch=3, runs=None)
    client.beat("m has revoked", epoch=2, runs=(0,))
    client.beat("n gets it", member="n", epoch=3, runs=None)
    client.beat("n has it", member="n", epoch=3, runs=(1,))
    client.beat("m joins again")
    client.commit("its task", "m", 3, 0)
    client.commit("its task, with an older epoch", "m", 2, 0)
    client.commit("another's task, with an older epoch", "m", 2, 1)
    client.commit("a newer epoch", "m", 7, 0)
    client.commit("not a member", "x", 3, 0)
    client.commit("nobody", "", -1, 0)
    client.describe("g", "nogroup", "ms")
    client.beat("shutdown", epoch=3, runs=None, shutdown_application=True)
    client.beat("n hears of it", member="n", epoch=3, runs=None)
    client.beat("m leaves", epoch=-1, runs=None)
    client.beat("m leaves again", epoch=-1, runs=None)
    client.beat("n has all", member="n", epoch=3, runs=(1,))
    client.beat("n leaves", member="n", epoch=-1, runs=None)
    client.describe("g")
    client.beat("all begins again")


def test_every_answer_equals_kafkas(own_broker: Callable[..., Broker]) -> None:
    broker = own_broker(**SETTINGS)
    with Admin(broker.bootstrap) as admin:
        admin.topics.create("t", 2)
        admin.topics.create("u", 3)
        client = StreamsGroupClient(admin)
        refused(client)
        not_ready(client)
        two_members(client)
    if os.environ.get("OTTLA_REWRITE"):
        ANSWERS.write_text("\n".join(client.lines) + "\n")
    assert client.lines == ANSWERS.read_text().splitlines()
