"""A broker on an event loop of its own, in a thread of this process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Final

from ottla.broker.broker import Broker
from ottla.clock import Clock
from ottla.config import ServerConfig
from ottla.net.loop import run as run_loop

STOP_S_MAX: Final = 30.0


class BrokerThread:
    """`start`, then `stop`; a new one for the next start.

    The thread is a daemon, so that a cluster nobody stopped does not keep the interpreter alive.
    """

    def __init__(self, properties: Mapping[str, str], clock: Clock | None = None) -> None:
        self._config = ServerConfig(properties)
        self._clock = clock
        self._started: Future[int] = Future()
        self._stopped: Future[None] = Future()
        self._stop: asyncio.Event
        self._loop: asyncio.AbstractEventLoop
        self._thread = threading.Thread(target=self._run, name="ottla-broker", daemon=True)

    def start(self) -> int:
        """The port, once the broker serves. What keeps it from that is raised here."""
        self._thread.start()
        try:
            return self._started.result()
        except BaseException:
            self._thread.join()
            raise

    def stop(self) -> None:
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
        broker = Broker(self._config, clock=self._clock)
        await broker.start()
        self._started.set_result(broker.port)
        await self._stop.wait()
        await broker.stop()
