"""The ACLs of subjects, from the records of their topic."""

from __future__ import annotations

import logging
from typing import Final

from ottla.auth.acls import (
    ANY_USER,
    WILDCARD,
    Acl,
    AclFilter,
    AclOperation,
    AclPattern,
    AclPermission,
    RegistryResource,
)
from ottla.auth.authorizer import AclIndex
from ottla.records.record import Record
from ottla.registry.acl_records import REGISTRY_NAME, acl_record, read_acl, registry_acl_problem
from ottla.registry.registry_change import RegistryChange
from ottla.registry.registry_error import RegistryError

INVALID_ACL: Final = 42213
NOBODY: Final = tuple(
    Acl(
        resource,
        name,
        AclPattern.LITERAL,
        ANY_USER,
        WILDCARD,
        AclOperation.ALL,
        AclPermission.DENY,
    )
    for resource, name in (
        (RegistryResource.SUBJECT, WILDCARD),
        (RegistryResource.REGISTRY, REGISTRY_NAME),
    )
)
"""Stands for an ACL that can't be read: it may be a DENY, of anything."""

log = logging.getLogger("ottla.registry")


class SubjectAcls:
    def __init__(self) -> None:
        self._rules: dict[bytes, tuple[Acl, ...]] = {}
        self._index: AclIndex | None = None

    @property
    def index(self) -> AclIndex:
        """A new index after every change."""
        if self._index is None:
            self._index = AclIndex(rule for found in self._rules.values() for rule in found)
        return self._index

    def apply(self, record: Record) -> None:
        if record.key is None:
            return
        try:
            acl = read_acl(record.key)
            if acl is None:
                return
            rules: tuple[Acl, ...] = (acl,)
        except ValueError as error:
            log.error(
                "ACL record at offset %d can't be read, so everyone but super.users is denied"
                " everything: %s",
                record.offset,
                error,
            )
            rules = NOBODY
        if record.value is None:
            self._rules.pop(record.key, None)
        else:
            self._rules[record.key] = rules
        self._index = None

    def keys_of(self, acl: Acl) -> list[bytes]:
        """The records of an ACL: more than one if they can't be read."""
        return [key for key, rules in self._rules.items() if acl in rules]


def decide_addition(state: SubjectAcls, acl: Acl) -> RegistryChange[None]:
    if problem := registry_acl_problem(acl):
        raise RegistryError(INVALID_ACL, problem)
    return RegistryChange(None, [] if acl in state.index.acls else [acl_record(acl)])


def decide_deletion(state: SubjectAcls, acl_filter: AclFilter) -> RegistryChange[list[Acl]]:
    """Delete all ACLs that match; returns what was deleted."""
    gone = state.index.filtered(acl_filter)
    keys = dict.fromkeys(key for acl in gone for key in state.keys_of(acl))
    return RegistryChange(gone, [(key, None) for key in keys])
