"""Brokers on one event loop, in a thread of this process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, TypeVar

from ottla.broker.broker import Broker
from ottla.clock import SteadyClock
from ottla.cluster.embedded import EmbeddedSession, EmbeddedStore
from ottla.config import ServerConfig
from ottla.net.loop import run as run_loop

STOP_S_MAX: Final = 30.0

T = TypeVar("T")


class BrokerThread:
    """`start`, then any number of brokers, then `stop`; each start needs a new instance.

    With a `journal`, brokers share the metadata store that is kept there; without one a broker is
    alone. The thread is a daemon, so that a cluster that nobody stops does not keep the
    interpreter alive.
    """

    def __init__(self, clock: SteadyClock | None = None, *, journal: Path | None = None) -> None:
        self._clock = clock
        self._journal = journal
        self._store: EmbeddedStore | None = None
        self._brokers: dict[int, Broker] = {}
        self._sessions: dict[int, EmbeddedSession] = {}
        self._started: Future[None] = Future()
        self._stopped: Future[None] = Future()
        self._stop: asyncio.Event
        self._loop: asyncio.AbstractEventLoop
        self._thread = threading.Thread(target=self._run, name="ottla-broker", daemon=True)

    def start(self) -> None:
        self._thread.start()
        try:
            self._started.result()
        except BaseException:
            self._thread.join()
            raise

    @property
    def properties(self) -> dict[str, str]:
        """The properties by which brokers find each other: they meet in this thread."""
        return {}

    def start_brokers(self, wanted: Mapping[int, tuple[int, Mapping[str, str]]]) -> None:
        """Id to port and properties. Raises what keeps a broker from serving."""
        for broker_id, (_, properties) in wanted.items():
            self.wait_for(self._start_broker(broker_id, ServerConfig(properties)))

    def stop_broker(self, broker_id: int) -> None:
        self.wait_for(self._brokers.pop(broker_id).stop())

    def kill_broker(self, broker_id: int) -> None:
        """The broker ends without writing to its files, its clients or the other brokers."""
        self.wait_for(self._brokers.pop(broker_id).crash())

    def expire_session(self, broker_id: int) -> None:
        """End the broker's session, as if the metadata store had not heard from it for too long."""
        self.call(self._sessions[broker_id].expire)

    def broker(self, broker_id: int) -> Broker:
        """The broker; its state belongs to the loop's thread: read it in `call`."""
        return self._brokers[broker_id]

    def call(self, function: Callable[[], T]) -> T:
        """Run the function in the loop's thread, and return its result."""

        async def called() -> T:
            return function()

        return self.wait_for(called())

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def stop(self) -> None:
        """Running brokers are stopped cleanly."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(STOP_S_MAX)
        if self._thread.is_alive():
            raise RuntimeError(f"the broker did not stop in {STOP_S_MAX:.0f} s")
        self._stopped.result()

    def _run(self) -> None:
        try:
            run_loop(self._serve())
        except BaseException as error:
            failed = self._stopped if self._started.done() else self._started
            failed.set_exception(error)
        else:
            self._stopped.set_result(None)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        if self._journal is not None:
            self._store = EmbeddedStore(self._journal, sync=False)
        self._started.set_result(None)
        await self._stop.wait()
        for broker_id in reversed(list(self._brokers)):
            await self._brokers.pop(broker_id).stop()
        if self._store is not None:
            await self._store.close()

    async def _start_broker(self, broker_id: int, config: ServerConfig) -> None:
        session = self._store.session() if self._store is not None else None
        if session is not None:
            self._sessions[broker_id] = session
        broker = Broker(config, clock=self._clock, meta_store=session)
        await broker.start()
        self._brokers[broker_id] = broker
