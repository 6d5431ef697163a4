"""The files of kafka-reassign-partitions: topics to move, and reassignments."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ottla.cli.kafka.reassignment_log_dirs import Replica
from ottla.cli.kafka.tool import ToolError
from ottla.client.record import TopicPartition

VERSION: Final = 1
ANY_LOG_DIR: Final = "any"

Assignment = dict[TopicPartition, list[int]]


def read_json(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError):
        raise ToolError(f"Unable to read file {path}") from None


def format_assignment(
    assignment: Mapping[TopicPartition, Sequence[int]],
    directories: Mapping[Replica, str] | None = None,
) -> str:
    """One line, as Kafka prints and reads it."""
    known = directories or {}
    partitions = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": list(replicas),
            "log_dirs": [known.get((partition, replica), ANY_LOG_DIR) for replica in replicas],
        }
        for partition, replicas in sorted(assignment.items())
    ]
    return json.dumps({"version": VERSION, "partitions": partitions}, separators=(",", ":"))


def parse_topics(text: str) -> list[str]:
    """`{"topics": [{"topic": "orders"}], "version": 1}`."""
    data = _object(text)
    topics = [_field(topic, "topic", str) for topic in data.get("topics", [])]
    twice = sorted({topic for topic in topics if topics.count(topic) > 1})
    if twice:
        shown = ", ".join(twice)
        raise ToolError(f"List of topics to reassign contains duplicate entries: [{shown}]")
    return topics


def parse_assignment(
    text: str,
) -> tuple[list[tuple[TopicPartition, list[int]]], dict[Replica, str]]:
    """Partitions with their replicas, including duplicates; and the log directories that are
    named."""
    found = []
    directories: dict[Replica, str] = {}
    for entry in _object(text).get("partitions", []):
        partition = TopicPartition(_field(entry, "topic", str), _field(entry, "partition", int))
        replicas = _field(entry, "replicas", list)
        dirs = entry.get("log_dirs", [ANY_LOG_DIR] * len(replicas))
        if len(dirs) != len(replicas):
            raise ToolError(
                f"Size of replicas list {replicas} is different from size of log dirs list {dirs}"
                f" for partition {partition}"
            )
        found.append((partition, [int(broker) for broker in replicas]))
        directories |= {
            (partition, int(broker)): str(path)
            for broker, path in zip(replicas, dirs, strict=True)
            if path != ANY_LOG_DIR
        }
    return found, directories


def check_assignment(found: list[tuple[TopicPartition, list[int]]]) -> Assignment:
    """Each partition once, each with distinct replicas."""
    if not found:
        raise ToolError("Partition reassignment list cannot be empty")
    if any(not replicas for _, replicas in found):
        raise ToolError("Partition replica list cannot be empty")
    partitions = [partition for partition, _ in found]
    twice = sorted({partition for partition in partitions if partitions.count(partition) > 1})
    if twice:
        shown = ",".join(map(str, twice))
        raise ToolError(f"Partition reassignment contains duplicate topic partitions: {shown}")
    doubles = [
        f"{partition} contains multiple entries for {_ids(again)}"
        for partition, replicas in found
        if (again := sorted({replica for replica in replicas if replicas.count(replica) > 1}))
    ]
    if doubles:
        shown = ". ".join(doubles)
        raise ToolError(f"Partition replica lists may not contain duplicate entries: {shown}")
    return dict(found)


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))


def _object(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError:
        raise ToolError("The input string is not a valid JSON") from None
    if not isinstance(data, dict):
        raise ToolError(f"Expected JSON object, received {text.strip()}")
    version = data.get("version", VERSION)
    if version != VERSION:
        raise ToolError(f"Not supported version field value {version}")
    return data


def _field(data: Any, name: str, kind: type) -> Any:
    if not isinstance(data, dict) or name not in data:
        raise ToolError(f"No such field exists: `{name}`")
    if not isinstance(data[name], kind) or isinstance(data[name], bool):
        raise ToolError(f"Expected `{kind.__name__}` value for `{name}`, received {data[name]}")
    return data[name]
