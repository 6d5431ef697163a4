"""ACLs in the store: Kafka's own znodes and JSON.

/kafka-acl/<Type>/<name>                         ACLs of the resource with this name; * is all
/kafka-acl-extended/prefixed/<Type>/<name>       ACLs of all resources with this prefix

Brokers follow the whole store, so they need no znodes to notify each other of changes
(/kafka-acl-changes).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from ottla.auth.acls import Acl, AclOperation, AclPattern, AclPermission, AclResource
from ottla.auth.principal import Principal
from ottla.cluster.image import MetadataImage, StoredAcls
from ottla.cluster.layout import dump, load
from ottla.cluster.store import Create, Delete, Put, VersionedValue, Write

LITERAL_ACLS: Final = "kafka-acl"
EXTENDED_ACLS: Final = "kafka-acl-extended"
PREFIXED: Final = "prefixed"
UNREADABLE: Final = (ValueError, KeyError, TypeError, AttributeError)

_TYPES: Final = {
    AclResource.TOPIC: "Topic",
    AclResource.GROUP: "Group",
    AclResource.CLUSTER: "Cluster",
    AclResource.TRANSACTIONAL_ID: "TransactionalId",
    AclResource.DELEGATION_TOKEN: "DelegationToken",
    AclResource.USER: "User",
}
_TYPE_NUMBERS: Final = {name: number for number, name in _TYPES.items()}
_OPERATION_NUMBERS: Final = {
    operation.name.title().replace("_", ""): operation
    for operation in AclOperation
    if operation > AclOperation.ANY
}
_OPERATIONS: Final = {number: name for name, number in _OPERATION_NUMBERS.items()}
_PERMISSION_NUMBERS: Final = {"Allow": AclPermission.ALLOW, "Deny": AclPermission.DENY}
_PERMISSIONS: Final = {number: name for name, number in _PERMISSION_NUMBERS.items()}


log = logging.getLogger("ottla.cluster")


class AclKey(NamedTuple):
    """A resource pattern, whose ACLs are stored under one key."""

    resource: int
    pattern: int
    name: str

    @property
    def path(self) -> str:
        kind = _TYPES[AclResource(self.resource)]
        if self.pattern == AclPattern.LITERAL:
            return f"/{LITERAL_ACLS}/{kind}/{self.name}"
        return f"/{EXTENDED_ACLS}/{PREFIXED}/{kind}/{self.name}"

    @classmethod
    def of(cls, acl: Acl) -> AclKey:
        return cls(acl.resource, acl.pattern, acl.name)

    @classmethod
    def of_parts(cls, parts: Sequence[str]) -> AclKey | None:
        """The pattern of a key's parts; None if the key is not one of ACLs."""
        match parts:
            case ["kafka-acl", kind, name] if kind in _TYPE_NUMBERS:
                return cls(_TYPE_NUMBERS[kind], AclPattern.LITERAL, name)
            case ["kafka-acl-extended", "prefixed", kind, name] if kind in _TYPE_NUMBERS:
                return cls(_TYPE_NUMBERS[kind], AclPattern.PREFIXED, name)
        return None


def dump_acls(acls: Iterable[Acl]) -> bytes:
    rules = [
        {
            "principal": acl.principal,
            "permissionType": _PERMISSIONS[AclPermission(acl.permission)],
            "operation": _OPERATIONS[AclOperation(acl.operation)],
            "host": acl.host,
        }
        for acl in sorted(acls)
    ]
    return dump({"version": 1, "acls": rules})


def load_acls(key: AclKey, entry: VersionedValue) -> StoredAcls:
    """The ACLs of a pattern. One that can't be read may be a DENY, so it is replaced by a DENY for
    everybody: operators see that in `kafka-acls --list`, and removing it there removes the entry
    that can't be read. The other ACLs stay in force, because they may be DENYs, too."""
    rules: set[Acl] = set()
    try:
        stored = list(load(entry)["acls"])
    except UNREADABLE as error:
        stored = [None]
        log.error("The ACLs at %s can't be read: %r", key.path, error)
    for rule in stored:
        try:
            rules.add(_load_acl(key, rule))
        except UNREADABLE as error:
            log.error("An ACL at %s can't be read and denies everything: %r", key.path, error)
            everybody = ("User:*", "*", AclOperation.ALL, AclPermission.DENY)
            rules.add(Acl(key.resource, key.name, key.pattern, *everybody))
    return StoredAcls(frozenset(rules), entry.version)


def _load_acl(key: AclKey, rule: Any) -> Acl:
    principal, host = rule["principal"], rule["host"]
    Principal.parse(principal)
    if not isinstance(host, str):
        raise ValueError(f"host {host!r}")
    operation = _OPERATION_NUMBERS[rule["operation"]]
    permission = _PERMISSION_NUMBERS[rule["permissionType"]]
    return Acl(key.resource, key.name, key.pattern, principal, host, operation, permission)


def write_acls(image: MetadataImage, key: AclKey, acls: frozenset[Acl]) -> list[Write]:
    """Replace the ACLs of a pattern; its key is deleted when none are left."""
    present = image.acls.get(key)
    if present is None:
        return [Create(key.path, dump_acls(acls))] if acls else []
    if acls == present.acls:
        return []
    if not acls:
        return [Delete(key.path, present.version)]
    return [Put(key.path, dump_acls(acls), present.version)]
