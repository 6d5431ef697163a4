"""Access control lists: what an ACL says, and which ACLs a filter matches.

An ACL is for one principal, from one host, doing one operation on the resources of one pattern. The
numbers are those of Kafka's protocol.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

WILDCARD: Final = "*"
ANY_USER: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"


class AclResource(IntEnum):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class RegistryResource(IntEnum):
    """Resource types of the schema registry. Kafka's numbers end far below, and brokers refuse
    ACLs with one of these."""

    SUBJECT = 100
    REGISTRY = 101


class AclPattern(IntEnum):
    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(IntEnum):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


_O: Final = AclOperation

OPERATIONS: Final[dict[AclResource, tuple[AclOperation, ...]]] = {
    AclResource.TOPIC: (
        *(_O.READ, _O.WRITE, _O.CREATE, _O.DELETE, _O.ALTER, _O.DESCRIBE),
        *(_O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
    ),
    AclResource.GROUP: (*(_O.READ, _O.DELETE, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),),
    AclResource.CLUSTER: (
        *(_O.CREATE, _O.ALTER, _O.DESCRIBE, _O.CLUSTER_ACTION, _O.DESCRIBE_CONFIGS),
        *(_O.ALTER_CONFIGS, _O.IDEMPOTENT_WRITE),
    ),
    AclResource.TRANSACTIONAL_ID: (_O.WRITE, _O.DESCRIBE),
    AclResource.DELEGATION_TOKEN: (_O.DESCRIBE,),
    AclResource.USER: (_O.CREATE_TOKENS, _O.DESCRIBE_TOKENS),
}
"""The operations on each resource type, and so the bits of authorized_operations (KIP-430)."""

ALL_OPERATIONS: Final = {
    resource: sum(1 << operation for operation in operations)
    for resource, operations in OPERATIONS.items()
}
"""authorized_operations of a client that may do everything."""

IMPLIED_BY: Final[dict[AclOperation, frozenset[AclOperation]]] = {
    _O.DESCRIBE: frozenset({_O.DESCRIBE, _O.READ, _O.WRITE, _O.DELETE, _O.ALTER}),
    _O.DESCRIBE_CONFIGS: frozenset({_O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS}),
}
"""An ALLOW of any of these allows the operation; a DENY means its own operation only."""


class Acl(NamedTuple):
    """One ACL. The principal is text, because it may be one that has never connected."""

    resource: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int

    def __str__(self) -> str:
        return (
            f"{AclPermission(self.permission).name} {self.principal} from {self.host}"
            f" {AclOperation(self.operation).name} on {resource_name(self.resource)}"
            f" {AclPattern(self.pattern).name} {self.name}"
        )


def resource_name(resource: int) -> str:
    known = RegistryResource if resource in _numbers(RegistryResource) else AclResource
    return known(resource).name


@dataclass(slots=True, frozen=True)
class AclFilter:
    """Which ACLs to match; None and ANY match all."""

    resource: int = AclResource.ANY
    name: str | None = None
    pattern: int = AclPattern.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = AclOperation.ANY
    permission: int = AclPermission.ANY

    def matches(self, acl: Acl) -> bool:
        return (
            self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (AclPermission.ANY, acl.permission)
            and self._matches_pattern(acl)
        )

    def _matches_pattern(self, acl: Acl) -> bool:
        if self.resource not in (AclResource.ANY, acl.resource):
            return False
        if self.pattern not in (AclPattern.ANY, AclPattern.MATCH, acl.pattern):
            return False
        if self.name is None:
            return True
        if self.pattern != AclPattern.MATCH:
            return self.name == acl.name
        if acl.pattern == AclPattern.LITERAL:
            return acl.name in (self.name, WILDCARD)
        return self.name.startswith(acl.name)

    def problem(self) -> str | None:
        """Why the filter is invalid, or None."""
        for value, kind in (
            (self.resource, AclResource),
            (self.pattern, AclPattern),
            (self.operation, AclOperation),
            (self.permission, AclPermission),
        ):
            if value not in _numbers(kind) or value == 0:
                return "The AclBindingFilter must not contain UNKNOWN elements"
        return None


def acl_problem(acl: Acl) -> str | None:
    """Why the ACL is invalid, or None; in Kafka's words where it has some."""
    for value, kind in (
        (acl.resource, AclResource),
        (acl.pattern, AclPattern),
        (acl.operation, AclOperation),
        (acl.permission, AclPermission),
    ):
        if value not in _numbers(kind) or kind(value).name == "UNKNOWN":
            return "Invalid ACL: it contains UNKNOWN elements"
        if kind(value).name in ("ANY", "MATCH"):
            return f"Invalid ACL: {kind(value).name} is for filters only"
    if acl.resource == AclResource.CLUSTER and acl.name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not acl.name:
        return "Invalid empty resource name"
    if "/" in acl.name or acl.name in (".", "..") or not acl.name.isprintable():
        return "ZooKeeper can't keep a rule under this name"  # its nodes are named so
    if not acl.host:
        return "Invalid empty host"
    kind_name, colon, who = acl.principal.partition(":")
    if not colon or not kind_name or not who:
        return f"Could not parse principal from `{acl.principal}`: it must be Type:name"
    return None


def normal_host(host: str) -> str:
    """An address in one form: Java writes IPv6 in full, others shorten it, and `*` is itself."""
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    return str(address.ipv4_mapped or address)


def _numbers(kind: type[IntEnum]) -> frozenset[int]:
    return frozenset(kind)
