"""The steps of an API's authorization, which run before its handler.

`RequestStep` passes a request or refuses it as a whole. `ItemStep` removes the items that the
client may not access; the handler gets the rest, and the response gets an error for each removed
item. `AuthorizedByHandler` stands for an API whose handler calls `ctx.may` itself, because only the
handler knows what to leave out of the response.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from types import CoroutineType
from typing import Any, Final

from ottla.auth.acls import CLUSTER_NAME, AclOperation, AclResource
from ottla.broker.request_context import Handler, RequestContext
from ottla.errors import ErrorCode
from ottla.wire.apis import APIS

DENIED_CODES: Final = {
    AclResource.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    AclResource.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    AclResource.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    AclResource.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    AclResource.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
DENIED_MESSAGES: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "Delegation Token authorization failed.",
}

Refuse = Callable[[Any, ErrorCode], Any]
"""Makes the whole response to a refused request."""
Denied = Callable[[Any, ErrorCode], Any]
"""Makes the item of the response for a removed item of the request."""
AuthorizationStep = Callable[[RequestContext, Any, list[tuple[str, list[Any]]]], Any]
"""Returns a response to refuse the request; appends the errors of removed items to the list."""


def unrestricted(handle: Handler, ctx: RequestContext, request: Any) -> Any:
    """No right is required."""
    return handle(ctx, request)


class AuthorizedByHandler:
    """The handler checks the rights itself; `what` describes them."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __call__(self, handle: Handler, ctx: RequestContext, request: Any) -> Any:
        return handle(ctx, request)


class ApiAuthorization:
    """The steps in order, then the handler."""

    def __init__(self, *steps: AuthorizationStep) -> None:
        self._steps = steps

    def __call__(self, handle: Handler, ctx: RequestContext, request: Any) -> Any:
        denied_items: list[tuple[str, list[Any]]] = []
        for step in self._steps:
            response = step(ctx, request, denied_items)
            if response is not None:
                return response
        if not denied_items:
            return handle(ctx, request)
        return map_response(
            handle(ctx, request), lambda response: _with_denied(response, denied_items)
        )


class RequestStep:
    """Requires one operation on one resource, or an alternative."""

    def __init__(
        self,
        operation: AclOperation,
        resource: AclResource,
        name: str = "",
        *,
        refuse: Refuse | None = None,
        or_else: tuple[AclOperation, AclResource] | None = None,
    ) -> None:
        """`name` is the request's attribute with the resource's name; '' for the cluster."""
        self._operation = operation
        self._resource = resource
        self._name = name
        self._refuse = refuse
        self._or_else = or_else
        self._code = DENIED_CODES[resource]

    def __call__(
        self, ctx: RequestContext, request: Any, denied_items: list[tuple[str, list[Any]]]
    ) -> Any:
        name = getattr(request, self._name) if self._name else CLUSTER_NAME
        quiet = self._or_else is not None
        if name is None or ctx.may(self._operation, self._resource, name, quiet=quiet):
            return None
        if self._or_else is not None and ctx.may(*self._or_else):
            return None
        if self._refuse is not None:
            return self._refuse(request, self._code)
        return refusal(ctx, self._code)


class ItemStep:
    """Requires one operation on each of the request's items."""

    def __init__(
        self,
        operation: AclOperation,
        resource: AclResource,
        denied: Denied,
        *,
        items: str = "topics",
        name: str = "name",
        into: str = "topics",
        unless: tuple[AclOperation, AclResource] | None = None,
        handle_when_empty: bool = False,
    ) -> None:
        """`denied` makes an item of the response's list `into` for each removed item.

        The handler does not run when no item is left, unless `handle_when_empty` (for sessions).
        """
        self._operation = operation
        self._resource = resource
        self._denied = denied
        self._items = items
        self._name = name
        self._into = into
        self._unless = unless
        self._handle_when_empty = handle_when_empty
        self._code = DENIED_CODES[resource]

    def __call__(
        self, ctx: RequestContext, request: Any, denied_items: list[tuple[str, list[Any]]]
    ) -> Any:
        items: Sequence[Any] | None = getattr(request, self._items)
        if not items or (self._unless is not None and ctx.may(*self._unless, quiet=True)):
            return None
        allowed: list[Any] = []
        denied: list[Any] = []
        for item in items:
            name = item if isinstance(item, str) else topic_name(ctx, item, self._name)
            if name is None or ctx.may(self._operation, self._resource, name):
                allowed.append(item)  # the handler refuses an id that no topic has
            else:
                denied.append(self._denied(item, self._code))
        if not denied:
            return None
        # The handler must not see an empty list, because to many handlers that means everything.
        if not allowed and not self._handle_when_empty:
            response: Any = response_type(ctx)()
            setattr(response, self._into, denied)
            return response
        setattr(request, self._items, allowed)
        denied_items.append((self._into, denied))
        return None


def topic_name(ctx: RequestContext, item: Any, attribute: str = "name") -> str | None:
    """The topic's name, looked up by its id in versions with ids; None if no topic has the id."""
    name: str | None = getattr(item, attribute, None)
    if name or not hasattr(item, "topic_id"):
        return name or ""
    return ctx.broker.image.topic_name(item.topic_id) or None


def response_type(ctx: RequestContext) -> Any:
    return APIS[ctx.api_key].response


def refusal(ctx: RequestContext, code: ErrorCode) -> Any:
    """A response with only the error, and its message if the response has a field for it."""
    response = response_type(ctx)(error_code=code)
    if hasattr(response, "error_message"):
        response.error_message = DENIED_MESSAGES[code]
    return response


def map_response(answer: Any, finish: Callable[[Any], Any]) -> Any:
    """Apply `finish` to a handler's response, now or when it is available; None stays None."""
    if answer is None:
        return None
    if isinstance(answer, asyncio.Future | CoroutineType) or inspect.isawaitable(answer):
        return _map_later(answer, finish)
    return finish(answer)


async def _map_later(answer: Any, finish: Callable[[Any], Any]) -> Any:
    return finish(await answer)


def _with_denied(response: Any, denied_items: list[tuple[str, list[Any]]]) -> Any:
    if getattr(response, "error_code", ErrorCode.NONE) != ErrorCode.NONE:
        return response  # the request failed as a whole
    for into, denied in denied_items:
        getattr(response, into).extend(denied)
    return response
