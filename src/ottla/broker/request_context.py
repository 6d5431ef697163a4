"""What a handler gets with a request: the broker's parts, the client, and its API version."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ottla.auth.acls import ALL_OPERATIONS, CLUSTER_NAME, AclOperation, AclResource
from ottla.broker.client_session import ClientSession
from ottla.wire.apis import APIS

if TYPE_CHECKING:
    from ottla.auth.authorizer import Decision, Rights
    from ottla.broker.parts import BrokerParts
    from ottla.broker.quotas import ClientLimits


class RequestContext:
    """What surrounds one request. `version` is the API version that the client speaks."""

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
        self,
        broker: BrokerParts,
        session: ClientSession,
        version: int,
        client_id: str | None,
        now_ms: int,
    ) -> None:
        self.broker = broker
        self.session = session
        self.version = version
        self.client_id = client_id
        self.now_ms = now_ms
        self.forwarded = False  # another broker forwarded it to us, as the controller
        self.limits: ClientLimits | None = None  # the client's quotas, if it has any
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
        """True if the client is allowed to. A denial is audited; a `quiet` one, which only leaves
        something out of a response, is not."""
        rights = self.rights
        if rights is None:
            return True
        decision = rights.decision(operation, resource, name)
        if not quiet or decision.allowed:
            self._audit(rights, decision, operation, resource, name)
        return decision.allowed

    @property
    def logs_allowed(self) -> bool:
        """True if the audit log records what was allowed, too."""
        access = self.broker.access
        return access is not None and access.audit.allowed_too

    def may_any(self, operation: AclOperation, resource: AclResource) -> bool:
        """True if the client is allowed to on at least one resource of this kind."""
        if self.rights is None:
            return True
        decision = self.rights.decision_any(operation, resource)
        self._audit(self.rights, decision, operation, resource, "*")
        return decision.allowed

    def operations(self, resource: AclResource, name: str = CLUSTER_NAME) -> int:
        """The operations that the client is allowed, as bits of authorized_operations (KIP-430)."""
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
# (None: Produce with acks=0). It does its ordered work before it returns, so that no `await` can
# come before an append: the batches of one connection must be appended in the order they came.
Response = Any
Handler = Callable[[RequestContext, Any], Response | Awaitable[Response] | None]
