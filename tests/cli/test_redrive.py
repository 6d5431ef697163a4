"""kafka-share-groups --redrive and `ottla groups redrive`: dead letters go back, exactly once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from ottla.cli.kafka.share_groups import main
from ottla.cli.main import main as ottla_main
from ottla.client import Admin, Consumer, KafkaError, Producer, ShareConsumer, TopicPartition
from ottla.client import redrive as redrive_module
from ottla.client.configs import ResourceType
from ottla.client.redrive import RedriveFilter

Tool = Callable[..., Any]
DEADLINE_S = 60


@pytest.fixture
def shares(run: Tool, bootstrap: str) -> Tool:
    return lambda *words: run(main, "--bootstrap-server", bootstrap, *words)


@pytest.fixture
def letters(admin: Admin, topic: str, group: str) -> str:
    """The dead letter topic of the group, which reads `topic` from its beginning."""
    admin.topics.create(topic, 2)
    name = f"dlq.{topic}"
    admin.topics.create(name, 2, configs={"errors.deadletterqueue.group.enable": "true"})
    configs = {"share.auto.offset.reset": "earliest", "errors.deadletterqueue.topic.name": name}
    admin.configs.alter(ResourceType.GROUP, group, set=configs)
    return name


def send(bootstrap: str, topic: str, *values: str, partition: int = 0) -> None:
    with Producer(bootstrap, key=str, value=str) as producer:
        for value in values:
            headers = [("color", b"red")]
            producer.send(topic, value, key=f"k{value}", partition=partition, headers=headers)


def reject(admin: Admin, bootstrap: str, topic: str, group: str, count: int) -> None:
    """Rejects `count` records, and waits until the group has processed them."""
    with ShareConsumer(bootstrap, topic, group=group) as consumer:
        deadline = time.monotonic() + DEADLINE_S
        while count and time.monotonic() < deadline:
            if consumer.poll(1.0) is not None:
                consumer.reject()
                count -= 1
        consumer.commit()
        assert not count
        while any(offset.lag for offset in admin.shares.offsets(group).values()):  # type: ignore[union-attr]
            assert time.monotonic() < deadline
            time.sleep(0.05)


def records(bootstrap: str, topic: str, count: int) -> list[Any]:
    """The records of both partitions; fails if there are more than `count`."""
    consumer = Consumer(
        bootstrap,
        key=str,
        value=str,
        auto_offset_reset="earliest",
        settings={"isolation.level": "read_committed"},
    )
    with consumer:
        consumer.assign({TopicPartition(topic, number): 0 for number in range(2)})
        found = consumer.take(count, DEADLINE_S)
        assert consumer.take(1, 0.5) == []
    return found


def values(bootstrap: str, topic: str, count: int) -> list[str]:
    return sorted(record.value for record in records(bootstrap, topic, count))


def test_records_go_back_whole_and_once(
    shares: Tool, admin: Admin, bootstrap: str, topic: str, group: str, letters: str
) -> None:
    send(bootstrap, topic, "a", "b")
    send(bootstrap, topic, "c", partition=1)
    reject(admin, bootstrap, topic, group, 3)
    dry = shares("--redrive", "--group", group, "--dry-run")
    assert f"3 records would be redriven from {letters}." in dry.out
    done = shares("--redrive", "--group", group)
    assert done.lines[1].split() == ["GROUP", "TOPIC", "PARTITION", "REDRIVEN"]
    assert [line.split() for line in done.lines[2:4]] == [
        [group, topic, "0", "2"],
        [group, topic, "1", "1"],
    ]
    assert f"3 records redriven from {letters}." in done.out
    found = records(bootstrap, topic, 6)
    again = [record for record in found if record.offset >= (2 if record.partition == 0 else 1)]
    assert sorted((record.partition, record.key, record.value) for record in again) == [
        (0, "ka", "a"),
        (0, "kb", "b"),
        (1, "kc", "c"),
    ]
    assert {record.headers for record in again} == {(("color", b"red"),)}
    nothing = shares("--redrive", "--group", group)
    assert f"0 records redriven from {letters}." in nothing.out
    assert len(values(bootstrap, topic, 6)) == 6


def test_filters_leave_letters_for_later(
    run: Tool,
    admin: Admin,
    bootstrap: str,
    topic: str,
    group: str,
    letters: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", bootstrap)
    send(bootstrap, topic, "a", "b", "c")
    reject(admin, bootstrap, topic, group, 3)
    ottla = lambda *words: run(ottla_main, "groups", "redrive", group, *words)  # noqa: E731
    other = json.loads(ottla("--topic", "elsewhere", "--json").out)
    assert (other["redriven"], other["filtered"]) == ([], 3)
    late = json.loads(ottla("--from", "2999-01-01", "--json").out)
    assert (late["redriven"], late["filtered"]) == ([], 3)
    one = json.loads(ottla("--limit", "1", "--to", "2999-01-01", "--json").out)
    assert one["redriven"] == [{"topic": topic, "partition": 0, "count": 1}]
    assert values(bootstrap, topic, 4) == ["a", "a", "b", "c"]
    table = ottla("--topic", topic).out
    assert f"2 records redriven from {letters}." in table
    assert values(bootstrap, topic, 6) == ["a", "a", "b", "b", "c", "c"]


def test_a_record_that_is_gone_is_replaced_by_its_copy(
    shares: Tool, admin: Admin, bootstrap: str, topic: str, group: str, letters: str
) -> None:
    send(bootstrap, topic, "lost")
    reject(admin, bootstrap, topic, group, 1)
    copies = {"errors.deadletterqueue.copy.record.enable": "true"}
    admin.configs.alter(ResourceType.GROUP, group, set=copies)
    send(bootstrap, topic, "copied")
    reject(admin, bootstrap, topic, group, 1)
    assert admin.offsets.delete_before({TopicPartition(topic, 0): 2})
    done = shares("--redrive", "--group", group)
    assert "1 record redriven" in done.out
    assert "1 lost: not copied, and no longer in their topics" in done.out
    (found,) = records(bootstrap, topic, 1)
    assert (found.key, found.value, found.headers) == ("kcopied", "copied", ())


def test_a_transaction_that_fails_sends_nothing(
    admin: Admin,
    bootstrap: str,
    topic: str,
    group: str,
    letters: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    send(bootstrap, topic, *map(str, range(5)))
    reject(admin, bootstrap, topic, group, 5)
    monkeypatch.setattr(redrive_module, "TRANSACTION_RECORDS_MAX", 2)
    seen = []

    def stop(summary: redrive_module.RedriveSummary) -> None:
        seen.append(summary.count)
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        admin.shares.redrive(group, progress=stop)
    assert seen == [2, 4]
    assert len(values(bootstrap, topic, 9)) == 9
    summary = admin.shares.redrive(group, RedriveFilter(topics=(topic,)))
    assert summary.count == 1
    assert values(bootstrap, topic, 10) == sorted([*"01234", *"01234"])


def test_a_redrive_overtaken_by_another_is_fenced(
    admin: Admin, bootstrap: str, topic: str, group: str, letters: str
) -> None:
    send(bootstrap, topic, "a")
    reject(admin, bootstrap, topic, group, 1)
    with redrive_module._RedriveProducer(admin._session, group) as first:
        assert admin.shares.redrive(group).count == 1
        with pytest.raises(KafkaError):
            first.write([], {TopicPartition(letters, 0): redrive_module.RedrivePosition(0)})
    assert admin.shares.redrive(group).count == 0


def test_errors_are_reported(shares: Tool, admin: Admin, group: str) -> None:
    assert "has no dead letter queue" in shares("--redrive", "--group", group).out
    assert "takes the option: [group]" in shares("--redrive").err
    assert shares("--list", "--limit", "3").code == 1
