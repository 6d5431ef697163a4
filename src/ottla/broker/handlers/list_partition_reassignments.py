"""ListPartitionReassignments (key 46), v0.

One broker holds the only replica of everything: no partition is ever on its way to another.
"""

from __future__ import annotations

from ottla.broker.context import Context
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle(
    ctx: Context, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse()
