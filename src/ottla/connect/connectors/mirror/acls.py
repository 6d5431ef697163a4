"""The ACLs of source topics, translated for their replicas: reading is allowed, writing is not.

As in MirrorMaker 2, only ACLs with literal topic names are replicated. ALLOW WRITE is dropped and
ALLOW ALL becomes ALLOW READ. ACLs that are deleted in the source stay in the target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.client.acls import Acl, AclOperation, AclPattern, AclPermission


def acls_of_copies(
    acls: Iterable[Acl], *, wanted: Callable[[str], bool], remote: Callable[[str], str]
) -> list[Acl]:
    return sorted(
        _of_copy(acl, remote(acl.name))
        for acl in acls
        if acl.pattern == AclPattern.LITERAL and wanted(acl.name) and not _allows_writing(acl)
    )


def _allows_writing(acl: Acl) -> bool:
    return (acl.permission, acl.operation) == (AclPermission.ALLOW, AclOperation.WRITE)


def _of_copy(acl: Acl, name: str) -> Acl:
    everything = (acl.permission, acl.operation) == (AclPermission.ALLOW, AclOperation.ALL)
    operation = AclOperation.READ if everything else acl.operation
    return acl._replace(name=name, operation=int(operation))
