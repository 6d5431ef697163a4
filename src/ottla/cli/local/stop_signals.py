"""Ctrl-C, SIGTERM and a closed terminal: the first asks for an end, the second for one at once."""

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
        self.count += 1
