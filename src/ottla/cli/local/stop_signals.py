"""Ctrl-C, SIGTERM and SIGHUP request a stop; another Ctrl-C an immediate one."""

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
    def stopping(self) -> bool:
        return self.count > 0

    @property
    def urgent(self) -> bool:
        return self.count > 1

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._take) for number in SIGNALS}
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
        # A closing terminal may send SIGHUP twice, and `down` sends SIGTERM: only Ctrl-C is urgent.
        if self.count == 0 or number == signal.SIGINT:
            self.count += 1
