"""Levels of loggers, asked and set as Kafka Connect does: by log4j's names for them.

Setting a logger's level sets that of all loggers below it that there are.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final

ROOT: Final = "root"
TRACE: Final = 5
OFF: Final = 100

LEVELS: Final = {
    "OFF": OFF,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": TRACE,
    "ALL": 1,
}
_NAMES: Final = sorted(((number, name) for name, number in LEVELS.items()), reverse=True)


class Loggers:
    def __init__(self, now_ms: Callable[[], int] = lambda: int(time.time() * 1000)) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._modified: dict[str, int] = {}

    def all(self) -> dict[str, dict[str, Any]]:
        """Of the loggers that have a level of their own."""
        found = {name: logger for name, logger in _loggers().items() if logger.level}
        return {name: self._told(name, logger) for name, logger in sorted(found.items())}

    def one(self, name: str) -> dict[str, Any] | None:
        logger = _loggers().get(name)
        return self._told(name, logger) if logger else None

    def set(self, name: str, level: str) -> list[str]:
        """The loggers whose level is this one now; a level that nobody knows sets none."""
        number = LEVELS.get(level.upper())
        if number is None:
            return []
        below = {
            each: found
            for each, found in _loggers().items()
            if name == ROOT or each == name or each.startswith(f"{name}.")
        }
        logger = logging.getLogger() if name == ROOT else logging.getLogger(name)
        affected = below or {name: logger}
        with self._lock:
            for each, found in affected.items():
                if found.level != number:
                    self._modified[each] = self._now_ms()
                found.setLevel(number)
            logger.setLevel(number)  # those that come later below it
        return sorted(affected)

    def _told(self, name: str, logger: logging.Logger) -> dict[str, Any]:
        return {
            "level": _name(logger.getEffectiveLevel()),
            "last_modified": self._modified.get(name),
        }


def _loggers() -> dict[str, logging.Logger]:
    known = dict(logging.root.manager.loggerDict)
    named = {name: each for name, each in known.items() if isinstance(each, logging.Logger)}
    return {**named, ROOT: logging.root}


def _name(number: int) -> str:
    """The next lower level that has a name in log4j."""
    return next((name for level, name in _NAMES if number >= level), "ALL")
