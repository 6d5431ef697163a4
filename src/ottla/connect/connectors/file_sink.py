"""Kafka's FileStreamSink: appends records as lines to a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TextIO

from ottla.client.record import TopicPartition
from ottla.connect import standard_streams
from ottla.connect.api import Props, SinkConnector, SinkTask, SinkTaskContext
from ottla.connect.config import ConfigDef, ConfigType, Importance
from ottla.connect.connectors.builtin_connector import BuiltinConnector
from ottla.connect.data import SinkRecord
from ottla.connect.errors import ConnectException
from ottla.rows.java.text import java_text

FILE: Final = "file"

CONFIG: Final = ConfigDef().define(
    *(FILE, ConfigType.STRING, None, Importance.HIGH),
    "The file to append to; without one, the standard output of the worker.",
)


class FileStreamSinkConnector(BuiltinConnector, SinkConnector):
    config = CONFIG

    def alter_offsets(self, props: Props, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Any offset is valid: lines are appended, and no position is kept."""
        return True


class FileStreamSinkTask(SinkTask):
    def start(self, props: Props, context: SinkTaskContext) -> None:
        path: str = CONFIG.parse(props)[FILE] or ""
        self._shown: TextIO | None = None if path else standard_streams.standard_output()
        if path:
            try:
                # Unbuffered: a put is one write, so that killing the process cuts no line.
                self._file = Path(path).open("ab", buffering=0)  # noqa: SIM115
            except OSError as error:
                raise ConnectException(f"Couldn't open {path} for writing: {error}") from error

    def put(self, records: Sequence[SinkRecord]) -> None:
        text = "".join(f"{java_text(record.value)}\n" for record in records)
        if self._shown is not None:
            self._shown.write(text)
        elif text:
            left = memoryview(text.encode())
            while left:
                left = left[self._file.write(left) :]

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        if self._shown is not None:
            self._shown.flush()

    def stop(self) -> None:
        if self._shown is None:
            self._file.close()


FileStreamSinkConnector.task_class = FileStreamSinkTask
