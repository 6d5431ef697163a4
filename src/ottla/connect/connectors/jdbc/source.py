"""The JDBC source: tables of a database, or a query, into topics."""

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
from ottla.connect.config import ConfigDef, ConfigValue
from ottla.connect.connectors.jdbc.addresses import (
    check_address,
    open_patiently,
)
from ottla.connect.connectors.jdbc.database import Database, DatabaseError, Table
from ottla.connect.connectors.jdbc.reading import Reading
from ottla.connect.connectors.jdbc.source_config import (
    BOTH,
    BULK,
    CONFIG,
    INCREMENTING,
    TABLES,
    Settings,
    problems,
    settings_of,
)
from ottla.connect.data import SourceRecord
from ottla.connect.errors import ConnectException, RetriableException

WAIT_S: Final = 0.1  # of a poll that has nothing yet

log = logging.getLogger("ottla.connect.jdbc")


class JdbcSourceConnector(SourceConnector):
    """Cuts the tables among tasks, and looks for new ones."""

    def version(self) -> str:
        return "1.0"

    def config_def(self) -> ConfigDef:
        return CONFIG

    def validate(self, props: Props) -> list[ConfigValue]:
        values = CONFIG.validate_with(props, problems)
        check_address(props, values["connection.url"].errors)
        return list(values.values())

    def start(self, props: Props) -> None:
        self._props = dict(props)
        self._settings = settings_of(props)
        self._stopped = threading.Event()
        self._tables: list[Table] = []
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
        """A bulk copy that was interrupted begins anew; a walk by timestamps alone is exact only
        in tables with a primary key."""
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
                    f"{dict(partition)} is no partition of this connector: it has"
                    ' {"protocol": "1", "table": "schema.table"} or {"query": "query"}'
                )
            for name in ("incrementing", "timestamp", "timestamp_nanos"):
                value = (offset or {}).get(name)
                if value is not None and not isinstance(value, int):
                    raise ConnectException(f"{name} is a whole number, not {value!r}")
        return True

    def _found_tables(self) -> list[Table]:
        database = _opened(self._props, self._settings)
        try:
            return chosen(self._settings, database)
        except DatabaseError as error:
            raise RetriableException(f"tables can't be listed: {error}") from error
        finally:
            database.close()

    def _watch(self) -> None:
        every_s = self._settings["table.poll.interval.ms"] / 1000
        while not self._stopped.wait(every_s):
            try:
                found = self._found_tables()
            except ConnectException as error:
                log.warning("looking for tables failed, and is tried again: %s", error)
                continue
            if found != self._tables and not self._stopped.is_set():
                log.info("tables are now %s", ", ".join(map(str, found)) or "none")
                self._tables = found
                self.context.request_task_reconfiguration()


def chosen(settings: Settings, database: Database) -> list[Table]:
    """The tables that a config names; one that is named and not there is said."""
    found = database.tables(settings["table.types"], settings["schema.pattern"])
    if settings.included:
        named = {name: [t for t in found if _is_named(t, name)] for name in settings.included}
        missing = [name for name, tables in named.items() if not tables]
        if missing:
            log.warning("tables not found: %s", ", ".join(missing))
        found = [table for table in found if any(table in each for each in named.values())]
    return [t for t in found if not any(_is_named(t, name) for name in settings.excluded)]


def _is_named(table: Table, name: str) -> bool:
    plain = name.replace('"', "").strip()
    return plain == table.name or plain == str(table) or plain.endswith(f".{table}")


class JdbcSourceTask(SourceTask):
    """Reads its tables in turn, each at most every `poll.interval.ms`."""

    def start(self, props: Props, context: SourceTaskContext) -> None:
        self._props = dict(props)
        self._settings = settings_of(props)
        self._interval_s = self._settings["poll.interval.ms"] / 1000
        self._readings = _readings(props, self._settings, context)
        self._due = {each.topic: each.due_ms() / 1000 for each in self._readings}
        self._database: Database | None = None
        self._failures = 0

    def poll(self) -> Sequence[SourceRecord] | None:
        reading = self._next()
        if reading is None:
            return None
        try:
            if self._database is None:
                self._database = _opened(self._props, self._settings)
            records = self._read(reading, self._database)
        except DatabaseError as error:
            raise self._failure(reading, error) from error
        self._failures = 0
        return records or None

    def stop(self) -> None:
        self._let_go()

    def _next(self) -> Reading | None:
        """One that is under way; else the one that has waited longest, if it is due."""
        for reading in self._readings:
            if reading.under_way:
                return reading
        if not self._readings:
            time.sleep(WAIT_S)
            return None
        reading = min(self._readings, key=lambda each: self._due[each.topic])
        wait_s = self._due[reading.topic] - time.time()
        if wait_s > 0:
            time.sleep(min(wait_s, WAIT_S))
        return reading if self._due[reading.topic] <= time.time() else None

    def _read(self, reading: Reading, database: Database) -> list[SourceRecord]:
        if not reading.under_way:
            now = time.time()
            self._due[reading.topic] = now + self._interval_s
            reading.run(database, int(now * 1000))
        records = reading.next_records(self._settings["batch.max.rows"])
        if not reading.under_way:
            database.end_reading()
        return records

    def _failure(self, reading: Reading, error: DatabaseError) -> ConnectException:
        """The query is run again from the last position; what can't pass fails the task."""
        self._let_go()
        self._failures += 1
        attempts = self._settings["query.retry.attempts"]
        text = f"reading {reading.table or 'the query'} failed: {error}"
        if error.passing and (attempts < 0 or self._failures <= attempts):
            return RetriableException(text)
        return ConnectException(text)

    def _let_go(self) -> None:
        for reading in self._readings:
            try:
                reading.end()
            except DatabaseError:
                reading.drop()  # its connection is gone already
        if self._database is not None:
            self._database.close()
            self._database = None


def _readings(props: Props, settings: Settings, context: SourceTaskContext) -> list[Reading]:
    if settings.query:
        readings = [Reading(settings, None)]
    else:
        tables = json.loads(props.get(TABLES, "[]"))
        readings = [Reading(settings, Table(name, schema)) for schema, name in tables]
    for reading in readings:
        reading.go_on_from(context.offset(reading.partition))
    return readings


def _opened(props: Props, settings: Settings) -> Database:
    return open_patiently(
        props,
        attempts=settings["connection.attempts"],
        backoff_ms=settings["connection.backoff.ms"],
    )


JdbcSourceConnector.task_class = JdbcSourceTask
