"""The authorizer of this broker: ACLs and super users, and the audit log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ottla.auth.audit import Audit
from ottla.auth.authorizer import AclIndex, Authorizer, parse_super_users
from ottla.cluster.image import MetadataImage, StoredAcls
from ottla.config import ServerConfig

# A handler behind its guard: takes the request's context and its body.
GuardedHandler = Callable[[Any, Any], Any]


class Access:
    """The rules in force. `guarded` holds, by API key, each handler behind its guard."""

    def __init__(
        self,
        config: ServerConfig,
        guarded_handlers: Callable[[Authorizer], Mapping[int, GuardedHandler]],
    ) -> None:
        self.authorizer = Authorizer(
            super_users=parse_super_users(config.super_users),
            allow_if_no_acl=config.allow_everyone_if_no_acl_found,
        )
        self.audit = Audit(config.ottla_authorizer_audit_format)
        self._stored: Mapping[tuple[int, int, str], StoredAcls] | None = None
        self.guarded = dict(guarded_handlers(self.authorizer))

    def apply(self, image: MetadataImage) -> None:
        """Take over the ACLs if they have changed, and drop cached decisions."""
        if image.acls is self._stored:
            return
        self._stored = image.acls
        acls = (acl for stored in image.acls.values() for acl in stored.acls)
        self.authorizer.use(AclIndex(acls))

    def forget(self) -> None:
        """Drop cached decisions."""
        self.authorizer.use(AclIndex(self.authorizer.index.acls))
