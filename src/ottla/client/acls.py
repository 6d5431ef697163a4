"""ACLs of a cluster that has an authorizer: describe, create, delete."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.auth.acls import (
    Acl,
    AclFilter,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
)
from ottla.client.admin_session import AdminSession
from ottla.client.protocol.connection import check
from ottla.wire.apis import ApiKey
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from ottla.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

__all__ = [
    "Acl",
    "AclAdmin",
    "AclFilter",
    "AclOperation",
    "AclPattern",
    "AclPermission",
    "AclResource",
]


class AclAdmin:
    def __init__(self, session: AdminSession) -> None:
        self._session = session

    def describe(self, resource: AclResource) -> list[Acl]:
        """All ACLs of this kind of resource."""
        return self.find(AclFilter(resource))

    def find(self, acl_filter: AclFilter) -> list[Acl]:
        request = DescribeAclsRequest(*_fields(acl_filter))
        answer = self._session.connections.call(request, ApiKey.DESCRIBE_ACLS, DescribeAclsResponse)
        check(answer.error_code, answer.error_message, ApiKey.DESCRIBE_ACLS)
        return [
            Acl(
                found.resource_type,
                found.resource_name,
                found.pattern_type,
                acl.principal,
                acl.host,
                acl.operation,
                acl.permission_type,
            )
            for found in answer.resources
            for acl in found.acls
        ]

    def create(self, acls: Sequence[Acl]) -> None:
        """Creating an ACL that exists already is not an error."""
        request = CreateAclsRequest([AclCreation(*acl) for acl in acls])
        answer = self._session.connections.call(request, ApiKey.CREATE_ACLS, CreateAclsResponse)
        for result in answer.results:
            check(result.error_code, result.error_message, ApiKey.CREATE_ACLS)

    def delete(self, filters: Sequence[AclFilter]) -> list[Acl]:
        """Delete the ACLs that match these filters; return what was deleted."""
        request = DeleteAclsRequest(
            [DeleteAclsFilter(*_fields(acl_filter)) for acl_filter in filters]
        )
        answer = self._session.connections.call(request, ApiKey.DELETE_ACLS, DeleteAclsResponse)
        deleted: list[Acl] = []
        for result in answer.filter_results:
            check(result.error_code, result.error_message, ApiKey.DELETE_ACLS)
            for acl in result.matching_acls:
                check(acl.error_code, acl.error_message, ApiKey.DELETE_ACLS)
                deleted.append(
                    Acl(
                        acl.resource_type,
                        acl.resource_name,
                        acl.pattern_type,
                        acl.principal,
                        acl.host,
                        acl.operation,
                        acl.permission_type,
                    )
                )
        return deleted


def _fields(acl_filter: AclFilter) -> tuple[int, str | None, int, str | None, str | None, int, int]:
    return (
        acl_filter.resource,
        acl_filter.name,
        acl_filter.pattern,
        acl_filter.principal,
        acl_filter.host,
        acl_filter.operation,
        acl_filter.permission,
    )
