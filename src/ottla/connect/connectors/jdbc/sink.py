"""The JDBC sink: topics into tables of a database."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from ottla.connect.api import Props, SinkConnector, SinkTask, SinkTaskContext
from ottla.connect.config import ConfigDef, ConfigValue
from ottla.connect.connectors.jdbc.addresses import check_address, open_patiently
from ottla.connect.connectors.jdbc.database import Database, DatabaseError
from ottla.connect.connectors.jdbc.sink_config import CONFIG, problems, settings_of
from ottla.connect.connectors.jdbc.writing import Writer
from ottla.connect.data import SinkRecord
from ottla.connect.errors import ConnectException, RetriableException

RECORDS_SHOWN: Final = 1

log = logging.getLogger("ottla.connect.jdbc")


class JdbcSinkConnector(SinkConnector):
    def version(self) -> str:
        return "1.0"

    def config_def(self) -> ConfigDef:
        return CONFIG

    def validate(self, props: Props) -> list[ConfigValue]:
        values = CONFIG.validate_with(props, problems)
        check_address(props, values["connection.url"].errors)
        return list(values.values())

    def start(self, props: Props) -> None:
        settings_of(props)
        self._props = dict(props)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [self._props] * max_tasks


class JdbcSinkTask(SinkTask):
    """Each `put` is one transaction: after it the rows are safe, and `flush` has nothing to do."""

    def start(self, props: Props, context: SinkTaskContext) -> None:
        self._props = dict(props)
        self._settings = settings_of(props)
        self._context = context
        self._database: Database | None = None
        self._writer: Writer | None = None
        self._retries_left = self._settings["max.retries"]

    def put(self, records: Sequence[SinkRecord]) -> None:
        if not records:
            return
        try:
            self._write(records)
        except DatabaseError as error:
            self._let_go()
            if error.passing and self._retries_left > 0:
                self._retries_left -= 1
                self._context.timeout(self._settings["retry.backoff.ms"])
                raise RetriableException(f"writing {_told(records)} failed: {error}") from error
            self._one_by_one(records, ConnectException(f"{_told(records)}: {error}"))
        except ConnectException as error:
            if isinstance(error, RetriableException):
                raise
            self._let_go()
            self._one_by_one(records, error)
        self._retries_left = self._settings["max.retries"]

    def stop(self) -> None:
        self._let_go()

    def _write(self, records: Sequence[SinkRecord]) -> None:
        if self._writer is None:
            self._database = open_patiently(
                self._props,
                attempts=self._settings["connection.attempts"],
                backoff_ms=self._settings["connection.backoff.ms"],
            )
            self._writer = Writer(self._database, self._settings)
        self._writer.write(records)

    def _one_by_one(self, records: Sequence[SinkRecord], cause: Exception) -> None:
        """With a reporter only the records that are at fault are left out."""
        reporter = self._context.errant_record_reporter
        if reporter is None:
            raise cause
        for record in records:
            try:
                self._write([record])
            except DatabaseError as error:
                self._let_go()
                told = ConnectException(f"{_told([record])}: {error}")
                if error.passing:
                    raise told from error
                reporter.report(record, told)
            except RetriableException:
                raise
            except ConnectException as error:
                self._let_go()
                reporter.report(record, error)

    def _let_go(self) -> None:
        """The transaction is rolled back with its connection."""
        if self._database is not None:
            self._database.close()
        self._database = self._writer = None


def _told(records: Sequence[SinkRecord]) -> str:
    first = records[0]
    place = f"{first.topic}-{first.partition}@{first.offset}"
    return place if len(records) == 1 else f"{len(records)} records from {place} on"


JdbcSinkConnector.task_class = JdbcSinkTask
