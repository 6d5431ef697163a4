"""Brokers in their own processes, by id, with their ZooKeeper."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

from ottla.testing.broker_process import BrokerProcess
from ottla.testing.zookeeper import ZooKeeperEnsemble, ZooKeeperServer


class BrokerProcesses:
    """The counterpart of BrokerThread. With `zookeepers` a cluster, without them one broker."""

    def __init__(self, zookeepers: int = 0, settings: Mapping[str, str] | None = None) -> None:
        """`settings` are a client's, to check whether a broker answers."""
        self._settings = settings or {}
        self.zookeeper: ZooKeeperServer | ZooKeeperEnsemble | None = None
        if zookeepers == 1:
            self.zookeeper = ZooKeeperServer()
        elif zookeepers > 1:
            self.zookeeper = ZooKeeperEnsemble(zookeepers)
        self._brokers: dict[int, BrokerProcess] = {}

    def start(self) -> None:
        if self.zookeeper is not None:
            self.zookeeper.start()

    @property
    def properties(self) -> dict[str, str]:
        """The properties by which brokers find each other."""
        return {"zookeeper.connect": self.zookeeper.connect} if self.zookeeper is not None else {}

    def start_brokers(self, wanted: Mapping[int, tuple[int, Mapping[str, str]]]) -> None:
        """Id to port and properties; all start at once, because each takes its time."""
        started = {}
        for broker_id, (port, properties) in wanted.items():
            started[broker_id] = BrokerProcess(properties, port, settings=self._settings)
            started[broker_id].launch()
            self._brokers[broker_id] = started[broker_id]
        for broker_id, broker in started.items():
            try:
                broker.wait_until_it_answers()
            except BaseException:
                del self._brokers[broker_id]
                raise

    def stop_broker(self, broker_id: int) -> None:
        self._brokers.pop(broker_id).stop()

    def kill_broker(self, broker_id: int) -> None:
        """kill -9."""
        self._brokers.pop(broker_id).kill()

    def broker(self, broker_id: int) -> BrokerProcess:
        return self._brokers[broker_id]

    def stop(self) -> None:
        """In reverse order; each one is stopped even if another one fails to."""
        with ExitStack() as stack:
            if self.zookeeper is not None:
                stack.callback(self.zookeeper.close)
            for broker in self._brokers.values():
                stack.callback(broker.stop)
            self._brokers.clear()
