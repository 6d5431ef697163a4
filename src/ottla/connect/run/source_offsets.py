"""Where sources have come to: records of the offsets topic, or lines of a worker's file.

A key is ["connector",{source partition}] and a value {source offset}, as Kafka Connect writes
them, so that a worker of either kind goes on where the other has stopped. Keys have their names
in order, as two spellings of one partition would be two partitions.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from ottla.client.protocol.cluster_client import ClusterClient
from ottla.client.protocol.fetching import Range
from ottla.client.record import TopicPartition
from ottla.connect.errors import ConnectException
from ottla.connect.run.worker import Worker
from ottla.spark.limits import EARLIEST, LATEST
from ottla.spark.options import ReadOptions, read_options
from ottla.spark.reading import read

Offset = Mapping[str, Any]
PATIENCE_MS: Final = 120_000
"""Another connector's open transaction in the same partition may hold us up for so long."""


class SourceOffsets:
    """Partition -> offset, of one connector."""

    def __init__(self, entries: Mapping[str, Offset | None]) -> None:
        self._entries = {key: offset for key, offset in entries.items() if offset is not None}

    def get(self, partition: Mapping[str, Any]) -> Offset | None:
        return self._entries.get(canonical(partition))

    def items(self) -> list[tuple[dict[str, Any], Offset]]:
        return [(json.loads(key), offset) for key, offset in self._entries.items()]


def canonical(data: Mapping[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":"), sort_keys=True)


def key_of(connector: str, partition: Mapping[str, Any]) -> bytes:
    """As it is written; offsets of one partition are known by it."""
    name = json.dumps(connector, ensure_ascii=False)
    return f"[{name},{canonical(partition)}]".encode()


def value_of(offset: Offset | None) -> bytes | None:
    return None if offset is None else json.dumps(offset, separators=(",", ":")).encode()


def check_json(partition: object, offset: object) -> None:
    """Whatever can be written is read again as it was."""
    for what, value in (("partition", partition), ("offset", offset)):
        try:
            json.dumps(value)
        except TypeError as error:
            raise ConnectException(
                f"The source {what} {value!r} can't be stored: {error}"
            ) from None


def topic_of(config: Mapping[str, str], worker: Worker) -> str:
    """A connector may have a topic of its own (KIP-618)."""
    return config.get("offsets.storage.topic") or worker.offsets_topic


def load(
    name: str, config: Mapping[str, str], worker: Worker, ranges: Sequence[Range] | None = None
) -> SourceOffsets:
    """All that is committed, or what of it is in `ranges`. Who writes in transactions is waited
    for."""
    if worker.standalone:
        return SourceOffsets(FileOffsets(Path(worker.offsets_file)).of(name))
    if ranges is None:
        with closing(Written(config, worker)) as written:
            ranges = written.ranges()
    return SourceOffsets(_of_topic(name, topic_of(config, worker), worker, ranges))


class Written:
    """What is there now, as often as one asks. A batch of several tasks is given it before the
    first of them writes: a task that would wait for what another one of its batch has written
    would wait for itself."""

    def __init__(self, config: Mapping[str, str], worker: Worker) -> None:
        self._topic = topic_of(config, worker)
        options = _options(self._topic, worker)
        self._brokers = (
            None if worker.standalone else ClusterClient(options.servers, options.settings)
        )

    def ranges(self) -> list[Range]:
        """Up to the last record, be it committed yet or not: reading waits until that is known."""
        topic = {} if self._brokers is None else self._brokers.topics([self._topic])
        if self._brokers is None or self._topic not in topic:
            return []
        parts = [TopicPartition(self._topic, each) for each in topic[self._topic].leaders]
        first = self._brokers.offsets(dict.fromkeys(parts, EARLIEST), read_committed=False)
        last = self._brokers.offsets(dict.fromkeys(parts, LATEST), read_committed=False)
        ranges = [Range(*each, first[each] or 0, last[each] or 0) for each in parts]
        return [each for each in ranges if each.size]

    def close(self) -> None:
        if self._brokers is not None:
            self._brokers.close()


def _of_topic(
    name: str, topic: str, worker: Worker, ranges: Sequence[Range]
) -> dict[str, Offset | None]:
    found: dict[str, Offset | None] = {}
    for chunk in read(_options(topic, worker), ranges):
        for key, value in zip(
            chunk.columns.keys.to_pylist(), chunk.columns.values.to_pylist(), strict=True
        ):
            partition = _partition_of(key, name)
            if partition is not None:
                found.pop(partition, None)
                found[partition] = json.loads(value) if value is not None else None
    return found


def _options(topic: str, worker: Worker) -> ReadOptions:
    settings = {f"kafka.{name}": value for name, value in worker.client().items()}
    return read_options(
        {
            "kafka.bootstrap.servers": worker.bootstrap_servers,
            **settings,
            "subscribe": topic,
            "kafka.isolation.level": "read_committed",
            "kafkaConsumer.pollTimeoutMs": str(PATIENCE_MS),
        },
        streaming=False,
    )


def _partition_of(key: bytes | None, connector: str) -> str | None:
    """None: the key of another connector, or of nobody we know."""
    try:
        data = json.loads(key or b"null")
    except ValueError:
        return None
    if isinstance(data, list) and len(data) == 2 and data[0] == connector:
        return canonical(data[1])
    return None


class FileOffsets:
    """A standalone worker's file: JSON, written whole, so that it is never half there."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def of(self, name: str) -> dict[str, Offset | None]:
        found: dict[str, Offset | None] = self._read().get(name, {})
        return found

    def update(self, name: str, entries: Mapping[str, Offset | None]) -> None:
        """An offset of None is forgotten."""
        everything = self._read()
        mine = {**everything.get(name, {}), **entries}
        everything[name] = {key: offset for key, offset in mine.items() if offset is not None}
        draft = self._path.with_name(self._path.name + ".new")
        with draft.open("w", encoding="utf-8") as file:
            json.dump(everything, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._path)

    def _read(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self._path.read_text(encoding="utf-8") or "{}")
        except FileNotFoundError:
            return {}
        except ValueError:
            raise ConnectException(
                f"{self._path} holds no offsets of ours: name another file in"
                " offset.storage.file.filename (one of Kafka's own can't be read)"
            ) from None
        return found
