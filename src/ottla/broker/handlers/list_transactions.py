"""ListTransactions (key 66), v0 to v2.

Lists the transactional ids that this broker coordinates, with the states of their transactions
(KIP-664).

v1  a filter by duration (KIP-994)      v2  a filter by a pattern of ids (KIP-1152)
"""

from __future__ import annotations

from ottla.auth.acls import AclOperation, AclResource
from ottla.broker.request_context import RequestContext
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse


def handle(ctx: RequestContext, request: ListTransactionsRequest) -> ListTransactionsResponse:
    def visible(transactional_id: str) -> bool:
        described = (AclOperation.DESCRIBE, AclResource.TRANSACTIONAL_ID, transactional_id)
        return ctx.may(*described, quiet=True)

    coordinator = ctx.broker.transactions.coordinator
    return coordinator.list_transactions(request, now_ms=ctx.now_ms, visible=visible)
