"""The steps of a controlled shutdown in the metadata store, and how long each may take.

Each step only spares the other brokers a wait: without it they find out when our session ends. So a
store that does not answer must not keep the process alive.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from ottla.cluster.store import MetaStoreError, SessionState
from ottla.errors import KafkaError

ANSWER_S_MAX: Final = 5.0  # for each step, while the store is connected
RECONNECT_S_MAX: Final = 0.7  # for the store to come back; with the rest, about a second
LOOK_S: Final = 0.05

log = logging.getLogger("ottla.broker")


class ShutdownSteps:
    """Runs steps in their order; when one gets no answer, the others are skipped."""

    def __init__(self, session_state: Callable[[], SessionState | None]) -> None:
        self._session_state = session_state
        self._silent = False

    async def run(self, name: str, step: Callable[[], Awaitable[None]]) -> None:
        if self._silent:
            return
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(step())
        started = connected = loop.time()
        try:
            while not (await asyncio.wait([task], timeout=LOOK_S))[0]:
                now = loop.time()
                state = self._session_state()
                if state is None or state.connected:
                    connected = now
                if now - connected > RECONNECT_S_MAX or now - started > ANSWER_S_MAX:
                    self._silent = True
                    log.warning(
                        "%s skipped: no answer from the metadata store in %.0f s",
                        name,
                        now - started,
                    )
                    return
            task.result()
        except (KafkaError, MetaStoreError) as error:
            log.warning("%s failed: %s", name, error)
        finally:
            await _end(task)


async def _end(task: asyncio.Future[None]) -> None:
    if not task.done():
        task.cancel()
        await asyncio.wait([task])
