"""Kafka's FileStreamSource: copies the lines of a file, which may grow, to a topic.

A line is copied once its end is written. LF, CR LF and CR end a line. Without a file the connector
reads the worker's standard input, which has no offsets: lines that were read but not written when a
task dies are lost, as in Kafka.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

from ottla.connect import standard_streams
from ottla.connect.api import (
    ExactlyOnceSupport,
    Props,
    SourceConnector,
    SourceTask,
    SourceTaskContext,
)
from ottla.connect.config import ConfigDef, ConfigType, Importance
from ottla.connect.connectors.builtin_connector import BuiltinConnector
from ottla.connect.data import STRING_SCHEMA, SourceRecord
from ottla.connect.errors import ConnectException
from ottla.connect.validators import at_least, non_empty_string

FILE: Final = "file"
FILENAME: Final = "filename"
POSITION: Final = "position"
WAIT_S: Final = 0.1
READ_BYTES: Final = 1 << 20
LINE_BYTES_MAX: Final = 1 << 28

CONFIG: Final = (
    ConfigDef()
    .define(
        *(FILE, ConfigType.STRING, None, Importance.HIGH),
        "The file to read; without one, the standard input of the worker.",
    )
    .define(
        *("topic", ConfigType.STRING),
        importance=Importance.HIGH,
        doc="The topic to write to.",
        validator=non_empty_string,
    )
    .define(
        *("batch.size", ConfigType.INT, 2000, Importance.LOW),
        "The maximum number of lines that one poll returns.",
        validator=at_least(1),
    )
)


class FileStreamSourceConnector(BuiltinConnector, SourceConnector):
    config = CONFIG

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [self._props]

    def exactly_once_support(self, props: Props) -> ExactlyOnceSupport | None:
        """Only files: standard input cannot be read again."""
        known = bool(props.get(FILE))
        return ExactlyOnceSupport.SUPPORTED if known else ExactlyOnceSupport.UNSUPPORTED

    def alter_offsets(
        self,
        props: Props,
        offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]],
    ) -> bool:
        if not props.get(FILE):
            raise ConnectException(
                f"Offsets cannot be modified if the '{FILE}' configuration is unspecified. This is"
                " because stdin is used for input and offsets are not tracked."
            )
        for partition, offset in offsets:
            if offset is None:
                continue
            if set(partition) != {FILENAME}:
                raise ConnectException(
                    f"Partition objects should contain the key '{FILENAME}', and no other"
                )
            position = offset.get(POSITION)
            if not isinstance(position, int) or isinstance(position, bool) or position < 0:
                raise ConnectException(
                    f"The value for the '{POSITION}' key in the offset should be a non-negative"
                    f" integer, and is {position!r}"
                )
        return True


class FileStreamSourceTask(SourceTask):
    def start(self, props: Props, context: SourceTaskContext) -> None:
        settings = CONFIG.parse(props)
        self._path: str = settings[FILE] or ""
        self._topic: str = settings["topic"]
        self._batch: int = settings["batch.size"]
        self._partition = {FILENAME: self._path or None}
        offset = context.offset(self._partition) or {}
        self._position = int(offset.get(POSITION) or 0)  # of the first byte in the buffer
        self._buffer = b""
        self._file: BinaryIO | None = None
        self._input = None if self._path else standard_streams.standard_input()

    def poll(self) -> Sequence[SourceRecord] | None:
        """Never waits for lines of a file: the framework pauses between polls, and must not be
        kept from writing earlier lines."""
        records = self._records()
        if len(records) < self._batch and self._read():
            records += self._records(self._batch - len(records))
        return records or None

    def stop(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read(self) -> bool:
        """Append more bytes to the buffer; False if there are none now."""
        try:
            more = self._bytes()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise ConnectException(f"{self._path or 'stdin'} cannot be read: {error}") from error
        self._buffer += more
        if len(self._buffer) > LINE_BYTES_MAX:
            raise ConnectException(
                f"{self._path}: the line at byte {self._position} is longer than"
                f" {LINE_BYTES_MAX} bytes"
            )
        return bool(more)

    def _bytes(self) -> bytes:
        if self._input is not None:
            ready, _, _ = select.select([self._input], [], [], WAIT_S)
            return os.read(self._input, READ_BYTES) if ready else b""
        if self._file is None:
            self._file = Path(self._path).open("rb")  # noqa: SIM115
            self._file.seek(self._position + len(self._buffer))
        return self._file.read(READ_BYTES)

    def _records(self, count: int | None = None) -> list[SourceRecord]:
        lines, used = lines_of(self._buffer, self._batch if count is None else count)
        records = []
        partition, topic, position = self._partition, self._topic, self._position
        now_ms = int(time.time() * 1000)
        for line, size in lines:
            position += size
            offset = {POSITION: position if self._path else None}
            text = line.decode("utf-8", errors="replace")
            records.append(
                SourceRecord(
                    partition, offset, topic, None, None, None, STRING_SCHEMA, text, now_ms
                )
            )
        self._position = position
        self._buffer = self._buffer[used:]
        return records


def lines_of(data: bytes, count: int) -> tuple[list[tuple[bytes, int]], int]:
    """The complete lines, each with its size including the line end, and their total size.

    A CR at the very end waits for the next byte, because a LF may belong to it.
    """
    if b"\r" not in data:
        *whole, rest = data.split(b"\n", count)
        return [(line, len(line) + 1) for line in whole], len(data) - len(rest)
    lines: list[tuple[bytes, int]] = []
    at = 0
    while len(lines) < count:
        end = data.find(b"\n", at)
        back = data.find(b"\r", at, end if end >= 0 else len(data))
        if back >= 0:
            if back + 1 == len(data):
                break
            size = back - at + (2 if data[back + 1 : back + 2] == b"\n" else 1)
            lines.append((data[at:back], size))
            at += size
            continue
        if end < 0:
            break
        lines.append((data[at:end], end - at + 1))
        at = end + 1
    return lines, at


FileStreamSourceConnector.task_class = FileStreamSourceTask
