"""What goes wrong in Connect, by Kafka's names."""

from __future__ import annotations

from typing import Any

from ottla.rows.java.text import java_text


class ConnectException(Exception):
    """Anything that fails a connector or a task."""

    java_name = "org.apache.kafka.connect.errors.ConnectException"


class DataException(ConnectException):
    """A value that doesn't fit its schema, or can't be converted."""

    java_name = "org.apache.kafka.connect.errors.DataException"


class SchemaBuilderException(DataException):
    java_name = "org.apache.kafka.connect.errors.SchemaBuilderException"


class RetriableException(ConnectException):
    """May pass by itself: the same thing is tried again."""

    java_name = "org.apache.kafka.connect.errors.RetriableException"


class IllegalArgumentException(ConnectException):
    java_name = "java.lang.IllegalArgumentException"


class ConfigException(ConnectException):
    """A setting that can't be used; `ConfigException.of` gives Kafka's text for one value."""

    java_name = "org.apache.kafka.common.config.ConfigException"

    @classmethod
    def of(cls, name: str, value: Any, message: str | None = None) -> ConfigException:
        after = "" if message is None else f": {message}"
        return cls(f"Invalid value {java_text(value)} for configuration {name}{after}")


def java_name(error: BaseException) -> str:
    """The class that Kafka would name; a Python error has its own name."""
    named = getattr(error, "java_name", None)
    if isinstance(named, str):
        return named
    kind = type(error)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
