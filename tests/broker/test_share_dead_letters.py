"""Dead letter queues of share groups (KIP-1191), through the handlers of a broker."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from data_path_broker import Client, code, records_of, run, until
from share_client import ACCEPT, REJECT, RELEASE, TOPIC, ShareMember, configure, queue

from ottla.broker.share import dead_letters
from ottla.config import ServerConfig, validate_group_overrides
from ottla.coordinator.share.state_records import STATE_TOPIC
from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import build_batch
from ottla.records.record import Record
from ottla.replica.partition import Partition
from ottla.wire.apis import ApiKey
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

SAFE_DOWNGRADE = 2
DLQ = "dlq.workers"
TOPIC_NAME = "errors.deadletterqueue.topic.name"
COPY = "errors.deadletterqueue.copy.record.enable"
ENABLED = {"errors_deadletterqueue_group_enable": "true"}


async def queue_with_letters(client: Client, *, copy: bool = False, **topic: str) -> ShareMember:
    await client.create(DLQ, **{**ENABLED, **topic})
    member = await queue(client)
    await configure(client.broker, "workers", **{TOPIC_NAME: DLQ, COPY: str(copy).lower()})
    return member


async def letters(client: Client, topic: str = DLQ) -> list[Record]:
    return records_of(await client.fetch(topic, 0))


def headers(record: Record) -> dict[str, str]:
    return {name: (value or b"").decode() for name, value in record.headers}


async def until_done(client: Client, start_offset: int) -> None:
    (shared,) = client.broker.shares._shared.values()
    await until(lambda: shared.share_partition.start_offset == start_offset)


def test_a_rejected_record_becomes_a_dead_letter_with_kafkas_headers(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        member = await queue_with_letters(client)
        await member.send(3)
        assert await member.acquire() == [(0, 2, 1)]
        assert await member.say((0, 0, ACCEPT), (1, 1, REJECT), (2, 2, ACCEPT)) == "NONE"
        await until_done(client, 3)
        (letter,) = await letters(client)
        assert (letter.key, letter.value) == (None, None)
        assert letter.timestamp == client.broker.clock.now_ms()
        assert headers(letter) == {
            "__dlq.errors.topic": TOPIC,
            "__dlq.errors.partition": "0",
            "__dlq.errors.offset": "1",
            "__dlq.errors.group": "workers",
            "__dlq.errors.delivery.count": "1",
            "__dlq.errors.message": "Offset rejected by client.",
        }
        assert await member.offsets() == {0: (3, 0)}

    run(tmp_path, act)


def test_a_cluster_at_share_version_1_writes_no_dead_letters(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        update = FeatureUpdateKey("share.version", 1, False, SAFE_DOWNGRADE)
        request = UpdateFeaturesRequest(feature_updates=[update])
        assert (await client.ask(ApiKey.UPDATE_FEATURES, request, 2)).error_code == 0
        member = await queue_with_letters(client)
        await member.send(2)
        assert await member.acquire() == [(0, 1, 1)]
        assert await member.say((0, 0, REJECT), (1, 1, ACCEPT)) == "NONE"
        await until_done(client, 2)
        assert await letters(client) == []

    run(tmp_path, act)


def test_a_record_delivered_too_often_becomes_a_dead_letter(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        member = await queue_with_letters(client, copy=True)
        await configure(client.broker, "workers", **{"share.delivery.count.limit": "2"})
        await member.send(2)
        for count in (1, 2):
            assert await member.acquire() == [(0, 1, count)]
            assert await member.say((0, 1, RELEASE)) == "NONE"
        await until_done(client, 2)
        found = await letters(client)
        assert [(letter.key, letter.value) for letter in found] == [(b"k", b"0"), (b"k", b"1")]
        letter_headers = [headers(letter) for letter in found]
        assert [letter["__dlq.errors.delivery.count"] for letter in letter_headers] == ["2", "2"]
        assert {letter["__dlq.errors.message"] for letter in letter_headers} == {
            "Offset delivery count exceeded the threshold."
        }

    run(tmp_path, act)


@pytest.mark.parametrize("codec", [0, 1, 4])
def test_dead_letters_respect_the_batch_limit_of_their_topic(tmp_path: Path, codec: int) -> None:
    async def act(client: Client) -> None:
        member = await queue_with_letters(client, copy=True, max_message_bytes="4000")
        sizes = [1500, 1500, 1500, 3950, 10, 1500]
        records = [
            Record(timestamp=1, value=bytes([65 + number]) * size, headers=[("h", b"v")])
            for number, size in enumerate(sizes)
        ]
        for record in records:  # one batch each: a batch is unpacked as a whole, or not at all
            data = build_batch([record], compression=codec)
            assert code(await member.produce(TOPIC, data)) == "NONE"
        assert await member.acquire() == [(0, 5, 1)]
        assert await member.say((0, 5, REJECT)) == "NONE"
        await until_done(client, 6)
        found = await letters(client)
        assert [headers(letter)["__dlq.errors.offset"] for letter in found] == list("012345")
        # The fourth has no room for the headers: its dead letter only names its place.
        assert [len(letter.value or b"") for letter in found] == [1500, 1500, 1500, 0, 10, 1500]
        assert "h" not in headers(found[0])

    run(tmp_path, act)


def test_a_dead_letter_interrupted_by_a_crash_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    appended = Partition.append

    def not_yet(self: Partition, *given: Any, **more: Any) -> Any:
        if self.topic == DLQ:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        return appended(self, *given, **more)

    async def before(client: Client) -> None:
        member = await queue_with_letters(client)
        await member.send(2)
        assert await member.acquire() == [(0, 1, 1)]
        monkeypatch.setattr(Partition, "append", not_yet)
        assert await member.say((0, 1, REJECT)) == "NONE"
        await until(lambda: client.broker.shares.dead_letters.failures["workers"] == 1)
        assert await member.offsets() == {0: (0, 2)}
        assert await member.acquire() == []
        await client.broker.crash()
        monkeypatch.undo()

    async def after(client: Client) -> None:
        member = ShareMember(client.broker)
        await member.join()
        assert await member.acquire() == []
        await until_done(client, 2)
        found = [headers(letter) for letter in await letters(client)]
        assert [letter["__dlq.errors.offset"] for letter in found] == ["0", "1"]
        assert found[0]["__dlq.errors.message"] == "Offset rejected by client."

    run(tmp_path, before, after)


def test_a_transient_error_is_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "BACKOFF_S", 0.01)
    checked = Partition.check_min_isr
    left = [3]

    def too_few(self: Partition) -> None:
        if self.topic == DLQ and left[0]:
            left[0] -= 1
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        checked(self)

    async def act(client: Client) -> None:
        member = await queue_with_letters(client)
        await member.send(1)
        await member.acquire()
        monkeypatch.setattr(Partition, "check_min_isr", too_few)
        assert await member.say((0, 0, REJECT)) == "NONE"
        await until_done(client, 1)
        assert len(await letters(client)) == 1
        assert left == [0]

    run(tmp_path, act)


@pytest.mark.parametrize(
    ("topic", "name", "why"),
    [
        ({}, DLQ, "does not have errors.deadletterqueue.group.enable=true"),
        (ENABLED, "letters", "does not start with dlq."),
        (ENABLED, "dlq.others", "does not exist"),
    ],
)
def test_an_unusable_dead_letter_topic_delays_no_member(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    topic: dict[str, str],
    name: str,
    why: str,
) -> None:
    async def act(client: Client) -> None:
        await client.create(DLQ, **topic)
        await client.create("letters", **topic)
        member = await queue(client)
        await configure(client.broker, "workers", **{TOPIC_NAME: name})
        await member.send(1)
        await member.acquire()
        assert await member.say((0, 0, REJECT)) == "NONE"
        await until_done(client, 1)
        assert await letters(client) == []

    with caplog.at_level(logging.ERROR):
        run(tmp_path, act)
    (letter_headers,) = [
        record.getMessage() for record in caplog.records if "ARCHIVED" in record.getMessage()
    ]
    assert why in letter_headers


def test_the_dead_letter_topic_is_created_if_brokers_may_create_it(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        member = await queue(client)
        await configure(client.broker, "workers", **{TOPIC_NAME: DLQ})
        await member.send(2)
        await member.acquire()
        assert await member.say((0, 1, REJECT)) == "NONE"
        await until_done(client, 2)
        assert len(await letters(client)) == 2
        made = client.broker.image.topics[DLQ]
        assert made.configs == {
            "errors.deadletterqueue.group.enable": "true",
            "message.timestamp.type": "CreateTime",
        }

    run(tmp_path, act, errors_deadletterqueue_auto_create_topics_enable="true")


def test_letters_that_are_dead_letter_offsets_are_not_sent_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state is loaded again meanwhile, as it is when the last member has left."""
    monkeypatch.setattr(dead_letters, "BACKOFF_S", 0.05)
    checked = Partition.check_min_isr
    held = [True]

    def too_few(self: Partition) -> None:
        if self.topic == DLQ and held[0]:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        checked(self)

    async def act(client: Client) -> None:
        member = await queue_with_letters(client)
        await member.send(2)
        await member.acquire()
        monkeypatch.setattr(Partition, "check_min_isr", too_few)
        assert await member.say((0, 1, REJECT)) == "NONE"
        client.broker.shares.forget_group("workers")
        assert await member.acquire() == []
        held[0] = False
        await until_done(client, 2)
        assert len(await letters(client)) == 2
        assert client.broker.shares._dead_letter_offsets == {}

    run(tmp_path, act)


def test_archiving_is_retried_when_the_state_cannot_be_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.broker.share.partitions.ARCHIVE_RETRY_S", 0.01)
    appended = Partition.append
    failures = []

    def once(self: Partition, *given: Any, **more: Any) -> Any:
        if self.topic == STATE_TOPIC and len(failures) < 2:
            failures.append(self.topic)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        if self.topic == DLQ:
            monkeypatch.setattr(Partition, "append", once)
        return appended(self, *given, **more)

    def first(self: Partition, *given: Any, **more: Any) -> Any:
        return once(self, *given, **more) if self.topic == DLQ else appended(self, *given, **more)

    async def act(client: Client) -> None:
        member = await queue_with_letters(client)
        await member.send(1)
        await member.acquire()
        monkeypatch.setattr(Partition, "append", first)
        assert await member.say((0, 0, REJECT)) == "NONE"
        await until_done(client, 1)
        assert len(failures) == 2
        assert len(await letters(client)) == 1
        assert await member.offsets() == {0: (1, 0)}

    run(tmp_path, act)


def test_a_group_cannot_have_an_internal_topic_as_its_queue() -> None:
    with pytest.raises(KafkaError, match="must not start with '__'"):
        validate_group_overrides(ServerConfig({}), {TOPIC_NAME: "__letters"})
