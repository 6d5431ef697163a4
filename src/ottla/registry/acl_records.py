"""ACLs of subjects as records of `_schemas_acl`: one key for each ACL, for compaction.

    {"keytype":"ACL","resource":"SUBJECT","name":"orders-","pattern":"PREFIXED",
     "principal":"User:ann","host":"*","operation":"READ","permission":"ALLOW","magic":0}

The value is `{}`, or null for a deleted ACL.
"""

from __future__ import annotations

import json
from enum import IntEnum
from typing import Any, Final

from ottla.auth.acls import Acl, AclOperation, AclPattern, AclPermission, RegistryResource
from ottla.registry.registry_change import KeyValue
from ottla.registry.topic_records import encoded

ACL: Final = "ACL"
PRESENT: Final = b"{}"
REGISTRY_NAME: Final = "schema-registry"
"""The name of the only resource of this type, as `kafka-cluster` is for brokers."""
OPERATIONS: Final = {
    RegistryResource.SUBJECT: (
        *(AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.DESCRIBE),
        *(AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS, AclOperation.ALL),
    ),
    RegistryResource.REGISTRY: (
        *(AclOperation.DELETE, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS),
        AclOperation.ALL,
    ),
}
PATTERNS: Final = (AclPattern.LITERAL, AclPattern.PREFIXED)
PERMISSIONS: Final = (AclPermission.ALLOW, AclPermission.DENY)


def acl_key(acl: Acl) -> bytes:
    return encoded(
        {
            "keytype": ACL,
            "resource": RegistryResource(acl.resource).name,
            "name": acl.name,
            "pattern": AclPattern(acl.pattern).name,
            "principal": acl.principal,
            "host": acl.host,
            "operation": AclOperation(acl.operation).name,
            "permission": AclPermission(acl.permission).name,
            "magic": 0,
        }
    )


def acl_record(acl: Acl) -> KeyValue:
    return acl_key(acl), PRESENT


def read_acl(key: bytes) -> Acl | None:
    """None for another type of record; ValueError for an ACL that can't be read."""
    try:
        fields = json.loads(key)
        if fields["keytype"] != ACL:
            return None
        acl = Acl(
            _named(RegistryResource, fields["resource"]),
            _text(fields["name"]),
            _named(AclPattern, fields["pattern"]),
            _text(fields["principal"]),
            _text(fields["host"]),
            _named(AclOperation, fields["operation"]),
            _named(AclPermission, fields["permission"]),
        )
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{type(error).__name__} {error}") from None
    if problem := registry_acl_problem(acl):
        raise ValueError(problem)
    return acl


def registry_acl_problem(acl: Acl) -> str | None:
    """Why an ACL can't be created, or None."""
    resource = RegistryResource(acl.resource)
    if acl.operation not in OPERATIONS[resource]:
        names = ", ".join(operation.name for operation in OPERATIONS[resource])
        return f"The operations on a {resource.name} are {names}"
    if resource is RegistryResource.REGISTRY and acl.name != REGISTRY_NAME:
        return f"The only valid name for the REGISTRY resource is {REGISTRY_NAME}"
    if not acl.name:
        return "Invalid empty resource name"
    if acl.pattern not in PATTERNS or acl.permission not in PERMISSIONS:
        return "Invalid ACL: ANY, MATCH and UNKNOWN are for filters only"
    if not acl.host:
        return "Invalid empty host"
    kind, colon, who = acl.principal.partition(":")
    if not colon or not kind or not who:
        return f"Could not parse principal from `{acl.principal}`: it must be Type:name"
    return None


def _named(kind: type[IntEnum], name: Any) -> int:
    return kind[name]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value
