"""The levels of this broker's loggers, which clients may read and set (KIP-412).

Kafka's names for levels are not quite Python's; its `root` is our `ottla`, above all others of
ours. Levels that were set last until the broker stops.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ottla.auth.audit import LOGGER as AUDIT
from ottla.broker.config_changes import Alteration, Operation
from ottla.config.definition import invalid_config
from ottla.errors import ErrorCode, KafkaError

OURS = "ottla"
ROOT = "root"
LEVELS = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


def levels() -> dict[str, str]:
    """Every logger of ours with the level that holds for it."""
    known = logging.Logger.manager.loggerDict
    names = [name for name, each in known.items() if isinstance(each, logging.Logger)]
    ours = sorted(name for name in names if name.startswith(OURS + ".") or name == AUDIT)
    return {name: _level_name(_logger(name)) for name in [ROOT, *ours]}


def alter_levels(alterations: Sequence[Alteration], *, validate_only: bool) -> None:
    """Set or reset levels; all of them are checked before one is changed."""
    known = levels()
    for name, kind, text in alterations:
        _check(name, kind, text, known)
    if validate_only:
        return
    for name, kind, text in alterations:
        level = logging.NOTSET if kind == Operation.DELETE else LEVELS[str(text)]
        _logger(name).setLevel(level)


def _check(name: str, kind: int, text: str | None, known: dict[str, str]) -> None:
    if kind not in (Operation.SET, Operation.DELETE):
        verb = Operation(kind).name
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{verb} operation is not allowed for the BROKER_LOGGER resource",
        )
    if name not in known:
        raise invalid_config(f"Logger {name} does not exist!")
    if kind == Operation.DELETE and name == ROOT:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Removing the log level of the {ROOT} logger is not allowed"
        )
    if kind == Operation.SET and text not in LEVELS:
        raise invalid_config(
            f"Cannot set the log level of {name} to {text} as it is not a supported log level."
            f" Valid log levels are {', '.join(sorted(LEVELS))}"
        )


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(OURS if name == ROOT else name)


def _level_name(logger: logging.Logger) -> str:
    effective = logger.getEffectiveLevel()
    return next((name for name, level in LEVELS.items() if level >= effective), "FATAL")
