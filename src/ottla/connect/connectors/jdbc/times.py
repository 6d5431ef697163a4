"""Timestamp columns, with or without a time zone, as Connect's Timestamp or with finer units."""

from __future__ import annotations

import datetime
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ottla.connect.connectors.jdbc.database import ColumnDefinition, Convert
from ottla.connect.data import Schema, Type, timestamp_schema
from ottla.connect.errors import ConfigException

EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MICROSECOND: Final = datetime.timedelta(microseconds=1)

CONNECT_LOGICAL: Final = "connect_logical"
GRANULARITIES: Final = (
    CONNECT_LOGICAL,
    *("micros_long", "micros_string", "micros_iso_datetime_string"),
    *("nanos_long", "nanos_string", "nanos_iso_datetime_string"),
)


def zone_of(name: str, setting: str = "db.timezone") -> datetime.tzinfo:
    if name == "UTC":
        return datetime.UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ConfigException.of(setting, name, "no such time zone") from error


def with_zone(name: str) -> Convert:
    """Interprets values without a time zone as of this one."""
    zone = zone_of(name)
    if zone is datetime.UTC:

        def in_utc(value: datetime.datetime) -> datetime.datetime:
            return value.replace(tzinfo=datetime.UTC)

        return in_utc

    def in_zone(value: datetime.datetime) -> datetime.datetime:
        return value.replace(tzinfo=zone).astimezone(datetime.UTC)

    return in_zone


def micros_of(value: datetime.datetime) -> int:
    return (value - EPOCH) // MICROSECOND


def moment_of(micros: int) -> datetime.datetime:
    return EPOCH + micros * MICROSECOND


def time_in_utc(value: datetime.time) -> datetime.time:
    """Converts to UTC, because Connect's Time has no time zone."""
    day = datetime.datetime.combine(EPOCH.date(), value)
    return day.astimezone(datetime.UTC).time() if value.tzinfo is not None else value


def instant_field(
    column: ColumnDefinition, granularity: str, zone: Convert | None
) -> tuple[Schema, Convert | None]:
    """`zone` adds the time zone, if the column has none."""
    if granularity == CONNECT_LOGICAL:
        return timestamp_schema(optional=column.nullable), zone
    unit, form = granularity.split("_", 1)
    digits = 1 if unit == "micros" else 1000

    def number(value: datetime.datetime) -> int:
        return micros_of(value if zone is None else zone(value)) * digits

    if form == "long":
        return Schema(Type.INT64, optional=column.nullable), number
    text = Schema(Type.STRING, optional=column.nullable)
    if form == "string":
        return text, lambda value: str(number(value))
    zeros = "" if unit == "micros" else "000"

    def iso(value: datetime.datetime) -> str:
        moment = (value if zone is None else zone(value)).astimezone(datetime.UTC)
        return f"{moment:%Y-%m-%dT%H:%M:%S.%f}{zeros}Z"

    return text, iso
