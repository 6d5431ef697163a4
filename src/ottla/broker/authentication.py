"""SASL on one connection: which request may come when, from the first to the session's end.

    ApiVersions (once; again after an error) -> SaslHandshake -> SaslAuthenticate ... -> passed
    SaslHandshake v0 -> bare tokens ... -> passed
    passed, and the session has an end -> SaslHandshake (KIP-368) -> SaslAuthenticate ... -> passed

No other request is even read before that (CVE-2022-34917). The mechanisms themselves are in auth/.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from ottla.auth.sasl import SaslServer
from ottla.broker.authentication_counts import AuthenticationCounts
from ottla.broker.client_session import ClientSession
from ottla.broker.dispatch import ROUTES
from ottla.clock import SteadyClock
from ottla.errors import ErrorCode
from ottla.wire.apis import ApiKey
from ottla.wire.connection import Request
from ottla.wire.fields import Message
from ottla.wire.messages.api_versions import ApiVersionsResponse
from ottla.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

# The versions that ApiVersions lists: franz-go gives up on a broker that refuses one of them.
SERVED: Final[dict[int, tuple[int, int]]] = {
    int(key): (ROUTES[key].version_min, ROUTES[key].version_max)
    for key in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
}
VERSIONS_ASKED_MAX: Final = 3  # ApiVersions: in the client's newest version, in ours, and a spare
SESSION_LIFETIME_FROM: Final = 1  # of SaslAuthenticate: a client that knows it can begin again

log = logging.getLogger("ottla.broker.authentication")


class SaslAuthentication:
    """An Authenticator (see net/authenticator.py): `passed` once the principal is proven."""

    served: Mapping[int, tuple[int, int]] = SERVED

    def __init__(
        self,
        session: ClientSession,
        server: SaslServer,
        *,
        frame_bytes_max: int,
        delay_ms: int,
        clock: SteadyClock,
        versions: Callable[[ClientSession, Request], Any],
        counts: AuthenticationCounts,
    ) -> None:
        self.raw = False
        self.passed = False
        self.failed = False
        self.expires = False
        self.frame_bytes_max = frame_bytes_max
        self.delay_ms = delay_ms
        self._session = session
        self._server = server
        self._clock = clock
        self._versions = versions
        self._counts = counts
        self._versions_sent = False
        self._versions_asked = 0
        self._began_ms = clock.monotonic_ms()
        self._again = False  # True when it re-authenticates
        self._why = "the connection was closed"

    def serve(self, request: Request) -> Message | None:
        self.passed = False
        if request.api_key == ApiKey.API_VERSIONS:
            return self._tell_versions(request)
        if request.api_key == ApiKey.SASL_HANDSHAKE:
            assert isinstance(request.body, SaslHandshakeRequest)
            return self._shake_hands(request.body.mechanism, request.version)
        assert isinstance(request.body, SaslAuthenticateRequest)
        return self._authenticate(request.body.auth_bytes, request.version)

    def reject(self) -> None:
        self._counts.failed(self._session.listener, again=self._again)
        log.info(
            "Failed %s with %s (%s)",
            "re-authentication" if self._again else "authentication",
            self._session.client_host,
            self._why,
        )

    def is_reauthentication(self, request: Request) -> bool:
        if request.api_key != ApiKey.SASL_HANDSHAKE:
            return False
        self._again = True
        self._began_ms = self._clock.monotonic_ms()
        return True

    def has_expired(self) -> bool:
        if not self._server.expired(self._clock.monotonic_ms()):
            return False
        self._counts.expired(self._session.listener)
        return True

    def _tell_versions(self, request: Request) -> Message | None:
        """Before the handshake, and once; again only if the version was not supported."""
        self._versions_asked += 1
        too_often = self._versions_sent or self._versions_asked > VERSIONS_ASKED_MAX
        if too_often or self._server.authenticating or self._again:
            self._fail("Unexpected ApiVersions request during SASL authentication")
            return None
        answer = self._versions(self._session, request)
        assert isinstance(answer, ApiVersionsResponse)
        self._versions_sent = answer.error_code == ErrorCode.NONE
        return answer

    def _shake_hands(self, mechanism: str, version: int) -> Message:
        code = self._server.handshake(mechanism, self._clock.monotonic_ms())
        if code is not ErrorCode.NONE:
            self._fail(f"SASL mechanism {mechanism!r}: {code.name}")
        self.raw = version == 0 and not self.failed
        return SaslHandshakeResponse(error_code=code, mechanisms=self._server.mechanisms)

    def _authenticate(self, token: bytes, version: int) -> Message | None:
        monotonic_ms = self._clock.monotonic_ms()
        outcome = self._server.authenticate(token, self._clock.now_ms(), monotonic_ms)
        if outcome.error is not ErrorCode.NONE:
            self._fail(outcome.message or outcome.error.name)
            return SaslAuthenticateResponse(error_code=outcome.error, error_message=outcome.message)
        silent = self.raw and outcome.token is None
        if outcome.done:
            assert outcome.principal is not None
            self._session.principal = outcome.principal
            self.passed = True
            self.expires = self._server.expires_at_ms is not None
            self._counts.succeeded(
                self._session.listener,
                again=self._again,
                knows_sessions=version >= SESSION_LIFETIME_FROM and not self.raw,
                spent_ms=monotonic_ms - self._began_ms,
            )
            self.raw = False
        if silent:
            return None
        return SaslAuthenticateResponse(
            auth_bytes=outcome.token or b"", session_lifetime=outcome.session_lifetime_ms
        )

    def _fail(self, why: str) -> None:
        self.failed = True
        self._why = why
