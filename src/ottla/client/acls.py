"""Who may do what, where a cluster has an authorizer. Ours has none, and answers so."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from ottla.client.lines import check
from ottla.client.session import Session
from ottla.wire.apis import ApiKey
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from ottla.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

ANY: Final = 1  # of patterns, operations and permissions


class AclResource(IntEnum):
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class AclPattern(IntEnum):
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """Those that have a meaning of their own here; others are numbers, and passed on as such."""

    ALL = 2
    READ = 3
    WRITE = 4


class AclPermission(IntEnum):
    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    resource: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int


class Acls:
    def __init__(self, session: Session) -> None:
        self._session = session

    def describe(self, resource: AclResource) -> list[Acl]:
        """All of one kind of resource."""
        request = DescribeAclsRequest(
            resource_type_filter=resource,
            pattern_type_filter=ANY,
            operation=ANY,
            permission_type=ANY,
        )
        answer = self._session.lines.call(request, ApiKey.DESCRIBE_ACLS, DescribeAclsResponse)
        check(answer.error_code, answer.error_message)
        return [
            Acl(
                found.resource_type,
                found.resource_name,
                found.pattern_type,
                each.principal,
                each.host,
                each.operation,
                each.permission_type,
            )
            for found in answer.resources
            for each in found.acls
        ]

    def create(self, acls: Sequence[Acl]) -> None:
        """One that is there already is no mistake."""
        request = CreateAclsRequest([AclCreation(*each) for each in acls])
        answer = self._session.lines.call(request, ApiKey.CREATE_ACLS, CreateAclsResponse)
        for each in answer.results:
            check(each.error_code, each.error_message)
