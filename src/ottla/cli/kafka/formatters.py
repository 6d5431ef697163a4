"""The record output of kafka-console-consumer: Kafka's formatters and deserializers, by name."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Final, Protocol

from ottla.cli.extras import require_extra
from ottla.cli.kafka.tool import ToolError
from ottla.client.record import ConsumerRecord
from ottla.client.serde_arguments import WORDS

_PACKAGE: Final = "org.apache.kafka.tools.consumer."
_SERIALIZATION: Final = "org.apache.kafka.common.serialization."

Show = Callable[[bytes | None], bytes]


class Formatter(Protocol):
    def write(self, record: ConsumerRecord, out: BinaryIO) -> None: ...

    def close(self) -> None:
        """Most formatters hold no resources."""
        return


class DefaultFormatter(Formatter):
    """Timestamp, partition, offset, epoch, headers, key, value, as far as requested."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._timestamp = _truth(properties, "print.timestamp")
        self._partition = _truth(properties, "print.partition")
        self._offset = _truth(properties, "print.offset")
        self._delivery = _truth(properties, "print.delivery")
        self._epoch = _truth(properties, "print.epoch")
        self._headers = _truth(properties, "print.headers")
        self._key = _truth(properties, "print.key")
        self._value = _truth(properties, "print.value", "true")
        self._separator = properties.get("key.separator", "\t").encode()
        self._line_separator = properties.get("line.separator", "\n").encode()
        self._headers_separator = properties.get("headers.separator", ",").encode()
        self.null = null = properties.get("null.literal", "null").encode()
        self._show_key = _shower(properties.get("key.deserializer"), null)
        self._show_value = _shower(properties.get("value.deserializer"), null)
        header = properties.get("headers.deserializer") or properties.get("header.deserializer")
        self._show_header = _shower(header, null)

    def write(self, record: ConsumerRecord, out: BinaryIO) -> None:
        parts: list[bytes] = []
        if self._timestamp:
            known = record.timestamp_ms >= 0
            shown = f"{record.timestamp_type}:{record.timestamp_ms}" if known else "NO_TIMESTAMP"
            parts.append(shown.encode())
        if self._partition:
            parts.append(b"Partition:%d" % record.partition)
        if self._offset:
            parts.append(b"Offset:%d" % record.offset)
        if self._delivery:
            count = record.delivery_count
            parts.append(b"Delivery:NOT_PRESENT" if count is None else b"Delivery:%d" % count)
        if self._epoch:
            epoch = record.leader_epoch
            parts.append(b"Epoch:NOT_PRESENT" if epoch is None else b"Epoch:%d" % epoch)
        if self._headers:
            parts.append(self._header_part(record))
        if self._key:
            parts.append(self.key_part(record))
        if self._value:
            parts.append(self.value_part(record))
        out.write(self._separator.join(parts) + self._line_separator)

    def key_part(self, record: ConsumerRecord) -> bytes:
        return self._show_key(record.key)

    def value_part(self, record: ConsumerRecord) -> bytes:
        return self._show_value(record.value)

    def _header_part(self, record: ConsumerRecord) -> bytes:
        pairs = (name.encode() + b":" + self._show_header(data) for name, data in record.headers)
        return self._headers_separator.join(pairs) or b"NO_HEADERS"


class LoggingFormatter(Formatter):
    """The default output, plus a line in the log."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._default = DefaultFormatter(properties)

    def write(self, record: ConsumerRecord, out: BinaryIO) -> None:
        self._default.write(record, out)
        logging.getLogger("ottla.console").info(
            "CreateTime:%d, key:%r, value:%r", record.timestamp_ms, record.key, record.value
        )


class NoOpFormatter(Formatter):
    """Prints nothing, to measure the consumer alone."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        pass

    def write(self, record: ConsumerRecord, out: BinaryIO) -> None:
        pass


class OffsetsFormatter(Formatter):
    """Offset commits in __consumer_offsets, as JSON."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        pass

    def write(self, record: ConsumerRecord, out: BinaryIO) -> None:
        from ottla.cli.kafka.offsets_topic import offset_commit_json

        _write_json(offset_commit_json(record.key, record.value), out)


class FormatsFormatter(Formatter):
    """Records of coordinators' topics in their message formats, as JSON."""

    def __init__(self, formats: str) -> None:
        self._formats = formats

    def write(self, record: ConsumerRecord, out: BinaryIO) -> None:
        from ottla.cli.kafka import record_formats

        formats = getattr(record_formats, self._formats)
        _write_json(record_formats.record_json(formats, record.key, record.value), out)


class GroupMetadataFormatter(Formatter):
    """Group metadata in __consumer_offsets, as JSON."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        pass

    def write(self, record: ConsumerRecord, out: BinaryIO) -> None:
        from ottla.cli.kafka.offsets_topic import group_json

        _write_json(group_json(record.key, record.value), out)


def _schema_formatter(properties: Mapping[str, str]) -> Formatter:
    require_extra("a formatter of records with schemas", "registry")
    from ottla.cli.kafka.schema_formatter import SchemaFormatter

    return SchemaFormatter(properties)


_FORMATTERS: Final[dict[str, Callable[[Mapping[str, str]], Formatter]]] = {
    "DefaultMessageFormatter": DefaultFormatter,
    "LoggingMessageFormatter": LoggingFormatter,
    "NoOpMessageFormatter": NoOpFormatter,
    "OffsetsMessageFormatter": OffsetsFormatter,
    "GroupMetadataMessageFormatter": GroupMetadataFormatter,
    "ShareGroupMessageFormatter": lambda properties: FormatsFormatter("SHARE_GROUPS"),
    "TransactionLogMessageFormatter": lambda properties: FormatsFormatter("TRANSACTIONS"),
    "group.share.ShareGroupStateMessageFormatter": (
        lambda properties: FormatsFormatter("SHARE_STATES")
    ),
    # The schema of each record determines its language.
    "io.confluent.kafka.formatter.AvroMessageFormatter": _schema_formatter,
    "io.confluent.kafka.formatter.json.JsonSchemaMessageFormatter": _schema_formatter,
    "io.confluent.kafka.formatter.protobuf.ProtobufMessageFormatter": _schema_formatter,
}


def formatter(name: str, properties: Mapping[str, str]) -> Formatter:
    make = _FORMATTERS.get(name.removeprefix(_PACKAGE))
    if make is None:
        known = ", ".join(_FORMATTERS)
        raise ToolError(f"unknown formatter {name}; choose from {known}")
    return make(properties)


def _shower(deserializer: str | None, null: bytes) -> Show:
    """Prints bytes as text, or by one of Java's deserializers."""
    if deserializer is None:
        return lambda data: null if data is None else data
    word = deserializer.removeprefix(_SERIALIZATION).removesuffix("Deserializer").lower()
    if word == "bytearray":
        word = "bytes"
    if word not in WORDS:
        raise ToolError(f"unknown deserializer {deserializer}; choose from {', '.join(WORDS)}")
    read = WORDS[word].from_bytes

    def show(data: bytes | None) -> bytes:
        if data is None:
            return null
        try:
            return _text(read(data)).encode()
        except ValueError as error:
            raise ToolError(f"{deserializer}: {error}") from None

    return show


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else str(value)


def _write_json(found: Any, out: BinaryIO) -> None:
    if found is not None:
        out.write(json.dumps(found, separators=(",", ":")).encode())


def _truth(properties: Mapping[str, str], name: str, default: str = "false") -> bool:
    return properties.get(name, default).strip().lower() == "true"
