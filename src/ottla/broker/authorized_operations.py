"""authorized_operations (KIP-430): bits of what a client may do, by the numbers of operations."""

from __future__ import annotations

from typing import Final

from ottla.auth.acls import ALL_OPERATIONS, AclResource

NO_AUTHORIZED_OPERATIONS: Final = -(2**31)
CLUSTER_OPERATIONS: Final = ALL_OPERATIONS[AclResource.CLUSTER]
