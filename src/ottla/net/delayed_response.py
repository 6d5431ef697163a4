"""A response that waits for more data and can be completed at any time.

A connection's requests are answered in order. When the next one arrives while a response is
delayed, the response is completed with what there is: so a follower whose fetch waits for records
can report its new position.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class DelayedResponse(asyncio.Future[Any]):
    """`complete_now` sets its result."""

    def __init__(
        self, complete_now: Callable[[], None], *, loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(loop=loop)
        self.complete_now = complete_now
