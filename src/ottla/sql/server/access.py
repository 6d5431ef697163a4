"""Access control: the rights that paths and statements require."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import Final

from starlette.responses import Response
from starlette.types import ASGIApp

from ottla.client.tls import http_context
from ottla.errors import KafkaError
from ottla.rest.guard import RestGuard, Right
from ottla.rest.settings import access_of, warn_if_open
from ottla.rest.users import RestUser
from ottla.rows.errors import SqlCode, SqlError
from ottla.sql.ksql_config import KsqlConfig
from ottla.sql.server.requests import json_response
from ottla.sql.syntax.statements import (
    Define,
    Describe,
    DescribeConnector,
    DescribeFunction,
    DescribeSources,
    Explain,
    Print,
    Select,
    SetProperty,
    Show,
    Statement,
    Undefine,
    UnsetProperty,
)

REALM: Final = "KsqlServer-Props"
READS: Final = ("GET", "HEAD")
QUERIES: Final = ("/query", "/query-stream", "/close-query", "/ws/query", "/ksql")
"""Paths for readers: statements of /ksql are checked one by one, the others accept queries only."""
READ_STATEMENTS: Final = (
    Show,
    Describe,
    DescribeSources,
    DescribeFunction,
    DescribeConnector,
    Explain,
    Print,
    Select,
    SetProperty,
    UnsetProperty,
    Define,
    Undefine,
)
"""Readers may use SET and DEFINE, which affect their own request only."""


class ServerAccess:
    """TLS and authentication of a server; SqlError if its settings are invalid."""

    def __init__(self, settings: KsqlConfig, host: str, port: int) -> None:
        properties = settings.properties
        try:
            self._access = access_of(properties, realm=REALM)
            tls = settings.listener_tls
            self.tls = http_context(tls) if tls is not None else None
        except KafkaError as error:
            raise SqlError(str(error), remedy="Correct the server's properties.") from None
        mutual = self.tls is not None and self.tls.verify_mode == ssl.CERT_REQUIRED
        warn_if_open("THE SQL SERVER", host, port, self._access, mutual_tls=mutual)

    def guarded(self, app: ASGIApp) -> ASGIApp:
        return RestGuard(app, self._access, needs=needs, refuse=refuse)


def needs(method: str, path: str) -> Right:
    return Right.READ if method in READS or path.rstrip("/") in QUERIES else Right.CHANGE


def check_statements(caller: RestUser | None, statements: Sequence[Statement]) -> None:
    """SqlError for a statement that the caller may not execute. None: no authentication."""
    if caller is None or not caller.is_read_only:
        return
    for statement in statements:
        if not isinstance(statement, READ_STATEMENTS):
            verb = statement.text.strip().split(None, 1)[0].upper()
            raise SqlError(
                f"User:{caller.name} may only read: {verb} is not allowed.",
                remedy="Ask the operator for a role with write access.",
                code=SqlCode.FORBIDDEN,
            )


def refuse(status: int, message: str) -> Response:
    body = {"@type": "generic_error", "error_code": status * 100, "message": message}
    return json_response(body, status=status)
