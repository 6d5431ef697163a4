"""DescribeAcls (key 29), CreateAcls (key 30) and DeleteAcls (key 31), v1 to v3.

Lists, adds and removes the authorizer's ACLs. A change is in force on this broker when the response
is sent, and on the others as soon as they have seen it in the metadata store. Without an authorizer
all three return SECURITY_DISABLED, as in Kafka.

v1  pattern types (KIP-290)        v3  resource type USER (KIP-373)
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from ottla.auth.acls import Acl, AclFilter, acl_problem
from ottla.broker.request_context import RequestContext
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from ottla.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

if TYPE_CHECKING:  # imported where an authorizer is configured
    from ottla.broker.access import Access

DISABLED_CODE = ErrorCode.SECURITY_DISABLED
DISABLED_MESSAGE = "No Authorizer is configured."

Request = DescribeAclsRequest | CreateAclsRequest | DeleteAclsRequest
Response = DescribeAclsResponse | CreateAclsResponse | DeleteAclsResponse

log = logging.getLogger("ottla.broker")


def handle(ctx: RequestContext, request: Request) -> Response | Awaitable[Response]:
    if ctx.broker.access is None:
        return _disabled(request)
    if isinstance(request, DescribeAclsRequest):
        return _describe(ctx.broker.access, request)
    if isinstance(request, CreateAclsRequest):
        return _create(ctx, request)
    return _delete(ctx, request)


def _disabled(request: Request) -> Response:
    if isinstance(request, DescribeAclsRequest):
        return DescribeAclsResponse(error_code=DISABLED_CODE, error_message=DISABLED_MESSAGE)
    if isinstance(request, CreateAclsRequest):
        refused = AclCreationResult(error_code=DISABLED_CODE, error_message=DISABLED_MESSAGE)
        return CreateAclsResponse(results=[refused] * len(request.creations))
    none_found = DeleteAclsFilterResult(error_code=DISABLED_CODE, error_message=DISABLED_MESSAGE)
    return DeleteAclsResponse(filter_results=[none_found] * len(request.filters))


def _describe(access: Access, request: DescribeAclsRequest) -> DescribeAclsResponse:
    acl_filter = _filter(request)
    problem = acl_filter.problem()
    if problem is not None:
        return DescribeAclsResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=problem)
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for acl in access.authorizer.index.filtered(acl_filter):
        key = (acl.resource, acl.name, acl.pattern)
        if key not in resources:
            resources[key] = DescribeAclsResource(*key)
        rule = AclDescription(acl.principal, acl.host, acl.operation, acl.permission)
        resources[key].acls.append(rule)
    return DescribeAclsResponse(resources=list(resources.values()))


def _filter(request_filter: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        request_filter.resource_type_filter,
        request_filter.resource_name_filter,
        request_filter.pattern_type_filter,
        request_filter.principal_filter,
        request_filter.host_filter,
        request_filter.operation,
        request_filter.permission_type,
    )


async def _create(ctx: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    results = []
    acls = []
    for creation in request.creations:
        acl = Acl(
            creation.resource_type,
            creation.resource_name,
            creation.resource_pattern_type,
            creation.principal,
            creation.host,
            creation.operation,
            creation.permission_type,
        )
        problem = acl_problem(acl)
        if problem is None:
            acls.append(acl)
            results.append(AclCreationResult())
        else:
            results.append(AclCreationResult(ErrorCode.INVALID_REQUEST, problem))
    try:
        await ctx.broker.settings.create_acls(acls)
    except KafkaError as error:
        _fail(results, error)
    else:
        for acl in acls:
            log.info("%s created ACL: %s", ctx.session.principal, acl)
    return CreateAclsResponse(results=results)


async def _delete(ctx: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    filters = [_filter(acl_filter) for acl_filter in request.filters]
    results = [DeleteAclsFilterResult() for _ in filters]
    valid = []
    for result, acl_filter in zip(results, filters, strict=True):
        if (problem := acl_filter.problem()) is not None:
            result.error_code = ErrorCode.INVALID_REQUEST
            result.error_message = problem
        else:
            valid.append((result, acl_filter))
    try:
        found = await ctx.broker.settings.delete_acls([acl_filter for _, acl_filter in valid])
    except KafkaError as error:
        _fail([result for result, _ in valid], error)
        return DeleteAclsResponse(filter_results=results)
    for (result, _), acls in zip(valid, found, strict=True):
        result.matching_acls = [
            DeleteAclsMatchingAcl(
                resource_type=acl.resource,
                resource_name=acl.name,
                pattern_type=acl.pattern,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in acls
        ]
        for acl in acls:
            log.info("%s deleted ACL: %s", ctx.session.principal, acl)
    return DeleteAclsResponse(filter_results=results)


def _fail(results: list[Any], error: KafkaError) -> None:
    for result in results:
        if not result.error_code:
            result.error_code = error.code
            result.error_message = error.message or None
