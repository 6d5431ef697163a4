"""The pieces that a guard is made of.

A guard looks at a request before its handler does. `RequestRight` lets it pass or refuses it as a
whole. `PieceRight` takes out of it what the client may not touch; the handler sees the rest, and
the response gets an error for each piece that was taken out. `Asks` stands for an API whose handler
asks by itself (`ctx.may`), because only it knows what there is to leave out.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from types import CoroutineType
from typing import Any, Final

from ottla.auth.acls import CLUSTER_NAME, AclOperation, AclResource
from ottla.broker.context import Context, Handler
from ottla.errors import ErrorCode
from ottla.wire.apis import APIS

CODES: Final = {
    AclResource.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    AclResource.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    AclResource.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    AclResource.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    AclResource.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
MESSAGES: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "Delegation Token authorization failed.",
}

Refuse = Callable[[Any, ErrorCode], Any]
"""A whole response, of a request and the code of why it is refused."""
Denied = Callable[[Any, ErrorCode], Any]
"""A piece of a response, of the piece of a request that was taken out."""
Step = Callable[[Context, Any, list[tuple[str, list[Any]]]], Any]
"""Refuses (a response), or takes out (adds to the list), or does nothing."""


def free(handle: Handler, ctx: Context, request: Any) -> Any:
    """Nothing is asked for: everybody may."""
    return handle(ctx, request)


class Asks:
    """The handler asks by itself."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __call__(self, handle: Handler, ctx: Context, request: Any) -> Any:
        return handle(ctx, request)


class ApiGuard:
    """Steps in order, then the handler."""

    def __init__(self, *steps: Step) -> None:
        self._steps = steps

    def __call__(self, handle: Handler, ctx: Context, request: Any) -> Any:
        taken: list[tuple[str, list[Any]]] = []
        for step in self._steps:
            refused = step(ctx, request, taken)
            if refused is not None:
                return refused
        if not taken:
            return handle(ctx, request)
        return later(handle(ctx, request), lambda response: _with_denied(response, taken))


class RequestRight:
    """One operation on one resource, or one of several alternatives."""

    def __init__(
        self,
        operation: AclOperation,
        resource: AclResource,
        name: str = "",
        *,
        refuse: Refuse | None = None,
        or_else: tuple[AclOperation, AclResource] | None = None,
    ) -> None:
        """`name` is the request's attribute with the resource's name; a cluster has one only."""
        self._operation = operation
        self._resource = resource
        self._name = name
        self._refuse = refuse
        self._or_else = or_else
        self._code = CODES[resource]

    def __call__(self, ctx: Context, request: Any, taken: list[tuple[str, list[Any]]]) -> Any:
        name = getattr(request, self._name) if self._name else CLUSTER_NAME
        quiet = self._or_else is not None
        if name is None or ctx.may(self._operation, self._resource, name, quiet=quiet):
            return None
        if self._or_else is not None and ctx.may(*self._or_else):
            return None
        if self._refuse is not None:
            return self._refuse(request, self._code)
        return refused(ctx, self._code)


class PieceRight:
    """One operation on each of the request's pieces."""

    def __init__(
        self,
        operation: AclOperation,
        resource: AclResource,
        denied: Denied,
        *,
        pieces: str = "topics",
        name: str = "name",
        into: str = "topics",
        unless: tuple[AclOperation, AclResource] | None = None,
        asks_when_empty: bool = False,
    ) -> None:
        """`denied` makes a piece of the response's `into` of each piece that is taken out.

        The handler is not asked when nothing is left, unless it has more to say (a session).
        """
        self._operation = operation
        self._resource = resource
        self._denied = denied
        self._pieces = pieces
        self._name = name
        self._into = into
        self._unless = unless
        self._asks_when_empty = asks_when_empty
        self._code = CODES[resource]

    def __call__(self, ctx: Context, request: Any, taken: list[tuple[str, list[Any]]]) -> Any:
        pieces: Sequence[Any] | None = getattr(request, self._pieces)
        if not pieces or (self._unless is not None and ctx.may(*self._unless, quiet=True)):
            return None
        allowed: list[Any] = []
        denied: list[Any] = []
        for piece in pieces:
            name = piece if isinstance(piece, str) else topic_name(ctx, piece, self._name)
            if name is None or ctx.may(self._operation, self._resource, name):
                allowed.append(piece)  # an id that no topic has is the handler's to refuse
            else:
                denied.append(self._denied(piece, self._code))
        if not denied:
            return None
        if not allowed and not self._asks_when_empty:  # to many an empty list means everything
            response: Any = response_type(ctx)()
            setattr(response, self._into, denied)
            return response
        setattr(request, self._pieces, allowed)
        taken.append((self._into, denied))
        return None


def topic_name(ctx: Context, piece: Any, attribute: str = "name") -> str | None:
    """By name, or by id in the versions that have ids; None if no topic has the id."""
    name: str | None = getattr(piece, attribute, None)
    if name or not hasattr(piece, "topic_id"):
        return name or ""
    return ctx.broker.image.topic_name(piece.topic_id) or None


def response_type(ctx: Context) -> Any:
    return APIS[ctx.api_key].response


def refused(ctx: Context, code: ErrorCode) -> Any:
    """A response that has nothing but the error, and the words for it where it has room."""
    response = response_type(ctx)(error_code=code)
    if hasattr(response, "error_message"):
        response.error_message = MESSAGES[code]
    return response


def later(answer: Any, finish: Callable[[Any], Any]) -> Any:
    """`finish` of what a handler answers, now or when it comes; None stays None."""
    if answer is None:
        return None
    if isinstance(answer, asyncio.Future | CoroutineType) or inspect.isawaitable(answer):
        return _finish_later(answer, finish)
    return finish(answer)


async def _finish_later(answer: Any, finish: Callable[[Any], Any]) -> Any:
    return finish(await answer)


def _with_denied(response: Any, taken: list[tuple[str, list[Any]]]) -> Any:
    if getattr(response, "error_code", ErrorCode.NONE) != ErrorCode.NONE:
        return response  # the request failed as a whole
    for into, denied in taken:
        getattr(response, into).extend(denied)
    return response
