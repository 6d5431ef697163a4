"""Values that several formats share: days, milliseconds, base64, decimals."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import decimal
from decimal import Decimal
from typing import Final

EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
FIRST_DAY: Final = dt.date(1970, 1, 1)
DAY_MS: Final = 24 * 60 * 60 * 1000
TIMESTAMP_MIN_MS: Final = -62_135_596_800_000  # the years 1 to 9999, which Python's dates have
TIMESTAMP_MAX_MS: Final = 253_402_300_799_999
DATE_MIN: Final = -719_162
DATE_MAX: Final = 2_932_896
INTEGER_MAX: Final = 2**31 - 1
BIGINT_MAX: Final = 2**63 - 1
_EXACT: Final = decimal.Context(prec=100, traps=[decimal.InvalidOperation])


def integer_scalar(number: int) -> int:
    if not -INTEGER_MAX - 1 <= number <= INTEGER_MAX:
        raise ValueError(f"{number} does not fit into INTEGER")
    return number


def bigint_scalar(number: int) -> int:
    if not -BIGINT_MAX - 1 <= number <= BIGINT_MAX:
        raise ValueError(f"{number} does not fit into BIGINT")
    return number


def decimal_scalar(number: Decimal, precision: int, scale: int) -> Decimal:
    """The number with this scale, without rounding."""
    try:
        if not number.is_finite():
            raise decimal.InvalidOperation
        exact = number.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    except decimal.InvalidOperation:
        raise ValueError(f"{number} is not a DECIMAL({precision}, {scale})") from None
    if exact != number or len(exact.as_tuple().digits) > precision:
        raise ValueError(f"Cannot fit decimal '{number}' into DECIMAL({precision}, {scale})")
    return exact


def decimal_of(text: str) -> Decimal:
    try:
        return Decimal(text)
    except decimal.InvalidOperation:
        raise ValueError(f"{text!r} is not a number") from None


def timestamp_of(epoch_ms: int) -> dt.datetime:
    try:
        return EPOCH + dt.timedelta(milliseconds=epoch_ms)
    except OverflowError:
        raise ValueError(f"{epoch_ms} is not a TIMESTAMP") from None


def date_of(days: int) -> dt.date:
    try:
        return FIRST_DAY + dt.timedelta(days=days)
    except OverflowError:
        raise ValueError(f"{days} is not a DATE") from None


def time_of(milliseconds: int) -> dt.time:
    if not 0 <= milliseconds < DAY_MS:
        raise ValueError(
            f"Time values must use number of milliseconds greater than 0 and less than {DAY_MS}."
        )
    seconds, rest = divmod(milliseconds, 1000)
    minutes, second = divmod(seconds, 60)
    return dt.time(minutes // 60, minutes % 60, second, rest * 1000)


def epoch_ms_of(moment: dt.datetime) -> int:
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.UTC)
    return (moment - EPOCH) // dt.timedelta(milliseconds=1)


def days_of(day: dt.date) -> int:
    return (day - FIRST_DAY).days


def milliseconds_of(time: dt.time) -> int:
    seconds = (time.hour * 60 + time.minute) * 60 + time.second
    return seconds * 1000 + time.microsecond // 1000


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


def bytes_of(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"not base64: {error}") from None


def plain_decimal(number: Decimal) -> str:
    """Without an exponent."""
    return format(number, "f")
