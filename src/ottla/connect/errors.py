"""Connect's exceptions, by Kafka's names."""

from __future__ import annotations

from typing import Any

from ottla.rows.java.text import java_text


class ConnectException(Exception):
    """Anything that fails a connector or a task."""

    java_name = "org.apache.kafka.connect.errors.ConnectException"


class DataException(ConnectException):
    """A value that does not match its schema, or cannot be converted."""

    java_name = "org.apache.kafka.connect.errors.DataException"


class SchemaBuilderException(DataException):
    java_name = "org.apache.kafka.connect.errors.SchemaBuilderException"


class RetriableException(ConnectException):
    """A retry of the same call may succeed."""

    java_name = "org.apache.kafka.connect.errors.RetriableException"


class IllegalArgumentException(ConnectException):
    java_name = "java.lang.IllegalArgumentException"


class ConfigException(ConnectException):
    """An invalid setting; `ConfigException.of` builds Kafka's message for one value."""

    java_name = "org.apache.kafka.common.config.ConfigException"

    @classmethod
    def of(cls, name: str, value: Any, message: str | None = None) -> ConfigException:
        after = "" if message is None else f": {message}"
        return cls(f"Invalid value {java_text(value)} for configuration {name}{after}")


def java_name(error: BaseException) -> str:
    """Kafka's class for this error; a Python error keeps its own name."""
    named = getattr(error, "java_name", None)
    if isinstance(named, str):
        return named
    kind = type(error)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
