"""What happens to a record that fails: retry, log, dead letter queue, skip, or fail the task.

The errors.* settings of a connector (KIP-298): RetryWithToleranceOperator, LogReporter and
DeadLetterQueueReporter in Kafka. No I/O: dead letters go to a callable, and waiting is an argument.
"""

from __future__ import annotations

import logging
import random
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final

from ottla.connect.config import ConfigDef
from ottla.connect.connector_config import DEAD_LETTERS, ERRORS
from ottla.connect.data import SourceRecord
from ottla.connect.errors import ConnectException, RetriableException, java_name
from ottla.connect.rows import ConsumedRow, ProducedRow

log = logging.getLogger("ottla.connect.errors")

RETRY_DELAY_MIN_MS: Final = 300
HEADER: Final = "__connect.errors."
TIMESTAMP_TYPES: Final = {0: "CreateTime", 1: "LogAppendTime"}


class PipelineStage(Enum):
    TASK_POLL = "TASK_POLL"
    TASK_PUT = "TASK_PUT"
    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"
    KAFKA_CONSUME = "KAFKA_CONSUME"


class ErrorPolicy:
    """For one task."""

    def __init__(
        self,
        config: Mapping[str, str],
        *,
        connector: str,
        task: int,
        on_dead_letter: Callable[[ProducedRow], None] | None,
        sleep: Callable[[float], object] | None,
        now_ms: Callable[[], int],
    ) -> None:
        definition = ConfigDef()
        for key in (*ERRORS.keys.values(), *DEAD_LETTERS.keys.values()):
            definition.add(key)
        settings = definition.parse(config)
        self._tolerates_all = settings["errors.tolerance"] == "all"
        self._retry_timeout_ms: int = settings["errors.retry.timeout"]
        self._retry_delay_max_ms: int = settings["errors.retry.delay.max.ms"]
        self._logs: bool = settings["errors.log.enable"]
        self._logs_records: bool = settings["errors.log.include.messages"]
        self._topic: str = settings["errors.deadletterqueue.topic.name"].strip()
        self._context_headers: bool = settings["errors.deadletterqueue.context.headers.enable"]
        self._connector, self._task = connector, task
        self._on_dead_letter = on_dead_letter
        self._stopping = threading.Event()
        self._sleep, self._now_ms = sleep or self._stopping.wait, now_ms
        self.counts: Counter[str] = Counter()
        """By the names of Kafka's task error metrics."""

    @property
    def reports(self) -> bool:
        """True if the sink task gets an errant record reporter."""
        return bool(self._topic) or self._logs

    def stop(self) -> None:
        """From any thread: no more retries. The current record's error is raised, not tolerated,
        so that the record is not counted as written."""
        self._stopping.set()

    def recover(
        self,
        error: Exception,
        stage: PipelineStage,
        executing: str,
        retry: Callable[[], Any],
        original: ConsumedRow | SourceRecord | None,
    ) -> tuple[Any, bool]:
        """The first attempt has failed: the result of a retry, and whether to skip the record."""
        deadline = self._deadline()
        attempt = 1
        while isinstance(error, RetriableException) and self._now_ms() < deadline:
            self.counts["total-record-failures"] += 1
            self._back_off(attempt, deadline)
            if self._stopping.is_set():
                raise error
            self.counts["total-retries"] += 1
            attempt += 1
            try:
                return retry(), False
            except Exception as another:
                error = another
        self.failed(error, stage, executing, original)
        self.counts["total-records-skipped"] += 1
        return None, True

    def failed(
        self,
        error: Exception,
        stage: PipelineStage,
        executing: str,
        original: ConsumedRow | SourceRecord | None,
    ) -> None:
        """Report the failure; raises unless errors are tolerated."""
        self.counts["total-record-failures"] += 1
        self.counts["total-record-errors"] += 1
        self._log(error, stage, executing, original)
        if isinstance(original, ConsumedRow):
            error.add_note(position_of(original))  # the task's trace names the record
            self._send_to_dead_letter_queue(error, stage, executing, original)
        if not self._tolerates_all:
            raise ConnectException("Tolerance exceeded in error handler") from error

    def _deadline(self) -> float:
        if self._retry_timeout_ms < 0:
            return float("inf")
        return self._now_ms() + self._retry_timeout_ms

    def _back_off(self, attempt: int, deadline: float) -> None:
        delay = RETRY_DELAY_MIN_MS << min(attempt - 1, 32)
        if delay > self._retry_delay_max_ms:
            delay = random.randrange(max(self._retry_delay_max_ms, 1))
        left = deadline - self._now_ms()
        self._sleep(max(0.0, min(delay, left)) / 1000)

    # Reporting.

    def _log(
        self,
        error: Exception,
        stage: PipelineStage,
        executing: str,
        original: ConsumedRow | SourceRecord | None,
    ) -> None:
        if not self._logs:
            return
        record = described(original) if self._logs_records else ""
        log.error(
            "Error encountered in task %s-%d. Executing stage '%s' with class '%s'%s.",
            self._connector,
            self._task,
            stage.value,
            executing,
            record,
            exc_info=error,
        )
        self.counts["total-errors-logged"] += 1

    def _send_to_dead_letter_queue(
        self, error: Exception, stage: PipelineStage, executing: str, original: ConsumedRow
    ) -> None:
        if not self._topic or self._on_dead_letter is None:
            return
        self.counts["deadletterqueue-produce-requests"] += 1
        headers = original.headers
        if self._context_headers:
            headers = (*headers, *self._context(error, stage, executing, original))
        timestamp = original.timestamp
        dead_letter = ProducedRow(
            self._topic,
            None,
            original.key,
            original.value,
            None if timestamp is None or timestamp < 0 else timestamp,
            headers,
        )
        self._on_dead_letter(dead_letter)

    def _context(
        self, error: Exception, stage: PipelineStage, executing: str, original: ConsumedRow
    ) -> list[tuple[str, bytes | None]]:
        fields = {
            "topic": original.topic,
            "partition": str(original.partition),
            "offset": str(original.offset),
            "connector.name": self._connector,
            "task.id": str(self._task),
            "stage": stage.value,
            "class.name": executing,
            "exception.class.name": java_name(error),
            "exception.message": str(error),
            "exception.stacktrace": "".join(traceback.format_exception(error)),
        }
        return [(HEADER + name, text.encode("utf-8", "replace")) for name, text in fields.items()]


def described(original: ConsumedRow | SourceRecord | None) -> str:
    if isinstance(original, SourceRecord):
        return f", where source record is = {original}"
    if original is None:
        return ""
    shown = position_of(original)
    kind = TIMESTAMP_TYPES.get(original.timestamp_type)
    if kind is not None:
        shown += f", timestamp={original.timestamp}, timestampType={kind}"
    return f", where consumed record is {{{shown}}}"


def position_of(row: ConsumedRow) -> str:
    return f"topic='{row.topic}', partition={row.partition}, offset={row.offset}"
