"""The role that a caller needs, by the registry's paths."""

from __future__ import annotations

from typing import Final

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from ottla.rest.guard import RestGuard, Right
from ottla.rest.settings import AccessSettings

REALM: Final = "SchemaRegistry-Props"
READS: Final = ("GET", "HEAD")
WRITES: Final = ("versions", "tags")
"""Endings of the paths whose POST changes something; a lookup's path ends with the subject."""
CODES: Final = {401: 40101, 403: 40301}
CHECKS: Final = "/compatibility/"


def with_access_check(app: ASGIApp, access: AccessSettings) -> ASGIApp:
    if access.is_open:
        return app
    return RestGuard(app, access, needs=right_of, refuse=refuse)


def right_of(method: str, path: str) -> Right:
    """Write access if in doubt, because a subject may have the name of a path's ending."""
    if method in READS:
        return Right.READ
    if method == "POST":
        last = path.rstrip("/").rpartition("/")[2]
        if path.startswith(CHECKS) or ("/subjects/" in path and last not in WRITES):
            return Right.READ
    return Right.CHANGE


def refuse(status: int, message: str) -> Response:
    return JSONResponse({"error_code": CODES.get(status, status), "message": message}, status)
