"""Clients' own metrics (KIP-714): which client pushes which metrics, and how often.

Subscriptions are CLIENT_METRICS resources. Kafka hands pushed metrics to a plug-in. There is none
here, so a push is checked, counted and discarded.
"""

from __future__ import annotations

import logging
import os
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

from ottla.broker.client_session import ClientSession
from ottla.cluster.image import StoredConfig
from ottla.cluster.layout import encode_uuid
from ottla.config.client_metrics import parse_match
from ottla.config.definition import LIST, parse_type
from ottla.config.tables.client_metrics import INTERVAL_MS_DEFAULT
from ottla.errors import ErrorCode, KafkaError
from ottla.records.checksum import crc32c
from ottla.wire.fields import ZERO_UUID

ALL_METRICS: Final = "*"
COMPRESSION_TYPES: Final = (4, 3, 1, 2)  # zstd, lz4, gzip, snappy: the best first, as in Kafka
NONE: Final = 0
CLIENTS_MAX: Final = 16_384  # that are remembered

log = logging.getLogger("ottla.broker")


class TelemetrySubscription:
    """One CLIENT_METRICS resource: which metrics, and of which clients."""

    __slots__ = ("_match", "interval_ms", "metrics")

    def __init__(self, values: Mapping[str, str]) -> None:
        names = parse_type(values.get("metrics", ""), LIST)
        assert isinstance(names, tuple)
        self.metrics = frozenset(filter(None, names))
        self.interval_ms = int(values.get("interval.ms", INTERVAL_MS_DEFAULT))
        self._match: dict[str, re.Pattern[str]] = parse_match(values.get("match", ""))

    def matches(self, traits: Mapping[str, str]) -> bool:
        return all(pattern.fullmatch(traits[key]) for key, pattern in self._match.items())


class ClientInstance:
    """One client instance, and when it asked and pushed last."""

    __slots__ = (
        "id",
        "interval_ms",
        "known",
        "last_error",
        "metrics",
        "pushed_ms",
        "subscribed_ms",
        "subscription_id",
        "terminating",
    )

    def __init__(self, instance_id: bytes) -> None:
        self.id = instance_id
        self.metrics: list[str] = []
        self.interval_ms = INTERVAL_MS_DEFAULT
        self.subscription_id = 0
        self.known: object = None  # the resources that the subscription was computed from
        self.subscribed_ms = self.pushed_ms = 0
        self.last_error = ErrorCode.NONE
        self.terminating = False

    def may_get_subscription(self, now_ms: int) -> bool:
        if now_ms - max(self.subscribed_ms, self.pushed_ms) < self.interval_ms:
            return False
        self.subscribed_ms = now_ms
        return True

    def may_push(self, now_ms: int) -> bool:
        """The first push may come at any time: clients add jitter to it."""
        if self.subscribed_ms <= self.pushed_ms and now_ms - self.pushed_ms < self.interval_ms:
            return False
        self.pushed_ms = now_ms
        return True


class Telemetry:
    """The known client instances. `resources` are always those of the newest image."""

    def __init__(
        self, *, urandom: Callable[[int], bytes] = os.urandom, clients_max: int = CLIENTS_MAX
    ) -> None:
        self._clients_max = clients_max
        self.pushed_count = 0
        self.pushed_bytes = 0
        self._urandom = urandom
        self._resources: Mapping[str, StoredConfig] = {}
        self._subscriptions: list[TelemetrySubscription] = []
        self._instances: OrderedDict[bytes, ClientInstance] = OrderedDict()

    def get_subscription(
        self,
        session: ClientSession,
        client_id: str,
        instance_id: bytes,
        resources: Mapping[str, StoredConfig],
        now_ms: int,
    ) -> ClientInstance:
        """The client's subscription. THROTTLING_QUOTA_EXCEEDED if it asks too often."""
        if instance_id == ZERO_UUID:
            instance_id = self._urandom(16)
        instance = self._instance(session, client_id, instance_id, resources)
        refused = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if not instance.may_get_subscription(now_ms) and instance.last_error not in refused:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        instance.subscribed_ms = now_ms
        instance.last_error = ErrorCode.NONE
        return instance

    def push(
        self,
        session: ClientSession,
        client_id: str,
        instance_id: bytes,
        resources: Mapping[str, StoredConfig],
        *,
        subscription_id: int,
        compression_type: int,
        terminating: bool,
        size: int,
        size_max: int,
        now_ms: int,
    ) -> None:
        """Take metrics from a client; KafkaError if they are refused."""
        if instance_id == ZERO_UUID:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        instance = self._instance(session, client_id, instance_id, resources)
        in_time = instance.may_push(now_ms)
        code = ErrorCode.NONE
        if instance.terminating:
            code = ErrorCode.INVALID_REQUEST
        elif not in_time and not terminating:
            code = ErrorCode.THROTTLING_QUOTA_EXCEEDED
        elif subscription_id != instance.subscription_id:
            code = ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        elif compression_type != NONE and compression_type not in COMPRESSION_TYPES:
            code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        elif size > size_max:
            code = ErrorCode.TELEMETRY_TOO_LARGE
        instance.last_error = code
        if code is not ErrorCode.NONE:
            raise KafkaError(code)
        instance.terminating = terminating
        self.pushed_count += 1
        self.pushed_bytes += size
        log.debug("Client %s pushed %d bytes of metrics, which are discarded", client_id, size)

    def _instance(
        self,
        session: ClientSession,
        client_id: str,
        instance_id: bytes,
        resources: Mapping[str, StoredConfig],
    ) -> ClientInstance:
        instance = self._instances.get(instance_id)
        if instance is None:
            while len(self._instances) >= self._clients_max:
                self._instances.popitem(last=False)
            instance = self._instances[instance_id] = ClientInstance(instance_id)
        self._instances.move_to_end(instance_id)
        if resources is not self._resources:
            self._resources = resources
            self._subscriptions = [
                TelemetrySubscription(resource.values) for resource in resources.values()
            ]
        if instance.known is not resources:
            instance.known = resources
            self._subscribe(instance, _traits(session, client_id, instance_id))
        return instance

    def _subscribe(self, instance: ClientInstance, traits: Mapping[str, str]) -> None:
        """Merge all matching subscriptions: every metric, at the shortest interval."""
        matching = [
            subscription for subscription in self._subscriptions if subscription.matches(traits)
        ]
        metrics = frozenset[str]().union(*(subscription.metrics for subscription in matching))
        instance.metrics = [ALL_METRICS] if ALL_METRICS in metrics else sorted(metrics)
        instance.interval_ms = min(
            [INTERVAL_MS_DEFAULT, *(subscription.interval_ms for subscription in matching)],
        )
        text = f"{instance.metrics}{instance.interval_ms}"
        checksum = crc32c(text.encode() + instance.id)
        instance.subscription_id = checksum - (1 << 32) if checksum >> 31 else checksum


def _traits(session: ClientSession, client_id: str, instance_id: bytes) -> dict[str, str]:
    name, _, version = session.software.partition(" ")
    return {
        "client_instance_id": encode_uuid(instance_id),
        "client_id": client_id,
        "client_software_name": name,
        "client_software_version": version,
        "client_source_address": session.client_host,
        "client_source_port": str(session.client_port),
    }
