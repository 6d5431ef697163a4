"""SerializationError: a value that can't be written, or bytes that can't be read."""

from __future__ import annotations


class SerializationError(ValueError):
    """Bytes that are no such value, or a value that has no such bytes.

    `schema` names the schema, if one was named: "schema id 7".
    """

    def __init__(self, message: str, schema: str = "") -> None:
        super().__init__(message)
        self.schema = schema
