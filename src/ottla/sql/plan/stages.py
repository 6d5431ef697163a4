"""Plans as plain data: stages from topics to a topic.

A stage becomes one Spark query, or a part of one that several share. It reads its inputs, does at
most one thing that needs state, and writes its output. Texts are in two languages
(`ottla.sql.text.Text`): Spark SQL, and Python for tasks of the engine. A condition that is NULL
counts as false.

    input(s) --where--> operator --> output: where, table functions, columns --> topic

The columns that the output's texts may refer to depend on the operator:

    ProjectNode             the columns of the input as the source gives them
    StreamAggregateNode,    the group columns and aggregates by their names, ROWTIME, DELETED,
    SessionAggregateNode,   WINDOWSTART and WINDOWEND where there is a window
    TableAggregateNode
    StreamStreamJoinNode,   `key`, `left` and `right` (structs; null where a side has no row),
    StreamTableJoinNode,    ROWTIME, DELETED
    TableTableJoinNode,
    ForeignKeyJoinNode
    TableGroupByNode        the group columns and arguments by name, UNDO, ROWTIME

Spark runs stateless plans and aggregates of streams (`sql/run/frames.py`). Plans with
`QueryPlan.needs_tasks` are lowered as a whole to a graph of the engine (`sql/lowering`). There the
texts of a `KeyedInput` give key and row for the operator:

    key        a value for joins, the group columns for TableAggregateNode and SessionAggregateNode
    row        the columns of `KeyedInput.row` by name; None if the key was deleted from a table
    foreign    ForeignKeyJoinNode, left side only: the foreign key
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.rows.schema import Layout, LogicalSchema
from ottla.rows.types import SqlType
from ottla.sql.syntax.statements import Emit, JoinKind, SourceKind, WindowExpression
from ottla.sql.text import Text

CACHE_BYTES: Final = ("statestore.cache.max.bytes", "cache.max.bytes.buffering")
"""Kafka Streams' properties for the size of the record cache, in which updates are merged. The
first one wins (KIP-770)."""
UNDO: Final = "__UNDO"
"""A column between TableGroupByNode and TableAggregateNode: true if this row is subtracted."""


@dataclass(frozen=True, slots=True)
class StageInput:
    """A topic that a stage reads. `topic` of an internal one is the name of its step.

    `where` filters rows of a stream. In a table a row that fails the condition counts as deleted.
    """

    name: str
    topic: str
    layout: Layout
    kind: SourceKind
    internal: bool = False
    where: Text | None = None


@dataclass(frozen=True, slots=True)
class KeyedInput:
    """An input of an operator that works by key; `row` has the columns that it needs."""

    input: StageInput
    key: Text
    row: tuple[tuple[str, Text], ...]
    """Name and text of each column."""
    foreign: Text | None = None


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One call of an aggregate function. `constants` are its literal arguments, after columns.

    `spark` is the call as an aggregate of Spark, over the columns of the input; "" if Spark has
    none with the same result.
    """

    name: str
    function: str
    arguments: tuple[Text, ...]
    argument_types: tuple[SqlType, ...]
    constants: tuple[Any, ...]
    type: SqlType
    spark: str = ""
    aggregation: Any = field(default=None, compare=False)
    """Its `ottla.sql.functions.udaf.Udaf`; `add` and `undo` take the arguments."""


@dataclass(frozen=True, slots=True)
class GroupColumn:
    name: str
    text: Text
    type: SqlType


# -- operators


@dataclass(frozen=True, slots=True)
class ProjectNode:
    """Stateless: filters and computes columns row by row."""

    input: StageInput

    @property
    def inputs(self) -> tuple[StageInput, ...]:
        return (self.input,)


@dataclass(frozen=True, slots=True)
class StreamAggregateNode:
    """Aggregates a stream, in Spark or in tasks. Rows with NULL in a group column are left out."""

    input: StageInput
    groups: tuple[GroupColumn, ...]
    calls: tuple[AggregateCall, ...]
    window: WindowExpression | None = None
    grace_ms: int = 0
    emit: Emit = Emit.CHANGES

    @property
    def inputs(self) -> tuple[StageInput, ...]:
        return (self.input,)


@dataclass(frozen=True, slots=True)
class JoinNode:
    """Two inputs, with the key by which their rows meet."""

    left: KeyedInput
    right: KeyedInput
    kind: JoinKind

    @property
    def inputs(self) -> tuple[StageInput, ...]:
        return (self.left.input, self.right.input)


@dataclass(frozen=True, slots=True)
class StreamStreamJoinNode(JoinNode):
    """Joins two streams by key and time.

    `windowed`: rows must also have the same window, which the result has as well.
    """

    before_ms: int
    after_ms: int
    grace_ms: int
    windowed: bool = False
    eager: bool = False
    """Without GRACE PERIOD an unmatched row is emitted at once, as in ksqlDB."""


@dataclass(frozen=True, slots=True)
class StreamTableJoinNode(JoinNode):
    """Joins each row of the left stream with the current row of the right table. INNER or LEFT.

    A row with a NULL key has no match. The result is a stream.
    """


@dataclass(frozen=True, slots=True)
class TableTableJoinNode(JoinNode):
    """Joins two tables by their primary keys, with any kind of join. The result is a table: a
    change on either side gives a new row, or a tombstone if there is no match any more."""


@dataclass(frozen=True, slots=True)
class ForeignKeyJoinNode(JoinNode):
    """Joins two tables by a foreign key: `left.foreign` is the primary key of the right table.

    INNER or LEFT. The key of the result is the primary key of the left table.
    """


@dataclass(frozen=True, slots=True)
class TableGroupByNode:
    """The first half of an aggregation over a table: each change becomes the old row with UNDO and
    the new row, which are then repartitioned by group. `side.key` is the primary key."""

    side: KeyedInput

    @property
    def inputs(self) -> tuple[StageInput, ...]:
        return (self.side.input,)


@dataclass(frozen=True, slots=True)
class TableAggregateNode:
    """The second half: `side.key` is the struct of group columns; `side.row` has UNDO and a column
    `argument_name` for each argument of each call."""

    side: KeyedInput
    groups: tuple[GroupColumn, ...]
    calls: tuple[AggregateCall, ...]

    @property
    def inputs(self) -> tuple[StageInput, ...]:
        return (self.side.input,)


@dataclass(frozen=True, slots=True)
class SessionAggregateNode:
    """Session windows of a stream; `side` as in TableAggregateNode, without UNDO.

    A record older than stream time minus gap and grace is dropped, as in Kafka Streams.
    """

    side: KeyedInput
    groups: tuple[GroupColumn, ...]
    calls: tuple[AggregateCall, ...]
    gap_ms: int
    grace_ms: int
    retention_ms: int | None = None

    @property
    def inputs(self) -> tuple[StageInput, ...]:
        return (self.side.input,)


PlanNode = (
    ProjectNode
    | StreamAggregateNode
    | StreamStreamJoinNode
    | StreamTableJoinNode
    | TableTableJoinNode
    | ForeignKeyJoinNode
    | TableGroupByNode
    | TableAggregateNode
    | SessionAggregateNode
)


def argument_name(call: AggregateCall, position: int) -> str:
    """The column with an argument of a call, in `row` of table and session aggregates."""
    return f"{call.name}_{position}"


# -- outputs and plans


@dataclass(frozen=True, slots=True)
class StageOutput:
    """What a stage writes. `columns` are those of the layout; `topic` is "" for a push query.

    `where` filters rows of a stream; a row of a table that fails it becomes a tombstone.
    `exploded` are arrays, named; each element makes a row, and `columns` may use these names.
    """

    topic: str
    layout: Layout
    columns: tuple[tuple[str, Text], ...]
    where: Text | None = None
    exploded: tuple[tuple[str, Text], ...] = ()
    internal: bool = False
    rowtime: Text | None = None
    """Text of the timestamp, if it is not ROWTIME."""
    keyed: bool = False
    """PARTITION BY: every record has a key, even if all of its columns are NULL."""


@dataclass(frozen=True, slots=True)
class QueryStage:
    """One operator with its output. `step` is its name in the query: Project, Aggregate, Join-1."""

    step: str
    operator: PlanNode
    output: StageOutput

    @property
    def inputs(self) -> tuple[StageInput, ...]:
        return self.operator.inputs

    @property
    def stateless(self) -> bool:
        return isinstance(self.operator, ProjectNode)


@dataclass(frozen=True, slots=True)
class QueryTopicSpec:
    """A topic that a query needs; None means as in the topic of the first source."""

    name: str
    partitions: int | None = None
    replicas: int | None = None
    config: dict[str, str] = field(default_factory=dict)
    internal: bool = False


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """The plan of a query. `topic` is None for a push query.

    `stages` are in order: each reads topics of sources or the output of an earlier stage.
    """

    kind: SourceKind
    layout: Layout
    stages: tuple[QueryStage, ...]
    sources: tuple[str, ...]
    topic: QueryTopicSpec | None = None
    internal_topics: tuple[QueryTopicSpec, ...] = ()
    emit: Emit = Emit.CHANGES
    limit: int | None = None
    retention_ms: int | None = None
    properties: dict[str, str] = field(default_factory=dict)

    @property
    def schema(self) -> LogicalSchema:
        return self.layout.schema

    @property
    def needs_tasks(self) -> bool:
        """True if tasks of the engine must run it. Spark runs stateless plans, and aggregates of
        streams if it has all of their calls and merges their updates."""
        return not self.merges_updates or not all(_is_on_spark(stage) for stage in self.stages)

    @property
    def merges_updates(self) -> bool:
        """True if only stateless operators and aggregates of streams run, and not every single
        update counts: those of a batch are merged then, by Spark or a task."""
        merged = ProjectNode if self.gives_each_update else ProjectNode | StreamAggregateNode
        return all(isinstance(stage.operator, merged) for stage in self.stages)

    @property
    def gives_each_update(self) -> bool:
        """True for push queries, and for queries without a record cache, as in Kafka Streams."""
        sizes = [
            cache_bytes(self.properties[name]) for name in CACHE_BYTES if name in self.properties
        ]
        return self.topic is None or sizes[:1] == [0]

    @property
    def sink_stage(self) -> QueryStage:
        return self.stages[-1]


def _is_on_spark(stage: QueryStage) -> bool:
    calls = stage.operator.calls if isinstance(stage.operator, StreamAggregateNode) else ()
    return all(call.spark for call in calls)


def cache_bytes(text: str) -> int | None:
    """The value of one of `CACHE_BYTES`, read as Kafka reads a LONG; None if it is none."""
    return int(text) if re.fullmatch(r"\s*\+?[0-9]+\s*", text) else None


def application_id(query_id: str, service_id: str = "default_") -> str:
    """The application id of a query, which prefixes its internal topics, as in ksqlDB."""
    return f"_ottla-sql-{service_id}query_{query_id}"


def internal_topic(query_id: str, step: str, service_id: str = "default_") -> str:
    """The name of a repartition topic, as in Kafka Streams."""
    return f"{application_id(query_id, service_id)}-{step}-repartition"
