"""SerializationError: a value that can't be written, or bytes that can't be read."""

from __future__ import annotations


class SerializationError(ValueError):
    """A value that can't be written, or bytes that can't be read.

    `schema` is the schema that the bytes name, if any: "schema id 7".
    """

    def __init__(self, message: str, schema: str = "") -> None:
        super().__init__(message)
        self.schema = schema
