"""The lease: who has it, who gets it next, and that nobody stops asking for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.sql.engine import lease as module
from ottla.sql.engine.lease import Lease
from ottla.testing import LocalCluster

WAIT_S = 60.0
LONG_S = 240.0


def until(there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONG_S
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Server:
    def __init__(self, cluster: LocalCluster, *troubles: Exception) -> None:
        self.has = threading.Event()
        self._troubles = list(troubles)
        self._cluster = cluster
        self.lease = Lease(
            cluster.bootstrap_servers,
            topic="commands",
            group="runner",
            changed=self._changed,
            prepare=self._prepare,
        )
        self.lease.start()

    def _changed(self, held: bool) -> None:
        (self.has.set if held else self.has.clear)()

    def _prepare(self) -> None:
        if self._troubles:
            raise self._troubles.pop()
        with self._cluster.admin() as admin:
            if "commands" not in admin.topics.names():
                admin.topics.create("commands", 1)


def test_one_has_it_and_the_next_when_it_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SESSION_MS", 6000)  # no broker allows less
    with LocalCluster() as cluster:
        first = Server(cluster)
        assert first.has.wait(WAIT_S)
        second = Server(cluster)
        assert not second.has.wait(1.0)
        until(lambda: second.lease.cause == module.ANOTHER)
        assert first.lease.cause == ""
        first.lease.close()
        assert not first.has.is_set()
        assert second.has.wait(WAIT_S)
        assert second.lease.cause == ""
        second.lease.close()


def test_who_waits_for_a_broker_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SESSION_MS", 6000)  # no broker allows less
    with LocalCluster() as cluster:
        address = cluster.bootstrap_servers
        server = Server(cluster)
        assert server.has.wait(WAIT_S)
    until(lambda: "no broker answers" in server.lease.cause)
    assert address in server.lease.cause
    assert not server.lease.held
    server.lease.close()


def test_no_trouble_at_the_start_ends_the_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0.05)
    away = KafkaError(ErrorCode.NETWORK_EXCEPTION, "no broker")
    with LocalCluster() as cluster:
        server = Server(cluster, away, ValueError("nobody has thought of this"))
        assert server.has.wait(WAIT_S)
        server.lease.close()
