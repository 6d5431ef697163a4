"""What is wrong with a statement, where, and what to do about it."""

from __future__ import annotations

from enum import IntEnum
from typing import Any


class SqlCode(IntEnum):
    """ksqlDB's error codes: the HTTP status, and two digits for the case."""

    BAD_REQUEST = 40000
    BAD_STATEMENT = 40001
    QUERY_ENDPOINT = 40002
    """A query was sent to /ksql: it belongs to /query-stream."""
    FORBIDDEN = 40300
    FORBIDDEN_KAFKA = 40301
    """The broker has refused it: this server's user lacks an ACL."""
    NOT_FOUND = 40400
    CONFLICT = 40900
    SERVER_ERROR = 50000
    NOT_READY = 50300
    SHUTTING_DOWN = 50302


class SqlError(Exception):
    """One statement that can't be carried out.

    `message` says what happened, in ksqlDB's words where it has words for it; `remedy` what to do.
    `line` and `column` count from 1 in the text that was sent; 0 where there is no one place.
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
        """What came of the statements before it, where several were sent together."""

    def __str__(self) -> str:
        place = f"line {self.line}:{self.column}: " if self.line else ""
        remedy = f"\n{self.remedy}" if self.remedy else ""
        return f"{place}{self.message}{remedy}"
