"""How far a connector has come: read, altered, reset; in the forms of Kafka Connect's REST.

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
from ottla.connect.run import query, source_offsets
from ottla.connect.run.orders import Job, group_of
from ottla.connect.run.seat import Seat
from ottla.connect.run.source_offsets import FileOffsets, canonical
from ottla.connect.run.worker import Worker
from ottla.errors import ErrorCode, KafkaError

Entry = Mapping[str, Any]

TOPIC: Final = "kafka_topic"
PARTITION: Final = "kafka_partition"
OFFSET: Final = "kafka_offset"
NOT_THERE: Final = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class BadOffsets(ConnectException):
    """What was asked for makes no sense: REST answers 400."""

    java_name = "org.apache.kafka.connect.runtime.rest.errors.BadRequestException"


class ConnectorOffsets(Protocol):
    """The connector must be STOPPED for all but `read`. What is refused is a ConnectException."""

    def read(self) -> list[dict[str, Any]]: ...

    def alter(self, entries: Sequence[Entry]) -> str:
        """An offset of None is forgotten. Returns the sentence that REST answers with."""

    def reset(self) -> str: ...


def of(name: str, config: Mapping[str, str], worker: Worker) -> ConnectorOffsets:
    worker.find_plugins()
    config = worker.resolved(config)
    connector = Plugins().connector(config.get("connector.class", ""))()
    if isinstance(connector, SourceConnector):
        return OfSource(name, config, worker, connector)
    assert isinstance(connector, SinkConnector)
    return OfSink(name, config, worker, connector)


class OfSource:
    def __init__(
        self, name: str, config: Mapping[str, str], worker: Worker, connector: SourceConnector
    ) -> None:
        self._name = name
        self._config = config
        self._worker = worker
        self._connector = connector

    def read(self) -> list[dict[str, Any]]:
        found = source_offsets.load(self._name, self._config, self._worker).items()
        return [{"partition": partition, "offset": dict(offset)} for partition, offset in found]

    def alter(self, entries: Sequence[Entry]) -> str:
        return self._change([parsed_source(each) for each in some(entries)], "altered")

    def reset(self) -> str:
        known = source_offsets.load(self._name, self._config, self._worker).items()
        return self._change([(partition, None) for partition, _ in known], "reset")

    def _change(
        self, wishes: list[tuple[Mapping[str, Any], Mapping[str, Any] | None]], how: str
    ) -> str:
        knows = self._connector.alter_offsets(dict(self._config), wishes)
        if self._worker.standalone:
            entries = {canonical(partition): offset for partition, offset in wishes}
            FileOffsets(Path(self._worker.offsets_file)).update(self._name, entries)
        elif wishes:
            self._write(wishes)
        return sentence(knows, how)

    def _write(self, wishes: list[tuple[Mapping[str, Any], Mapping[str, Any] | None]]) -> None:
        """A worker that was believed dead must not write offsets behind these: it is fenced."""
        worker = self._worker
        query.make_offsets_topic(self._config, worker)
        query.decided(
            Job(self._name, uuid.uuid4().hex, True, "", dict(self._config), worker, tasks=())
        )
        topic = source_offsets.topic_of(self._config, worker)
        with Producer(worker.bootstrap_servers, settings=worker.client()) as producer:
            sent = [
                producer.send(
                    topic,
                    source_offsets.value_of(offset),
                    key=source_offsets.key_of(self._name, partition),
                )
                for partition, offset in wishes
            ]
            producer.flush()
            for each in sent:
                each.result()


class OfSink:
    def __init__(
        self, name: str, config: Mapping[str, str], worker: Worker, connector: SinkConnector
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
                "partition": {TOPIC: each.topic, PARTITION: each.partition},
                "offset": {OFFSET: found[each].offset},
            }
            for each in sorted(found)
        ]

    def alter(self, entries: Sequence[Entry]) -> str:
        wishes = dict(parsed_sink(each) for each in some(entries))
        knows = self._connector.alter_offsets(dict(self._config), wishes)
        self._put_out()
        with self._admin() as admin:
            set_to = {each: at for each, at in wishes.items() if at is not None}
            admin.groups.alter_offsets(self._group, set_to)
            forgotten = [each for each, at in wishes.items() if at is None]
            told = admin.groups.delete_offsets(self._group, forgotten) if forgotten else {}
        for error in told.values():
            if error is not None and error.code not in NOT_THERE:
                raise error
        return sentence(knows, "altered")

    def reset(self) -> str:
        with self._admin() as admin:
            known = admin.groups.offsets(self._group)
            knows = self._connector.alter_offsets(dict(self._config), dict.fromkeys(known))
            self._put_out()
            error = admin.groups.delete(self._group)[self._group]
        if error is not None and error.code not in NOT_THERE:
            raise KafkaError(error.code, f"group {self._group}: {error}")
        return sentence(knows, "reset")

    def _put_out(self) -> None:
        """A worker that was believed dead, or is stopping still, must not commit behind this."""
        Seat(self._name, self._config, self._worker).put_out()

    def _admin(self) -> Admin:
        return Admin(self._worker.bootstrap_servers, settings=self._worker.admin(self._config))


def some(entries: Sequence[Entry]) -> Sequence[Entry]:
    if not entries:
        raise BadOffsets("Partitions / offsets need to be provided for an alter offsets request")
    return entries


def parsed_source(entry: Entry) -> tuple[Mapping[str, Any], Mapping[str, Any] | None]:
    partition, offset = entry.get("partition"), entry.get("offset")
    if not isinstance(partition, Mapping):
        raise BadOffsets("The partition for a source connector offset cannot be null or missing")
    if offset is not None and not isinstance(offset, Mapping):
        raise BadOffsets(f"The offset for a source connector is an object or null, not {offset!r}")
    return partition, offset


def parsed_sink(entry: Entry) -> tuple[TopicPartition, int | None]:
    where, offset = entry.get("partition"), entry.get("offset")
    if not isinstance(where, Mapping):
        raise BadOffsets("The partition for a sink connector offset cannot be null or missing")
    if TOPIC not in where or PARTITION not in where:
        raise BadOffsets(
            "The partition for a sink connector offset must contain the keys"
            f" '{TOPIC}' and '{PARTITION}'"
        )
    if where[TOPIC] is None:
        raise BadOffsets("Kafka topic names must be valid strings and may not be null")
    if where[PARTITION] is None:
        raise BadOffsets("Kafka partitions must be valid numbers and may not be null")
    partition = _integer(where[PARTITION], "partition", "Partition")
    if offset is None:
        return TopicPartition(str(where[TOPIC]), partition), None
    if not isinstance(offset, Mapping) or OFFSET not in offset:
        raise BadOffsets(
            f"The offset for a sink connector should either be null or contain the key '{OFFSET}'"
        )
    found = _integer(offset[OFFSET], "offset", "Offset")
    return TopicPartition(str(where[TOPIC]), partition), found


def _integer(value: Any, what: str, capital: str) -> int:
    """Kafka takes 10 and "10"."""
    try:
        return int(str(value))
    except ValueError:
        raise BadOffsets(
            f"Failed to parse the following Kafka {what} value in the provided offsets:"
            f" '{value}'. {capital} values for sink connectors need to be integers."
        ) from None


def sentence(knows: bool, how: str) -> str:
    if knows:
        return f"The offsets for this connector have been {how} successfully"
    return (
        f"The Connect framework-managed offsets for this connector have been {how} successfully."
        " However, if this connector manages offsets externally, they will need to be manually"
        f" {how} in the system that the connector uses."
    )
