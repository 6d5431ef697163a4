"""Logical types <-> their encoding: days, milliseconds, unscaled bytes."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from ottla.connect.errors import DataException
from ottla.connect.schema import DATE, DECIMAL, SCALE, TIME, TIMESTAMP, Schema

EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
EPOCH_DAY: Final = datetime.date(1970, 1, 1)
DAY_MS: Final = 24 * 60 * 60 * 1000
MILLISECOND: Final = datetime.timedelta(milliseconds=1)


def to_millis(moment: datetime.datetime) -> int:
    """Since 1970; a datetime without a time zone is taken as UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return (moment - EPOCH) // MILLISECOND


def from_millis(millis: int) -> datetime.datetime:
    try:
        return EPOCH + datetime.timedelta(milliseconds=millis)
    except OverflowError:
        raise DataException(f"{millis} ms is beyond what a datetime can hold") from None


def to_days(day: datetime.date) -> int:
    return (day - EPOCH_DAY).days


def from_days(days: int) -> datetime.date:
    try:
        return EPOCH_DAY + datetime.timedelta(days=days)
    except OverflowError:
        raise DataException(f"{days} days is beyond what a date can hold") from None


def to_time_millis(time: datetime.time) -> int:
    return (time.hour * 3600 + time.minute * 60 + time.second) * 1000 + time.microsecond // 1000


def from_time_millis(millis: int) -> datetime.time:
    if not 0 <= millis < DAY_MS:
        raise DataException(
            "Time values must use number of milliseconds greater than 0 and less than 86400000"
        )
    return (EPOCH + datetime.timedelta(milliseconds=millis)).time()


def scale_of(schema: Schema) -> int:
    text = (schema.parameters or {}).get(SCALE)
    if text is None:
        raise DataException("Invalid Decimal schema: scale parameter not found.")
    try:
        return int(text)
    except ValueError:
        raise DataException("Invalid scale parameter found in Decimal schema: ") from None


def decimal_to_bytes(schema: Schema, value: Decimal) -> bytes:
    """The unscaled number, big endian, in as few bytes as possible."""
    scale, (sign, digits, exponent) = scale_of(schema), value.as_tuple()
    if not isinstance(exponent, int):
        raise DataException(f"{value} is not a decimal number")
    if -exponent != scale:
        raise DataException(
            "Decimal value has mismatching scale for given Decimal schema. "
            f"Schema has scale {scale}, value has scale {-exponent}."
        )
    unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
    magnitude = unscaled if unscaled >= 0 else -unscaled - 1
    return unscaled.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def decimal_from_bytes(schema: Schema, data: bytes) -> Decimal:
    if not data:
        raise DataException("Invalid bytes for Decimal field")
    unscaled = int.from_bytes(data, "big", signed=True)
    # Built from its parts, because arithmetic would round to the context's precision.
    digits = tuple(int(digit) for digit in str(abs(unscaled)))
    return Decimal((int(unscaled < 0), digits, -scale_of(schema)))


LOGICAL_TYPE_ENCODERS: Final[dict[str, Callable[[Schema, Any], int | bytes]]] = {
    DECIMAL: decimal_to_bytes,
    DATE: lambda schema, value: to_days(value),
    TIME: lambda schema, value: to_time_millis(value),
    TIMESTAMP: lambda schema, value: to_millis(value),
}


def encode_logical(schema: Schema, value: Any) -> Any:
    """The encoding of a value; the value itself if the schema has no logical type."""
    encode = LOGICAL_TYPE_ENCODERS.get(schema.name) if schema.name is not None else None
    return value if encode is None else encode(schema, value)
