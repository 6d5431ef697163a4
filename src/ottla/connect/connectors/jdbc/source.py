"""The JDBC source: copies tables of a database, or the result of a query, to topics."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ottla.connect.api import (
    ExactlyOnceSupport,
    Props,
    SourceConnector,
    SourceTask,
    SourceTaskContext,
)
from ottla.connect.config import ConfigValue
from ottla.connect.connectors.builtin_connector import BuiltinConnector
from ottla.connect.connectors.jdbc.addresses import check_address, open_patiently
from ottla.connect.connectors.jdbc.database import Database, DatabaseError, TableId
from ottla.connect.connectors.jdbc.source_config import (
    BOTH,
    BULK,
    INCREMENTING,
    SOURCE_CONFIG,
    TABLES,
    JdbcSourceConfig,
    settings_of,
)
from ottla.connect.connectors.jdbc.table_querier import TableQuerier
from ottla.connect.data import SourceRecord
from ottla.connect.errors import ConnectException, RetriableException

WAIT_S: Final = 0.1  # how long an idle poll waits

log = logging.getLogger("ottla.connect.jdbc")


class JdbcSourceConnector(BuiltinConnector, SourceConnector):
    """Distributes the tables among tasks, and watches for new tables."""

    config = SOURCE_CONFIG

    def validate(self, props: Props) -> list[ConfigValue]:
        values = SOURCE_CONFIG.validate_all(props)
        check_address(props, values["connection.url"].errors)
        return list(values.values())

    def start(self, props: Props) -> None:
        super().start(props)
        self._settings = settings_of(props)
        self._stopped = threading.Event()
        self._tables: list[TableId] = []
        if not self._settings.query:
            self._tables = self._found_tables()
            watch = threading.Thread(target=self._watch, name="jdbc-tables", daemon=True)
            watch.start()

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        if self._settings.query:
            return [self._props]
        count = min(max_tasks, len(self._tables))
        return [
            {
                **self._props,
                TABLES: json.dumps([[t.schema, t.name] for t in self._tables[task::count]]),
            }
            for task in range(count)
        ]

    def stop(self) -> None:
        self._stopped.set()

    def exactly_once_support(self, props: Props) -> ExactlyOnceSupport | None:
        """Not bulk, because an interrupted copy starts over. By timestamps alone it depends on
        the tables: only those with a primary key have exact positions."""
        mode = props.get("mode")
        if mode in (INCREMENTING, BOTH):
            return ExactlyOnceSupport.SUPPORTED
        return ExactlyOnceSupport.UNSUPPORTED if mode == BULK else None

    def alter_offsets(
        self,
        props: Props,
        offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]],
    ) -> bool:
        for partition, offset in offsets:
            if "table" not in partition and "query" not in partition:
                raise ConnectException(
                    f"{dict(partition)} is not a partition of this connector, which has"
                    ' {"protocol": "1", "table": "schema.table"} or {"query": "query"}'
                )
            for name in ("incrementing", "timestamp", "timestamp_nanos"):
                value = (offset or {}).get(name)
                if value is not None and not isinstance(value, int):
                    raise ConnectException(f"{name} is a whole number, not {value!r}")
        return True

    def _found_tables(self) -> list[TableId]:
        database = _opened(self._props, self._settings)
        try:
            return chosen(self._settings, database)
        except DatabaseError as error:
            raise RetriableException(f"Listing tables failed: {error}") from error
        finally:
            database.close()

    def _watch(self) -> None:
        every_s = self._settings["table.poll.interval.ms"] / 1000
        while not self._stopped.wait(every_s):
            try:
                found = self._found_tables()
            except ConnectException as error:
                log.warning("Listing tables failed, will retry: %s", error)
                continue
            if found != self._tables and not self._stopped.is_set():
                log.info("Tables changed to %s", ", ".join(map(str, found)) or "none")
                self._tables = found
                self.context.request_task_reconfiguration()


def chosen(settings: JdbcSourceConfig, database: Database) -> list[TableId]:
    """The tables that the config selects; logs those that do not exist."""
    found = database.tables(settings["table.types"], settings["schema.pattern"])
    if settings.included:
        named = {name: [t for t in found if _is_named(t, name)] for name in settings.included}
        missing = [name for name, tables in named.items() if not tables]
        if missing:
            log.warning("Tables not found: %s", ", ".join(missing))
        found = [table for table in found if any(table in tables for tables in named.values())]
    return [t for t in found if not any(_is_named(t, name) for name in settings.excluded)]


def _is_named(table: TableId, name: str) -> bool:
    plain = name.replace('"', "").strip()
    return plain == table.name or plain == str(table) or plain.endswith(f".{table}")


class JdbcSourceTask(SourceTask):
    """Polls its tables in turn, each at most once per `poll.interval.ms`."""

    def start(self, props: Props, context: SourceTaskContext) -> None:
        self._props = dict(props)
        self._settings = settings_of(props)
        self._interval_s = self._settings["poll.interval.ms"] / 1000
        self._queriers = _queriers(props, self._settings, context)
        self._due = {querier.topic: querier.due_ms() / 1000 for querier in self._queriers}
        self._database: Database | None = None
        self._failures = 0

    def poll(self) -> Sequence[SourceRecord] | None:
        querier = self._next()
        if querier is None:
            return None
        try:
            if self._database is None:
                self._database = _opened(self._props, self._settings)
            records = self._read(querier, self._database)
        except DatabaseError as error:
            raise self._failure(querier, error) from error
        self._failures = 0
        return records or None

    def stop(self) -> None:
        self._disconnect()

    def _next(self) -> TableQuerier | None:
        """The querier with a running query; else the one that has waited longest, if it is due."""
        for querier in self._queriers:
            if querier.is_running:
                return querier
        if not self._queriers:
            time.sleep(WAIT_S)
            return None
        querier = min(self._queriers, key=lambda querier: self._due[querier.topic])
        wait_s = self._due[querier.topic] - time.time()
        if wait_s > 0:
            time.sleep(min(wait_s, WAIT_S))
        return querier if self._due[querier.topic] <= time.time() else None

    def _read(self, querier: TableQuerier, database: Database) -> list[SourceRecord]:
        if not querier.is_running:
            now = time.time()
            self._due[querier.topic] = now + self._interval_s
            querier.run(database, int(now * 1000))
        records = querier.next_records(self._settings["batch.max.rows"])
        if not querier.is_running:
            database.end_reading()
        return records

    def _failure(self, querier: TableQuerier, error: DatabaseError) -> ConnectException:
        """Retriable if the error is transient: then the query runs again from its position."""
        self._disconnect()
        self._failures += 1
        attempts = self._settings["query.retry.attempts"]
        text = f"reading {querier.table or 'the query'} failed: {error}"
        if error.passing and (attempts < 0 or self._failures <= attempts):
            return RetriableException(text)
        return ConnectException(text)

    def _disconnect(self) -> None:
        for querier in self._queriers:
            try:
                querier.end()
            except DatabaseError:
                querier.drop()  # the connection is lost already
        if self._database is not None:
            self._database.close()
            self._database = None


def _queriers(
    props: Props, settings: JdbcSourceConfig, context: SourceTaskContext
) -> list[TableQuerier]:
    if settings.query:
        queriers = [TableQuerier(settings, None)]
    else:
        tables = json.loads(props.get(TABLES, "[]"))
        queriers = [TableQuerier(settings, TableId(name, schema)) for schema, name in tables]
    for querier in queriers:
        querier.resume_from(context.offset(querier.partition))
    return queriers


def _opened(props: Props, settings: JdbcSourceConfig) -> Database:
    return open_patiently(
        props,
        attempts=settings["connection.attempts"],
        backoff_ms=settings["connection.backoff.ms"],
    )


JdbcSourceConnector.task_class = JdbcSourceTask
