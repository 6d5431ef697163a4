"""Partitioners, which choose a record's folder, and extractors of a record's time."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from ottla.connect.connectors.jdbc.times import zone_of
from ottla.connect.connectors.storage.settings import (
    DAILY,
    DAY_MS,
    FIELD,
    HOUR_MS,
    HOURLY,
    RECORD,
    TIMEBASED,
    WALLCLOCK,
)
from ottla.connect.data import SinkRecord, Struct
from ottla.connect.errors import ConfigException, DataException
from ottla.rows.java.date_format import DateFormat
from ottla.rows.java.text import java_text

EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
DAY: Final = "'year'=YYYY/'month'=MM/'day'=dd"
FORMATS: Final = {DAILY: DAY, HOURLY: f"{DAY}/'hour'=HH"}
LENGTHS_MS: Final = {DAILY: DAY_MS, HOURLY: HOUR_MS}
UNSAFE: Final = str.maketrans({"/": "%2F", "\\": "%5C", "\0": "%00"})

RecordPartitioner = Callable[[SinkRecord], str]
Extract = Callable[[SinkRecord], int]


def partitioner_of(settings: Mapping[str, Any]) -> RecordPartitioner:
    kind = settings["partitioner.class"]
    if kind == FIELD:
        return _by_fields(settings["partition.field.name"])
    if kind in (TIMEBASED, DAILY, HOURLY):
        return _by_time(settings, kind)
    return lambda record: f"partition={record.partition}"


def is_by_time(settings: Mapping[str, Any]) -> bool:
    return settings["partitioner.class"] in (TIMEBASED, DAILY, HOURLY)


def _by_fields(names: list[str]) -> RecordPartitioner:
    def folder(record: SinkRecord) -> str:
        return "/".join(f"{name}={_text(_field(record, name))}" for name in names)

    return folder


def _text(value: Any) -> str:
    text = java_text(value).translate(UNSAFE)
    return "%2E" * len(text) if text in (".", "..") else text


def _by_time(settings: Mapping[str, Any], kind: str) -> RecordPartitioner:
    pattern = FORMATS.get(kind) or settings["path.format"]
    length_ms = LENGTHS_MS.get(kind) or settings["partition.duration.ms"]
    zone = zone_of(settings["timezone"], "timezone")
    extract = extractor_of(settings)
    try:
        form = DateFormat(_as_java(pattern))
    except ValueError as error:
        raise ConfigException.of("path.format", pattern, str(error)) from error
    known: dict[int, str] = {}

    def folder(record: SinkRecord) -> str:
        moment = EPOCH + datetime.timedelta(milliseconds=extract(record))
        local = moment.astimezone(zone).replace(tzinfo=datetime.UTC)
        start = (local - EPOCH) // datetime.timedelta(milliseconds=length_ms)
        if start not in known:
            if len(known) > 1000:
                known.clear()
            begin = EPOCH + start * datetime.timedelta(milliseconds=length_ms)
            known[start] = form.format(begin)
        return known[start]

    return folder


def _as_java(pattern: str) -> str:
    """Converts a Joda pattern, as Confluent uses it: there Y is the year of the era."""
    parts = pattern.split("'")
    return "'".join(
        part if index % 2 else part.replace("Y", "y") for index, part in enumerate(parts)
    )


def extractor_of(settings: Mapping[str, Any]) -> Extract:
    """The time of a record, in milliseconds."""
    kind = settings["timestamp.extractor"]
    if kind == WALLCLOCK:
        return lambda record: int(time.time() * 1000)
    if kind == RECORD:
        return _record_time
    name = settings["timestamp.field"]

    def field_time(record: SinkRecord) -> int:
        value = _field(record, name)
        if isinstance(value, datetime.datetime):
            return (value - EPOCH) // datetime.timedelta(milliseconds=1)
        if isinstance(value, datetime.date):
            return (value - EPOCH.date()).days * DAY_MS
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        try:
            moment = datetime.datetime.fromisoformat(value)
        except (TypeError, ValueError):
            raise DataException(f"the field {name} is not a time: {value!r}") from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.UTC)
        return (moment - EPOCH) // datetime.timedelta(milliseconds=1)

    return field_time


def _record_time(record: SinkRecord) -> int:
    if record.timestamp is None:
        raise DataException(
            f"the record {record.topic}-{record.partition}@{record.offset} has no timestamp"
        )
    return record.timestamp


def _field(record: SinkRecord, name: str) -> Any:
    """A field of the value; a.b is a field of a field."""
    value = record.value
    for part in name.split("."):
        if not isinstance(value, Struct | dict) or part not in value:
            raise DataException(
                f"the record {record.topic}-{record.partition}@{record.offset} has no field {name}"
            )
        value = value[part]
    return value
