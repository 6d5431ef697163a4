"""Lines of a file into a topic: Kafka's FileStreamSource. It follows a file that grows.

A line belongs to the topic when its end is written. LF, CR LF and CR end a line. Without a file the
worker's standard input is read: it has no place to go back to, so lines that were read and not
written when a task dies are lost, as in Kafka.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

from ottla.connect import standard
from ottla.connect.api import (
    ExactlyOnceSupport,
    Props,
    SourceConnector,
    SourceTask,
    SourceTaskContext,
)
from ottla.connect.config import ConfigDef, ConfigType, Importance
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
        "Lines that one poll returns at most.",
        validator=at_least(1),
    )
)


class FileStreamSourceConnector(SourceConnector):
    def version(self) -> str:
        return "1.0"

    def config_def(self) -> ConfigDef:
        return CONFIG

    def start(self, props: Props) -> None:
        CONFIG.parse(props)
        self._props = dict(props)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [self._props]

    def exactly_once_support(self, props: Props) -> ExactlyOnceSupport | None:
        """What was read from the standard input can't be read again."""
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
        self._position = int(offset.get(POSITION) or 0)  # of the first byte held, or to be read
        self._held = b""
        self._file: BinaryIO | None = None
        self._input = None if self._path else standard.input_descriptor()

    def poll(self) -> Sequence[SourceRecord] | None:
        """Does not wait for lines of a file: who polls does, and writes those of before at once."""
        records = self._records()
        if len(records) < self._batch and self._read():
            records += self._records(self._batch - len(records))
        return records or None

    def stop(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read(self) -> bool:
        """More bytes behind those that are held; False: there are none now."""
        try:
            more = self._bytes()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise ConnectException(f"{self._path or 'stdin'} can't be read: {error}") from error
        self._held += more
        if len(self._held) > LINE_BYTES_MAX:
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
            self._file.seek(self._position + len(self._held))
        return self._file.read(READ_BYTES)

    def _records(self, count: int | None = None) -> list[SourceRecord]:
        lines, used = lines_of(self._held, self._batch if count is None else count)
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
        self._held = self._held[used:]
        return records


def lines_of(held: bytes, count: int) -> tuple[list[tuple[bytes, int]], int]:
    """Whole lines at the front, each with its size and its end's; and the size of all of them.

    A CR at the very end waits: a LF may belong to it.
    """
    if b"\r" not in held:
        *whole, rest = held.split(b"\n", count)
        return [(line, len(line) + 1) for line in whole], len(held) - len(rest)
    lines: list[tuple[bytes, int]] = []
    at = 0
    while len(lines) < count:
        end = held.find(b"\n", at)
        back = held.find(b"\r", at, end if end >= 0 else len(held))
        if back >= 0:
            if back + 1 == len(held):
                break
            size = back - at + (2 if held[back + 1 : back + 2] == b"\n" else 1)
            lines.append((held[at:back], size))
            at += size
            continue
        if end < 0:
            break
        lines.append((held[at:end], end - at + 1))
        at = end + 1
    return lines, at


FileStreamSourceConnector.task_class = FileStreamSourceTask
