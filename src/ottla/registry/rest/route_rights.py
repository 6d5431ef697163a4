"""The authorization of each route, checked before its handler runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla.auth.acls import AclOperation
from ottla.registry.rest.call import RestCall

RouteRight = Callable[[RestCall], None]
"""RegistryError 40301 if the caller is not authorized."""


def on_subject(operation: AclOperation) -> RouteRight:
    """On the path's subject, and on the one that it is an alias of."""

    def check(call: RestCall) -> None:
        subject = call.subject()
        call.check(operation, subject)
        if (meant := call.state.alias(subject)) != subject:
            call.check(operation, meant)

    return check


def on_scope(operation: AclOperation) -> RouteRight:
    """On the subject or context that has the config or mode; on the registry for the global one."""
    return lambda call: call.check_scope(operation, call.optional_subject())


def on_context(operation: AclOperation) -> RouteRight:
    return lambda call: call.check_scope(operation, call.context())


def nothing(call: RestCall) -> None:
    """Open to every authenticated caller: the answer is about no subject."""


def filtered(call: RestCall) -> None:
    """The handler leaves out what the caller may not see."""


DESCRIBE: Final = on_subject(AclOperation.DESCRIBE)
READ: Final = on_subject(AclOperation.READ)
WRITE: Final = on_subject(AclOperation.WRITE)
DELETE: Final = on_subject(AclOperation.DELETE)
DESCRIBE_CONFIGS: Final = on_scope(AclOperation.DESCRIBE_CONFIGS)
ALTER_CONFIGS: Final = on_scope(AclOperation.ALTER_CONFIGS)
DELETE_CONTEXT: Final = on_context(AclOperation.DELETE)
