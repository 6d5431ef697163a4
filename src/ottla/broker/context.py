"""What a handler is given: the broker's parts, who is asking, and in which version."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ottla.auth.acls import ALL_OPERATIONS, CLUSTER_NAME, AclOperation, AclResource
from ottla.auth.principal import ANONYMOUS, Principal
from ottla.wire.apis import APIS

if TYPE_CHECKING:
    from ottla.auth.authorizer import Decision, Rights
    from ottla.broker.broker import Broker
    from ottla.broker.quotas import Limits


def unheard(duration_ms: int) -> None:
    """Mutes nobody: the client of a session without a connection, or with one that is closed."""


def unheld(on: bool) -> None:
    """Holds nobody up, for the same reason."""


class Session:
    """One client's connection, as handlers see it."""

    __slots__ = (
        "_principal",
        "client_host",
        "client_port",
        "closed",
        "hold",
        "internal",
        "listener",
        "mute",
        "rights",
        "software",
        "wait",
    )

    def __init__(
        self,
        *,
        listener: str,
        client_host: str,
        client_port: int,
        mute: Callable[[int], None] = unheard,
        hold: Callable[[bool], None] = unheld,
    ) -> None:
        self.listener = listener
        self.client_host = client_host
        self.client_port = client_port
        self._principal: Principal = ANONYMOUS  # until TLS or SASL has proven another
        self.rights: Rights | None = None  # of the principal, as of the last request
        self.internal = False  # the broker itself asks
        self.closed = False  # the client has left
        self.wait: asyncio.Future[Any] | None = None  # of a large request, ended with the client
        self.software = ""  # name and version, as ApiVersions v3 told them
        self.mute = mute  # for so many milliseconds: nothing more is read from the client
        self.hold = hold  # while True: a Produce waits with its appends, and none may overtake it

    @property
    def principal(self) -> Principal:
        return self._principal

    @principal.setter
    def principal(self, principal: Principal) -> None:
        self._principal = principal
        self.rights = None

    @property
    def user(self) -> str:
        """The name that quotas go by."""
        return self._principal.name


class Context:
    """One request's surroundings. `version` is the API version that the client speaks."""

    __slots__ = (
        "api_key",
        "broker",
        "client_id",
        "forwarded",
        "limits",
        "now_ms",
        "rights",
        "session",
        "version",
    )

    def __init__(
        self, broker: Broker, session: Session, version: int, client_id: str | None, now_ms: int
    ) -> None:
        self.broker = broker
        self.session = session
        self.version = version
        self.client_id = client_id
        self.now_ms = now_ms
        self.forwarded = False  # another broker took it for us: we are the controller, or were
        self.limits: Limits | None = None  # the client's quotas, if it has any
        self.rights: Rights | None = None  # None: everything is allowed
        self.api_key = -1  # for the audit log

    def may(
        self,
        operation: AclOperation,
        resource: AclResource,
        name: str = CLUSTER_NAME,
        *,
        quiet: bool = False,
    ) -> bool:
        """Whether the client may; a denial is logged unless it only leaves something out."""
        rights = self.rights
        if rights is None:
            return True
        decision = rights.decision(operation, resource, name)
        if not quiet or decision.allowed:
            self._audit(rights, decision, operation, resource, name)
        return decision.allowed

    @property
    def logs_allowed(self) -> bool:
        """Whether the audit log wants to have what was allowed."""
        access = self.broker.access
        return access is not None and access.audit.allowed_too

    def may_any(self, operation: AclOperation, resource: AclResource) -> bool:
        """Whether there can be any resource of this kind on which the client may."""
        if self.rights is None:
            return True
        decision = self.rights.decision_any(operation, resource)
        self._audit(self.rights, decision, operation, resource, "*")
        return decision.allowed

    def operations(self, resource: AclResource, name: str = CLUSTER_NAME) -> int:
        """What the client may do, in the bits of authorized_operations (KIP-430)."""
        if self.rights is None:
            return ALL_OPERATIONS[resource]
        return self.rights.operations(resource, name)

    def _audit(
        self,
        rights: Rights,
        decision: Decision,
        operation: AclOperation,
        resource: AclResource,
        name: str,
    ) -> None:
        access = self.broker.access
        if access is None or (decision.allowed and not self.logs_allowed):
            return
        session = self.session
        access.audit.write(
            rights,
            decision,
            operation,
            resource,
            name,
            request=APIS[self.api_key].name,
            connection=f"{session.client_host}:{session.client_port}-{session.listener}",
            client_id=self.client_id,
        )


# A handler answers at once (a response message), later (an awaitable of one), or not at all
# (None: Produce with acks=0). Its ordered work is done before it returns, so that no `await`
# can slip in front of an append.
Response = Any
Handler = Callable[[Context, Any], Response | Awaitable[Response] | None]
