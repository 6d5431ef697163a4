"""The settings of an application that runs the engine's tasks: Streams, or a SQL query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.client.delivery import Setting
from ottla.engine.failures import ExceptionHandler, FailureKind
from ottla.engine.task_plan import MEMORY_BYTES_MAX

BATCH_RECORDS_MAX: Final = 200_000


@dataclass(frozen=True, slots=True)
class ApplicationSettings:
    earliest: bool = True
    exactly_once: bool = True
    caching: bool = True
    memory_bytes_max: int = MEMORY_BYTES_MAX
    local_folder: str = ""
    state_folder: str = ""
    """Where tasks keep their state files, if not beside the application's checkpoints."""
    interval_ms: int | None = None
    batch_records_max: int = BATCH_RECORDS_MAX
    replicas: int | None = None
    on_failure: Mapping[FailureKind, ExceptionHandler] = field(default_factory=dict)
    client: Mapping[str, Setting] = field(default_factory=dict)
    """Client settings for the brokers, mostly security."""
    spark: Mapping[str, str] = field(default_factory=dict)
    """Spark settings for the session, by Spark's names."""
    serdes: Mapping[str, Any] = field(default_factory=dict)
    """Settings of serdes: where the schema registry is, and how to use it."""
