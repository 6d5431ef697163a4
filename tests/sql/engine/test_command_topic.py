"""The command topic and its records."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from ottla.client import ConsumerRecord
from ottla.errors import KafkaError
from ottla.sql.engine.command_topic import (
    COMMAND_BYTES_MAX,
    Command,
    CommandTopic,
    QueuedCommand,
    read,
)
from ottla.sql.engine.lease import Lease
from ottla.testing import LocalCluster

CREATE = Command("stream/`A`/create", "CREATE STREAM A ...;", {"auto.offset.reset": "earliest"})


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as started:
        yield started


def test_commands_are_read_as_they_were_written(cluster: LocalCluster) -> None:
    topic = CommandTopic(cluster.bootstrap_servers, "read_")
    assert topic.make() == 0
    second = Command("type/T/create", "CREATE TYPE ...;", settings={"a": "b"}, basis=0)
    assert [topic.write(CREATE), topic.write(second)] == [0, 1]
    assert topic.make() == 2, "creating it again changes nothing"
    with topic.reader() as reader:
        records = reader.take(2, 10)
    topic.close()
    assert [read(record) for record in records] == [
        QueuedCommand(0, CREATE),
        QueuedCommand(1, second),
    ]


def test_nothing_is_deleted_from_the_topic(cluster: LocalCluster) -> None:
    topic = CommandTopic(cluster.bootstrap_servers, "kept_")
    topic.make()
    with cluster.admin() as admin:
        configs = admin.configs.describe_topics([topic.name])[topic.name]
    assert not isinstance(configs, KafkaError)
    values = {config.name: config.value for config in configs}
    assert values["retention.ms"] == "-1"
    assert values["cleanup.policy"] == "delete"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"nonsense", "not a command"),
        (b"\xff", "not a command"),
        (b"{}", "not a command"),
        (b"[]", "not a command"),
        (b'{"version": 99, "statement": "x"}', "version 99 is newer"),
        (None, "not a command"),
    ],
)
def test_an_unreadable_command_gives_its_error(value: bytes | None, words: str) -> None:
    found = read(ConsumerRecord("t", 0, 7, 0, b"key", value))
    assert (found.offset, found.command) == (7, None)
    assert words in found.trouble


def test_a_command_that_is_too_large_is_refused(cluster: LocalCluster) -> None:
    topic = CommandTopic(cluster.bootstrap_servers, "large_")
    with pytest.raises(KafkaError, match="are allowed"):
        topic.write(Command("x", "x" * COMMAND_BYTES_MAX))


def test_the_next_server_gets_the_lease_when_its_holder_ends(
    cluster: LocalCluster,
) -> None:
    topic = CommandTopic(cluster.bootstrap_servers, "lease_")
    topic.make()
    came = {"first": threading.Event(), "second": threading.Event()}

    def lease(name: str) -> Lease:
        def changed(held: bool) -> None:
            if held:
                came[name].set()

        return Lease(
            cluster.bootstrap_servers, topic=topic.name, group="lease_runner", changed=changed
        )

    first, second = lease("first"), lease("second")
    first.start()
    assert came["first"].wait(60)
    second.start()
    assert not came["second"].wait(1)
    first.close()
    assert not first.held
    assert came["second"].wait(60)
    second.close()
