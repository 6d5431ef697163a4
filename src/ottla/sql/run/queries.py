"""Queries: starts, stops, pauses and reports all queries of a server.

state_dir/queries/<query id>/<step>/   checkpoint/ of a stage that does not share its Spark query;
                                       start.json, position.json, alone/ (see shared_scan.py)
state_dir/shared/<input>/              checkpoint/ and members.json of a shared scan
state_dir/companies/<name>/            of aggregates that share a Spark query (see shared_query.py)
state_dir/push/<query id>/             of push queries, deleted when they end
state_dir/dropped/                     what is being deleted
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import threading
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import quote

from ottla.client.delivery import Setting
from ottla.queries.specification import QuerySpecification
from ottla.queries.states import QueryState, QueryStatus, worst
from ottla.queries.supervisor import SupervisedQuery, Supervisor
from ottla.rows.errors import SqlError
from ottla.spark.checkpoints import Position, read_json, write_json
from ottla.sql.plan.spark_pull import SparkPull
from ottla.sql.plan.stages import QueryPlan, QueryStage, StageInput
from ottla.sql.run.admission import Admission, alone_plan
from ottla.sql.run.frames import member_text
from ottla.sql.run.fused_plan import Candidate, FusedPlan, can_fuse
from ottla.sql.run.push import PushQuery
from ottla.sql.run.query_runtime import QueryRuntime, wants_earliest
from ottla.sql.run.query_topics import QueryTopics
from ottla.sql.run.scan_member import ScanMember
from ottla.sql.run.shared_query import SharedMember
from ottla.sql.run.shared_scan import SharedScan, forget_member
from ottla.sql.run.spark_pull_runner import SparkPullResult, SparkPullRunner
from ottla.sql.run.task_query import TaskQuery
from ottla.sql.syntax.statements import SourceKind

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("ottla.sql")

SERVICE_ID: Final = "default_"
TASKS: Final = "tasks"


@dataclass
class _PersistentQuery:
    """A persistent query; its parts run its stages, in order."""

    id: str
    plan: QueryPlan
    parts: list[_QueryPart] = field(default_factory=list)
    paused: bool = False


class _QueryPart(Protocol):
    """A stage that runs."""

    def state(self) -> QueryState: ...

    def stop(self, *, keep: bool) -> None:
        """Stop and wait. `keep`: it may continue later. TimeoutError: it still runs, so its
        folder must not be deleted."""

    def stop_soon(self) -> None: ...

    def close(self) -> None:
        """The process ends: shared Spark queries keep their members."""

    def retry(self) -> bool:
        """Ask for an early restart; False if it must be started again."""


class _OwnQueryPart:
    """A stage that does not share its Spark query."""

    def __init__(self, query: SupervisedQuery) -> None:
        self.state = query.state
        self.stop_soon = query.stop_soon
        self._query = query
        query.begin()

    def stop(self, *, keep: bool) -> None:
        self._query.stop_or_raise()

    def close(self) -> None:
        self._query.stop()

    def retry(self) -> bool:
        return False


class _SharedScanPart:
    """A stage that is a member of a shared scan."""

    def __init__(
        self, scan: SharedScan, member: ScanMember, emptied: Callable[[SharedScan], None]
    ) -> None:
        self._scan = scan
        self._id = member.id
        self._emptied = emptied
        scan.join(member)

    def state(self) -> QueryState:
        return self._scan.state(self._id)

    def stop(self, *, keep: bool) -> None:
        self._scan.leave(self._id, keep=keep)
        if not self._scan.members:
            self._emptied(self._scan)

    def stop_soon(self) -> None:
        self._scan.close_soon()

    def close(self) -> None:
        self._scan.close()

    def retry(self) -> bool:
        return False


class Queries:
    """Runs queries. `spark` is called when the first one starts, because starting Spark takes
    seconds."""

    def __init__(
        self,
        spark: Callable[[], SparkSession],
        bootstrap_servers: str,
        state_dir: Path | str,
        settings: Mapping[str, Setting] | None = None,
        *,
        service_id: str = SERVICE_ID,
        registry: Mapping[str, str] | None = None,
        processing_log: str = "",
    ) -> None:
        self._dir = Path(state_dir)
        self._cluster = QueryTopics(bootstrap_servers, settings or {}, registry)
        self._cluster.processing_log = processing_log
        self._supervisor = Supervisor("sql")
        triggers = self._supervisor.triggers
        self._runtime = QueryRuntime(spark, self._cluster, service_id, triggers)
        self._lock = threading.RLock()
        self._queries: dict[str, _PersistentQuery] = {}
        self._scans: dict[str, SharedScan] = {}
        self._admission = self._new_admission()
        self._pushes: dict[str, PushQuery] = {}
        self._push_count = 0
        self._pulls = SparkPullRunner(self._runtime)
        for left in ("push", "dropped"):
            shutil.rmtree(self._dir / left, ignore_errors=True)
        self._forget_scanned("")

    # Persistent queries

    def start(self, query_id: str, plan: QueryPlan, *, paused: bool = False) -> None:
        """Start a query, from its checkpoint if it has one. Blocks only for requests to the broker:
        creating topics, and finding the offset of `latest`."""
        with self._lock:
            self._cluster.make_topics(query_id, plan, self._runtime.service_id)
            query = _PersistentQuery(query_id, plan, paused=paused)
            for stage in () if plan.needs_tasks else plan.stages:
                self._starts(query, stage)
                if paused:
                    self._admission.dismiss(_member_id(query_id, stage), keep=True)
            if not paused:
                self._begin(query)
            self._queries[query_id] = query

    def stop(self, query_id: str, *, keep: bool = False) -> None:
        """Stop a query; delete its checkpoint and its internal topics unless `keep` is set."""
        with self._lock:
            query = self._queries.get(query_id)
            if query is None:
                return
            self._end(query, keep=keep)
            del self._queries[query_id]
        if not keep:
            self._drop(self._query_dir(query_id))
            if query.plan.needs_tasks or query.plan.internal_topics:
                self._cluster.delete_internal_topics(query_id, self._runtime.service_id)

    def discard(self, query_id: str) -> None:
        """Delete what is left of a query that was terminated while it did not run here."""
        home = self._query_dir(query_id)
        with self._lock:
            if query_id in self._queries or not home.is_dir():
                return
            for step in [path.name for path in home.iterdir()]:
                self._admission.dismiss(f"{home.name}/{step}", keep=False)
                self._forget_scanned(f"{home.name}/{step}")
            self._drop(home)
        self._cluster.delete_internal_topics(query_id, self._runtime.service_id)
        log.info("Deleted the state of terminated query %s", query_id)

    def pause(self, query_id: str) -> None:
        with self._lock:
            query = self._queries[query_id]
            self._end(query)
            query.paused = True

    def resume(self, query_id: str) -> None:
        """Resume a query that is paused or FAILED."""
        with self._lock:
            query = self._queries[query_id]
            if query.parts and all(part.retry() for part in query.parts):
                return
            self._end(query)
            query.paused = False
            self._begin(query)

    def states(self) -> dict[str, QueryState]:
        """States of all queries; without the lock, so that callers don't wait while a query
        stops."""
        return {query.id: _state(query) for query in list(self._queries.values())}

    def state(self, query_id: str) -> QueryState:
        return _state(self._queries[query_id])

    @property
    def spark_queries(self) -> int:
        """The number of running Spark queries."""
        return self._runtime.triggers.running

    def halt(self) -> None:
        """Stop all persistent queries at once; they can be started again."""
        with self._lock:
            parts = [part for query in self._queries.values() for part in query.parts]
            self._admission.close_soon()
            for part in parts:
                part.stop_soon()
            self._admission.close()
            for part in parts:
                part.close()
            self._admission = self._new_admission()
            self._queries.clear()
            self._scans.clear()

    def close(self) -> None:
        for push in list(self._pushes.values()):
            push.close()
        self.halt()
        self._supervisor.close()

    # Push and pull

    def push(self, plan: QueryPlan, kind: str = "transient") -> PushQuery:
        with self._lock:
            self._push_count += 1
            query_id = f"{kind}_{self._push_count}"
        home = self._dir / "push" / query_id
        home.mkdir(parents=True, exist_ok=True)

        def forget() -> None:
            self._pushes.pop(query_id, None)
            if plan.needs_tasks or plan.internal_topics:
                self._cluster.delete_internal_topics(query_id, self._runtime.service_id)

        self._cluster.make_topics(query_id, plan, self._runtime.service_id)
        query = PushQuery(query_id, plan, home, forget)
        parts: list[SupervisedQuery] = []
        if plan.needs_tasks:
            take = query.take_row
            parts = TaskQuery(query_id, plan, home, self._runtime, self._supervisor, take).parts
        for stage in () if parts else plan.stages:
            sink = query.take if stage is plan.sink_stage else None
            starts = [self._start_of(stage_input, plan) for stage_input in stage.inputs]
            folder = home / stage.step
            made = self._single(
                query_id, stage, starts, folder, plan.properties, sink, watched=True
            )
            parts.append(self._supervisor.supervise(made))
        query.started(parts)
        self._pushes[query_id] = query
        for part in parts:
            part.begin()
        return query

    def pull(
        self, pull: SparkPull, tables: Mapping[str, pa.Table] | None = None
    ) -> SparkPullResult:
        """Run a pull query over `tables` (rows by the name of their source) or over topics."""
        return self._pulls.answer(pull, tables or {})

    # Parts

    def _query_dir(self, query_id: str) -> Path:
        return self._dir / "queries" / quote(query_id, safe="")

    def _drop(self, home: Path) -> None:
        """Delete a folder; rename it first, so that a late task does not write to a folder that is
        half deleted."""
        folder = self._dir / "dropped" / uuid.uuid4().hex
        folder.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            home.rename(folder)
        shutil.rmtree(folder, ignore_errors=True)

    def _begin(self, query: _PersistentQuery) -> None:
        """Start all parts or none, because a retry must not find some of them running."""
        try:
            if query.plan.needs_tasks:
                query.parts.append(self._task_query(query))
                return
            for stage in query.plan.stages:
                query.parts.append(self._part(query, stage))
        except BaseException:
            self._end(query)
            raise

    def _end(self, query: _PersistentQuery, *, keep: bool = True) -> None:
        for part in query.parts:
            part.stop(keep=keep)
        query.parts = []

    def _part(self, query: _PersistentQuery, stage: QueryStage) -> _QueryPart:
        starts = self._starts(query, stage)
        home = self._query_dir(query.id) / stage.step
        if stage.stateless and not stage.output.exploded:
            return self._scanned(query, stage, home, starts[0])
        if can_fuse(stage):
            return self._admission.take(self._shared_member(query, stage, home, starts))
        properties = query.plan.properties
        single = self._single(query.id, stage, starts, home / "checkpoint", properties)
        return _OwnQueryPart(self._supervisor.supervise(single))

    def _task_query(self, query: _PersistentQuery) -> TaskQuery:
        if any(self._start_path(query, stage).exists() for stage in query.plan.stages):
            raise SqlError(
                f"The state of {query.id} is that of Spark's own operators, on which an earlier"
                " version ran this query. It runs on tasks now.",
                remedy="Drop its table with DELETE TOPIC, and create it again.",
            )
        home = self._query_dir(query.id) / TASKS
        made = TaskQuery(query.id, query.plan, home, self._runtime, self._supervisor)
        made.begin()
        return made

    def _shared_member(
        self, query: _PersistentQuery, stage: QueryStage, home: Path, starts: list[Position | None]
    ) -> SharedMember:
        member_id, properties = _member_id(query.id, stage), query.plan.properties
        candidate = Candidate(member_id, stage, stage.output.topic, starts[0] or {})
        checkpoint = home / "checkpoint"

        def begin_with(plan: FusedPlan) -> StreamingQuery:
            return self._runtime.begin_fused(
                candidate.operator,
                plan,
                [member_id],
                checkpoint,
                name=f"{query.id}_{stage.step}",
                properties=properties,
            )

        def alone() -> QuerySpecification:
            plan = alone_plan(home)
            if plan is not None:
                return QuerySpecification(f"{query.id} {stage.step}", partial(begin_with, plan))
            return self._single(query.id, stage, starts, checkpoint, properties)

        return SharedMember(candidate, home, properties, alone)

    def _new_admission(self) -> Admission:
        return Admission(self._dir / "companies", self._runtime, self._supervisor)

    def _scanned(
        self, query: _PersistentQuery, stage: QueryStage, home: Path, start: Position | None
    ) -> _SharedScanPart:
        source, output = stage.inputs[0], stage.output
        member = ScanMember(
            _member_id(query.id, stage),
            self._runtime.topic_of(output, query.id),
            output.layout.to_json(),
            member_text(output),
            home,
            start or {},
            dict(query.plan.properties),
        )
        return _SharedScanPart(self._scan(source), member, self._close_scan)

    def _scan(self, source: StageInput) -> SharedScan:
        text = f"{source.topic}\n{source.kind}\n{source.layout.to_json()}"
        key = hashlib.sha256(text.encode()).hexdigest()[:16]
        if key not in self._scans:
            home = self._dir / "shared" / key
            self._scans[key] = SharedScan(home, source, self._runtime, self._supervisor)
        return self._scans[key]

    def _close_scan(self, scan: SharedScan) -> None:
        scan.close()
        self._scans = {key: found for key, found in self._scans.items() if found is not scan}

    def _forget_scanned(self, member_id: str) -> None:
        """Remove a member from scans that are not open, and scans without members. An open scan
        has dropped it already, when it did not come back with the others."""
        for home in (self._dir / "shared").glob("*"):
            if home.name not in self._scans:
                forget_member(home, member_id)

    def _single(
        self,
        query_id: str,
        stage: QueryStage,
        starts: list[Position | None],
        checkpoint: Path,
        properties: Mapping[str, str],
        sink: Callable[[DataFrame, int], None] | None = None,
        *,
        watched: bool = False,
    ) -> QuerySpecification:
        def begin() -> StreamingQuery:
            return self._runtime.begin_stage(
                stage, query_id, starts, checkpoint, properties, sink, watched=watched
            )

        return QuerySpecification(f"{query_id} {stage.step}", begin)

    def _starts(self, query: _PersistentQuery, stage: QueryStage) -> list[Position | None]:
        """The start of each input. It is stored once, so that `latest` means the query's first
        start."""
        path = self._start_path(query, stage)
        known: list[Any] | None = read_json(path)
        if known is None:
            known = [self._start_of(stage_input, query.plan) for stage_input in stage.inputs]
            write_json(path, known)
        return list(known)

    def _start_path(self, query: _PersistentQuery, stage: QueryStage) -> Path:
        return self._query_dir(query.id) / stage.step / "start.json"

    def _start_of(self, source: StageInput, plan: QueryPlan) -> Position | None:
        """The start of one input; None: the log start offset at the time of reading."""
        if source.internal:
            return None
        earliest = source.kind is SourceKind.TABLE or wants_earliest(plan.properties)
        return self._cluster.position(source.topic, earliest=earliest)


def _member_id(query_id: str, stage: QueryStage) -> str:
    """The id of a member, which is the path of its folder."""
    return f"{quote(query_id, safe='')}/{stage.step}"


def _state(query: _PersistentQuery) -> QueryState:
    if query.paused:
        return QueryState(QueryStatus.PAUSED)
    return worst(part.state() for part in list(query.parts))
