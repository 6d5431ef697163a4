"""The page /metrics, rendered on request from the state of the broker's parts.

It is rendered on the broker's loop, some lines at a time, so that a broker with very many
partitions serves its clients in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import ottla
from ottla.broker.metrics import cluster, coordinators, partitions, process, replication
from ottla.broker.metrics.metered_application import MeteredApplication
from ottla.broker.metrics.partition_changes import PartitionChangeCounts
from ottla.metrics import CONTENT_TYPE, MetricFamily, Sample, gauge, lines
from ottla.net.pages import Page, PageServer

if TYPE_CHECKING:
    from ottla.broker.parts import BrokerParts
    from ottla.net.channel import RequestHandler

PATH: Final = "/metrics"
LINES_PER_TURN: Final = 200
RUNNING: Final = 3  # Kafka's BrokerState.RUNNING


class MetricsPage:
    """A broker's metrics page. The broker's server gets `app` in place of the broker."""

    def __init__(self, application: RequestHandler, broker: BrokerParts) -> None:
        """`application` serves clients; its parts say the rest."""
        self._broker = broker
        self.app = MeteredApplication(application, broker)
        self._changes: PartitionChangeCounts | None = None
        self._server = PageServer({PATH: self._page})

    async def start(self, host: str, port: int) -> int:
        """Serve the page; returns the port. Call this after the metadata is loaded."""
        broker = self._broker
        self._changes = PartitionChangeCounts(broker.node_id, broker.image)
        broker.metadata.add_listener(self._changes.apply)
        return await self._server.start(host, port)

    async def stop(self) -> None:
        await self._server.stop()

    async def _page(self) -> Page:
        text: list[str] = []
        due = LINES_PER_TURN
        for family in self.families():
            for line in lines(family):
                text.append(line)
                if len(text) >= due:
                    due = len(text) + LINES_PER_TURN
                    await asyncio.sleep(0)
        return Page(CONTENT_TYPE, "".join(text).encode())

    def families(self) -> Iterator[MetricFamily]:
        broker = self._broker
        yield _about(broker)
        yield gauge("kafka_server_kafkaserver_brokerstate", "3: the broker is running.", RUNNING)
        yield from partitions.partition_families(broker)
        if self._changes is not None:
            yield from self._changes.families()
        yield from replication.replication_families(broker)
        yield from cluster.cluster_families(broker)
        if broker.session_state is not None:
            yield from cluster.session_families(broker.session_state)
        yield from self.app.families()
        yield from coordinators.coordinator_families(broker)
        yield from process.process_families()


def _about(broker: BrokerParts) -> MetricFamily:
    labels = {
        "version": ottla.__version__,
        "cluster_id": broker.image.cluster_id,
        "node_id": str(broker.node_id),
    }
    return MetricFamily(
        "ottla_info", "gauge", "Version and ids of the broker.", (Sample(labels, 1),)
    )
