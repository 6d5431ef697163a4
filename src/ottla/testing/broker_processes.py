"""Brokers as processes of their own, by id."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

from ottla.testing.broker_process import BrokerProcess


class BrokerProcesses:
    """What BrokerThread is for threads."""

    def __init__(self) -> None:
        self._brokers: dict[int, BrokerProcess] = {}

    def start(self) -> None:
        pass

    def start_broker(self, broker_id: int, port: int, properties: Mapping[str, str]) -> None:
        broker = BrokerProcess(properties, port)
        broker.start()
        self._brokers[broker_id] = broker

    def stop_broker(self, broker_id: int) -> None:
        self._brokers.pop(broker_id).stop()

    def kill_broker(self, broker_id: int) -> None:
        """kill -9."""
        self._brokers.pop(broker_id).kill()

    def broker(self, broker_id: int) -> BrokerProcess:
        return self._brokers[broker_id]

    def stop(self) -> None:
        with ExitStack() as stack:  # each of them even if one before it failed
            for broker in self._brokers.values():
                stack.callback(broker.stop)
            self._brokers.clear()
