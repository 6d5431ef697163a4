"""Forwards a request to the worker that must handle it: the leader, or the connector's owner.

As in Kafka, two hops suffice: from any worker to the leader, and from there to the owner. The query
parameter `forward` counts them, so that a request cannot circulate during a rebalance.
"""

from __future__ import annotations

import http.client
import logging
import ssl
from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from starlette.responses import Response

from ottla.connect.herder.rest_exceptions import (
    ConnectRestException,
    RequestTargetException,
    no_leader,
    two_hops,
)

FORWARDING_TIMEOUT_S: Final = 90.0
FORWARDING_REQUEST_HEADERS: Final = ("authorization", "content-type", "accept")
FORWARDING_RESPONSE_HEADERS: Final = ("location", "content-type")

log = logging.getLogger("ottla.connect")


def forward(
    elsewhere: RequestTargetException,
    *,
    method: str,
    path: str,
    query: str,
    headers: Mapping[str, str],
    body: bytes,
    tls: ssl.SSLContext | None = None,
) -> Response:
    """The other worker's answer, unchanged. Blocks, so it must not be called on the event loop."""
    parameters = dict(parse_qsl(query, keep_blank_values=True))
    hop = parameters.pop("forward", None)
    if hop == "false":
        log.error("%s %s: not handled within two hops", method, path)
        raise two_hops()
    if not elsewhere.url:
        raise no_leader()
    parameters["forward"] = "true" if hop is None else "false"
    at = urlsplit(elsewhere.url)
    passed = {
        name: value for name, value in headers.items() if name.lower() in FORWARDING_REQUEST_HEADERS
    }
    connection = _connection(at, tls)
    try:
        connection.request(method, f"{path}?{urlencode(parameters)}", body or None, passed)
        answer = connection.getresponse()
        data = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise ConnectRestException(
            500, f"IO Error trying to forward REST request: {error}"
        ) from error
    finally:
        connection.close()
    back = {
        name.lower(): value
        for name, value in answer.getheaders()
        if name.lower() in FORWARDING_RESPONSE_HEADERS
    }
    return Response(data or None, answer.status, back)


def _connection(at: SplitResult, tls: ssl.SSLContext | None) -> http.client.HTTPConnection:
    host = at.hostname or ""
    if at.scheme == "https":
        return http.client.HTTPSConnection(
            host, at.port or 443, timeout=FORWARDING_TIMEOUT_S, context=tls
        )
    return http.client.HTTPConnection(host, at.port or 80, timeout=FORWARDING_TIMEOUT_S)
