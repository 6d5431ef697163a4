"""The chain: a source record -> bytes for a topic; bytes of a topic -> a sink record.

`Chain(config, ...)` holds converters, header converter, transforms with their predicates, and what
the errors.* settings say. It does no I/O: dead letters are handed to a callable, waiting for a
retry is an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ottla.spark.connect.data import SinkRecord, SourceRecord

Headers = tuple[tuple[str, bytes | None], ...]


class ConsumedRow(NamedTuple):
    """A record of a topic, as it was read."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class ProducedRow(NamedTuple):
    """A record for a topic; partition None: by the key, timestamp None: now."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    timestamp: int | None
    headers: Headers = ()


class Chain:
    """For one task. `config` is the connector's, `worker` has the converters it may leave out."""

    def __init__(
        self,
        config: Mapping[str, str],
        *,
        connector: str,
        task: int = 0,
        worker: Mapping[str, str] | None = None,
        on_dead_letter: Callable[[ProducedRow], None] | None = None,
        sleep: Callable[[float], None] | None = None,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        raise NotImplementedError

    def source(self, record: SourceRecord) -> ProducedRow | None:
        """None: a transform left it out, or it is bad and errors are tolerated."""
        raise NotImplementedError

    def sink(self, row: ConsumedRow) -> SinkRecord | None:
        """None: a transform left it out, or it is bad and errors are tolerated."""
        raise NotImplementedError

    def sinks(self, rows: Iterable[ConsumedRow]) -> list[SinkRecord]:
        """Those of the rows that come through, in order."""
        raise NotImplementedError

    def report(self, record: SinkRecord, error: Exception) -> None:
        """A sink task could not write this one: what its errant_record_reporter calls."""
        raise NotImplementedError

    @property
    def reports(self) -> bool:
        """Whether a sink task is given an errant record reporter."""
        raise NotImplementedError

    def retried(self, operation: Callable[[], Any]) -> Any:
        """Runs it; RetriableException is tried again as errors.retry.* say (poll and put)."""
        raise NotImplementedError

    def close(self) -> None:
        """Ends the transforms."""
        raise NotImplementedError
