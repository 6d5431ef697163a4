"""authorized_operations (KIP-430): bits of what a client may do, by the numbers of operations."""

from __future__ import annotations

from typing import Final

from ottla.auth.acls import ALL_OPERATIONS, AclResource

NOT_ASKED: Final = -(2**31)
ON_CLUSTER: Final = ALL_OPERATIONS[AclResource.CLUSTER]
