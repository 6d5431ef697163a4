"""What a caller must be allowed to, by Connect's paths, and how it hears that it is not."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from ottla.connect.herder.refusals import Refusal
from ottla.connect.rest.requests import error_response
from ottla.rest.guard import Right

READS: Final = ("GET", "HEAD", "OPTIONS")


def needs(method: str, path: str) -> Right:
    """Who may look may look at connectors, their configs (secrets are masked) and plugins."""
    if method in READS and not path.startswith("/admin"):
        return Right.READ
    return Right.CHANGE


def refuse(status: int, message: str) -> Response:
    return error_response(Refusal(status, message))
