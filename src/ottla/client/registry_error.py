"""What a schema registry answers when it refuses."""

from __future__ import annotations


class RegistryError(Exception):
    """The registry refuses, with its HTTP status and error code, and in its own words."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
