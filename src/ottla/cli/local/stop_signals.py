"""Ctrl-C, SIGTERM and a closed terminal ask for an end; a Ctrl-C after it for one at once."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Any, Final, Self

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopSignals:
    def __init__(self) -> None:
        self.count = 0
        self._before: dict[signal.Signals, Any] = {}

    @property
    def asked(self) -> bool:
        return self.count > 0

    @property
    def urgent(self) -> bool:
        return self.count > 1

    def __enter__(self) -> Self:
        self._before = {each: signal.signal(each, self._take) for each in SIGNALS}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _take(self, number: int, frame: FrameType | None) -> None:
        # A terminal that closes may say so twice, and `down` sends SIGTERM: only Ctrl-C is urgent.
        if self.count == 0 or number == signal.SIGINT:
            self.count += 1
