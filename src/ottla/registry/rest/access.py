"""What a caller must be allowed to, by the registry's paths."""

from __future__ import annotations

from typing import Final

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from ottla.rest.guard import RestGuard, Right
from ottla.rest.settings import AccessSettings

REALM: Final = "SchemaRegistry-Props"
READS: Final = ("GET", "HEAD")
WRITES: Final = ("versions", "tags")
"""How the paths end whose POST changes something; that of a look-up ends with the subject."""
CODES: Final = {401: 40101, 403: 40301}
CHECKS: Final = "/compatibility/"


def guarded(app: ASGIApp, access: AccessSettings) -> ASGIApp:
    if access.is_open:
        return app
    return RestGuard(app, access, needs=needs, refuse=refuse)


def needs(method: str, path: str) -> Right:
    """In doubt, the right to change: a subject may be called what a path ends with."""
    if method in READS:
        return Right.READ
    if method == "POST":
        last = path.rstrip("/").rpartition("/")[2]
        if path.startswith(CHECKS) or ("/subjects/" in path and last not in WRITES):
            return Right.READ
    return Right.CHANGE


def refuse(status: int, message: str) -> Response:
    return JSONResponse({"error_code": CODES.get(status, status), "message": message}, status)
