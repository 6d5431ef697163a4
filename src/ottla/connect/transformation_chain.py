"""The path of every record: SourceRecord -> bytes for a topic; bytes of a topic -> SinkRecord.

`TransformationChain(config, ...)` holds the converters, the header converter, the transforms with
their predicates and the error policy. Every record passes through here, so the normal path only
adds a `try` to each step; everything slow happens in error_policy.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from ottla.connect.data import Header, SinkRecord, SourceRecord, TimestampType
from ottla.connect.error_policy import ErrorPolicy, PipelineStage
from ottla.connect.errors import ConnectException
from ottla.connect.plugins import Plugins
from ottla.connect.rows import ConsumedRow, Headers, ProducedRow
from ottla.connect.transformation_stage import (
    TransformationStage,
    configured_converter,
    transformation_stages,
)
from ottla.schemas.framing import KEY_HEADER, VALUE_HEADER

__all__ = ["ConsumedRow", "Headers", "ProducedRow", "TransformationChain"]

SINK_TASK: Final = "org.apache.kafka.connect.sink.SinkTask"
TIMESTAMP_TYPES: Final = {kind.value: kind for kind in TimestampType}


class TransformationChain:
    """For one task. `worker` has the default converters, which `config` may override."""

    def __init__(
        self,
        config: Mapping[str, str],
        *,
        connector: str,
        task: int = 0,
        worker: Mapping[str, str] | None = None,
        on_dead_letter: Callable[[ProducedRow], None] | None = None,
        sleep: Callable[[float], object] | None = None,
        now_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
        plugins: Plugins | None = None,
    ) -> None:
        found = plugins or Plugins()
        both = (config, worker or {})
        self._key, self._key_name = configured_converter("key", both, found)
        self._value, self._value_name = configured_converter("value", both, found)
        self._header, self._header_name = configured_converter("header", both, found)
        self._to_key, self._to_value = self._key.to_connect, self._value.to_connect
        self._from_key, self._from_value = self._key.from_connect, self._value.from_connect
        # The headers that may hold the schema ids of key and value.
        self._key_header = KEY_HEADER if self._key.reads_schema_headers else ""
        self._value_header = VALUE_HEADER if self._value.reads_schema_headers else ""
        self._steps: list[TransformationStage] = transformation_stages(config, found)
        self._tolerance = ErrorPolicy(
            config,
            connector=connector,
            task=task,
            on_dead_letter=on_dead_letter,
            sleep=sleep,
            now_ms=now_ms,
        )

    @property
    def counts(self) -> Mapping[str, int]:
        """Error counts, by the names of Kafka's task error metrics."""
        return self._tolerance.counts

    @property
    def reports(self) -> bool:
        """True if the sink task gets an errant record reporter."""
        return self._tolerance.reports

    # Sources.

    def source(self, record: SourceRecord) -> ProducedRow | None:
        """None if a transform drops the record, or it is bad and errors are tolerated."""
        original = record
        if self._steps:
            passed: SourceRecord | None = self._transformed(record, original)
            if passed is None:
                return None
            record = passed
        topic = record.topic
        headers: Headers = ()
        if record.headers:
            args: tuple[Any, ...] = (topic, record.headers)
            try:
                headers = self._headers_out(*args)
            except Exception as error:
                headers, failed = self._retry(error, PipelineStage.HEADER_CONVERTER, args, original)
                if failed:
                    return None
        try:
            key = self._from_key(topic, record.key_schema, record.key)
        except Exception as error:
            args = (topic, record.key_schema, record.key)
            key, failed = self._retry(error, PipelineStage.KEY_CONVERTER, args, original)
            if failed:
                return None
        try:
            value = self._from_value(topic, record.value_schema, record.value)
        except Exception as error:
            args = (topic, record.value_schema, record.value)
            value, failed = self._retry(error, PipelineStage.VALUE_CONVERTER, args, original)
            if failed:
                return None
        timestamp = record.timestamp
        if timestamp is not None and timestamp < 0:
            timestamp = checked_timestamp(timestamp)
        return ProducedRow(topic, record.partition, key, value, timestamp, headers)

    # Sinks.

    def sink(self, row: ConsumedRow) -> SinkRecord | None:
        """None if a transform drops the record, or it is bad and errors are tolerated."""
        topic, partition, offset, timestamp, timestamp_type, key_data, value_data, raw = row
        if raw and (self._key_header or self._value_header):
            key_data = with_schema_header(raw, self._key_header, key_data)
            value_data = with_schema_header(raw, self._value_header, value_data)
        try:
            key_schema, key = self._to_key(topic, key_data)
        except Exception as error:
            found, failed = self._retry(error, PipelineStage.KEY_CONVERTER, (topic, key_data), row)
            if failed:
                return None
            key_schema, key = found
        try:
            value_schema, value = self._to_value(topic, value_data)
        except Exception as error:
            found, failed = self._retry(
                error, PipelineStage.VALUE_CONVERTER, (topic, value_data), row
            )
            if failed:
                return None
            value_schema, value = found
        headers: tuple[Header, ...] = ()
        if raw:
            try:
                headers = self._headers_in(topic, raw)
            except Exception as error:
                headers, failed = self._retry(
                    error, PipelineStage.HEADER_CONVERTER, (topic, raw), row
                )
                if failed:
                    return None
        if timestamp is not None and timestamp < 0:
            timestamp = checked_timestamp(timestamp)
        record = SinkRecord(
            topic, partition, key_schema, key, value_schema, value, offset, timestamp,
            TIMESTAMP_TYPES[timestamp_type], headers, row,
        )  # fmt: skip
        return self._transformed(record, row) if self._steps else record

    def sinks(self, rows: Iterable[ConsumedRow]) -> list[SinkRecord]:
        """The records that are not dropped, in order."""
        return [record for record in map(self.sink, rows) if record is not None]

    def report(self, record: SinkRecord, error: Exception) -> None:
        """ErrantRecordReporter: the sink task cannot write this record."""
        row = record.raw
        if row is None:  # a record that the task created itself
            row = self._row_of(record)
        self._tolerance.failed(error, PipelineStage.TASK_PUT, SINK_TASK, row)

    def stop(self) -> None:
        """From any thread: end the retries of the current record by raising its error."""
        self._tolerance.stop()

    def close(self) -> None:
        """Closes converters and transforms."""
        for step in self._steps:
            step.close()
        for converter in (self._key, self._value, self._header):
            converter.close()

    # Stages.

    def _transformed(self, record: Any, original: Any) -> Any:
        for step in self._steps:
            try:
                record = step.apply(record)
            except Exception as error:
                again = partial(step.apply, record)
                record, _ = self._tolerance.recover(
                    error, PipelineStage.TRANSFORMATION, step.name, again, original
                )
            if record is None:
                return None
        return record

    def _headers_out(self, topic: str, headers: tuple[Header, ...]) -> Headers:
        convert = self._header.from_connect_header
        return tuple((key, convert(topic, key, schema, value)) for key, value, schema in headers)

    def _headers_in(self, topic: str, headers: Headers) -> tuple[Header, ...]:
        convert = self._header.to_connect_header
        found = ((key, *convert(topic, key, data)) for key, data in headers)
        return tuple(Header(key, value, schema) for key, schema, value in found)

    def _retry(
        self, error: Exception, stage: PipelineStage, args: tuple[Any, ...], original: Any
    ) -> tuple[Any, bool]:
        """Retry a converter: its result, and whether the record has failed permanently."""
        reading = isinstance(original, ConsumedRow)
        operation, name = {
            PipelineStage.KEY_CONVERTER: (
                self._to_key if reading else self._from_key,
                self._key_name,
            ),
            PipelineStage.VALUE_CONVERTER: (
                self._to_value if reading else self._from_value,
                self._value_name,
            ),
            PipelineStage.HEADER_CONVERTER: (
                self._headers_in if reading else self._headers_out,
                self._header_name,
            ),
        }[stage]
        return self._tolerance.recover(error, stage, name, partial(operation, *args), original)

    def _row_of(self, record: SinkRecord) -> ConsumedRow:
        topic = record.topic
        return ConsumedRow(
            topic,
            record.partition or 0,
            record.offset,
            record.timestamp,
            record.timestamp_type.value,
            self._from_key(topic, record.key_schema, record.key),
            self._from_value(topic, record.value_schema, record.value),
            self._headers_out(topic, record.headers),
        )


def with_schema_header(headers: Headers, name: str, data: bytes | None) -> bytes | None:
    """The data in wire format: the schema id of header `name`, if there is one, put in front."""
    if data is None or not name:
        return data
    named = next((value for key, value in headers if key == name), None)
    return data if named is None else named + data


def checked_timestamp(timestamp: int | None) -> int | None:
    if timestamp is None or timestamp >= 0:
        return timestamp
    if timestamp == -1:
        return None
    raise ConnectException(f"Invalid record timestamp {timestamp}")
