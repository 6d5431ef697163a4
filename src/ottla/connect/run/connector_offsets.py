"""The offsets of a connector: read, altered, reset (KIP-875), in the JSON of Kafka Connect's REST.

of(name, config, worker).read()
[{"partition": {"filename": "a"}, "offset": {"position": 30}}]                      a source
[{"partition": {"kafka_topic": "t", "kafka_partition": 0}, "offset": {"kafka_offset": 5}}]
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from ottla.client import Admin, Producer
from ottla.client.record import TopicPartition
from ottla.connect.api import SinkConnector, SourceConnector
from ottla.connect.errors import ConnectException
from ottla.connect.plugins import Plugins
from ottla.connect.run import connector_query, source_offsets
from ottla.connect.run.sink_group_member import SinkGroupMember
from ottla.connect.run.source_offsets import FileOffsetBackingStore, canonical
from ottla.connect.run.task_requests import ConnectorJob, group_of
from ottla.connect.run.worker_context import WorkerContext
from ottla.errors import ErrorCode, KafkaError

Entry = Mapping[str, Any]

TOPIC: Final = "kafka_topic"
PARTITION: Final = "kafka_partition"
OFFSET: Final = "kafka_offset"
MISSING: Final = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class InvalidOffsetsError(ConnectException):
    """A request that makes no sense: REST answers 400."""

    java_name = "org.apache.kafka.connect.runtime.rest.errors.BadRequestException"


class ConnectorOffsets(Protocol):
    """The connector must be STOPPED, except for `read`. Raises ConnectException if refused."""

    def read(self) -> list[dict[str, Any]]: ...

    def alter(self, entries: Sequence[Entry]) -> str:
        """An offset of None is deleted. Returns the message that REST answers with."""

    def reset(self) -> str: ...


def connector_offsets(
    name: str, config: Mapping[str, str], worker: WorkerContext
) -> ConnectorOffsets:
    worker.find_plugins()
    config = worker.resolved(config)
    connector = Plugins().connector(config.get("connector.class", ""))()
    if isinstance(connector, SourceConnector):
        return SourceConnectorOffsets(name, config, worker, connector)
    assert isinstance(connector, SinkConnector)
    return SinkConnectorOffsets(name, config, worker, connector)


class SourceConnectorOffsets:
    def __init__(
        self,
        name: str,
        config: Mapping[str, str],
        worker: WorkerContext,
        connector: SourceConnector,
    ) -> None:
        self._name = name
        self._config = config
        self._worker = worker
        self._connector = connector

    def read(self) -> list[dict[str, Any]]:
        found = source_offsets.load_source_offsets(self._name, self._config, self._worker).items()
        return [{"partition": partition, "offset": dict(offset)} for partition, offset in found]

    def alter(self, entries: Sequence[Entry]) -> str:
        return self._change(
            [parse_source_entry(entry) for entry in check_not_empty(entries)], "altered"
        )

    def reset(self) -> str:
        known = source_offsets.load_source_offsets(self._name, self._config, self._worker).items()
        return self._change([(partition, None) for partition, _ in known], "reset")

    def _change(
        self, changes: list[tuple[Mapping[str, Any], Mapping[str, Any] | None]], how: str
    ) -> str:
        checked = self._connector.alter_offsets(dict(self._config), changes)
        if self._worker.standalone:
            entries = {canonical(partition): offset for partition, offset in changes}
            FileOffsetBackingStore(Path(self._worker.offsets_file)).update(self._name, entries)
        elif changes:
            self._write(changes)
        return altered_message(checked, how)

    def _write(self, changes: list[tuple[Mapping[str, Any], Mapping[str, Any] | None]]) -> None:
        """Fences the connector's tasks first, on whichever worker they may still run: a zombie must
        not write older offsets after these."""
        worker = self._worker
        connector_query.make_offsets_topic(self._config, worker)
        connector_query.take_over(
            ConnectorJob(
                self._name, uuid.uuid4().hex, True, "", dict(self._config), worker, tasks=()
            )
        )
        topic = source_offsets.topic_of(self._config, worker)
        with Producer(worker.bootstrap_servers, settings=worker.client()) as producer:
            sent = [
                producer.send(
                    topic,
                    source_offsets.value_of(offset),
                    key=source_offsets.key_of(self._name, partition),
                )
                for partition, offset in changes
            ]
            producer.flush()
            for future in sent:
                future.result()


class SinkConnectorOffsets:
    def __init__(
        self, name: str, config: Mapping[str, str], worker: WorkerContext, connector: SinkConnector
    ) -> None:
        self._name = name
        self._group = group_of(name, config)
        self._config = config
        self._worker = worker
        self._connector = connector

    def read(self) -> list[dict[str, Any]]:
        with self._admin() as admin:
            found = admin.groups.offsets(self._group)
        return [
            {
                "partition": {TOPIC: partition.topic, PARTITION: partition.partition},
                "offset": {OFFSET: found[partition].offset},
            }
            for partition in sorted(found)
        ]

    def alter(self, entries: Sequence[Entry]) -> str:
        changes = dict(parse_sink_entry(entry) for entry in check_not_empty(entries))
        checked = self._connector.alter_offsets(dict(self._config), changes)
        self._fence()
        with self._admin() as admin:
            altered = {partition: at for partition, at in changes.items() if at is not None}
            admin.groups.alter_offsets(self._group, altered)
            deleted = [partition for partition, at in changes.items() if at is None]
            errors = admin.groups.delete_offsets(self._group, deleted) if deleted else {}
        for error in errors.values():
            if error is not None and error.code not in MISSING:
                raise error
        return altered_message(checked, "altered")

    def reset(self) -> str:
        with self._admin() as admin:
            known = admin.groups.offsets(self._group)
            checked = self._connector.alter_offsets(dict(self._config), dict.fromkeys(known))
            self._fence()
            error = admin.groups.delete(self._group)[self._group]
        if error is not None and error.code not in MISSING:
            raise KafkaError(error.code, f"group {self._group}: {error}")
        return altered_message(checked, "reset")

    def _fence(self) -> None:
        """A worker that was believed dead, or is still stopping, must not commit after this."""
        SinkGroupMember(self._name, self._config, self._worker).fence()

    def _admin(self) -> Admin:
        return Admin(self._worker.bootstrap_servers, settings=self._worker.admin(self._config))


def check_not_empty(entries: Sequence[Entry]) -> Sequence[Entry]:
    if not entries:
        raise InvalidOffsetsError(
            "Partitions / offsets need to be provided for an alter offsets request"
        )
    return entries


def parse_source_entry(entry: Entry) -> tuple[Mapping[str, Any], Mapping[str, Any] | None]:
    partition, offset = entry.get("partition"), entry.get("offset")
    if not isinstance(partition, Mapping):
        raise InvalidOffsetsError(
            "The partition for a source connector offset cannot be null or missing"
        )
    if offset is not None and not isinstance(offset, Mapping):
        raise InvalidOffsetsError(
            f"The offset for a source connector is an object or null, not {offset!r}"
        )
    return partition, offset


def parse_sink_entry(entry: Entry) -> tuple[TopicPartition, int | None]:
    where, offset = entry.get("partition"), entry.get("offset")
    if not isinstance(where, Mapping):
        raise InvalidOffsetsError(
            "The partition for a sink connector offset cannot be null or missing"
        )
    if TOPIC not in where or PARTITION not in where:
        raise InvalidOffsetsError(
            "The partition for a sink connector offset must contain the keys"
            f" '{TOPIC}' and '{PARTITION}'"
        )
    if where[TOPIC] is None:
        raise InvalidOffsetsError("Kafka topic names must be valid strings and may not be null")
    if where[PARTITION] is None:
        raise InvalidOffsetsError("Kafka partitions must be valid numbers and may not be null")
    partition = _integer(where[PARTITION], "partition", "Partition")
    if offset is None:
        return TopicPartition(str(where[TOPIC]), partition), None
    if not isinstance(offset, Mapping) or OFFSET not in offset:
        raise InvalidOffsetsError(
            f"The offset for a sink connector should either be null or contain the key '{OFFSET}'"
        )
    found = _integer(offset[OFFSET], "offset", "Offset")
    return TopicPartition(str(where[TOPIC]), partition), found


def _integer(value: Any, what: str, capital: str) -> int:
    """Kafka accepts 10 and "10"."""
    try:
        return int(str(value))
    except ValueError:
        raise InvalidOffsetsError(
            f"Failed to parse the following Kafka {what} value in the provided offsets:"
            f" '{value}'. {capital} values for sink connectors need to be integers."
        ) from None


def altered_message(checked: bool, how: str) -> str:
    """Kafka's messages; `checked` is what the connector's alter_offsets returned."""
    if checked:
        return f"The offsets for this connector have been {how} successfully"
    return (
        f"The Connect framework-managed offsets for this connector have been {how} successfully."
        " However, if this connector manages offsets externally, they will need to be manually"
        f" {how} in the system that the connector uses."
    )
