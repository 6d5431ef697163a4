"""The right that a request needs, by its method and path, and the answer without it."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from ottla.connect.herder.rest_exceptions import ConnectRestException
from ottla.connect.rest.requests import error_response
from ottla.rest.guard import Right

READS: Final = ("GET", "HEAD", "OPTIONS")


def required_access(method: str, path: str) -> Right:
    """READ covers connectors, their configs (secrets are masked) and plugins, but not /admin."""
    if method in READS and not path.startswith("/admin"):
        return Right.READ
    return Right.CHANGE


def refuse_access(status: int, message: str) -> Response:
    return error_response(ConnectRestException(status, message))
