"""The levels of this broker's loggers, which clients can read and alter (KIP-412).

Kafka's names of levels differ a little from Python's; its `root` stands for our logger `ottla`.
Levels that are set last until the broker stops.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ottla.auth.audit import LOGGER as AUDIT
from ottla.broker.config_alteration import AlterConfigOp, ConfigAlteration
from ottla.config.definition import invalid_config
from ottla.errors import ErrorCode, KafkaError

LOGGER_PREFIX = "ottla"
ROOT_LOGGER = "root"
LEVELS = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


def levels() -> dict[str, str]:
    """Every logger of this broker with its effective level."""
    known = logging.Logger.manager.loggerDict
    names = [name for name, logger in known.items() if isinstance(logger, logging.Logger)]
    ours = sorted(name for name in names if name.startswith(LOGGER_PREFIX + ".") or name == AUDIT)
    return {name: _level_name(_logger(name)) for name in [ROOT_LOGGER, *ours]}


def alter_levels(alterations: Sequence[ConfigAlteration], *, validate_only: bool) -> None:
    """Set or reset levels. All alterations are checked before the first one is applied."""
    known = levels()
    for name, kind, text in alterations:
        _check(name, kind, text, known)
    if validate_only:
        return
    for name, kind, text in alterations:
        level = logging.NOTSET if kind == AlterConfigOp.DELETE else LEVELS[str(text)]
        _logger(name).setLevel(level)


def _check(name: str, kind: int, text: str | None, known: dict[str, str]) -> None:
    if kind not in (AlterConfigOp.SET, AlterConfigOp.DELETE):
        verb = AlterConfigOp(kind).name
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{verb} operation is not allowed for the BROKER_LOGGER resource",
        )
    if name not in known:
        raise invalid_config(f"Logger {name} does not exist!")
    if kind == AlterConfigOp.DELETE and name == ROOT_LOGGER:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Removing the log level of the {ROOT_LOGGER} logger is not allowed",
        )
    if kind == AlterConfigOp.SET and text not in LEVELS:
        raise invalid_config(
            f"Cannot set the log level of {name} to {text} as it is not a supported log level."
            f" Valid log levels are {', '.join(sorted(LEVELS))}"
        )


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(LOGGER_PREFIX if name == ROOT_LOGGER else name)


def _level_name(logger: logging.Logger) -> str:
    effective = logger.getEffectiveLevel()
    return next((name for name, level in LEVELS.items() if level >= effective), "FATAL")
