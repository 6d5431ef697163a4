"""The lease: its holder, its next holder, and retries."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

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
            session_ms=6000,  # no broker allows less
            retry_s=0.05,
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


def test_one_server_holds_the_lease_and_passes_it_on() -> None:
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


def test_the_cause_is_that_no_broker_is_available() -> None:
    with LocalCluster() as cluster:
        address = cluster.bootstrap_servers
        server = Server(cluster)
        assert server.has.wait(WAIT_S)
    until(lambda: "no broker is available" in server.lease.cause)
    assert address in server.lease.cause
    assert not server.lease.held
    server.lease.close()


def test_errors_at_the_start_are_retried() -> None:
    away = KafkaError(ErrorCode.NETWORK_EXCEPTION, "no broker")
    with LocalCluster() as cluster:
        server = Server(cluster, away, ValueError("unexpected"))
        assert server.has.wait(WAIT_S)
        server.lease.close()
