"""Errors of statements: the message, the position and the remedy."""

from __future__ import annotations

from enum import IntEnum
from typing import Any


class SqlCode(IntEnum):
    """ksqlDB's error codes: the HTTP status and two more digits."""

    BAD_REQUEST = 40000
    BAD_STATEMENT = 40001
    QUERY_ENDPOINT = 40002
    """A query was sent to /ksql instead of /query-stream."""
    FORBIDDEN = 40300
    FORBIDDEN_KAFKA = 40301
    """The broker has rejected it: this server's principal lacks an ACL."""
    NOT_FOUND = 40400
    CONFLICT = 40900
    SERVER_ERROR = 50000
    NOT_READY = 50300
    SHUTTING_DOWN = 50302


class SqlError(Exception):
    """A statement failed.

    `message` is ksqlDB's where it has one; `remedy` says what to do. `line` and `column` count from
    1 in the submitted text; 0 without a position.
    """

    def __init__(
        self,
        message: str,
        *,
        remedy: str = "",
        statement: str = "",
        line: int = 0,
        column: int = 0,
        code: int = SqlCode.BAD_STATEMENT,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.statement = statement
        self.line = line
        self.column = column
        self.code = code
        self.entities: list[dict[str, Any]] = []
        """The results of the preceding statements of the same request."""

    def __str__(self) -> str:
        position = f"line {self.line}:{self.column}: " if self.line else ""
        remedy = f"\n{self.remedy}" if self.remedy else ""
        return f"{position}{self.message}{remedy}"
