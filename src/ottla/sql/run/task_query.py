"""TaskQuery: a plan whose operators keep state, run by tasks of the engine.

The whole plan becomes one graph (`sql/lowering`), which runs as a Streams application does: its
sub-topologies are Spark queries that read topics, hand the records to tasks, and write what comes
out, changelogs included, in one transaction for each batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.engine.failures import Failure, FailureKind, OnFailure, log_and_continue
from ottla.engine.graph import TopologyError
from ottla.engine.packed_rows import outputs
from ottla.engine.records import Output
from ottla.engine.subtopologies import SubTopology
from ottla.queries import application_settings
from ottla.queries.application_settings import ApplicationSettings
from ottla.queries.application_topics import Piece, prepare
from ottla.queries.group_progress import Committed
from ottla.queries.specification import QuerySpecification
from ottla.queries.states import QueryState, worst
from ottla.queries.supervisor import Supervisor
from ottla.queries.task_runtime import TaskRuntime
from ottla.rows.errors import SqlError
from ottla.spark.processing_log import ProcessingLog, Unreadable
from ottla.sql.lowering import lowered
from ottla.sql.lowering.lower import PUSH
from ottla.sql.lowering.push_rows import PushRowReader
from ottla.sql.lowering.user_functions import UserFunctions
from ottla.sql.plan.stages import Plan, StreamJoin, application_id
from ottla.sql.run.cluster import Cluster
from ottla.sql.run.query_runtime import QueryRuntime, wants_earliest
from ottla.sql.run.registered_functions import send_by_value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ALL_RECORDS: Final = 2**31 - 1
TAKEN: Final = "rows"
"""The column of cells."""

TakeRow = Callable[[tuple[Any, ...], bool], None]
"""Given a row of a push query, and whether it is deleted."""


def _told_and_left_out(cluster: Cluster) -> OnFailure:
    log = ProcessingLog(cluster.bootstrap_servers, cluster.settings, cluster.processing_log)

    def handle(failure: Failure) -> Iterable[Output]:
        row = failure.row
        if row is not None:
            topic, cause = row.origin or row.topic, str(failure.error)
            log.write([Unreadable(topic, row.partition, row.offset, "record", cause)])
        return log_and_continue(failure)

    return handle


class TaskQuery:
    """Its starting positions are found, and its topics made, when it is made."""

    def __init__(
        self,
        query_id: str,
        plan: Plan,
        home: Path,
        runtime: QueryRuntime,
        supervisor: Supervisor,
        take: TakeRow | None = None,
    ) -> None:
        cluster = runtime.cluster
        settings = ApplicationSettings(
            earliest=wants_earliest(plan.properties),
            exactly_once=take is None,
            caching=False,
            # As in ksqlDB: a record that can't be read is left out, and the log says so.
            on_failure={FailureKind.DESERIALIZATION: _told_and_left_out(cluster)},
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
        graph = lowered(plan, cluster.registry, functions)
        try:
            pieces = prepare(graph, id_, cluster, is_kept=_is_kept)
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

    def _of(self, piece: Piece) -> Callable[[], Any]:
        start = self._tasks.beginning.of(piece, Committed())
        last = any(each.topic == PUSH for each in piece.subtopology.sinks)
        return partial(self._tasks.begin, piece, start, self._taken if last else None)

    def begin(self) -> None:
        for part in self.parts:
            part.begin()

    # -- what `Queries` asks of every part

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


def _is_kept(piece: SubTopology) -> bool:
    """What a push query shows nobody asks for again."""
    return not any(each.topic == PUSH for each in piece.sinks)


def _records_max(plan: Plan) -> int:
    """Two streams that are joined are read whole: if one of them were ahead, time would have passed
    for the other, and its rows would come too late."""
    if any(isinstance(each.operator, StreamJoin) for each in plan.stages):
        return ALL_RECORDS
    return application_settings.BATCH_RECORDS_MAX


def _take(reader: PushRowReader, take: TakeRow, frame: DataFrame, _: int) -> None:
    """The rows of a batch; what tasks would keep in topics goes nowhere, as the query will not go
    on when it has ended."""
    for cell in frame.select(TAKEN).toArrow().column(0).to_pylist():
        for topic, key, value in outputs(cell):
            if topic == PUSH and (row := reader.read(key, value)) is not None:
                take(*row)
