"""ScanMember: a stateless stage that takes part in a shared scan, and how it catches up with it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ottla.queries.lifecycle import Report
from ottla.queries.query_run import QueryRun
from ottla.queries.specification import Cancelled, QuerySpecification
from ottla.queries.states import QueryState, State
from ottla.queries.supervisor import Supervisor
from ottla.spark.checkpoints import Checkpoint, Position, read_json
from ottla.sql.plan.stages import Input
from ottla.sql.run.query_runtime import QueryRuntime

CAUGHT_UP_S: Final = 5.0
"""A round of catching up that took no longer is followed by the last one."""
ROUNDS_MAX: Final = 10


@dataclass
class ScanMember:
    """`home` is its own folder, `start` where it wants to begin."""

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
    def alone(self) -> Checkpoint:
        return Checkpoint(self.home / "alone")

    @property
    def unfinished(self) -> bool:
        """Alone, it was stopped in the middle of a batch."""
        return self.alone.exists and not self.alone.at_border

    def where(self) -> Position:
        """What it has to read next: as it went on alone, as it left a scan, or as it began."""
        left: Position | None = read_json(self.home / "position.json")
        return self.alone.position() or left or self.start

    def begin_round(self, runtime: QueryRuntime, source: Input) -> QueryRun:
        """Alone, to the end of the topic as it is now."""
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
    """A member that is behind its scan runs alone, until only little is left. Then `done` is
    called, with the cause if it can't be done at all."""

    def __init__(
        self,
        supervisor: Supervisor,
        runtime: QueryRuntime,
        source: Input,
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
        return QueryState(State.RUNNING) if found.state is State.STOPPED else found

    def stop(self) -> None:
        self._stopping = True
        self._query.stop()

    def start(self, cancelled: Cancelled) -> QueryRun | None:
        self._began_s = time.monotonic()
        return self._member.begin_round(self._runtime, self._source)

    def reported(self, report: Report) -> None:
        if self._stopping:
            return
        if report.state is State.FAILED:
            assert report.failure is not None
            self._done(report.failure.cause)
        elif report.state is State.STOPPED:
            self._rounds += 1
            quick = time.monotonic() - self._began_s < CAUGHT_UP_S
            if quick or self._rounds >= ROUNDS_MAX:
                self._done("")
            else:
                self._query.begin()
