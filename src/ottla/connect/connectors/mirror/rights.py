"""ACLs of topics, for their copies: who may read there may read here, and nobody may write.

As in Kafka's MirrorMaker 2: only those of topics by their whole name; a right to write is not
copied, and one to do everything becomes one to read. Rights that were taken away stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.client.acls import Acl, AclOperation, AclPattern, AclPermission


def of_copies(
    acls: Iterable[Acl], *, wanted: Callable[[str], bool], remote: Callable[[str], str]
) -> list[Acl]:
    return sorted(
        _of_copy(each, remote(each.name))
        for each in acls
        if each.pattern == AclPattern.LITERAL and wanted(each.name) and not _allows_writing(each)
    )


def _allows_writing(acl: Acl) -> bool:
    return (acl.permission, acl.operation) == (AclPermission.ALLOW, AclOperation.WRITE)


def _of_copy(acl: Acl, name: str) -> Acl:
    everything = (acl.permission, acl.operation) == (AclPermission.ALLOW, AclOperation.ALL)
    operation = AclOperation.READ if everything else acl.operation
    return acl._replace(name=name, operation=int(operation))
