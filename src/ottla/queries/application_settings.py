"""What queries that run tasks of the engine go by: a Streams application, a SQL query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.client.delivery import Setting
from ottla.engine.failures import FailureKind, OnFailure
from ottla.engine.task_plan import MEMORY_BYTES_MAX

BATCH_RECORDS_MAX: Final = 200_000


@dataclass(frozen=True, slots=True)
class ApplicationSettings:
    earliest: bool = True
    exactly_once: bool = True
    caching: bool = True
    memory_bytes_max: int = MEMORY_BYTES_MAX
    local_folder: str = ""
    state_place: str = ""
    """Where tasks keep their state, if that is not where the application has its checkpoint."""
    interval_ms: int | None = None
    batch_records_max: int = BATCH_RECORDS_MAX
    replicas: int | None = None
    on_failure: Mapping[FailureKind, OnFailure] = field(default_factory=dict)
    client: Mapping[str, Setting] = field(default_factory=dict)
    """How to reach the brokers: security, mostly."""
    spark: Mapping[str, str] = field(default_factory=dict)
    """Spark's own, by its names: for the session that is started."""
    serdes: Mapping[str, Any] = field(default_factory=dict)
    """For serdes: where the schema registry is, and how to use it."""
