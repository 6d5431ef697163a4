"""Authentication and authorization of a REST server, before any route is looked at.

The default is to deny: a request without a login, with a malformed header, or for a path that
`needs` does not know goes no further. (CVE-2025-61673 was a server that checked only requests with
a header.)
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from enum import IntEnum
from typing import Final

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ottla.auth.bearer_token import bearer_token
from ottla.rest.settings import AccessSettings
from ottla.rest.users import RestUser

CALLER: Final = "ottla.caller"
CHECKS_MAX: Final = 2  # password hashes in progress: guessing takes one processor, not all
WAITING_MAX: Final = 64
FAILED_DELAY_S: Final = 0.1
HEADER_BYTES_MAX: Final = 16_384
UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403
BUSY: Final = 503
POLICY_VIOLATION: Final = 1008  # the close code that refuses a WebSocket

log = logging.getLogger("ottla.rest")


class Right(IntEnum):
    """The right that a request needs."""

    READ = 1
    CHANGE = 2


Needs = Callable[[str, str], Right]
"""(method, path) -> Right."""
Refuse = Callable[[int, str], Response]
"""(status, message) -> the response in the server's own form."""


class RestGuard:
    def __init__(
        self, app: ASGIApp, access: AccessSettings, *, needs: Needs, refuse: Refuse
    ) -> None:
        self._app = app
        self._access = access
        self._needs = needs
        self._refuse = refuse
        self._threads = ThreadPoolExecutor(CHECKS_MAX, thread_name_prefix="ottla-rest-login")
        self._waiting = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or self._access.is_open:
            await self._app(scope, receive, send)
            return
        if scope["type"] == "http" and scope["path"] in self._access.skipped_paths:
            await self._app(scope, receive, send)
            return
        status, message = await self._decide(scope)
        if status:
            await self._turn_away(status, message)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _decide(self, scope: Scope) -> tuple[int, str]:
        """(0, "") lets the request pass, with the caller in the scope."""
        method = scope.get("method", "GET")  # a WebSocket has none
        check = self._login(authorization(scope))
        if check is None:
            return UNAUTHORIZED, "User cannot access the resource."
        if self._waiting >= WAITING_MAX:
            return BUSY, "Too many logins at once."
        self._waiting += 1
        try:
            user = await check()
        finally:
            self._waiting -= 1
        if user is None:
            log.info("Login failed from %s for %s %s", _peer(scope), method, scope["path"])
            await asyncio.sleep(FAILED_DELAY_S)
            return UNAUTHORIZED, "User cannot access the resource."
        if self._needs(method, scope["path"]) > Right.READ and user.is_read_only:
            log.info("User:%s is Denied %s %s", user.name, method, scope["path"])
            return FORBIDDEN, f"User:{user.name} may not {method} {scope['path']}."
        scope[CALLER] = user
        return 0, ""

    def _login(self, header: bytes) -> Callable[[], Awaitable[RestUser | None]] | None:
        """Returns a check of the login; None if this server does not accept its scheme."""
        users, tokens = self._access.users, self._access.tokens
        if users is not None and (login := basic_login(header)) is not None:
            loop = asyncio.get_running_loop()
            return lambda: loop.run_in_executor(self._threads, users.check, *login)
        if tokens is not None and (token := bearer_token(header.decode("latin-1"))) is not None:
            return lambda: tokens.check(token)
        return None

    def _turn_away(
        self, status: int, message: str
    ) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
        response = self._refuse(status, message)
        if status == UNAUTHORIZED:
            realm = f'realm="{self._access.realm}"'
            if self._access.users is not None:
                response.headers.append("www-authenticate", f'Basic {realm}, charset="UTF-8"')
            if self._access.tokens is not None:
                response.headers.append("www-authenticate", f"Bearer {realm}")

        async def answered(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": POLICY_VIOLATION})
                return
            await response(scope, receive, send)

        return answered


def caller_of(scope: Scope) -> RestUser | None:
    """None: this server does not authenticate."""
    found = scope.get(CALLER)
    assert found is None or isinstance(found, RestUser)
    return found


def authorization(scope: Scope) -> bytes:
    """The only Authorization header; empty for none, for two, or for one that is too long."""
    found = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
    return found[0].strip() if len(found) == 1 and len(found[0]) <= HEADER_BYTES_MAX else b""


def basic_login(header: bytes) -> tuple[str, str] | None:
    """User and password of an Authorization header; None if it is malformed."""
    scheme, _, words = header.partition(b" ")
    if scheme.lower() != b"basic":
        return None
    try:
        text = base64.b64decode(words.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    user, colon, password = text.partition(":")
    return (user, password) if colon and user and password else None


def _peer(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else "unknown"
