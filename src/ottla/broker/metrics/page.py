"""The page /metrics: everything above, asked of the broker's parts when somebody looks.

It is made on the broker's own loop, some lines at a time, so that a broker with very many
partitions serves its clients in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import ottla
from ottla.broker.metrics import cluster, coordinators, partitions, process, replication
from ottla.broker.metrics.changes import Changes
from ottla.broker.metrics.requests import Metered
from ottla.metrics import CONTENT_TYPE, Family, Sample, gauge, lines
from ottla.net.pages import Page, PageServer

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

PATH: Final = "/metrics"
LINES_PER_TURN: Final = 200
RUNNING: Final = 3  # Kafka's number for a broker that serves


class Metrics:
    """A broker's metrics: `app` is what its server serves instead of it."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.app = Metered(broker)
        self._changes: Changes | None = None
        self._server = PageServer({PATH: self._page})

    async def start(self, host: str, port: int) -> int:
        """Serve; returns the port. When this is called the broker knows its cluster."""
        broker = self._broker
        self._changes = Changes(broker.node_id, broker.image)
        broker.metadata.on_image(self._changes.apply)
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

    def families(self) -> Iterator[Family]:
        broker = self._broker
        yield _about(broker)
        yield gauge(
            "kafka_server_kafkaserver_brokerstate", "3: the broker is up and serves.", RUNNING
        )
        yield from partitions.families(broker)
        if self._changes is not None:
            yield from self._changes.families()
        yield from replication.families(broker)
        yield from cluster.families(broker)
        if broker.session_state is not None:
            yield from cluster.session_families(broker.session_state)
        yield from self.app.families()
        yield from coordinators.families(broker)
        yield from process.families()


def _about(broker: Broker) -> Family:
    labels = {
        "version": ottla.__version__,
        "cluster_id": broker.image.cluster_id,
        "node_id": str(broker.node_id),
    }
    return Family("ottla_info", "gauge", "Who this is.", (Sample(labels, 1),))
