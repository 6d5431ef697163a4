"""The authorizer of this broker, and the guards in front of its handlers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.auth.audit import Audit
from ottla.auth.authorizer import AclIndex, Authorizer, parse_super_users
from ottla.broker.context import Context, Handler
from ottla.broker.dispatch import ROUTES
from ottla.broker.guards.table import GUARDS
from ottla.cluster.image import Image, StoredAcls
from ottla.config import ServerConfig


class Access:
    """Who may do what here. `guarded` has each API's handler behind its guard."""

    def __init__(self, config: ServerConfig) -> None:
        self.authorizer = Authorizer(
            super_users=parse_super_users(config.super_users),
            allow_if_no_acl=config.allow_everyone_if_no_acl_found,
        )
        self.audit = Audit(config.ottla_authorizer_audit_format)
        self._stored: Mapping[tuple[int, int, str], StoredAcls] | None = None
        self.guarded: dict[int, Handler] = {key: self._guarded(key) for key in ROUTES}

    def apply(self, image: Image) -> None:
        """Take over the rules, if they have changed; decisions of the old ones are forgotten."""
        if image.acls is self._stored:
            return
        self._stored = image.acls
        acls = (acl for stored in image.acls.values() for acl in stored.acls)
        self.authorizer.use(AclIndex(acls))

    def forget(self) -> None:
        """Decide everything once more."""
        self.authorizer.use(AclIndex(self.authorizer.index.acls))

    def _guarded(self, api_key: int) -> Handler:
        authorizer, route, guard = self.authorizer, ROUTES[api_key], GUARDS[api_key]

        def serve(ctx: Context, request: Any) -> Any:
            """HOT."""
            session = ctx.session
            rights = session.rights
            if rights is None or rights.index is not authorizer.index:
                rights = authorizer.rights(session.principal, session.client_host)
                session.rights = rights
            ctx.rights = rights
            ctx.api_key = api_key
            return guard(route.handle, ctx, request)

        return serve
