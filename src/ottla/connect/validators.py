"""Validators for settings, called with name and parsed value. Error messages are Kafka's."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ottla.connect.errors import ConfigException
from ottla.rows.java.regular_expressions import compile_regular_expression

Validator = Callable[[str, Any], None]
"""Raises ConfigException unless the value is valid for the setting of this name."""


def at_least(least: float) -> Validator:
    return between(least, None)


def between(least: float | None, most: float | None) -> Validator:
    def check(name: str, value: Any) -> None:
        if value is None:
            raise ConfigException.of(name, None, "Value must be non-null")
        if least is not None and value < least:
            raise ConfigException.of(name, value, f"Value must be at least {least}")
        if most is not None and value > most:
            raise ConfigException.of(name, value, f"Value must be no more than {most}")

    return check


def one_of(*allowed: str) -> Validator:
    def check(name: str, value: Any) -> None:
        if value not in allowed:
            raise ConfigException.of(name, value, f"String must be one of: {', '.join(allowed)}")

    return check


def one_of_any_case(*allowed: str) -> Validator:
    upper = [word.upper() for word in allowed]

    def check(name: str, value: Any) -> None:
        if value is None or value.upper() not in upper:
            message = f"String must be one of (case insensitive): {', '.join(upper)}"
            raise ConfigException.of(name, value, message)

    return check


def each_of(*allowed: str) -> Validator:
    """Of a list: each entry is one of these; the list may be empty."""
    one = one_of(*allowed)

    def check(name: str, value: Any) -> None:
        no_duplicates(name, value)
        for item in value:
            one(name, item)

    return check


def no_duplicates(name: str, value: Any) -> None:
    if value is None:
        raise ConfigException(f"Configuration '{name}' values must not be null.")
    if len(set(value)) != len(value):
        raise ConfigException(f"Configuration '{name}' values must not be duplicated.")
    if "" in value:
        raise ConfigException(f"Configuration '{name}' values must not be empty.")


def non_empty_string(name: str, value: Any) -> None:
    if value == "":
        raise ConfigException.of(name, value, "String must be non-empty")


def non_empty_list(name: str, value: Any) -> None:
    if not value:
        raise ConfigException.of(name, value, "Empty list")


def non_null(name: str, value: Any) -> None:
    if value is None:
        raise ConfigException.of(name, "null", "entry must be non null")


def printable_string(name: str, value: Any) -> None:
    """Kafka's non-empty string without ISO control characters."""
    if value is None:
        return  # reported as missing already
    if value == "":
        raise ConfigException.of(name, value, "String may not be empty")
    bad = [str(ord(c)) for c in value if ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0]
    if bad:
        message = "String may not contain control sequences but had the following ASCII chars: "
        raise ConfigException.of(name, value, message + ", ".join(bad))


def regex(name: str, value: Any) -> None:
    try:
        compile_regular_expression(value)
    except (re.error, TypeError) as error:
        raise ConfigException.of(name, value, f"Invalid regex: {error}") from None


def every(*checks: Callable[[str, Any], None]) -> Validator:
    def check(name: str, value: Any) -> None:
        for check in checks:
            check(name, value)

    return check


def some_distinct(name: str, value: Any) -> None:
    """Of a list: at least one entry, none twice."""
    if value is not None and not value:
        raise ConfigException(
            f"Configuration '{name}' must not be empty. Valid values include: any non-empty value"
        )
    no_duplicates(name, value)
