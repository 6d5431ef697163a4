"""The handlers behind their authorization, as a broker with an authorizer calls them."""

from __future__ import annotations

from typing import Any

from ottla.auth.authorizer import Authorizer
from ottla.broker.authorization.api_authorizations import API_AUTHORIZATIONS
from ottla.broker.dispatch import ROUTES
from ottla.broker.request_context import Handler, RequestContext


def guarded_handlers(authorizer: Authorizer) -> dict[int, Handler]:
    """The handlers that check rights before they serve, by API key."""
    return {key: _guarded(authorizer, key) for key in ROUTES}


def _guarded(authorizer: Authorizer, api_key: int) -> Handler:
    route, authorize = ROUTES[api_key], API_AUTHORIZATIONS[api_key]

    def serve(ctx: RequestContext, request: Any) -> Any:
        """HOT."""
        session = ctx.session
        rights = session.rights
        if rights is None or rights.index is not authorizer.index:
            rights = authorizer.rights(session.principal, session.client_host)
            session.rights = rights
        ctx.rights = rights
        ctx.api_key = api_key
        return authorize(route.handle, ctx, request)

    return serve
