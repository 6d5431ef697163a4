"""PushTelemetry (key 72), v0 (KIP-714).

Takes a client's metrics, which are checked and dropped: see broker/telemetry.py. Refused are those
that come too early, too large, compressed in an unknown way, after the last one, or for a
subscription that has changed; the client then asks for its subscription again.
"""

from __future__ import annotations

from ottla.broker.context import Context
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse


def handle(ctx: Context, request: PushTelemetryRequest) -> PushTelemetryResponse:
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
