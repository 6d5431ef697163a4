"""kafka-streams-groups, with the columns of Apache Kafka 4.3.1's; and ottla groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.kafka.groups import main as groups_main
from ottla.cli.kafka.streams_groups import main
from ottla.cli.main import main as ottla_main
from ottla.client import Admin, TopicPartition
from ottla.wire.apis import ApiKey
from ottla.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TopicInfo,
    Topology,
)

Tool = Callable[..., Any]


@pytest.fixture
def tool(run: Tool, bootstrap: str) -> Tool:
    return lambda *words: run(main, "--bootstrap-server", bootstrap, *words)


def beat(admin: Admin, request: StreamsGroupHeartbeatRequest) -> StreamsGroupHeartbeatResponse:
    answer = admin._session.connections.call(
        request,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        StreamsGroupHeartbeatResponse,
        node_id=admin.groups.coordinator(request.group_id),
    )
    assert not answer.error_code, answer.error_message
    return answer


@pytest.fixture
def live(admin: Admin, five: str, group: str) -> Iterator[str]:
    """A group with one member, whose topology has a changelog that the broker creates."""
    changelog = TopicInfo(f"{group}-store-changelog", 0, 0, [])
    topology = Topology(0, [Subtopology("0", [five], state_changelog_topics=[changelog])])
    request = StreamsGroupHeartbeatRequest(
        group,
        "member-1",
        0,
        rebalance_timeout=60_000,
        topology=topology,
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="process-1",
    )
    answer = beat(admin, request)
    assert answer.active_tasks is not None
    assert [task.subtopology_id for task in answer.active_tasks] == ["0"]
    yield group
    leave(admin, group)


def leave(admin: Admin, group: str) -> None:
    described = admin.streams_groups.describe(group)[group]
    members = getattr(described, "group", None)
    if members is not None and members.members:
        beat(admin, StreamsGroupHeartbeatRequest(group, "member-1", -1))


@pytest.fixture
def empty(admin: Admin, five: str, live: str) -> str:
    leave(admin, live)
    admin.groups.alter_offsets(live, {TopicPartition(five, 0): 2})
    return live


def test_list(tool: Tool, live: str, run: Tool, bootstrap: str) -> None:
    assert live in tool("--list").lines
    assert f"{live} Stable" in tool("--list", "--state", "stable").lines
    assert live not in tool("--list", "--state", "Empty").out
    assert "Invalid state list 'Foo'" in tool("--list", "--state", "Foo").err
    listed = run(groups_main, "--bootstrap-server", bootstrap, "--list", "--streams")
    assert [line.split() for line in listed.lines if live in line] == [[live, "Streams", "streams"]]


def test_describe_offsets(tool: Tool, live: str, five: str) -> None:
    wide = len(five)
    assert tool("--describe", "--group", live).lines == [
        f"{'GROUP':<{len(live)}} {'TOPIC':<{wide}} PARTITION  OFFSET-LAG",
        f"{live} {five} 0          -",
    ]
    verbose = tool("--describe", "--group", live, "--verbose").lines
    assert verbose[0].split()[3:] == [
        "CURRENT-OFFSET",
        "LEADER-EPOCH",
        "LOG-END-OFFSET",
        "OFFSET-LAG",
    ]
    assert verbose[1].split()[3:] == ["-", "-", "5", "-"]


def test_describe_members_and_state(tool: Tool, live: str) -> None:
    members = tool("--describe", "--group", live, "--members").lines
    assert members[0].split() == ["GROUP", "MEMBER", "PROCESS", "CLIENT-ID", "ASSIGNMENTS"]
    assert members[1].endswith(" ACTIVE: 0:[0]; ")
    verbose = tool("--describe", "--group", live, "--members", "--verbose").lines
    assert "TOPOLOGY-EPOCH MEMBER " in verbose[0]
    assert " 2                         0              member-1 " in verbose[1]
    assert verbose[1].endswith(" ACTIVE: 0:[0]; TARGET-ACTIVE: 0:[0]; ")
    state = tool("--describe", "--group", live, "--state", "--verbose").lines
    assert state[0].split("  ")[0] == "GROUP"
    assert state[1].split()[-4:] == ["Stable", "2", "2", "1"]


def test_an_unknown_group_is_refused(tool: Tool) -> None:
    assert tool("--describe", "--group", "nope").lines == [
        "",
        "Error: Executing streams group command failed due to"
        " org.apache.kafka.common.errors.GroupIdNotFoundException: Group nope not found.",
    ]
    assert tool("--delete", "--group", "nope").lines[-1] == (
        "* Group 'nope' could not be deleted due to: java.lang.IllegalArgumentException:"
        " Group 'nope' does not exist or is not a streams group."
    )


def test_a_live_group_is_neither_reset_nor_deleted(tool: Tool, live: str, five: str) -> None:
    words = ("--group", live, "--to-earliest", "--all-input-topics", "--dry-run")
    assert tool("--reset-offsets", *words).lines == [
        "",
        f"Error: Assignments can only be reset if the group '{live}' is inactive, but the current"
        " state is Stable.",
        "",
        f"{'GROUP':<30} {'TOPIC':<30} PARTITION  NEW-OFFSET     ",
    ]
    assert f"Streams group '{live}' is not EMPTY." in tool("--delete", "--group", live).out
    refused = tool("--delete-offsets", "--group", live, "--input-topic", five)
    assert "GroupSubscribedToTopicException" in refused.out


def test_reset(tool: Tool, empty: str, five: str, admin: Admin, tmp_path: Path) -> None:
    here = TopicPartition(five, 0)
    words = ("--reset-offsets", "--group", empty)
    shown = tool(*words, "--shift-by", "1", "--all-input-topics", "--dry-run")
    assert shown.lines[-1] == f"{empty:<30} {five:<30} 0          3              "
    assert admin.groups.offsets(empty)[here].offset == 2
    tool(*words, "--to-earliest", "--input-topic", five, "--execute")
    assert admin.groups.offsets(empty)[here].offset == 0
    exported = tool(*words, "--to-latest", "--all-input-topics", "--dry-run", "--export").out
    assert exported == f"{five},0,5\n\n"
    (tmp_path / "plan").write_text(exported)
    changelog = f"{empty}-store-changelog"
    assert changelog in admin.topics.names()
    tool(*words, "--from-file", str(tmp_path / "plan"), "--execute", "--delete-all-internal-topics")
    assert admin.groups.offsets(empty)[here].offset == 5
    assert changelog not in admin.topics.names()
    deleted = tool("--delete-offsets", "--group", empty, "--all-input-topics")
    assert deleted.lines[0] == f"Request succeeded for deleting offsets from group {empty}."
    assert here not in admin.groups.offsets(empty)


def test_delete(tool: Tool, empty: str, admin: Admin) -> None:
    state = tool("--describe", "--group", empty, "--state").lines
    assert state[1] == f"Error: Streams group '{empty}' has no active members."
    assert tool("--delete", "--group", empty, "--delete-all-internal-topics").lines == [
        f"Deletion of requested streams groups ('{empty}') was successful.",
        f"Deletion of associated internal topics of the streams groups ('{empty}') was successful.",
    ]
    assert f"{empty}-store-changelog" not in admin.topics.names()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--describe"], "Option [describe] takes one of these options: [all-groups], [group]"),
        (["--delete"], "Option [delete] takes one of these options: [all-groups], [group]"),
        (["--reset-offsets", "--group", "g"], "takes the option: [execute] or [dry-run]"),
        (["--delete-offsets", "--group", "g"], "[all-input-topics], [input-topic]"),
        (["--list", "--delete", "--group", "g"], "Command must include exactly one action"),
        (["--delete", "--group", "g", "--input-topic", "t"], "topic-specific offset deletion"),
    ],
)
def test_wrong_words(tool: Tool, words: list[str], reason: str) -> None:
    ran = tool(*words)
    assert ran.code == 1
    assert reason in ran.err


def test_ottla_groups(run: Tool, bootstrap: str, live: str, five: str) -> None:
    server = ("--bootstrap-server", bootstrap)
    listed = run(ottla_main, "groups", "list", "--type", "streams", *server)
    assert live in listed.out
    described = run(ottla_main, "groups", "describe", live, *server)
    assert "streams, sticky" in described.out
    assert five in described.out
    assert "member-1" in run(ottla_main, "groups", "members", live, *server).out
