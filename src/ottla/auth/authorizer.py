"""The authorizer: Kafka's rules for what a principal may do, the first one that applies.

    a super user             is allowed (super.users)
    a DENY matches           is denied, whatever else allows it
    an ALLOW matches         is allowed, also by an operation that implies this one
    nothing matches          is denied, unless allow.everyone.if.no.acl.found is set and no ACL at
                             all is for the resource

`decide` decides; `Rights` caches its decisions for one principal from one host, so that a request
costs one lookup per topic. A change of the ACLs makes a new `AclIndex`, and all caches are dropped
with the old one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from ottla.auth.acls import (
    ANY_USER,
    IMPLIED_BY,
    OPERATIONS,
    WILDCARD,
    Acl,
    AclFilter,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    normal_host,
)
from ottla.auth.principal import Principal

RIGHTS_MAX: Final = 10_000  # pairs of principal and host; one more empties the cache
NAME_LENGTH_MAX: Final = 1024  # longer names are not cached; a topic's has 249 at most
DECISIONS_MAX: Final = 10_000  # of one principal from one host

SUPER_USER: Final = "SuperUser"
DEFAULT_DENY: Final = "DefaultDeny"
DEFAULT_ALLOW: Final = "DefaultAllow"


@dataclass(slots=True, frozen=True)
class Decision:
    """Allowed or not, and the rule behind it: super user, an ACL, or the default."""

    allowed: bool
    rule: str
    acl: Acl | None = None

    def __str__(self) -> str:
        return f"MatchingAcl(acl={self.acl})" if self.acl is not None else self.rule


class AclIndex:
    """All ACLs of a cluster, indexed by resource."""

    def __init__(self, acls: Iterable[Acl] = ()) -> None:
        self.acls = frozenset(acls)
        self._literal: dict[tuple[int, str], list[Acl]] = {}
        self._prefixed: dict[tuple[int, str], list[Acl]] = {}
        self._lengths: dict[int, list[int]] = {}  # of prefixes, by resource type
        for acl in sorted(self.acls):
            table = self._literal if acl.pattern == AclPattern.LITERAL else self._prefixed
            table.setdefault((acl.resource, acl.name), []).append(acl)
        for resource, name in self._prefixed:
            lengths = self._lengths.setdefault(resource, [])
            if len(name) not in lengths:
                lengths.append(len(name))

    def matching(self, resource: int, name: str) -> Iterator[Acl]:
        """The ACLs of a resource with this name, for any principal."""
        yield from self._literal.get((resource, name), ())
        if name != WILDCARD:
            yield from self._literal.get((resource, WILDCARD), ())
        for length in self._lengths.get(resource, ()):
            if length <= len(name):
                yield from self._prefixed.get((resource, name[:length]), ())

    def of_type(self, resource: int) -> Iterator[Acl]:
        return (acl for acl in self.acls if acl.resource == resource)

    def filtered(self, acl_filter: AclFilter) -> list[Acl]:
        return sorted(acl for acl in self.acls if acl_filter.matches(acl))


class Authorizer:
    """The decisions of one broker. `use` takes the ACLs of the newest metadata image."""

    def __init__(
        self, *, super_users: frozenset[str] = frozenset(), allow_if_no_acl: bool = False
    ) -> None:
        self.super_users = super_users
        self.allow_if_no_acl = allow_if_no_acl
        self.index = AclIndex()
        self._rights: dict[tuple[Principal, str], Rights] = {}

    def use(self, index: AclIndex) -> None:
        self.index = index
        self._rights = {}

    def rights(self, principal: Principal, host: str) -> Rights:
        """The cached decisions of a principal from a host; stale once `index` is another one."""
        rights = self._rights.get((principal, host))
        if rights is None:
            if len(self._rights) >= RIGHTS_MAX:
                self._rights = {}
            rights = self._rights[principal, host] = Rights(self, principal, host)
        return rights

    def decide(
        self, principal: Principal, host: str, operation: int, resource: int, name: str
    ) -> Decision:
        """Kafka's order: super user, DENY, ALLOW, the default."""
        who = str(principal)
        if who in self.super_users:
            return Decision(True, SUPER_USER)
        allowing = IMPLIED_BY.get(AclOperation(operation), frozenset({operation}))
        host = normal_host(host)
        allow: Acl | None = None
        any_rule = False
        for acl in self.index.matching(resource, name):
            any_rule = True
            if not _is_for(acl, who, host):
                continue
            if acl.permission == AclPermission.DENY:
                if acl.operation in (operation, AclOperation.ALL):
                    return Decision(False, "", acl)
            elif allow is None and (acl.operation == AclOperation.ALL or acl.operation in allowing):
                allow = acl
        if allow is not None:
            return Decision(True, "", allow)
        if self.allow_if_no_acl and not any_rule:
            return Decision(True, DEFAULT_ALLOW)
        return Decision(False, DEFAULT_DENY)

    def decide_any(
        self, principal: Principal, host: str, operation: int, resource: int
    ) -> Decision:
        """Allowed if the operation is allowed on any resource of this type that could exist."""
        who = str(principal)
        if who in self.super_users:
            return Decision(True, SUPER_USER)
        host = normal_host(host)
        rules = [
            acl
            for acl in self.index.of_type(resource)
            if _is_for(acl, who, host) and acl.operation in (operation, AclOperation.ALL)
        ]
        denied = [acl for acl in rules if acl.permission == AclPermission.DENY]
        for acl in denied:
            if acl.pattern == AclPattern.LITERAL and acl.name == WILDCARD:
                return Decision(False, "", acl)
        if self.allow_if_no_acl:
            return Decision(True, DEFAULT_ALLOW)
        for acl in rules:
            if acl.permission == AclPermission.ALLOW and not _dominated(acl, denied):
                return Decision(True, "", acl)
        return Decision(False, DEFAULT_DENY)


class Rights:
    """The cached decisions for one principal from one host."""

    __slots__ = (
        "_any",
        "_authorizer",
        "_decisions",
        "host",
        "index",
        "principal",
        "readable",
        "writable",
    )

    def __init__(self, authorizer: Authorizer, principal: Principal, host: str) -> None:
        self._authorizer = authorizer
        self.index = authorizer.index
        self.principal = principal
        self.host = host
        self._decisions: dict[tuple[int, int, str], Decision] = {}
        self._any: dict[tuple[int, int], Decision] = {}
        # Topics that may be read or written: the first thing that Fetch and Produce look at. They
        # stay empty while grants have to be logged.
        self.readable: set[str] = set()
        self.writable: set[str] = set()

    def decision(self, operation: int, resource: int, name: str) -> Decision:
        """HOT: one lookup once it is cached."""
        key = (operation, resource, name)
        try:
            return self._decisions[key]
        except KeyError:
            pass
        if len(self._decisions) >= DECISIONS_MAX:
            self._decisions.clear()
            self.readable.clear()
            self.writable.clear()
        found = self._authorizer.decide(self.principal, self.host, operation, resource, name)
        if len(name) <= NAME_LENGTH_MAX:  # made-up names must not fill the memory
            self._decisions[key] = found
        return found

    def decision_any(self, operation: int, resource: int) -> Decision:
        key = (operation, resource)
        if key not in self._any:
            decide = self._authorizer.decide_any
            self._any[key] = decide(self.principal, self.host, operation, resource)
        return self._any[key]

    def operations(self, resource: AclResource, name: str) -> int:
        """The bits of authorized_operations."""
        return sum(
            1 << operation
            for operation in OPERATIONS[resource]
            if self.decision(operation, resource, name).allowed
        )


def _is_for(acl: Acl, who: str, host: str) -> bool:
    return acl.principal in (who, ANY_USER) and (
        acl.host == WILDCARD or normal_host(acl.host) == host
    )


def _dominated(allow: Acl, denied: Iterable[Acl]) -> bool:
    """True if a DENY denies everything that this ALLOW allows."""
    if allow.pattern == AclPattern.LITERAL and allow.name == WILDCARD:
        return False
    for deny in denied:
        if deny.pattern == AclPattern.PREFIXED:
            if allow.name.startswith(deny.name):
                return True
        elif allow.pattern == AclPattern.LITERAL and allow.name == deny.name:
            return True
    return False


def parse_super_users(text: str) -> frozenset[str]:
    """`User:a;User:b`: with semicolons, because names of TLS clients have commas. ValueError for
    text that is not a principal."""
    users = [part.strip() for part in text.split(";")]
    return frozenset(str(Principal.parse(name)) for name in users if name)
