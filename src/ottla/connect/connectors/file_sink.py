"""Records of topics as lines of a file: Kafka's FileStreamSink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TextIO

from ottla.client.record import TopicPartition
from ottla.connect import standard
from ottla.connect.api import Props, SinkConnector, SinkTask, SinkTaskContext
from ottla.connect.config import ConfigDef, ConfigType, Importance
from ottla.connect.data import SinkRecord
from ottla.connect.errors import ConnectException
from ottla.rows.java.text import java_text

FILE: Final = "file"

CONFIG: Final = ConfigDef().define(
    *(FILE, ConfigType.STRING, None, Importance.HIGH),
    "The file to append to; without one, the standard output of the worker.",
)


class FileStreamSinkConnector(SinkConnector):
    def version(self) -> str:
        return "1.0"

    def config_def(self) -> ConfigDef:
        return CONFIG

    def start(self, props: Props) -> None:
        CONFIG.parse(props)
        self._props = dict(props)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [self._props] * max_tasks

    def alter_offsets(self, props: Props, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Any will do: lines are appended, and nothing is remembered."""
        return True


class FileStreamSinkTask(SinkTask):
    def start(self, props: Props, context: SinkTaskContext) -> None:
        path: str = CONFIG.parse(props)[FILE] or ""
        self._shown: TextIO | None = None if path else standard.output()
        if path:
            try:
                # No buffer: a put is one write, so that no line is cut when a process is killed.
                self._file = Path(path).open("ab", buffering=0)  # noqa: SIM115
            except OSError as error:
                raise ConnectException(f"{path} can't be written: {error}") from error

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
