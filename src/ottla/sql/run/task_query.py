"""TaskQuery: runs a plan with stateful operators on tasks of the engine.

The plan is lowered to one graph (`sql/lowering`), which runs as a Streams application does. Each
sub-topology is a Spark query, which reads topics, passes the records to tasks, and writes their
output, changelogs included, in one transaction per batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.engine.failures import ExceptionHandler, Failure, FailureKind, log_and_continue
from ottla.engine.graph import TopologyError
from ottla.engine.packed_rows import unpack_output_rows
from ottla.engine.records import OutputRow
from ottla.engine.subtopologies import Subtopology
from ottla.queries import application_settings
from ottla.queries.application_settings import ApplicationSettings
from ottla.queries.application_topics import PreparedSubtopology, prepare_application_topics
from ottla.queries.group_progress import GroupProgress
from ottla.queries.specification import QuerySpecification
from ottla.queries.states import QueryState, worst
from ottla.queries.supervisor import Supervisor
from ottla.queries.task_runtime import TaskRuntime
from ottla.rows.errors import SqlError
from ottla.spark.processing_log import ProcessingLog, Unreadable
from ottla.sql.lowering import build_graph
from ottla.sql.lowering.graph_builder import PUSH
from ottla.sql.lowering.push_rows import PushRowReader
from ottla.sql.lowering.user_functions import UserFunctions
from ottla.sql.plan.stages import QueryPlan, StreamStreamJoinNode, application_id
from ottla.sql.run.query_runtime import QueryRuntime, wants_earliest
from ottla.sql.run.query_topics import QueryTopics
from ottla.sql.run.session import send_by_value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ALL_RECORDS: Final = 2**31 - 1
TAKEN: Final = "rows"
"""The column of cells."""

TakeRow = Callable[[tuple[Any, ...], bool], None]
"""Takes a row of a push query, and whether it is a tombstone."""


def _log_and_skip(cluster: QueryTopics) -> ExceptionHandler:
    log = ProcessingLog(cluster.bootstrap_servers, cluster.settings, cluster.processing_log)

    def handle(failure: Failure) -> Iterable[OutputRow]:
        row = failure.row
        if row is not None:
            topic, cause = row.origin or row.topic, str(failure.error)
            log.write([Unreadable(topic, row.partition, row.offset, "record", cause)])
        return log_and_continue(failure)

    return handle


class TaskQuery:
    """A query on tasks. The constructor finds its starting positions and creates its topics."""

    def __init__(
        self,
        query_id: str,
        plan: QueryPlan,
        home: Path,
        runtime: QueryRuntime,
        supervisor: Supervisor,
        take: TakeRow | None = None,
    ) -> None:
        cluster = runtime.cluster
        settings = ApplicationSettings(
            earliest=wants_earliest(plan.properties),
            exactly_once=take is None,
            caching=plan.merges_updates,
            # As in ksqlDB: skip a record that can't be deserialized, and log it.
            on_failure={FailureKind.DESERIALIZATION: _log_and_skip(cluster)},
            interval_ms=runtime.triggers.given_ms(plan.properties),
            batch_records_max=_records_max(plan),
        )
        id_ = application_id(query_id, runtime.service_id)
        self._tasks = TaskRuntime(
            id_, runtime.given_spark, cluster, home, settings, runtime.triggers
        )
        functions = UserFunctions.known()
        for function in functions.functions:
            send_by_value(function)
        graph = build_graph(plan, cluster.registry, functions)
        try:
            pieces = prepare_application_topics(graph, id_, cluster, has_changelogs=_has_changelogs)
        except TopologyError as error:
            raise SqlError(
                f"Can't join {', '.join(plan.sources)}: {error}",
                remedy="Repartition one of them: CREATE STREAM ... WITH (PARTITIONS=n) AS SELECT"
                " ... PARTITION BY ...",
            ) from None
        self._taken = None if take is None else partial(_take, PushRowReader(plan), take)
        self.parts = [
            supervisor.supervise(QuerySpecification(f"{query_id} {piece.number}", self._of(piece)))
            for piece in pieces
        ]

    def _of(self, piece: PreparedSubtopology) -> Callable[[], Any]:
        start = self._tasks.beginning.of(piece, GroupProgress())
        last = any(sink.topic == PUSH for sink in piece.subtopology.sinks)
        return partial(self._tasks.begin, piece, start, self._taken if last else None)

    def begin(self) -> None:
        for part in self.parts:
            part.begin()

    # -- as a part of a query

    def state(self) -> QueryState:
        return worst(part.state() for part in self.parts)

    def stop(self, *, keep: bool) -> None:
        self.stop_soon()
        for part in self.parts:
            part.stop_or_raise()

    def stop_soon(self) -> None:
        for part in self.parts:
            part.stop_soon()

    def close(self) -> None:
        self.stop_soon()
        for part in self.parts:
            part.stop()

    def retry(self) -> bool:
        return False


def _has_changelogs(piece: Subtopology) -> bool:
    """False for push queries, whose output is never needed again."""
    return not any(sink.topic == PUSH for sink in piece.sinks)


def _records_max(plan: QueryPlan) -> int:
    """No limit for stream-stream joins: if one stream were read ahead of the other, stream time
    would advance, and rows of the other would be too late."""
    if any(isinstance(stage.operator, StreamStreamJoinNode) for stage in plan.stages):
        return ALL_RECORDS
    return application_settings.BATCH_RECORDS_MAX


def _take(reader: PushRowReader, take: TakeRow, frame: DataFrame, _: int) -> None:
    """Pass the rows of a batch on. Changelog records are dropped, because a push query is never
    restored."""
    for cell in frame.select(TAKEN).toArrow().column(0).to_pylist():
        for topic, key, value in unpack_output_rows(cell):
            if topic == PUSH and (row := reader.read(key, value)) is not None:
                take(*row)
