"""Values as Java's toString writes them, for error texts, logs and StringConverter."""

from __future__ import annotations

import base64
import datetime
import math
import struct
from decimal import Decimal
from typing import Any, Final

FLOAT32: Final = struct.Struct(">f")


def java_text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return java_double(value)
    if isinstance(value, dict):
        entries = (f"{java_text(key)}={java_text(item)}" for key, item in value.items())
        return "{" + ", ".join(entries) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(java_text(item) for item in value) + "]"
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()  # Java prints a useless address
    if isinstance(value, datetime.date | datetime.time):
        return _java_date(value)
    return str(value)


def java_double(value: float) -> str:
    """Double.toString: without an exponent from 0.001 to 10 million."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if abs(value) == 5e-324:
        return "4.9E-324" if value > 0 else "-4.9E-324"  # Java writes at least two digits
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        plain = f"{Decimal(repr(value)):f}"
        return plain if "." in plain else f"{plain}.0"
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int), "NaN and infinity are dealt with above"
    whole = "".join(map(str, digits)).rstrip("0")
    power = exponent + len(digits) - 1
    return f"{'-' if sign else ''}{whole[0]}.{whole[1:] or '0'}E{power}"


def float32(value: float) -> float:
    """The nearest FLOAT32 as the shortest double that identifies it: 0.1, not 0.10000000149011612.

    So every text of it equals Java's text of the float.
    """
    try:
        packed = FLOAT32.pack(value)
    except OverflowError:
        return math.copysign(math.inf, value)
    rounded: float = FLOAT32.unpack(packed)[0]
    for digits in (6, 7, 8):
        shorter = float(f"{rounded:.{digits}g}")
        if FLOAT32.pack(shorter) == packed:
            return shorter
    return float(f"{rounded:.9g}")


def _java_date(value: datetime.date | datetime.time) -> str:
    moment = datetime.datetime(1970, 1, 1)
    if isinstance(value, datetime.datetime):
        moment = value if value.tzinfo is None else value.astimezone(datetime.UTC)
    elif isinstance(value, datetime.date):
        moment = datetime.datetime(value.year, value.month, value.day)
    else:
        moment = datetime.datetime.combine(moment, value)
    days = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
    months = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
    day = f"{days[moment.weekday()]} {months[moment.month - 1]} {moment.day:02}"
    return f"{day} {moment:%H:%M:%S} UTC {moment.year}"
