"""Errors that a schema registry answers with."""

from __future__ import annotations


class SchemaRegistryError(Exception):
    """The registry refuses a request: HTTP status, error code, and the registry's message."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
