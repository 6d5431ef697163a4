"""The HTTP sink: sends each record, or each batch of records, as a request."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final
from urllib.parse import quote

from ottla.connect.api import Props, SinkConnector, SinkTask, SinkTaskContext
from ottla.connect.connectors.builtin_connector import BuiltinConnector
from ottla.connect.connectors.http.requests import HttpRequestError, HttpService
from ottla.connect.connectors.http.settings import CONFIG, regexes_of, settings_of
from ottla.connect.converters.json import JsonConverter
from ottla.connect.data import SinkRecord, Struct
from ottla.connect.errors import DataException
from ottla.rows.java.text import java_text

PLACEHOLDER: Final = re.compile(r"\$\{([^}]+)\}")

log = logging.getLogger("ottla.connect.http")


class HttpSinkConnector(BuiltinConnector, SinkConnector):
    config = CONFIG


class HttpSinkTask(SinkTask):
    """At least once: a request whose response is lost is sent again."""

    def start(self, props: Props, context: SinkTaskContext) -> None:
        self._settings = settings = settings_of(props)
        self._context = context
        self._service = HttpService(settings)
        self._json = JsonConverter()
        self._json.configure({"schemas.enable": "false", "converter.type": "value"})
        self._regexes = regexes_of(settings)
        self._method: str = settings["request.method"].upper()

    def put(self, records: Sequence[SinkRecord]) -> None:
        for url, batch in self._batches(records):
            if batch[0].value is None:
                self._deliver("DELETE", url, None, batch)
            else:
                self._deliver(self._method, url, self._body(batch), batch)

    def stop(self) -> None:
        self._service.close()

    def _batches(self, records: Sequence[SinkRecord]) -> Iterator[tuple[str, list[SinkRecord]]]:
        """Consecutive records with the same URL."""
        most = self._settings["batch.max.size"]
        batch: list[SinkRecord] = []
        address = ""
        for record in records:
            if record.value is None and not self._sends_tombstone(record):
                continue
            url = self._url(record)
            alone = record.value is None
            if batch and (url != address or len(batch) >= most or alone):
                yield address, batch
                batch = []
            address = url
            batch.append(record)
            if alone:
                yield address, batch
                batch = []
        if batch:
            yield address, batch

    def _sends_tombstone(self, record: SinkRecord) -> bool:
        what = self._settings["behavior.on.null.values"]
        if what == "fail":
            raise DataException(f"{_name_of(record)} has no value (behavior.on.null.values=fail)")
        if what == "log":
            log.warning("%s, key %s, has no value, skipped", _name_of(record), record.key)
        return bool(what == "delete")

    def _url(self, record: SinkRecord) -> str:
        def filled(match: re.Match[str]) -> str:
            return quote(java_text(_named(record, match.group(1))), safe="")

        return PLACEHOLDER.sub(filled, self._settings["http.api.url"])

    def _body(self, batch: Sequence[SinkRecord]) -> bytes:
        settings = self._settings
        texts = [self._text(record) for record in batch]
        if settings["request.body.format"] == "json" and (
            settings["batch.json.as.array"] or len(batch) > 1
        ):
            return f"[{','.join(texts)}]".encode()
        joined = settings["batch.separator"].join(texts)
        return f"{settings['batch.prefix']}{joined}{settings['batch.suffix']}".encode()

    def _text(self, record: SinkRecord) -> str:
        if self._settings["request.body.format"] == "json":
            data = self._json.from_connect(record.topic, record.value_schema, record.value)
            text = (data or b"null").decode()
        elif isinstance(record.value, bytes):
            text = record.value.decode(errors="replace")
        else:
            text = java_text(record.value)
        for pattern, replacement in self._regexes:
            text = pattern.sub(replacement, text)
        return text

    def _deliver(
        self, method: str, url: str, body: bytes | None, batch: Sequence[SinkRecord]
    ) -> None:
        try:
            self._service.send(method, url, body)
        except HttpRequestError as error:
            reporter = self._context.errant_record_reporter
            if reporter is not None:
                for record in batch:
                    reporter.report(record, error)
                return
            if self._settings["behavior.on.error"] == "fail":
                raise
            if self._settings["behavior.on.error"] == "log":
                log.error("Giving up on %s: %s", _name_of(batch[0]), error)


def _named(record: SinkRecord, name: str) -> Any:
    """${topic}, ${key}, or a field of the value or, failing that, of the key."""
    if name == "topic":
        return record.topic
    if name == "key":
        return record.key
    for value in (record.value, record.key):
        if isinstance(value, Struct | dict) and name in value:
            return value[name]
    raise DataException(f"http.api.url: {_name_of(record)} has no field {name}")


def _name_of(record: SinkRecord) -> str:
    return f"the record {record.topic}-{record.partition}@{record.offset}"


HttpSinkConnector.task_class = HttpSinkTask
