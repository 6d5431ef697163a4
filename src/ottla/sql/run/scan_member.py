"""ScanMember: a stateless stage in a shared scan, and how it catches up with the scan."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ottla.queries.lifecycle import StatusReport
from ottla.queries.query_run import QueryRun
from ottla.queries.specification import Cancelled, QuerySpecification
from ottla.queries.states import QueryState, QueryStatus
from ottla.queries.supervisor import Supervisor
from ottla.spark.checkpoints import Position, QueryCheckpoint, read_json
from ottla.sql.plan.stages import StageInput
from ottla.sql.run.query_runtime import QueryRuntime

CAUGHT_UP_S: Final = 5.0
"""After a catch-up round this short, the next one is the last."""
ROUNDS_MAX: Final = 10


@dataclass
class ScanMember:
    """A member of a scan. `home` is its own folder, `start` its first position."""

    id: str
    topic: str
    layout: str
    text: str
    home: Path
    start: Position
    properties: dict[str, str] = field(default_factory=dict)

    def entry(self, begins: dict[str, int]) -> dict[str, Any]:
        return {
            "id": self.id,
            "topic": self.topic,
            "layout": self.layout,
            "text": self.text,
            "from": begins,
        }

    def differs(self, entry: dict[str, Any]) -> bool:
        return any(entry[name] != getattr(self, name) for name in ("topic", "layout", "text"))

    @property
    def alone(self) -> QueryCheckpoint:
        return QueryCheckpoint(self.home / "alone")

    @property
    def unfinished(self) -> bool:
        """It was stopped in the middle of a batch while it ran alone."""
        return self.alone.exists and not self.alone.at_border

    def where(self) -> Position:
        """Its next position: that of its checkpoint, that at which it left a scan, or its start."""
        left: Position | None = read_json(self.home / "position.json")
        return self.alone.position() or left or self.start

    def begin_round(self, runtime: QueryRuntime, source: StageInput) -> QueryRun:
        """Start a separate run to the current end of the topic."""
        query = runtime.begin_members(
            source,
            [self.entry({})],
            self.where(),
            self.alone.path,
            name=f"catch_up_{self.id}",
            available_now=True,
            properties=self.properties,
        )
        return QueryRun(query, finite=True)


class CatchUp(QuerySpecification):
    """Runs a member alone while it is far behind its scan. `done` is called when it has nearly
    caught up, or with the cause if it failed."""

    def __init__(
        self,
        supervisor: Supervisor,
        runtime: QueryRuntime,
        source: StageInput,
        member: ScanMember,
        done: Callable[[str], None],
    ) -> None:
        super().__init__(f"{member.id} (catches up)")
        self._runtime = runtime
        self._source = source
        self._member = member
        self._done = done
        self._rounds = 0
        self._began_s = 0.0
        self._stopping = False
        self._query = supervisor.supervise(self)
        self._query.begin()

    @property
    def state(self) -> QueryState:
        found = self._query.state()
        return QueryState(QueryStatus.RUNNING) if found.state is QueryStatus.STOPPED else found

    def stop(self) -> None:
        self._stopping = True
        self._query.stop()

    def start(self, cancelled: Cancelled) -> QueryRun | None:
        self._began_s = time.monotonic()
        return self._member.begin_round(self._runtime, self._source)

    def reported(self, report: StatusReport) -> None:
        if self._stopping:
            return
        if report.state is QueryStatus.FAILED:
            assert report.failure is not None
            self._done(report.failure.cause)
        elif report.state is QueryStatus.STOPPED:
            self._rounds += 1
            quick = time.monotonic() - self._began_s < CAUGHT_UP_S
            if quick or self._rounds >= ROUNDS_MAX:
                self._done("")
            else:
                self._query.begin()
