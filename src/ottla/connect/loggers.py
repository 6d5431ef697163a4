"""Logger levels, read and set as in Kafka Connect's /admin/loggers: by log4j's names.

Setting a logger's level also sets the level of all existing loggers below it.
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
        """The loggers that have an explicit level."""
        found = {name: logger for name, logger in _loggers().items() if logger.level}
        return {name: self._described(name, logger) for name, logger in sorted(found.items())}

    def one(self, name: str) -> dict[str, Any] | None:
        logger = _loggers().get(name)
        return self._described(name, logger) if logger else None

    def set(self, name: str, level: str) -> list[str]:
        """Returns the loggers that were set; an unknown level sets none."""
        number = LEVELS.get(level.upper())
        if number is None:
            return []
        below = {
            logger_name: found
            for logger_name, found in _loggers().items()
            if name == ROOT or logger_name == name or logger_name.startswith(f"{name}.")
        }
        logger = logging.getLogger() if name == ROOT else logging.getLogger(name)
        affected = below or {name: logger}
        with self._lock:
            for logger_name, found in affected.items():
                if found.level != number:
                    self._modified[logger_name] = self._now_ms()
                found.setLevel(number)
            logger.setLevel(number)  # inherited by loggers that are created later
        return sorted(affected)

    def _described(self, name: str, logger: logging.Logger) -> dict[str, Any]:
        return {
            "level": _name(logger.getEffectiveLevel()),
            "last_modified": self._modified.get(name),
        }


def _loggers() -> dict[str, logging.Logger]:
    known = dict(logging.root.manager.loggerDict)
    named = {name: logger for name, logger in known.items() if isinstance(logger, logging.Logger)}
    return {**named, ROOT: logging.root}


def _name(number: int) -> str:
    """The closest lower level that log4j has a name for."""
    return next((name for level, name in _NAMES if number >= level), "ALL")
