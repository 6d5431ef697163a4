"""Restarts, failed and full disks, failed starts: what survives, and what clients see."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest
from data_path_broker import (
    NOW_MS,
    Client,
    batch,
    broker_config,
    by_producer,
    code,
    records_of,
    run,
)

from ottla.broker.broker import Broker
from ottla.config import ServerConfig
from ottla.storage.store import LogStoreError
from ottla.testing.manual_clock import ManualClock
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic


def failed(broker: Broker, topic: str, index: int = 0) -> None:
    log = broker.partitions.of_topic(topic)[index].log
    log.dir.failed(OSError(errno.EIO, os.strerror(errno.EIO)), "test")


def test_a_restart_keeps_everything(tmp_path: Path) -> None:
    seen: dict[str, Any] = {}

    async def before(client: Client) -> None:
        await client.create("t", 2, retention_ms="12345")
        seen["id"] = client.topic_id("t")
        seen["cluster"] = client.broker.image.cluster_id
        for sequence in range(4):
            await client.produce("t", by_producer(sequence, b"%d" % sequence))
        client.broker.partitions.find("t", 0).delete_records(1, NOW_MS)

    async def after(client: Client) -> None:
        assert client.topic_id("t") == seen["id"]
        assert client.broker.image.cluster_id == seen["cluster"]
        partition = client.broker.partitions.find("t", 0)
        assert (partition.log.start_offset, partition.high_watermark) == (1, 4)
        assert partition.log.config.retention_ms == 12345
        answer = await client.fetch("t", 1)
        assert [record.value for record in records_of(answer)] == [b"1", b"2", b"3"]
        # The producer is known: its last batch is a duplicate, and a gap is refused.
        assert (await client.produce("t", by_producer(3, b"3"))).base_offset == 3
        answer = await client.produce("t", by_producer(9, b"9"))
        assert code(answer) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
        assert (await client.produce("t", by_producer(4, b"4"))).base_offset == 4

    run(tmp_path, before, after)


def test_a_crash_keeps_everything(tmp_path: Path) -> None:
    async def play() -> None:
        config = broker_config(tmp_path)
        first = Broker(config, clock=ManualClock())
        await first.start()
        client = Client(first)
        await client.create("t")
        for sequence in range(3):
            await client.produce("t", by_producer(sequence, b"v"))
        # As after a kill: descriptors and locks are released, and nothing was written.
        os.close(first._meta_store._journal._descriptor)  # type: ignore[attr-defined, union-attr]
        first.store._unlock()
        second = Broker(config, clock=ManualClock())
        await second.start()
        client = Client(second)
        assert second.partitions.find("t", 0).high_watermark == 3
        assert (await client.produce("t", by_producer(2, b"v"))).base_offset == 2
        assert (await client.produce("t", by_producer(3, b"v"))).base_offset == 3
        await second.stop()
        first._server.stop_accepting()
        await first._chores.stop()
        await first.metadata.stop()

    asyncio.run(play())


def two_dirs(path: Path) -> dict[str, str]:
    return {"log_dirs": f"{path}/one,{path}/two"}


def test_a_failed_directory_takes_only_its_partitions_offline(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def act(client: Client) -> None:
        await client.create("t", 2)
        broker = client.broker
        for index in (0, 1):
            await client.produce("t", batch(b"v"), index=index)
        dirs = [broker.partitions.find("t", index).log.dir for index in (0, 1)]
        assert dirs[0] is not dirs[1]
        failed(broker, "t", 0)
        assert code(await client.produce("t", batch(b"v"))) == "KAFKA_STORAGE_ERROR"
        assert code(await client.fetch("t", 0)) == "KAFKA_STORAGE_ERROR"
        assert await latest(client, 0) == ("KAFKA_STORAGE_ERROR", -1)
        # The other directory is served.
        assert (await client.produce("t", batch(b"v"), index=1)).base_offset == 1
        assert len(records_of(await client.fetch("t", 0, index=1))) == 2
        assert await latest(client, 1) == ("NONE", 2)
        for answer in (await metadata(client, "t"), await described(client, "t")):
            lost, kept = answer.partitions
            nobody = (lost.leader_id, lost.offline_replicas)
            assert (code(lost), *nobody) == ("LEADER_NOT_AVAILABLE", -1, [broker.node_id])
            assert (code(kept), kept.leader_id) == ("NONE", broker.node_id)
            assert kept.offline_replicas == []
        # New topics go to the remaining directory.
        await client.create("u", 3)
        assert {broker.partitions.find("u", index).log.dir for index in range(3)} == {dirs[1]}
        assert not broker.failed.is_set()

    run(tmp_path, act, **two_dirs(tmp_path))
    assert "Stopping serving replicas in dir " in caplog.text


async def latest(client: Client, index: int) -> tuple[str, int]:
    topic = ListOffsetsTopic("t", [ListOffsetsPartition(index, -1, -1)])
    response = await client.ask(ApiKey.LIST_OFFSETS, ListOffsetsRequest(-1, topics=[topic]))
    (answer,) = response.topics[0].partitions
    return code(answer), answer.offset


async def metadata(client: Client, name: str) -> Any:
    request = MetadataRequest([MetadataRequestTopic(name=name)])
    return (await client.ask(ApiKey.METADATA, request)).topics[0]


async def described(client: Client, name: str) -> Any:
    request = DescribeTopicPartitionsRequest([TopicRequest(name)])
    return (await client.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, request)).topics[0]


def test_without_any_directory_the_broker_exits(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create("t", 2)
        failed(client.broker, "t", 0)
        assert not client.broker.failed.is_set()
        failed(client.broker, "t", 1)
        assert client.broker.failed.is_set()

    run(tmp_path, act, **two_dirs(tmp_path))


def test_a_directory_missing_at_the_start_is_offline(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its partitions stay offline, and are not created elsewhere when their topic changes."""
    held: dict[int, str] = {}

    async def before(client: Client) -> None:
        await client.create("t", 2)
        for index in (0, 1):
            await client.produce("t", batch(b"%d" % index), index=index)
            held[index] = client.broker.partitions.find("t", index).log.dir.path
        os.rename(tmp_path / "two", tmp_path / "away")
        (tmp_path / "two").write_text("not a directory")

    async def between(client: Client) -> None:
        (lost,) = [index for index, path in held.items() if path.endswith("two")]
        broker = client.broker
        assert code(await client.produce("t", batch(b"v"), index=lost)) == "KAFKA_STORAGE_ERROR"
        assert code(await client.fetch("t", 0, index=lost)) == "KAFKA_STORAGE_ERROR"
        assert code(await client.produce("t", batch(b"v"), index=1 - lost)) == "NONE"
        await broker.settings.alter_topic_config("t", lambda _: {"retention.ms": "1000"})
        assert code(await client.produce("t", batch(b"v"), index=lost)) == "KAFKA_STORAGE_ERROR"
        assert broker.partitions.find("t", 1 - lost).log.config.retention_ms == 1000
        assert [p.offline_replicas for p in (await metadata(client, "t")).partitions][lost] == [
            broker.node_id
        ]
        (tmp_path / "two").unlink()
        os.rename(tmp_path / "away", tmp_path / "two")

    async def after(client: Client) -> None:
        for index in (0, 1):
            first = records_of(await client.fetch("t", 0, index=index))[0]
            assert first.value == b"%d" % index

    run(tmp_path, before, between, after, **two_dirs(tmp_path))
    assert "is offline" in caplog.text


class FullDisk:
    """An open file on a full disk."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def pwrite(self, data: Any, position: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("version", [3, 9, 13])
def test_a_full_disk_is_reported_and_does_no_harm(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        await client.produce("t", by_producer(0, b"v"), version)
        partition = client.broker.partitions.find("t", 0)
        segment = partition.log.segments.active
        file = segment.file
        segment.file = FullDisk(file)  # type: ignore[assignment]
        answer = await client.produce("t", by_producer(1, b"v"), version)
        assert (code(answer), answer.base_offset) == ("KAFKA_STORAGE_ERROR", -1)
        assert (partition.high_watermark, partition.log.dir.offline) == (1, False)
        assert len(records_of(await client.fetch("t", 0))) == 1
        segment.file = file
        # With room again the same batch is not a duplicate.
        assert (await client.produce("t", by_producer(1, b"v"), version)).base_offset == 1
        assert len(records_of(await client.fetch("t", 0))) == 2

    run(tmp_path, act)


def test_a_partition_without_disk_space_is_created_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(client: Client) -> None:
        def full(*_: Any) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        broker = client.broker
        with monkeypatch.context() as patch:
            patch.setattr("ottla.storage.files.DiskFiles.make_dir", full)
            await client.create("t")
        assert code(await client.produce("t", batch(b"v"))) == "KAFKA_STORAGE_ERROR"
        assert broker.partitions.is_offline("t", 0)
        await broker.settings.alter_topic_config("t", lambda _: {"retention.ms": "1000"})
        assert (await client.produce("t", batch(b"v"))).base_offset == 0
        assert not broker.partitions.is_offline("t", 0)

    run(tmp_path, act)


# Starts that fail


def test_a_port_in_use_is_named_and_nothing_stays_open(tmp_path: Path) -> None:
    async def play() -> None:
        first = Broker(broker_config(tmp_path / "a"))
        await first.start()
        taken = f"PLAINTEXT://127.0.0.1:{first.port}"
        second = Broker(broker_config(tmp_path / "b", listeners=taken))
        with pytest.raises(OSError, match=f"cannot listen on {taken}"):
            await second.start()
        await first.stop()
        await start_and_stop(broker_config(tmp_path / "b", listeners=taken))

    asyncio.run(play())


def test_a_start_that_fails_late_leaves_nothing_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        config = broker_config(tmp_path)
        await start_and_stop(config)
        for where, error in (
            ("ottla.storage.store.LogStore.open", LogStoreError("not like this")),
            ("ottla.cluster.cluster_membership.ClusterMembership.register", OSError("gone")),
            ("ottla.replica.partitions.Partitions.start", RuntimeError("a bug")),
            (
                "ottla.broker.group_coordinator_service.GroupCoordinatorService.start",
                RuntimeError("a bug"),
            ),
        ):

            def fail(*_: Any, error: Exception = error, **__: Any) -> Any:
                raise error

            with monkeypatch.context() as patch:
                patch.setattr(where, fail)
                with pytest.raises(type(error), match=str(error)):
                    await Broker(config).start()
            assert len(asyncio.all_tasks()) == 1
            await start_and_stop(config)

    asyncio.run(play())


async def start_and_stop(config: ServerConfig) -> None:
    broker = Broker(config)
    await broker.start()
    await broker.stop()
    await broker.stop()  # stopping twice is harmless


def test_a_topic_that_cannot_be_set_aside_does_not_prevent_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def before(client: Client) -> None:
        await client.create("t", 2)
        await client.produce("t", batch(b"v"))

    run(tmp_path, before)
    os.remove(tmp_path / "logs" / "ottla-metadata.journal")
    (tmp_path / "logs" / "meta.properties").unlink()

    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def after(client: Client) -> None:
        await client.create("u")
        assert code(await client.produce("u", batch(b"v"))) == "NONE"

    monkeypatch.setattr("ottla.storage.files.DiskFiles.rename", refuse)
    run(tmp_path, after)
    assert "Failed to rename stray log" in caplog.text


# Chores


def test_checkpoints_are_written_once_by_the_scheduled_task(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        await client.produce("t", batch(b"v"))
        file = tmp_path / "logs" / "replication-offset-checkpoint"
        async with asyncio.timeout(60):
            while not file.exists() or "t 0 1" not in file.read_text():
                await asyncio.sleep(0.01)
        written = file.stat().st_mtime_ns
        await asyncio.sleep(0.1)
        assert file.stat().st_mtime_ns == written

    run(tmp_path, act, log_flush_offset_checkpoint_interval_ms="0")


def test_connection_limits_follow_the_configuration(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        broker = client.broker
        await broker.settings.alter_broker_config(
            "", lambda _: {"max.connections": "7", "max.connections.per.ip": "3"}
        )
        server = broker._server
        assert (server.connections_max, server.connections_per_ip_max) == (7, 3)
        assert server.connections_per_ip_overrides == {"127.0.0.1": 5}

    run(tmp_path, act, max_connections_per_ip_overrides="127.0.0.1:5")
