"""kafka-share-groups and kafka-console-share-consumer, with the columns of Apache Kafka 4.3.1's."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.cli.kafka.console_share_consumer import main as console_main
from ottla.cli.kafka.share_groups import main
from ottla.cli.main import main as ottla_main
from ottla.client import Admin, ErrorCode, KafkaError, ShareConsumer, TopicPartition
from ottla.client.share_groups import ShareOffset

Tool = Callable[..., Any]

DEADLINE_S = 60


@pytest.fixture
def shares(run: Tool, bootstrap: str) -> Tool:
    return lambda *words: run(main, "--bootstrap-server", bootstrap, *words)


@pytest.fixture
def empty(admin: Admin, five: str, group: str) -> str:
    """A share group without members that begins with the first of five records."""
    assert admin.shares.alter_offsets(group, {TopicPartition(five, 0): 0}) == {
        TopicPartition(five, 0): None
    }
    return group


@pytest.fixture
def live(bootstrap: str, five: str, empty: str) -> Iterator[str]:
    """A share group with a member that has read two records."""
    settings = {"client.id": "me"}
    with ShareConsumer(bootstrap, five, group=empty, settings=settings) as consumer:
        take(consumer, 2)
        yield empty


def take(consumer: ShareConsumer[bytes, bytes], count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(values) < count and time.monotonic() < deadline:
        record = consumer.poll(1.0)
        if record is not None:
            values.append(record.value)
    return values


def start_of(admin: Admin, group: str, topic: str) -> int | None:
    found = admin.shares.offsets(group)[TopicPartition(topic, 0)]
    assert isinstance(found, ShareOffset)
    return found.start_offset


def test_a_group_without_members(shares: Tool, admin: Admin, five: str, empty: str) -> None:
    assert empty in shares("--list").lines
    header, *rows = shares("--list", "--state", "empty").lines
    assert header.split() == ["GROUP", "STATE"]
    assert [empty, "Empty"] in [line.split() for line in rows]
    assert empty not in shares("--list", "--state", "stable").out
    described = shares("--describe", "--group", empty)
    blank, header, row = described.lines
    assert blank == ""
    assert header.split() == ["GROUP", "TOPIC", "PARTITION", "START-OFFSET", "LAG"]
    assert row.split()[:4] == [empty, five, "0", "0"]
    verbose = shares("--describe", "--group", empty, "--verbose").lines
    assert verbose[1].split()[3] == "LEADER-EPOCH"
    assert admin.groups.offsets(empty) == {}  # nothing is committed in a share group
    members = shares("--describe", "--group", empty, "--members")
    assert members.out == ""
    assert members.err == f"\nShare group '{empty}' has no active members.\n"
    state = shares("--describe", "--group", empty, "--state").lines
    assert state[2].split()[-2:] == ["Empty", "0"]


def test_a_group_with_members(shares: Tool, five: str, live: str) -> None:
    header, row = shares("--describe", "--group", live, "--members", "--verbose").lines[1:]
    assert header.split() == [
        "GROUP",
        "CONSUMER-ID",
        "HOST",
        "CLIENT-ID",
        "#PARTITIONS",
        "MEMBER-EPOCH",
        "ASSIGNMENT",
    ]
    cells = row.split()
    assert cells[2:5] == ["/127.0.0.1", "me", "1"]
    assert cells[-1] == f"{five}:0"
    header, row = shares("--describe", "--group", live, "--state", "--verbose").lines[1:]
    assert header.split()[-3:] == ["GROUP-EPOCH", "ASSIGNMENT-EPOCH", "#MEMBERS"]
    assert "Stable" in row.split()
    refused = shares("--delete", "--group", live).out
    assert f"GroupNotEmptyException: Share group '{live}' is not EMPTY." in refused
    words = ("--group", live, "--topic", five)
    assert "Error: " in shares("--delete-offsets", *words).lines[-1]
    reset = shares("--reset-offsets", *words, "--to-latest", "--execute")
    assert reset.err == f"Share group '{live}' is not empty.\n"
    assert reset.code == 1


@pytest.mark.parametrize(
    ("scenario", "offset"),
    [
        (["--to-earliest"], 0),
        (["--to-latest"], 5),
        (["--to-datetime", "1970-01-01T00:00:01.003"], 3),
    ],
)
def test_reset(
    shares: Tool, admin: Admin, five: str, group: str, scenario: list[str], offset: int
) -> None:
    words = ("--reset-offsets", "--group", group, "--topic", f"{five}:0", *scenario)
    planned = shares(*words, "--dry-run")
    assert planned.lines[1].split() == ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]
    assert planned.lines[2].split() == [group, five, "0", str(offset)]
    assert group not in shares("--list").lines
    assert shares(*words, "--execute").lines == planned.lines
    assert start_of(admin, group, five) == offset
    everything = ("--reset-offsets", "--group", group, "--all-topics", "--to-earliest")
    assert shares(*everything, "--execute").lines[2].split() == [group, five, "0", "0"]


def test_delete_offsets_and_group(shares: Tool, admin: Admin, five: str, empty: str) -> None:
    words = ("--delete-offsets", "--group", empty, "--topic", five)
    ran = shares(*words, "--topic", "no-such-topic")
    assert ran.lines[1].split() == ["TOPIC", "STATUS"]
    assert sorted(line.split()[1] for line in ran.lines[2:]) == ["Error:", "Successful"]
    assert admin.shares.offsets(empty) == {}
    said = shares("--describe", "--group", empty).err
    assert said == f"\nShare group '{empty}' has no offset information.\n"
    gone = shares("--delete", "--group", empty).out
    assert gone == f"Deletion of requested share groups ('{empty}') was successful.\n"
    assert empty not in shares("--list").lines


def test_an_unknown_group_is_reported(shares: Tool, admin: Admin) -> None:
    ran = shares("--describe", "--group", "no-such")
    assert ran.out == (
        "\nError: Executing share group command failed due to"
        " org.apache.kafka.common.errors.GroupIdNotFoundException: Group no-such not found.\n"
    )
    assert ran.code == 0
    assert "Group 'no-such' is not a share group." in shares("--delete", "--group", "no-such").out
    unknown = admin.shares.describe("no-such")["no-such"]
    assert isinstance(unknown, KafkaError)
    assert unknown.code is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "Command must include exactly one action: --list, --describe, --delete"),
        (["--describe"], "Option [describe] takes one of these options: [all-groups], [group]"),
        (["--delete"], "Option [delete] takes the options [group] or [all-groups]"),
        (
            ["--delete", "--group", "g", "--topic", "t"],
            "Option [delete] does not take the option: [topic]",
        ),
        (
            ["--delete-offsets", "--group", "g"],
            "Option [delete-offsets] takes the following options: [group], [topic]",
        ),
        (
            ["--reset-offsets", "--group", "g"],
            "Option [reset-offsets] takes the option: [execute] or [dry-run]",
        ),
        (
            ["--reset-offsets", "--group", "g", "--dry-run"],
            "Option [reset-offsets] takes one of these options: [all-topics], [topic]",
        ),
        (
            ["--reset-offsets", "--group", "g", "--dry-run", "--topic", "t"],
            "Option [reset-offsets] takes one of these options: [to-datetime], [to-earliest]",
        ),
        (["--list", "--group", "g"], 'Option "[group]" can\'t be used with option "[list]"'),
        (["--list", "--state", "x"], "Invalid state list 'x'. Valid states are: Dead, Empty"),
    ],
)
def test_wrong_command_lines(shares: Tool, words: list[str], sentence: str) -> None:
    ran = shares(*words)
    assert ran.err.startswith(sentence)
    assert ran.code == 1


def test_records_as_from_a_queue(bootstrap: str, five: str, empty: str) -> None:
    with ShareConsumer(bootstrap, five, group=empty) as consumer:
        assert take(consumer, 1) == [b"0"]
        consumer.release()
        assert take(consumer, 1) == [b"1"]
        consumer.reject()
        consumer.commit()
        assert consumer.has_more
    with ShareConsumer(bootstrap, five, group=empty) as consumer:
        assert sorted(record or b"" for record in take(consumer, 4)) == [b"0", b"2", b"3", b"4"]


def test_console_share_consumer(run: Tool, bootstrap: str, five: str, empty: str) -> None:
    server = ("--bootstrap-server", bootstrap, "--topic", five, "--group", empty)
    shown = ("--formatter-property", "print.offset=true")
    times = ("--formatter-property", "print.delivery=true")
    limit = ("--max-messages", "2", "--timeout-ms", "30000")
    released = run(console_main, *server, *limit, *shown, *times, "--release")
    assert released.lines == ["Offset:0\tDelivery:1\t0", "Offset:1\tDelivery:1\t1"]
    assert released.err == "Processed a total of 2 messages\n"
    again = run(console_main, *server, "--max-messages", "5", "--timeout-ms", "30000", *shown)
    assert sorted(line.split("\t")[1] for line in again.lines) == ["0", "1", "2", "3", "4"]
    both = run(console_main, *server, "--reject", "--release")
    assert both.err.startswith("At most one of --reject and --release may be specified.")
    no_topic = run(console_main, "--bootstrap-server", bootstrap)
    assert no_topic.err.startswith("--topic is a required argument")


def test_ottla_groups_knows_share_groups(
    run: Tool, bootstrap: str, admin: Admin, five: str, empty: str
) -> None:
    def ottla(*words: str) -> Any:
        return run(ottla_main, "groups", *words, "-b", bootstrap)

    listed = json.loads(ottla("list", "--type", "share", "--json").out)
    assert {"name": empty, "state": "Empty", "type": "Share", "protocol": "share"} in listed
    described = json.loads(ottla("describe", empty, "--json").out)
    assert described["type"] == "Share"
    (row,) = described["offsets"]
    assert (row["topic"], row["offset"], row["end"], row["members"]) == (five, 0, 5, 0)
    assert ottla("reset", empty, "--to", "latest").code == 0
    assert start_of(admin, empty, five) == 5
    assert ottla("delete", empty, "--yes").out == f"deleted group {empty}\n"
