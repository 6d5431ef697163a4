"""GetTelemetrySubscriptions (key 71), v0 (KIP-714).

Tells a client which of its metrics to push and how often, with its client instance id and the
subscription's id. A client that asks again within its push interval gets THROTTLING_QUOTA_EXCEEDED.
"""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.broker.telemetry import COMPRESSION_TYPES
from ottla.errors import KafkaError
from ottla.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)


def handle(
    ctx: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    broker = ctx.broker
    try:
        instance = broker.telemetry.get_subscription(
            ctx.session,
            ctx.client_id or "",
            request.client_instance_id,
            broker.image.client_metrics_configs,
            ctx.now_ms,
        )
    except KafkaError as error:
        return GetTelemetrySubscriptionsResponse(error_code=error.code)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance.id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=list(COMPRESSION_TYPES),
        push_interval=instance.interval_ms,
        telemetry_max_bytes=broker.config.telemetry_max_bytes,
        delta_temporality=True,
        requested_metrics=instance.metrics,
    )
