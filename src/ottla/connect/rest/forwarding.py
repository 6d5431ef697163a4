"""A request that another worker does: the leader, or whoever has the connector.

The first worker that a person asked may pass it on (to the leader, say), and that one once more (to
the owner); then it has to be done. `forward` in the query says how often it was passed on.
"""

from __future__ import annotations

import http.client
import logging
import ssl
from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from starlette.responses import Response

from ottla.connect.herder.refusals import Elsewhere, Refusal, no_leader, two_hops

TIMEOUT_S: Final = 90.0
PASSED_ON: Final = ("authorization", "content-type", "accept")
PASSED_BACK: Final = ("location", "content-type")

log = logging.getLogger("ottla.connect")


def forward(
    elsewhere: Elsewhere,
    *,
    method: str,
    path: str,
    query: str,
    headers: Mapping[str, str],
    body: bytes,
    tls: ssl.SSLContext | None = None,
) -> Response:
    """What the other worker answers, as it is. Waits: not to be called on the loop."""
    parameters = dict(parse_qsl(query, keep_blank_values=True))
    hop = parameters.pop("forward", None)
    if hop == "false":
        log.error("%s %s: no worker would do it within two hops", method, path)
        raise two_hops()
    if not elsewhere.url:
        raise no_leader()
    parameters["forward"] = "true" if hop is None else "false"
    at = urlsplit(elsewhere.url)
    passed = {name: value for name, value in headers.items() if name.lower() in PASSED_ON}
    connection = _connection(at, tls)
    try:
        connection.request(method, f"{path}?{urlencode(parameters)}", body or None, passed)
        answer = connection.getresponse()
        data = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise Refusal(500, f"IO Error trying to forward REST request: {error}") from error
    finally:
        connection.close()
    back = {
        name.lower(): value for name, value in answer.getheaders() if name.lower() in PASSED_BACK
    }
    return Response(data or None, answer.status, back)


def _connection(at: SplitResult, tls: ssl.SSLContext | None) -> http.client.HTTPConnection:
    host = at.hostname or ""
    if at.scheme == "https":
        return http.client.HTTPSConnection(host, at.port or 443, timeout=TIMEOUT_S, context=tls)
    return http.client.HTTPConnection(host, at.port or 80, timeout=TIMEOUT_S)
