"""Where a test's broker runs: in a thread of this process, or in a process of its own."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.clock import Clock

START_S_MAX: Final = 30.0
STOP_S_MAX: Final = 30.0
POLL_S: Final = 0.01

_LISTENING: Final = re.compile(r"PLAINTEXT://([^\s,]+) ?.*\(started in ")


class ThreadHost:
    """The broker on an event loop of its own, in a thread of its own."""

    def __init__(self, properties: Mapping[str, str], clock: Clock | None) -> None:
        self._properties = properties
        self._clock = clock
        self._started: Future[str] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="ottla-broker", daemon=True)
        self.broker: Broker | None = None

    def start(self) -> str:
        """Returns the bootstrap servers; what kept the broker from starting is raised here."""
        self._thread.start()
        return self._started.result(START_S_MAX)

    def stop(self) -> None:
        if self._loop is not None and self._stopping is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(STOP_S_MAX)
        if self._thread.is_alive():
            raise TimeoutError(f"the broker did not stop in {STOP_S_MAX} s")

    def _run(self) -> None:
        from ottla.net.loop import run

        try:
            run(self._serve())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    async def _serve(self) -> None:
        from ottla.broker.broker import Broker
        from ottla.config import ServerConfig

        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        broker = Broker(ServerConfig.load(None, self._properties), clock=self._clock)
        await broker.start()
        self.broker = broker
        self._started.set_result(broker.bootstrap_servers)
        await self._stopping.wait()
        await broker.stop()


class ProcessHost:
    """The broker as `ottla serve` runs it; it can be killed like a real one."""

    def __init__(self, properties: Mapping[str, str], log: Path) -> None:
        self._properties = properties
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> str:
        words = [
            word
            for name, value in self._properties.items()
            for word in ("--override", f"{name}={value}")
        ]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ottla.cli", "serve", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(os.environ),
            )
        return self._listening(self._process)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(STOP_S_MAX)

    def kill(self) -> None:
        """`kill -9`: no time to write anything down."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(STOP_S_MAX)

    def _listening(self, process: subprocess.Popen[bytes]) -> str:
        """The log says when the broker listens, and where."""
        deadline = time.monotonic() + START_S_MAX
        while time.monotonic() < deadline:
            ended = process.poll() is not None
            text = self._log.read_text(errors="replace")
            found = _LISTENING.search(text)
            if found is not None:
                return found[1]
            if ended:
                raise RuntimeError(f"the broker did not start:\n{text}")
            time.sleep(POLL_S)
        process.kill()
        process.wait()
        raise TimeoutError(f"the broker did not start in {START_S_MAX} s")
