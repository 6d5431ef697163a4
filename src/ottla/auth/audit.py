"""The audit log: every authorization decision, in the format of Kafka's authorizer or as JSON.

Denials are logged at INFO and grants at DEBUG, to the logger that Kafka's operators know.
"""

from __future__ import annotations

import json
import logging
from typing import Final

from ottla.auth.acls import AclOperation, AclResource, RegistryResource
from ottla.auth.authorizer import Decision, Rights

LOGGER: Final = "kafka.authorizer.logger"
JSON: Final = "json"
RESOURCE_NAMES: Final[dict[int, str]] = {
    AclResource.TOPIC: "Topic",
    AclResource.GROUP: "Group",
    AclResource.CLUSTER: "Cluster",
    AclResource.TRANSACTIONAL_ID: "TransactionalId",
    AclResource.DELEGATION_TOKEN: "DelegationToken",
    AclResource.USER: "User",
    RegistryResource.SUBJECT: "Subject",
    RegistryResource.REGISTRY: "Registry",
}

log = logging.getLogger(LOGGER)


class Audit:
    """Logs decisions. `allowed_too` is true if grants are logged as well."""

    __slots__ = ("_json",)

    def __init__(self, form: str = "text") -> None:
        self._json = form == JSON

    @property
    def allowed_too(self) -> bool:
        return log.isEnabledFor(logging.DEBUG)

    def write(
        self,
        rights: Rights,
        decision: Decision,
        operation: int,
        resource: int,
        name: str,
        *,
        request: str,
        connection: str,
        client_id: str | None,
        count: int = 1,
    ) -> None:
        level = logging.DEBUG if decision.allowed else logging.INFO
        if not log.isEnabledFor(level):
            return
        kind = RESOURCE_NAMES[resource]
        if self._json:
            fields = {
                "principal": str(rights.principal),
                "allowed": decision.allowed,
                "operation": AclOperation(operation).name,
                "host": rights.host,
                "resource_type": kind,
                "resource": name,
                "request": request,
                "resource_ref_count": count,
                "rule": str(decision),
                "connection": connection,
                "client_id": client_id,
            }
            log.log(level, "%s", json.dumps(fields))
            return
        log.log(
            level,
            "Principal = %s is %s operation = %s from host = %s on resource = %s:LITERAL:%s"
            " for request = %s with resourceRefCount = %d based on rule %s",
            printable(str(rights.principal)),
            "Allowed" if decision.allowed else "Denied",
            AclOperation(operation).name,
            rights.host,
            kind,
            printable(name),
            request,
            count,
            decision,
        )


def printable(text: str) -> str:
    """Escapes control characters: a name from a client must not forge a line of the log."""
    return text if text.isprintable() else ascii(text)[1:-1]
