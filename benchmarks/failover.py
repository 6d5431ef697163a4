"""How long a partition takes no records after its leader was killed.

Two clients measure it at once: a prober that asks the survivors for the leader every few
milliseconds and sends it a record with acks=all (what the brokers can do), and librdkafka with its
own settings and one record sent right after the kill (what an application sees).
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from confluent_kafka import KafkaError as DeliveryError
from confluent_kafka import Message, Producer

from benchmarks.clusters import Cluster, Node
from benchmarks.probe import LINE_TIMEOUT_S, metadata, open_line, produce
from ottla.client.protocol.connection import BrokerConnection
from ottla.errors import KafkaError

LOOK_EVERY_S = 0.005
FAILOVER_S_MAX = 120.0


@dataclass(frozen=True, slots=True)
class Failover:
    brokers_s: float
    """Until the prober had its first acknowledgement."""
    client_s: float
    """Until librdkafka had."""


def fail_over(cluster: Cluster, topic: str, victim: int) -> Failover:
    """Kills `victim`, which leads partition 0 of `topic`."""
    survivors = [node for node in cluster.nodes.values() if node.id != victim]
    application = Application(cluster.bootstrap, topic)
    prober = Prober(topic, survivors)
    prober.connect()
    killed_at = time.perf_counter()
    cluster.nodes[victim].kill()
    application.send()
    try:
        brokers_s = prober.first_ack_s(killed_at)
    finally:
        prober.close()
    return Failover(brokers_s, application.acked_at(killed_at + FAILOVER_S_MAX) - killed_at)


class Application:
    """A producer with librdkafka's own settings, which is at work before the kill."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
        self._topic = topic
        self._acked_at: list[float] = []
        self.send()
        self.acked_at(time.perf_counter() + LINE_TIMEOUT_S)
        self._acked_at.clear()

    def send(self) -> None:
        self._producer.produce(self._topic, b"application", partition=0, on_delivery=self._told)
        threading.Thread(target=self._producer.flush, args=(FAILOVER_S_MAX,), daemon=True).start()

    def acked_at(self, deadline: float) -> float:
        while not self._acked_at:
            if time.perf_counter() > deadline:
                raise TimeoutError("librdkafka's record was not acknowledged")
            time.sleep(LOOK_EVERY_S)
        return self._acked_at[0]

    def _told(self, error: DeliveryError | None, message: Message) -> None:
        if error is None:
            self._acked_at.append(time.perf_counter())


class Prober:
    """Asks every survivor in turn for the leader, over connections that it keeps."""

    def __init__(self, topic: str, survivors: list[Node]) -> None:
        self._topic = topic
        self._nodes = {node.id: node for node in survivors}
        self._lines: dict[int, BrokerConnection] = {}

    def first_ack_s(self, since: float) -> float:
        while time.perf_counter() - since < FAILOVER_S_MAX:
            for node_id in self._nodes:
                if self._try(node_id):
                    return time.perf_counter() - since
            time.sleep(LOOK_EVERY_S)
        raise TimeoutError(f"no record accepted in {FAILOVER_S_MAX:.0f} s after the kill")

    def connect(self) -> None:
        for node_id in self._nodes:
            self._line(node_id)

    def close(self) -> None:
        for line in self._lines.values():
            line.close()

    def _try(self, node_id: int) -> bool:
        asked = node_id
        try:
            partitions = metadata(self._line(node_id), self._topic).topics[0].partitions
            asked = partitions[0].leader_id if partitions else -1
            return asked in self._nodes and not produce(self._line(asked), self._topic, [0])
        except (KafkaError, OSError):
            for failed in (node_id, asked):
                line = self._lines.pop(failed, None)
                if line is not None:
                    line.close()
            return False

    def _line(self, node_id: int) -> BrokerConnection:
        if node_id not in self._lines:
            self._lines[node_id] = open_line(self._nodes[node_id])
        return self._lines[node_id]
