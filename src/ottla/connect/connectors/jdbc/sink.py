"""The JDBC sink: writes topics to tables of a database."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from ottla.connect.api import Props, SinkConnector, SinkTask, SinkTaskContext
from ottla.connect.config import ConfigValue
from ottla.connect.connectors.builtin_connector import BuiltinConnector
from ottla.connect.connectors.jdbc.addresses import check_address, open_patiently
from ottla.connect.connectors.jdbc.database import Database, DatabaseError
from ottla.connect.connectors.jdbc.jdbc_writer import JdbcWriter
from ottla.connect.connectors.jdbc.sink_config import SINK_CONFIG, settings_of
from ottla.connect.data import SinkRecord
from ottla.connect.errors import ConnectException, RetriableException

RECORDS_SHOWN: Final = 1

log = logging.getLogger("ottla.connect.jdbc")


class JdbcSinkConnector(BuiltinConnector, SinkConnector):
    config = SINK_CONFIG

    def validate(self, props: Props) -> list[ConfigValue]:
        values = SINK_CONFIG.validate_all(props)
        check_address(props, values["connection.url"].errors)
        return list(values.values())


class JdbcSinkTask(SinkTask):
    """Each `put` is one transaction. So the rows are durable when it returns, and `flush` has
    nothing to do; a `put` that fails in the middle leaves no rows behind."""

    def start(self, props: Props, context: SinkTaskContext) -> None:
        self._props = dict(props)
        self._settings = settings_of(props)
        self._context = context
        self._database: Database | None = None
        self._writer: JdbcWriter | None = None
        self._retries_left = self._settings["max.retries"]

    def put(self, records: Sequence[SinkRecord]) -> None:
        if not records:
            return
        try:
            self._write(records)
        except DatabaseError as error:
            self._disconnect()
            if error.passing and self._retries_left > 0:
                self._retries_left -= 1
                self._context.timeout(self._settings["retry.backoff.ms"])
                raise RetriableException(
                    f"writing {_described(records)} failed: {error}"
                ) from error
            self._one_by_one(records, ConnectException(f"{_described(records)}: {error}"))
        except ConnectException as error:
            if isinstance(error, RetriableException):
                raise
            self._disconnect()
            self._one_by_one(records, error)
        self._retries_left = self._settings["max.retries"]

    def stop(self) -> None:
        self._disconnect()

    def _write(self, records: Sequence[SinkRecord]) -> None:
        if self._writer is None:
            self._database = open_patiently(
                self._props,
                attempts=self._settings["connection.attempts"],
                backoff_ms=self._settings["connection.backoff.ms"],
            )
            self._writer = JdbcWriter(self._database, self._settings)
        self._writer.write(records)

    def _one_by_one(self, records: Sequence[SinkRecord], cause: Exception) -> None:
        """With an errant record reporter only the bad records are dropped."""
        reporter = self._context.errant_record_reporter
        if reporter is None:
            raise cause
        for record in records:
            try:
                self._write([record])
            except DatabaseError as error:
                self._disconnect()
                failure = ConnectException(f"{_described([record])}: {error}")
                if error.passing:
                    raise failure from error
                reporter.report(record, failure)
            except RetriableException:
                raise
            except ConnectException as error:
                self._disconnect()
                reporter.report(record, error)

    def _disconnect(self) -> None:
        """Close the connection, which rolls the transaction back."""
        if self._database is not None:
            self._database.close()
        self._database = self._writer = None


def _described(records: Sequence[SinkRecord]) -> str:
    first = records[0]
    position = f"{first.topic}-{first.partition}@{first.offset}"
    return position if len(records) == 1 else f"{len(records)} records from {position} on"


JdbcSinkConnector.task_class = JdbcSinkTask
