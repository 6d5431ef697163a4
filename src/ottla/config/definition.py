"""The definition of a property: name, type, default, valid values, and how it can be updated."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from ottla.errors import ErrorCode, KafkaError

Value = bool | int | float | str | tuple[str, ...] | None
"""A parsed value. A LIST is a tuple, so that a configuration can be shared without a copy."""

Check = Callable[[Value], str | None]
"""A validator: returns why a value is invalid, or None if it is valid."""

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
DOUBLE_MAX = 1.7976931348623157e308

DAY_MS = 24 * 60 * 60 * 1000
KIB = 1024
MIB = 1024 * KIB

_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
_COMMA = re.compile(r"\s*,\s*")


class ConfigType(IntEnum):
    """A property's type, numbered as DescribeConfigs numbers it."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class UpdateMode(IntEnum):
    """Whether a broker property can be updated while brokers run, and at what level."""

    READ_ONLY = 0
    PER_BROKER = 1
    CLUSTER_WIDE = 2


class ValueSource(IntEnum):
    """Where a value came from, numbered as DescribeConfigs numbers it."""

    UNKNOWN = 0
    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    DYNAMIC_CLIENT_METRICS = 7
    DYNAMIC_GROUP = 8


BOOLEAN = ConfigType.BOOLEAN
STRING = ConfigType.STRING
INT = ConfigType.INT
SHORT = ConfigType.SHORT
LONG = ConfigType.LONG
DOUBLE = ConfigType.DOUBLE
LIST = ConfigType.LIST
CLASS = ConfigType.CLASS
PASSWORD = ConfigType.PASSWORD

READ_ONLY = UpdateMode.READ_ONLY
PER_BROKER = UpdateMode.PER_BROKER
CLUSTER_WIDE = UpdateMode.CLUSTER_WIDE

_RANGES = {INT: (-(2**31), INT_MAX), SHORT: (-(2**15), 2**15 - 1), LONG: (-(2**63), LONG_MAX)}


@dataclass(slots=True)
class ConfigDefinition:
    """One property. `used` is False for a property of Kafka's that Ottla accepts and ignores."""

    name: str
    type: ConfigType
    default: Value
    check: Check | None
    doc: str
    update: UpdateMode = READ_ONLY
    used: bool = True
    internal: bool = False

    @property
    def sensitive(self) -> bool:
        return self.type is PASSWORD

    def parse(self, text: str) -> Value:
        """The typed and validated value of `text`; ValueError says why it is invalid."""
        value = parse_type(text, self.type)
        reason = self.check(value) if self.check is not None else None
        if reason is not None:
            raise ValueError(reason)
        return value


class ConfigError(Exception):
    """All problems of a configuration at once, each as (property, value, reason)."""

    def __init__(self, problems: list[tuple[str, str | None, str]]) -> None:
        super().__init__("\n".join(invalid_value(*problem) for problem in problems))
        self.problems = problems


def invalid_value(name: str, value: str | None, reason: str) -> str:
    """Kafka's message for an invalid value."""
    shown = "null" if value is None else value
    return f"Invalid value {shown} for configuration {name}: {reason}"


def invalid_config(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)


def parse_type(text: str, kind: ConfigType) -> Value:
    """Parse `text` as Kafka's ConfigDef does; ValueError says why it can't be parsed."""
    text = text.strip()
    if kind is BOOLEAN:
        word = text.lower()
        if word not in ("true", "false"):
            raise ValueError("Expected value to be either true or false")
        return word == "true"
    if kind in _RANGES:
        return _parse_integer(text, kind)
    if kind is DOUBLE:
        try:
            return float(text.replace("_", "?"))  # float() accepts 1_000, Java does not
        except ValueError:
            raise ValueError(f"Not a number of type {kind.name}") from None
    if kind is LIST:
        return tuple(_COMMA.split(text)) if text else ()
    return text


def _parse_integer(text: str, kind: ConfigType) -> int:
    if _INTEGER.match(text):
        value = int(text)
        low, high = _RANGES[kind]
        if low <= value <= high:
            return value
    raise ValueError(f"Not a number of type {kind.name}")


def format_value(value: Value) -> str | None:
    """A value as Kafka's tools print it (and as `parse_type` reads it back)."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _format_double(value)
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def _format_double(value: float) -> str:
    """Java's notation: plain between 0.001 and 10 million, otherwise 1.0E7."""
    if value == 0 or not math.isfinite(value) or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    precision = 1
    while float(text := f"{value:.{precision}e}") != value:
        precision += 1
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa}E{int(exponent)}"


def at_least(low: float) -> Check:
    def check(value: Value) -> str | None:
        assert isinstance(value, int | float)
        return f"Value must be at least {low}" if value < low else None

    return check


def between(low: float, high: float) -> Check:
    def check(value: Value) -> str | None:
        assert isinstance(value, int | float)
        if value < low:
            return f"Value must be at least {low}"
        return f"Value must be no more than {high}" if value > high else None

    return check


def one_of(*words: str) -> Check:
    def check(value: Value) -> str | None:
        return None if value in words else f"String must be one of: {', '.join(words)}"

    return check


def list_of(*words: str, empty: bool = True) -> Check:
    """A list without duplicates, and only of `words` if there are any."""

    def check(value: Value) -> str | None:
        assert isinstance(value, tuple)
        if not value and not empty:
            return "the list must not be empty"
        if len(set(value)) != len(value):
            return "values must not be duplicated"
        if "" in value:
            return "values must not be empty"
        if words and not set(value) <= set(words):
            return f"String must be one of: {', '.join(words)}"
        return None

    return check
