"""Authorization of describing and altering configs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ottla.auth.acls import CLUSTER_NAME, AclOperation, AclResource
from ottla.broker.authorization.authorization_steps import (
    DENIED_CODES,
    DENIED_MESSAGES,
    map_response,
)
from ottla.broker.request_context import Handler, RequestContext
from ottla.broker.resources import ConfigResourceType

R = AclResource
CONFIG_RESOURCES = {ConfigResourceType.TOPIC: R.TOPIC, ConfigResourceType.GROUP: R.GROUP}
"""The configs of all other resources require rights on the cluster."""


class ConfigsAuthorization:
    """One operation on each resource whose configs are described or altered."""

    def __init__(self, operation: AclOperation, module: str, result: str, into: str) -> None:
        self._operation = operation
        self._module = import_module(f"ottla.wire.messages.{module}")
        self._result = getattr(self._module, result)
        self._into = into

    def __call__(self, handle: Handler, ctx: RequestContext, request: Any) -> Any:
        denied = []
        allowed = []
        for requested in request.resources:
            resource = CONFIG_RESOURCES.get(requested.resource_type, R.CLUSTER)
            name = CLUSTER_NAME if resource is R.CLUSTER else requested.resource_name
            if ctx.may(self._operation, resource, name):
                allowed.append(requested)
                continue
            code = DENIED_CODES[resource]
            answer = self._result(
                error_code=code,
                error_message=DENIED_MESSAGES[code],
                resource_type=requested.resource_type,
                resource_name=requested.resource_name,
            )
            denied.append(answer)
        if not denied:
            return handle(ctx, request)
        request.resources = allowed

        def merged(response: Any) -> Any:
            getattr(response, self._into).extend(denied)
            return response

        return map_response(handle(ctx, request), merged)
