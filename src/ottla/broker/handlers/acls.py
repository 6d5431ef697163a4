"""DescribeAcls (key 29), CreateAcls (key 30) and DeleteAcls (key 31), v1 to v3.

There is no authorizer, so each is answered as Kafka answers without one: SECURITY_DISABLED.
"""

from __future__ import annotations

from ottla.broker.context import Context
from ottla.errors import ErrorCode
from ottla.wire.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from ottla.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

CODE = ErrorCode.SECURITY_DISABLED
MESSAGE = "No Authorizer is configured."

Request = DescribeAclsRequest | CreateAclsRequest | DeleteAclsRequest
Response = DescribeAclsResponse | CreateAclsResponse | DeleteAclsResponse


def handle(ctx: Context, request: Request) -> Response:
    if isinstance(request, DescribeAclsRequest):
        return DescribeAclsResponse(error_code=CODE, error_message=MESSAGE)
    if isinstance(request, CreateAclsRequest):
        refused = AclCreationResult(error_code=CODE, error_message=MESSAGE)
        return CreateAclsResponse(results=[refused] * len(request.creations))
    none_found = DeleteAclsFilterResult(error_code=CODE, error_message=MESSAGE)
    return DeleteAclsResponse(filter_results=[none_found] * len(request.filters))
