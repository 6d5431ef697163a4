"""The log cleaner of a broker: its process, the work on the loop, and its end."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from data_path_broker import Client, batch, code, records_of, run, until

from ottla.broker import log_cleaner
from ottla.broker.cleaner_process import ORPHANED, Throttler
from ottla.broker.log_cleaner import CleanerProcess, limits
from ottla.config import ServerConfig
from ottla.coordinator.records import OFFSETS_TOPIC, partition_for
from ottla.storage.checkpoints import CLEANER_OFFSETS
from ottla.storage.cleaner import CleanerTask
from ottla.storage.cleaner_plan import CleanedSegment, CleanerReport, read_report
from ottla.storage.log import Log
from ottla.wire.apis import ApiKey
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

FAST = {"log.cleaner.backoff.ms": "10"}
COMPACT = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01"}


async def fill(client: Client, topic: str, rounds: int = 40) -> Log:
    """Ten keys written repeatedly, in segments of a few records."""
    log = client.broker.partitions.find(topic, 0).log
    log.reconfigure(dataclasses.replace(log.config, segment_bytes=1000, file_delete_delay_ms=0))
    for number in range(rounds):
        for key in range(10):
            data = batch(b"v%d" % number, key=b"k%d" % key)
            assert code(await client.produce(topic, data)) == "NONE"
    return log


def cleaned(log: Log) -> bool:
    return log.first_dirty_offset == log.segments.active.base_offset


def test_a_compacted_topic_shrinks_by_itself(tmp_path: Path) -> None:
    async def fills(client: Client) -> None:
        await client.create("t", **COMPACT)
        log = await fill(client, "t")
        before = log.size
        await until(lambda: cleaned(log))
        assert log.size < before / 5
        await reads(client)

    async def reads(client: Client) -> None:
        offset, latest = 0, {}
        while True:
            found = records_of(await client.fetch("t", offset))
            if not found:
                break
            latest |= {record.key: (record.offset, record.value) for record in found}
            offset = found[-1].offset + 1
        assert latest == {b"k%d" % key: (390 + key, b"v39") for key in range(10)}

    async def after_a_restart(client: Client) -> None:
        log = client.broker.partitions.find("t", 0).log
        assert log.first_dirty_offset > 0
        assert log.end_offset == 400
        await reads(client)
        result = await client.produce("t", batch(b"new", key=b"k0"))
        assert result.base_offset == 400

    run(tmp_path, fills, after_a_restart, **FAST)
    lines = (tmp_path / "logs" / CLEANER_OFFSETS).read_text().splitlines()
    assert lines[0:2] == ["0", "1"]
    assert lines[2].startswith("t 0 3")


def test_the_cleaner_process_ends_when_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    spawn = log_cleaner.start_process

    def watch() -> Any:
        found = spawn()
        started.append(found[0])
        return found

    monkeypatch.setattr(log_cleaner, "start_process", watch)

    async def act(client: Client) -> None:
        await client.create("plain")
        await fill(client, "plain")
        await asyncio.sleep(0.05)
        assert started == []
        await client.create("t", **COMPACT)
        log = await fill(client, "t")
        await until(lambda: cleaned(log) and bool(started) and started[-1].poll() is not None)

    run(tmp_path, act, **FAST)


def test_log_cleaner_enable_false_starts_nothing(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create("t", **COMPACT)
        log = await fill(client, "t")
        await asyncio.sleep(0.1)
        assert log.first_dirty_offset == 0

    run(tmp_path, act, **{"log.cleaner.enable": "false"}, **FAST)


def test_a_topic_that_is_deleted_and_made_again_keeps_its_own_records(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        for _ in range(3):
            await client.create("t", **COMPACT)
            await fill(client, "t", rounds=20)
            await asyncio.sleep(0.05)  # somewhere in the middle of a cleaning
            await client.broker.controller.delete_topics(["t"])
        await client.create("t", **COMPACT)
        await client.produce("t", batch(b"mine", key=b"k"))
        await asyncio.sleep(0.2)
        assert [r.value for r in records_of(await client.fetch("t", 0))] == [b"mine"]

    run(tmp_path, act, **FAST)


def test_a_dead_process_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    killed: list[int] = []
    spawn = log_cleaner.start_process

    def kill_first() -> Any:
        found = spawn()
        if not killed:
            killed.append(found[0].pid)
            os.kill(found[0].pid, signal.SIGKILL)
        return found

    monkeypatch.setattr(log_cleaner, "start_process", kill_first)

    async def act(client: Client) -> None:
        await client.create("t", **COMPACT)
        log = await fill(client, "t")
        await until(lambda: cleaned(log))

    run(tmp_path, act, **FAST)
    assert killed
    assert "t-0: the cleaner process died while cleaning it" in caplog.text


def test_a_damaged_log_is_marked_uncleanable_and_others_are_cleaned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def act(client: Client) -> None:
        await client.create("bad", **COMPACT)
        log = client.broker.partitions.find("bad", 0).log
        log.reconfigure(dataclasses.replace(log.config, min_cleanable_dirty_ratio=1.0))
        await fill(client, "bad")
        log.segments[1].open_file().pwrite(b"\xff\xff", 65)
        log.reconfigure(dataclasses.replace(log.config, min_cleanable_dirty_ratio=0.0))
        await client.create("good", **COMPACT)
        good = await fill(client, "good")
        await until(lambda: cleaned(good) and "Marking bad-0 as uncleanable" in caplog.text)
        assert log.first_dirty_offset == 0

    run(tmp_path, act, **FAST)
    assert caplog.text.count("Marking bad-0 as uncleanable") == 1
    assert "wrong checksum" in caplog.text


def test_a_log_that_loses_segments_during_cleaning_is_cleaned_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Log] = []
    send = CleanerProcess.send

    def delete_first(worker: CleanerProcess, task: CleanerTask) -> None:
        if not sent:
            task.log.delete_records(task.log.segments[2].base_offset, 0)
        sent.append(task.log)
        send(worker, task)

    monkeypatch.setattr(CleanerProcess, "send", delete_first)

    async def act(client: Client) -> None:
        await client.create("t", **COMPACT)
        log = await fill(client, "t")
        await until(lambda: len(sent) > 1 and cleaned(log))
        assert not [name for name in os.listdir(log.path) if name.endswith(".cleaned")]

    run(tmp_path, act, **FAST)


def test_the_cleaner_process_can_send_long_answers() -> None:
    """A group of very many small segments names them all."""

    ours, theirs = socket.socketpair()
    process = subprocess.Popen(["true"])

    async def act() -> None:
        worker = await CleanerProcess.connect(process, ours)
        bases = list(range(10**18, 10**18 + 10_000))
        with theirs:
            sending = asyncio.to_thread(
                theirs.sendall, CleanerReport(cleaned=CleanedSegment(bases, 0, 0, 0, 0)).write()
            )
            line, _ = await asyncio.gather(worker.reader.readline(), sending)
        found = read_report(line).cleaned
        assert found is not None
        assert found.base_offsets == bases
        worker.end()

    asyncio.run(act())


def test_the_process_ends_with_its_broker() -> None:
    """A killed broker leaves no orphan that would write to the files of its successor."""
    process, line = log_cleaner.start_process()
    line.close()
    assert process.wait(timeout=60) == ORPHANED


def test_the_cleaner_process_is_killed_at_once() -> None:
    async def main() -> None:
        worker = await CleanerProcess.start()
        worker.end()

    asyncio.run(main())


def test_memory_and_rate_are_shared_by_all_threads() -> None:
    plain = limits(ServerConfig({}))
    assert plain.bytes_per_second is None
    assert plain.table_size == int(128 * 1024 * 1024 * 0.9)
    shared = limits(
        ServerConfig(
            {
                "log.cleaner.threads": "2",
                "log.cleaner.io.max.bytes.per.second": "1000",
                "log.cleaner.dedupe.buffer.size": "2000000",
            }
        )
    )
    assert (shared.bytes_per_second, shared.table_size) == (500, 900_000)


def test_the_throttle_limits_the_average_rate() -> None:
    now = [0.0]
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    throttle = Throttler(1000.0, lambda: now[0], sleep)
    for _ in range(10):
        throttle(500)
    assert now[0] == pytest.approx(5.0)
    now[0] += 100  # idle time gives no credit
    throttle(500)
    assert slept[-1] == pytest.approx(0.5)
    Throttler(None, lambda: now[0], sleep)(1 << 40)
    assert len(slept) == 11


def test_the_offsets_of_groups_shrink_and_are_there_after_a_restart(tmp_path: Path) -> None:
    group = "g"
    index = partition_for(group, 3)

    async def commits(client: Client) -> None:
        await client.create("t", 2)
        await client.broker.auto_create(OFFSETS_TOPIC)
        log = client.broker.partitions.find(OFFSETS_TOPIC, index).log
        log.reconfigure(
            dataclasses.replace(log.config, segment_bytes=2000, min_cleanable_dirty_ratio=0.01)
        )
        for number in range(100):
            partitions = [
                OffsetCommitRequestPartition(
                    partition_index=partition, committed_offset=number + partition
                )
                for partition in range(2)
            ]
            topics = [OffsetCommitRequestTopic(name="t", partitions=partitions)]
            request = OffsetCommitRequest(group_id=group, topics=topics)
            (result,) = (await client.ask(ApiKey.OFFSET_COMMIT, request, 8)).topics
            assert [partition.error_code for partition in result.partitions] == [0, 0]
        before = log.size
        await until(lambda: cleaned(log))
        assert log.size < before / 3
        await fetches(client)

    async def fetches(client: Client) -> None:
        asked = OffsetFetchRequestGroup(group_id=group, topics=None)
        request = OffsetFetchRequest(groups=[asked])
        (result,) = (await client.ask(ApiKey.OFFSET_FETCH, request, 9)).groups
        (topic,) = result.topics
        found = {
            partition.partition_index: partition.committed_offset for partition in topic.partitions
        }
        assert found == {0: 99, 1: 100}

    run(tmp_path, commits, fetches, **FAST)
