"""kafka-consumer-groups; columns and sentences are those of Apache Kafka 4.3.1's tool."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.kafka.consumer_groups import main
from ottla.cli.kafka.group_offsets import from_csv, parse_datetime, parse_duration
from ottla.cli.kafka.tool import ToolError
from ottla.client import Admin, Consumer, TopicPartition

Tool = Callable[..., Any]


@pytest.fixture
def groups(run: Tool, bootstrap: str) -> Tool:
    return lambda *words: run(main, "--bootstrap-server", bootstrap, *words)


@pytest.fixture
def read_two(bootstrap: str, five: str, group: str) -> str:
    """A group without members that has read two of the five records."""
    with Consumer(bootstrap, five, group=group, auto_offset_reset="earliest") as consumer:
        consumer.take(2)
    return group


@pytest.fixture
def live(bootstrap: str, five: str, group: str) -> Iterator[str]:
    """A group with one member."""
    settings = {"client.id": "me"}
    with Consumer(
        bootstrap, five, group=group, auto_offset_reset="earliest", settings=settings
    ) as consumer:
        consumer.take(5)
        consumer.commit()
        yield group


def test_list(groups: Tool, read_two: str) -> None:
    assert read_two in groups("--list").lines
    header, *rows = groups("--list", "--state", "--type").lines
    assert header.split() == ["GROUP", "TYPE", "STATE"]
    assert [read_two, "Classic", "Empty"] in [row.split() for row in rows]
    assert {len(entry) for entry in (header, *rows)} == {len(header)}
    assert read_two in groups("--list", "--state", "empty").out
    assert read_two not in groups("--list", "--state", "stable").out
    assert read_two not in groups("--list", "--type", "consumer").out


def test_describe_a_group_without_members(groups: Tool, five: str, read_two: str) -> None:
    ran = groups("--describe", "--group", read_two)
    assert ran.out == (
        f"\n{'GROUP'.ljust(len(read_two))} {'TOPIC'.ljust(len(five))} PARTITION  CURRENT-OFFSET "
        " LOG-END-OFFSET  LAG             CONSUMER-ID     HOST            CLIENT-ID\n"
        f"{read_two} {five} 0          2               5               3               -        "
        "       -               -\n"
    )
    assert ran.err == f"\nConsumer group '{read_two}' has no active members.\n"
    assert ran.code == 0


def test_describe_a_group_with_members(groups: Tool, five: str, live: str) -> None:
    header, row = groups("--describe", "--group", live, "--verbose").lines[1:]
    assert header.split()[3] == "LEADER-EPOCH"
    cells = row.split()
    assert cells[:3] == [live, five, "0"]
    assert cells[4:7] == ["5", "5", "0"]
    assert (cells[7][:3], cells[8], cells[9]) == ("me-", "/127.0.0.1", "me")
    member_header, member = groups("--describe", "--group", live, "--members").lines[1:]
    assert member_header.split()[-1] == "#PARTITIONS"
    assert member.split()[3:] == ["me", "1"]
    verbose = groups("--describe", "--group", live, "--members", "--verbose").lines[2]
    assert f"{five}:0" in verbose.split()
    state_header, state = groups("--describe", "--group", live, "--state").lines[1:]
    assert state_header.split()[1:] == [
        "COORDINATOR",
        "(ID)",
        "ASSIGNMENT-STRATEGY",
        "STATE",
        "#MEMBERS",
    ]
    assert state.split()[-3:] == ["range", "Stable", "1"]


def test_a_group_of_kip_848(groups: Tool, bootstrap: str, five: str, group: str) -> None:
    settings = {"client.id": "me", "group.protocol": "consumer"}
    with Consumer(
        bootstrap, five, group=group, auto_offset_reset="earliest", settings=settings
    ) as consumer:
        consumer.take(5)
        words = ("--describe", "--group", group, "--verbose")
        header, row = groups(*words, "--members").lines[1:]
        assert header.split()[-4:] == [
            "CURRENT-EPOCH",
            "CURRENT-ASSIGNMENT",
            "TARGET-EPOCH",
            "TARGET-ASSIGNMENT",
        ]
        epoch, current, target_epoch, target = row.split()[-4:]
        assert (current, target) == (f"{five}:0", f"{five}:0")
        assert epoch == target_epoch
        header, row = groups(*words, "--state").lines[1:]
        assert header.split()[-3:] == ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH", "#MEMBERS"]
        assert row.split()[-5:-3] == ["uniform", "Stable"]
        assert row.split()[-3:] == [epoch, epoch, "1"]
    assert [group, "Consumer", "Empty"] in [
        line.split() for line in groups("--list", "--state", "--type", "consumer").lines
    ]


def test_members_of_both_protocols(groups: Tool, bootstrap: str, admin: Admin, topic: str) -> None:
    """A classic member of a consumer group is shown as one to be upgraded."""
    admin.topics.create(topic, 2)
    group = f"group-{topic}"
    new = {"client.id": "new", "group.protocol": "consumer"}
    old = {"client.id": "old", "group.protocol": "classic"}
    with (
        Consumer(bootstrap, topic, group=group, settings=new) as first,
        Consumer(bootstrap, topic, group=group, settings=old) as second,
    ):
        deadline = time.monotonic() + 60
        rows: list[list[str]] = []
        while len(rows) < 2 and time.monotonic() < deadline:
            first.poll(0.1)
            second.poll(0.1)
            lines = groups("--describe", "--group", group, "--members", "--verbose").lines
            rows = [line.split() for line in lines if group in line]
        assert lines[1].split()[-1] == "UPGRADED"
        assert sorted((row[3], row[-1]) for row in rows) == [("new", "true"), ("old", "false")]


def test_an_unknown_group_is_reported(groups: Tool) -> None:
    ran = groups("--describe", "--group", "no-such")
    assert ran.out == (
        "\nError: Executing consumer group command failed due to"
        " org.apache.kafka.common.errors.GroupIdNotFoundException: Group no-such not found.\n"
    )
    assert ran.code == 0


@pytest.mark.parametrize(
    ("scenario", "offset"),
    [
        (["--to-earliest"], 0),
        (["--to-latest"], 5),
        (["--to-current"], 2),
        (["--to-offset", "3"], 3),
        (["--to-offset", "99"], 5),
        (["--shift-by", "-1"], 1),
        (["--shift-by", "-99"], 0),
        (["--to-datetime", "1970-01-01T00:00:01.003"], 3),
        (["--to-datetime", "1970-01-01T02:00:01.001+02:00"], 1),
        (["--to-datetime", "2090-01-01T00:00:00.000"], 5),
        (["--by-duration", "PT1S"], 5),
        (["--by-duration", "P50000D"], 0),
    ],
)
def test_reset(
    groups: Tool, admin: Admin, five: str, read_two: str, scenario: list[str], offset: int
) -> None:
    words = ("--reset-offsets", "--group", read_two, "--topic", five, *scenario)
    planned = groups(*words, "--dry-run")
    assert planned.lines[-1].split() == [read_two, five, "0", str(offset)]
    assert admin.groups.offsets(read_two)[TopicPartition(five, 0)].offset == 2
    done = groups(*words, "--execute")
    assert done.lines[-2].split() == ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]
    assert admin.groups.offsets(read_two)[TopicPartition(five, 0)].offset == offset


def test_reset_by_a_file_that_was_exported(
    groups: Tool, admin: Admin, five: str, read_two: str, tmp_path: Path
) -> None:
    scope = ("--reset-offsets", "--group", read_two)
    exported = groups(*scope, "--all-topics", "--to-latest", "--export")
    assert exported.out == f"{five},0,5\n\n"
    assert exported.err.startswith("WARN: ")
    file = tmp_path / "plan.csv"
    file.write_text(f"{five},0,4\n")
    groups(*scope, "--from-file", str(file), "--execute")
    assert admin.groups.offsets(read_two)[TopicPartition(five, 0)].offset == 4


def test_reset_of_a_new_group(groups: Tool, admin: Admin, five: str, group: str) -> None:
    words = ("--reset-offsets", "--group", group, "--topic", f"{five}:0", "--to-latest")
    assert groups(*words, "--execute").lines[-1].split() == [group, five, "0", "5"]
    assert admin.groups.offsets(group)[TopicPartition(five, 0)].offset == 5


def test_a_group_that_is_active_can_not_be_reset(groups: Tool, live: str) -> None:
    ran = groups("--reset-offsets", "--group", live, "--all-topics", "--to-latest", "--execute")
    assert ran.lines[1] == (
        f"Error: Assignments can only be reset if the group '{live}' is inactive, but the current"
        " state is Stable."
    )


def test_delete_offsets(groups: Tool, five: str, read_two: str) -> None:
    ran = groups("--delete-offsets", "--group", read_two, "--topic", five)
    assert ran.lines[0] == f"Request succeeded for deleting offsets from group {read_two}."
    assert ran.lines[-2].split() == ["TOPIC", "PARTITION", "STATUS"]
    assert ran.lines[-1].split() == [five, "0", "Successful"]
    unknown = groups("--delete-offsets", "--group", "no-such", "--topic", five)
    assert unknown.lines[1] == "Error: The group id does not exist."
    assert "GroupIdNotFoundException" in unknown.lines[-1]


def test_offsets_of_an_active_subscription_can_not_be_deleted(
    groups: Tool, five: str, live: str
) -> None:
    ran = groups("--delete-offsets", "--group", live, "--topic", five)
    assert "Error: Encountered some partition-level error" in ran.out
    assert "GroupSubscribedToTopicException" in ran.lines[-1]


def test_delete(groups: Tool, read_two: str) -> None:
    gone = groups("--delete", "--group", read_two)
    assert gone.out == f"Deletion of requested consumer groups ('{read_two}') was successful.\n"
    again = groups("--delete", "--group", read_two)
    assert again.lines[1:] == [
        "Error: Deletion of some consumer groups failed:",
        f"* Group '{read_two}' could not be deleted due to:"
        " org.apache.kafka.common.errors.GroupIdNotFoundException: The group id does not exist.",
    ]
    assert again.code == 0


def test_a_group_with_members_can_not_be_deleted(groups: Tool, live: str) -> None:
    assert (
        "GroupNotEmptyException: The group is not empty." in groups("--delete", "--group", live).out
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "Command must include exactly one action: --list, --describe, --delete"),
        (["--describe"], "Option [describe] takes one of these options: [all-groups], [group]"),
        (
            ["--describe", "--group", "g", "--members", "--offsets"],
            "Option [describe] takes at most one of these options: [members], [offsets], [state]",
        ),
        (["--delete"], "Option [delete] takes one of these options: [all-groups], [group]"),
        (
            ["--delete-offsets", "--group", "g"],
            "Option [delete-offsets] takes the following options: [topic], [group]",
        ),
        (["--list", "--state", "nonsense"], "Invalid state list 'nonsense'. Valid states are: "),
        (["--list", "--type", "nonsense"], "Invalid types list 'nonsense'. Valid types are: "),
        (
            ["--reset-offsets", "--group", "g", "--all-topics", "--execute"],
            "Option '[reset-offsets]' requires one of the following scenarios: [[to-offset], ",
        ),
        (
            ["--reset-offsets", "--group", "g", "--to-latest", "--execute"],
            "One of the reset scopes should be defined: --all-topics, --topic.",
        ),
        (
            ["--reset-offsets", "--group", "g", "--to-latest", "--execute", "--dry-run"],
            "Option [reset-offsets] only accepts one of [execute] and [dry-run]",
        ),
    ],
)
def test_wrong_usage(groups: Tool, words: list[str], sentence: str) -> None:
    ran = groups(*words)
    assert ran.err.startswith(sentence)
    assert ran.code == 1


def test_a_pattern_can_be_checked_without_a_broker(run: Tool) -> None:
    assert run(main, "--validate-regex", "a.*").out == "The regular expression `a.*` is valid.\n"
    assert "is invalid: " in run(main, "--validate-regex", "a((").out


def test_an_unreachable_broker_is_reported_with_exit_code_0(run: Tool) -> None:
    ran = run(main, "--bootstrap-server", "localhost:1", "--list")
    assert ran.out.startswith("\nError: Executing consumer group command failed due to ")
    assert ran.code == 0


@pytest.mark.parametrize(
    ("text", "ms"),
    [("P1D", 86_400_000), ("PT1H30M", 5_400_000), ("PT0.5S", 500), ("-PT1S", -1000)],
)
def test_durations(text: str, ms: int) -> None:
    assert parse_duration(text) == ms


@pytest.mark.parametrize("text", ["nonsense", "P", "PT", "1D", ""])
def test_invalid_durations_are_refused(text: str) -> None:
    with pytest.raises(ToolError):
        parse_duration(text)


def test_a_time_without_a_zone_is_utc() -> None:
    assert parse_datetime("1970-01-01T00:00:01.500") == 1500
    assert parse_datetime("1970-01-01T01:00:00+01:00") == 0
    with pytest.raises(ToolError, match="does not contain a 'T'"):
        parse_datetime("1970-01-01")


def test_a_file_of_offsets() -> None:
    assert from_csv("t,0,5\n\nt,1,6\n", several=False) == {
        "": {TopicPartition("t", 0): 5, TopicPartition("t", 1): 6}
    }
    assert from_csv("g,t,0,5\n", several=True) == {"g": {TopicPartition("t", 0): 5}}
    with pytest.raises(ToolError, match="line 1 of the file is not group,topic,partition,offset"):
        from_csv("t,0,5\n", several=True)
    with pytest.raises(ToolError, match="nonsense"):
        from_csv("nonsense\n", several=False)
