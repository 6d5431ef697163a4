"""What a query does, as plain data: stages from topics to a topic.

A stage becomes one Spark query (or a part of one that several share): it reads its inputs, does at
most one thing that needs state, and writes its output. All text in here is in two languages
(`ottla.sql.text.Text`): Spark SQL, and Python for where Spark does not compute it. A condition
holds where it is true, and not where it is NULL.

    input(s) --where--> operator --> output: where, table functions, columns --> topic

What the output's text may speak of depends on the operator:

    Project                        the columns of the input as the source gives them
    Aggregate, SessionAggregate,   the group columns and aggregates by their names, ROWTIME,
    TableAggregate                 DELETED, WINDOWSTART and WINDOWEND where there is a window
    StreamJoin, StreamTableJoin,   `key`, `left` and `right` (structs; null where a side has no
    TableJoin, ForeignKeyJoin      row), ROWTIME, DELETED
    TableChanges                   the group columns and arguments by name, UNDO, ROWTIME

`Plan.needs_tasks` says who runs it. Spark runs what keeps no state, and aggregates of streams
(`sql/run/frames.py`); all other plans are lowered whole to a graph of the engine (`sql/lowering`).
There the texts of a `Side` give the key and the row that an operator works with:

    key        a value for joins, the group columns for TableAggregate and SessionAggregate
    row        the columns of `Side.row` by their names; no row where a table's key is deleted
    foreign    ForeignKeyJoin, left side only: the foreign key
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from ottla.rows.schema import Layout, Schema
from ottla.rows.types import SqlType
from ottla.sql.syntax.statements import Emit, JoinKind, SourceKind, Window
from ottla.sql.text import Text

CACHE_BYTES: Final = ("cache.max.bytes.buffering", "statestore.cache.max.bytes")
"""Kafka Streams' names for the room in which updates of a row are merged."""
UNDO: Final = "__UNDO"
"""Of an internal topic between TableChanges and TableAggregate: this row is taken back."""


@dataclass(frozen=True, slots=True)
class Input:
    """A topic that is read. An internal one has the name of its step as `topic`.

    `where` keeps rows of a stream. In a table a row that it does not hold for counts as deleted.
    """

    name: str
    topic: str
    layout: Layout
    kind: SourceKind
    internal: bool = False
    where: Text | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """An input of a keyed operator, or of a join: `row` are the columns that are needed of it."""

    input: Input
    key: Text
    row: tuple[tuple[str, Text], ...]
    """Name and text of each column."""
    foreign: Text | None = None


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One call of an aggregate function. `constants` are the arguments that come after columns.

    `spark` is the whole call as Spark's own aggregate, over the columns of the input.
    """

    name: str
    function: str
    arguments: tuple[Text, ...]
    argument_types: tuple[SqlType, ...]
    constants: tuple[Any, ...]
    type: SqlType
    spark: str = ""
    aggregation: Any = field(default=None, compare=False)
    """Its Python form, `ottla.sql.functions.aggregation.Aggregation`; `add` and `undo` take
    the arguments."""


@dataclass(frozen=True, slots=True)
class GroupColumn:
    name: str
    text: Text
    type: SqlType


# -- operators


@dataclass(frozen=True, slots=True)
class Project:
    """No state: rows pass one by one."""

    input: Input

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (self.input,)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Groups of a stream, by Spark's own aggregation. A null among the groups: no group."""

    input: Input
    groups: tuple[GroupColumn, ...]
    calls: tuple[AggregateCall, ...]
    window: Window | None = None
    grace_ms: int = 0
    emit: Emit = Emit.CHANGES

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (self.input,)


@dataclass(frozen=True, slots=True)
class StreamJoin:
    """Two streams, by key and time, by Spark's own join.

    `windowed`: by the windows of their rows as well. The result has them, too.
    """

    left: Side
    right: Side
    kind: JoinKind
    before_ms: int
    after_ms: int
    grace_ms: int
    windowed: bool = False
    eager: bool = False
    """No GRACE PERIOD is written: as in ksqlDB a row without a partner comes at once."""

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (self.left.input, self.right.input)


@dataclass(frozen=True, slots=True)
class StreamTableJoin:
    """Each row of the left stream with the row that the right table has then. INNER or LEFT.

    A row whose key is null has no partner. The result is a stream.
    """

    left: Side
    right: Side
    kind: JoinKind

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (self.left.input, self.right.input)


@dataclass(frozen=True, slots=True)
class TableJoin:
    """Two tables by their primary keys, all four kinds. The result is a table: a change on either
    side gives a new row, or a deletion where the join has no row any more."""

    left: Side
    right: Side
    kind: JoinKind

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (self.left.input, self.right.input)


@dataclass(frozen=True, slots=True)
class ForeignKeyJoin:
    """A table whose rows name a row of the right table: `left.foreign` = the right's primary key.

    INNER or LEFT. `key` of the result is the left's primary key.
    """

    left: Side
    right: Side
    kind: JoinKind

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (self.left.input, self.right.input)


@dataclass(frozen=True, slots=True)
class TableChanges:
    """The first half of an aggregate over a table: each change as the old row undone and the new
    one added, so that the second half can go by group. `side.key` is the primary key."""

    side: Side

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (self.side.input,)


@dataclass(frozen=True, slots=True)
class TableAggregate:
    """The second half: `side.key` is the struct of group columns, `side.row` has one column for
    each argument of each call, named as `argument_name` says, and UNDO."""

    side: Side
    groups: tuple[GroupColumn, ...]
    calls: tuple[AggregateCall, ...]

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (self.side.input,)


@dataclass(frozen=True, slots=True)
class SessionAggregate:
    """Sessions of a stream whose every update is emitted; `side` as with TableAggregate, no UNDO.

    A record later than the stream's time less gap and grace is left out, as Kafka Streams does.
    """

    side: Side
    groups: tuple[GroupColumn, ...]
    calls: tuple[AggregateCall, ...]
    gap_ms: int
    grace_ms: int
    retention_ms: int | None = None

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (self.side.input,)


Operator = (
    Project
    | Aggregate
    | StreamJoin
    | StreamTableJoin
    | TableJoin
    | ForeignKeyJoin
    | TableChanges
    | TableAggregate
    | SessionAggregate
)


def argument_name(call: AggregateCall, position: int) -> str:
    """The column that has an argument of a call, in `row` of the keyed aggregates."""
    return f"{call.name}_{position}"


# -- what comes of it


@dataclass(frozen=True, slots=True)
class Output:
    """`columns` are those of the layout: name and text. `topic` is "" for a push query.

    `where` keeps rows of a stream; a row of a table that it does not hold for becomes a deletion.
    `exploded`: arrays whose elements come side by side, one row for each, as columns of these names
    which `columns` may speak of.
    """

    topic: str
    layout: Layout
    columns: tuple[tuple[str, Text], ...]
    where: Text | None = None
    exploded: tuple[tuple[str, Text], ...] = ()
    internal: bool = False
    rowtime: Text | None = None
    """Text of the record's time, where it is not the ROWTIME that the operator gives."""
    keyed: bool = False
    """PARTITION BY: a record has a key, though all of it be NULL and there was none before."""


@dataclass(frozen=True, slots=True)
class Stage:
    """`step` names it within its query: Project, Aggregate, Join-1."""

    step: str
    operator: Operator
    output: Output

    @property
    def inputs(self) -> tuple[Input, ...]:
        return self.operator.inputs

    @property
    def stateless(self) -> bool:
        return isinstance(self.operator, Project)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that a query needs; what is None is as in the first source's topic."""

    name: str
    partitions: int | None = None
    replicas: int | None = None
    config: dict[str, str] = field(default_factory=dict)
    internal: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """All that is known of a query before it runs. `topic` is None for a push query.

    `stages` in order: each reads topics of sources, or what an earlier one wrote.
    """

    kind: SourceKind
    layout: Layout
    stages: tuple[Stage, ...]
    sources: tuple[str, ...]
    topic: Topic | None = None
    internal_topics: tuple[Topic, ...] = ()
    emit: Emit = Emit.CHANGES
    limit: int | None = None
    retention_ms: int | None = None
    properties: dict[str, str] = field(default_factory=dict)

    @property
    def schema(self) -> Schema:
        return self.layout.schema

    @property
    def needs_tasks(self) -> bool:
        """Whether tasks of the engine run it: Spark itself runs what keeps no state, and aggregates
        of streams. But it merges the updates of a batch, and some queries give each of them."""
        quick = Project if self.gives_each_update else Project | Aggregate
        return not all(isinstance(each.operator, quick) for each in self.stages)

    @property
    def gives_each_update(self) -> bool:
        """A push query, and one with no cache, as in Kafka Streams."""
        return self.topic is None or any(self.properties.get(each) == "0" for each in CACHE_BYTES)

    @property
    def sink_stage(self) -> Stage:
        return self.stages[-1]


def application_id(query_id: str, service_id: str = "default_") -> str:
    """As ksqlDB names the application of a query; its internal topics begin so."""
    return f"_ottla-sql-{service_id}query_{query_id}"


def internal_topic(query_id: str, step: str, service_id: str = "default_") -> str:
    """As Kafka Streams names what lies between two steps."""
    return f"{application_id(query_id, service_id)}-{step}-repartition"
