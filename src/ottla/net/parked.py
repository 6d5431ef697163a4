"""An answer that waits for more to come, and can be had at once.

A connection's requests are answered one after the other. When the next one arrives behind a parked
answer, that is made to hurry: so a follower whose fetch waits for records can say what is new.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class Parked(asyncio.Future[Any]):
    """`hurry` gives it its result now."""

    def __init__(self, hurry: Callable[[], None], *, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self.hurry = hurry
