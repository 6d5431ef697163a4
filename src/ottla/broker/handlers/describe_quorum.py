"""DescribeQuorum (key 55), v0 to v2 (KIP-595).

There is no KRaft quorum, so the response is an error that says where the metadata is kept. Kafka's
tools print that message (the response has a field for it from v2 on).
"""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse


def handle(ctx: RequestContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    connect = ctx.broker.config.zookeeper_connect
    place = "in ZooKeeper" if connect else "in a journal in this broker's first log directory"
    return DescribeQuorumResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        error_message=f"This cluster has no KRaft quorum: its metadata is kept {place}.",
    )
