"""Authorization of subjects: the broker's authorizer, with ACLs from a topic.

Every instance follows `_schemas_acl`, so an ACL is in force everywhere within a moment. `ottla
acls` writes to that topic; the topic's own ACLs on the broker decide who may do that.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from ottla.auth.acls import AclOperation, RegistryResource
from ottla.auth.audit import Audit
from ottla.auth.authorizer import Authorizer, Rights
from ottla.auth.principal import ANONYMOUS, user
from ottla.client.delivery import Setting
from ottla.registry.acl_records import REGISTRY_NAME
from ottla.registry.registry_error import RegistryError
from ottla.registry.schema_log import SchemaLog
from ottla.registry.subject_acls import SubjectAcls
from ottla.registry.topic import SchemaTopic

SUFFIX: Final = "_acl"
WRITER: Final = "acl-writer"
DENIED: Final = 40301


def acl_log(
    bootstrap_servers: str, settings: Mapping[str, Setting], *, topic: str, group_id: str
) -> SchemaLog[SubjectAcls]:
    connect = partial(
        SchemaTopic,
        bootstrap_servers,
        settings=settings,
        name=topic,
        transactional_id=f"{group_id}-{WRITER}",
    )
    return SchemaLog(connect(), connect(), SubjectAcls)


class SubjectAccess:
    """`log` holds the ACLs."""

    def __init__(self, log: SchemaLog[SubjectAcls], authorizer: Authorizer) -> None:
        self._log = log
        self._authorizer = authorizer
        self._audit = Audit()

    async def start(self) -> None:
        await self._log.start()

    async def stop(self) -> None:
        await self._log.stop()

    def rights(self, name: str | None, host: str, request: str) -> SubjectRights:
        """The rights of a caller; `name` is None without authentication."""
        index = self._log.state.index
        if index is not self._authorizer.index:
            self._authorizer.use(index)
        principal = ANONYMOUS if name is None else user(name)
        return SubjectRights(self._authorizer.rights(principal, host), self._audit, request)


class SubjectRights:
    """The rights of one caller. `request` is for the audit log."""

    def __init__(self, rights: Rights, audit: Audit, request: str) -> None:
        self._rights = rights
        self._audit = audit
        self._request = request

    def may(self, operation: AclOperation, subject: str) -> bool:
        """Not audited: what a list leaves out was not requested."""
        return self._rights.decision(operation, RegistryResource.SUBJECT, subject).allowed

    def check(self, operation: AclOperation, subject: str) -> None:
        """RegistryError 40301."""
        self._check(operation, RegistryResource.SUBJECT, subject)

    def check_registry(self, operation: AclOperation) -> None:
        self._check(operation, RegistryResource.REGISTRY, REGISTRY_NAME)

    def _check(self, operation: AclOperation, resource: RegistryResource, name: str) -> None:
        decision = self._rights.decision(operation, resource, name)
        if not decision.allowed or self._audit.allowed_too:
            self._audit.write(
                self._rights,
                decision,
                operation,
                resource,
                name,
                request=self._request,
                connection=self._rights.host,
                client_id=None,
            )
        if not decision.allowed:
            raise denied(operation, f"{resource.name.capitalize()}: {name}")


def denied(operation: AclOperation, what: str) -> RegistryError:
    word = operation.name.replace("_", " ").title().replace(" ", "")
    return RegistryError(DENIED, f"User is denied operation {word} on {what}")
