"""PushTelemetry (key 72), v0 (KIP-714).

Takes a client's metrics, checks them and drops them (see broker/telemetry.py). A push is refused if
it comes too early or after the terminating one, is too large, has an unknown compression, or is for
a subscription that has changed; the client then asks for its subscription again.
"""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse


def handle(ctx: RequestContext, request: PushTelemetryRequest) -> PushTelemetryResponse:
    broker = ctx.broker
    try:
        broker.telemetry.push(
            ctx.session,
            ctx.client_id or "",
            request.client_instance_id,
            broker.image.client_metrics_configs,
            subscription_id=request.subscription_id,
            compression_type=request.compression_type,
            terminating=request.terminating,
            size=len(request.metrics),
            size_max=broker.config.telemetry_max_bytes,
            now_ms=ctx.now_ms,
        )
    except KafkaError as error:
        return PushTelemetryResponse(error_code=error.code)
    return PushTelemetryResponse(error_code=ErrorCode.NONE)
