"""Source offsets: records of the offsets topic, or entries of a standalone worker's file.

A key is ["connector",{source partition}] and a value {source offset}, as Kafka Connect writes them,
so Kafka's workers and Ottla's can continue each other's connectors. Names in a key are
sorted, because two spellings of one partition would be two partitions to compaction.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from ottla.client.protocol.cluster_client import ClusterClient
from ottla.client.protocol.range_fetcher import OffsetRange
from ottla.client.record import TopicPartition
from ottla.connect.errors import ConnectException
from ottla.connect.run.worker_context import WorkerContext
from ottla.spark.checkpoints import write_json
from ottla.spark.chunks import read_chunks
from ottla.spark.limits import EARLIEST, LATEST
from ottla.spark.options import ReadOptions, read_options

Offset = Mapping[str, Any]
READ_TIMEOUT_MS: Final = 120_000
"""How long an open transaction, another connector's say, may block reading the offsets topic."""


class SourceOffsets:
    """Source partition -> source offset, of one connector."""

    def __init__(self, entries: Mapping[str, Offset | None]) -> None:
        self._entries = {key: offset for key, offset in entries.items() if offset is not None}

    def get(self, partition: Mapping[str, Any]) -> Offset | None:
        return self._entries.get(canonical(partition))

    def items(self) -> list[tuple[dict[str, Any], Offset]]:
        return [(json.loads(key), offset) for key, offset in self._entries.items()]


def canonical(data: Mapping[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":"), sort_keys=True)


def key_of(connector: str, partition: Mapping[str, Any]) -> bytes:
    """The record key: the connector, and the partition in canonical form."""
    name = json.dumps(connector, ensure_ascii=False)
    return f"[{name},{canonical(partition)}]".encode()


def value_of(offset: Offset | None) -> bytes | None:
    return None if offset is None else json.dumps(offset, separators=(",", ":")).encode()


def check_json(partition: object, offset: object) -> None:
    """Raises ConnectException unless both can be stored as JSON."""
    for what, value in (("partition", partition), ("offset", offset)):
        try:
            json.dumps(value)
        except TypeError as error:
            raise ConnectException(
                f"The source {what} {value!r} can't be stored: {error}"
            ) from None


def topic_of(config: Mapping[str, str], worker: WorkerContext) -> str:
    """The worker's offsets topic, unless the connector names another one (KIP-618)."""
    return config.get("offsets.storage.topic") or worker.offsets_topic


def load_source_offsets(
    name: str,
    config: Mapping[str, str],
    worker: WorkerContext,
    ranges: Sequence[OffsetRange] | None = None,
) -> SourceOffsets:
    """The committed offsets, from the whole topic or from `ranges`. Waits for open transactions in
    there, whose outcome decides which offset counts."""
    if worker.standalone:
        return SourceOffsets(FileOffsetBackingStore(Path(worker.offsets_file)).of(name))
    if ranges is None:
        with closing(OffsetsTopicReader(config, worker)) as written:
            ranges = written.ranges()
    return SourceOffsets(_of_topic(name, topic_of(config, worker), worker, ranges))


class OffsetsTopicReader:
    """The extent of the offsets topic at the time of a call.

    The driver determines it before a batch, for all tasks. A task that read to the log end by
    itself could meet the open transaction of another task of the same batch, which ends only after
    the batch: it would wait for itself.
    """

    def __init__(self, config: Mapping[str, str], worker: WorkerContext) -> None:
        self._topic = topic_of(config, worker)
        options = _options(self._topic, worker)
        self._brokers = (
            None if worker.standalone else ClusterClient(options.servers, options.settings)
        )

    def ranges(self) -> list[OffsetRange]:
        """Up to the log end, including open transactions: reading waits for their outcome."""
        topic = {} if self._brokers is None else self._brokers.topics([self._topic])
        if self._brokers is None or self._topic not in topic:
            return []
        parts = [TopicPartition(self._topic, partition) for partition in topic[self._topic].leaders]
        first = self._brokers.offsets(dict.fromkeys(parts, EARLIEST), read_committed=False)
        last = self._brokers.offsets(dict.fromkeys(parts, LATEST), read_committed=False)
        ranges = [
            OffsetRange(*partition, first[partition] or 0, last[partition] or 0)
            for partition in parts
        ]
        return [range_ for range_ in ranges if range_.size]

    def close(self) -> None:
        if self._brokers is not None:
            self._brokers.close()


def _of_topic(
    name: str, topic: str, worker: WorkerContext, ranges: Sequence[OffsetRange]
) -> dict[str, Offset | None]:
    found: dict[str, Offset | None] = {}
    for chunk in read_chunks(_options(topic, worker), ranges):
        for key, value in zip(
            chunk.columns.keys.to_pylist(), chunk.columns.values.to_pylist(), strict=True
        ):
            partition = _partition_of(key, name)
            if partition is not None:
                found.pop(partition, None)
                found[partition] = json.loads(value) if value is not None else None
    return found


def _options(topic: str, worker: WorkerContext) -> ReadOptions:
    settings = {f"kafka.{name}": value for name, value in worker.client().items()}
    return read_options(
        {
            "kafka.bootstrap.servers": worker.bootstrap_servers,
            **settings,
            "subscribe": topic,
            "kafka.isolation.level": "read_committed",
            "kafkaConsumer.pollTimeoutMs": str(READ_TIMEOUT_MS),
        },
        streaming=False,
    )


def _partition_of(key: bytes | None, connector: str) -> str | None:
    """None: the key of another connector, or no key of Connect's."""
    try:
        data = json.loads(key or b"null")
    except ValueError:
        return None
    if isinstance(data, list) and len(data) == 2 and data[0] == connector:
        return canonical(data[1])
    return None


class FileOffsetBackingStore:
    """A standalone worker's file: JSON, replaced as a whole so that it is never half written."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def of(self, name: str) -> dict[str, Offset | None]:
        found: dict[str, Offset | None] = self._read().get(name, {})
        return found

    def update(self, name: str, entries: Mapping[str, Offset | None]) -> None:
        """An offset of None is deleted."""
        everything = self._read()
        mine = {**everything.get(name, {}), **entries}
        everything[name] = {key: offset for key, offset in mine.items() if offset is not None}
        write_json(self._path, everything)

    def _read(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self._path.read_text(encoding="utf-8") or "{}")
        except FileNotFoundError:
            return {}
        except ValueError:
            raise ConnectException(
                f"{self._path} is not an offsets file in JSON: name another one in"
                " offset.storage.file.filename (files written by Kafka cannot be read)"
            ) from None
        return found
