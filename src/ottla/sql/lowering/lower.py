"""A plan becomes a graph."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from ottla.client.serde import Serde
from ottla.engine.graph import Graph, Node, ProcessorNode, Repartition, Sink, Source, Supplier
from ottla.engine.records import Windowed
from ottla.engine.stores import StoreKind, StoreSpec
from ottla.engine.subtopologies import node_groups
from ottla.rows.java.murmur2 import partition_of
from ottla.rows.schema import Layout
from ottla.sql.lowering import aggregates, joins
from ottla.sql.lowering.row_serdes import Packed, Registry, RowKey, RowValue
from ottla.sql.lowering.rows import ColumnTime, SourceRows, row_names
from ottla.sql.lowering.steps import StreamOutput, TableOutput, TableRows, TableWhere
from ottla.sql.lowering.tables import Changes, source_table
from ottla.sql.lowering.user_functions import UserFunctions, WithFunctions
from ottla.sql.plan.stages import (
    Aggregate,
    ForeignKeyJoin,
    Input,
    Plan,
    Project,
    SessionAggregate,
    Stage,
    StreamJoin,
    StreamTableJoin,
    TableAggregate,
    TableChanges,
    TableJoin,
)
from ottla.sql.syntax.statements import SourceKind

PUSH: Final = "__push"
"""The topic that the rows of a push query are written to: there is none."""


def lowered(plan: Plan, registry: Registry = None, functions: UserFunctions | None = None) -> Graph:
    """`registry` is where formats find schemas; not every plan needs one."""
    made = Lowering(registry, functions)
    for stage in plan.stages:
        made.stage(stage)
    # Rows of two topics meet in a task only if a key has the same partition in both.
    for names in node_groups(made.graph).values():
        read = frozenset(each for each in names if _is_read(made.graph.nodes.get(each)))
        if len(read) > 1:
            made.graph.copartitioned.append(read)
    return made.graph


def _is_read(node: Node | None) -> bool:
    return isinstance(node, Source | Repartition)


class Lowering:
    def __init__(self, registry: Registry, functions: UserFunctions | None = None) -> None:
        self.graph = Graph()
        self._functions = functions
        self._registry = registry
        self._flows: dict[str, str] = {}
        """The node that gives what an internal topic would have, by its step."""
        self._sources: dict[str, str] = {}

    # -- nodes

    def node(
        self, name: str, supplier: Supplier, parents: Sequence[str], stores: Sequence[str] = ()
    ) -> str:
        if self._functions is not None and self._functions.functions:
            supplier = WithFunctions(supplier, self._functions)
        self.graph.add(ProcessorNode(name, supplier, list(parents), list(stores)))
        return name

    def store(
        self, name: str, kind: StoreKind, key: Serde[Any], value: Serde[Any], **more: Any
    ) -> StoreSpec:
        spec = StoreSpec(name, kind, key, value, cached=False, **more)
        self.graph.add_store(spec)
        return spec

    def repartition(self, name: str, parent: str, value: Serde[Any], key: Serde[Any]) -> str:
        source = f"{name}-repartition-source"
        topic = f"{name}-repartition"
        node = Repartition(source, f"{topic}-sink", topic, key, value, [parent])
        self.graph.add(node)
        return source

    def key_serde(self, layout: Layout) -> RowKey:
        return RowKey(layout, self._registry)

    def read(self, given: Input) -> str:
        """The node that gives the rows of an input."""
        if given.internal:
            return self._flows[given.topic]
        name = f"{given.topic}-rows-{given.name}"
        if name not in self._sources:
            self._sources[name] = self._source(given, name)
        return self._sources[name]

    def _source(self, given: Input, name: str) -> str:
        return self.node(name, partial(SourceRows, given.layout), [self.source(given)])

    def source(self, given: Input) -> str:
        """The node that gives the records of an input, which is a topic."""
        layout, source = given.layout, f"{given.topic}-source"
        if source not in self.graph.nodes:
            key, value = RowKey(layout, self._registry), RowValue(layout, self._registry)
            extractor = ColumnTime(layout) if layout.timestamp else None
            table = given.kind is SourceKind.TABLE
            reset = "earliest" if table else None
            self.graph.add(
                Source(
                    source,
                    (given.topic,),
                    key,
                    value,
                    extractor=extractor,
                    offset_reset=reset,
                    table=table,
                )
            )
        return source

    # -- stages

    def stage(self, stage: Stage) -> None:
        match stage.operator:
            case Project():
                self._project(stage, stage.operator)
            case Aggregate() | SessionAggregate():
                found = aggregates.of_stream(self, stage.step, stage.operator)
                self.end_table(stage, aggregates.ended(self, stage, found))
            case TableChanges():
                self._flows[stage.output.topic] = aggregates.table_changes(
                    self, stage.step, stage.operator
                )
            case TableAggregate():
                parent = self._flows[stage.operator.side.input.topic]
                found = aggregates.of_table(self, stage.step, stage.operator, parent)
                self.end_table(stage, self.where(stage, found))
            case StreamJoin():
                self.end_stream(stage, joins.streams(self, stage.step, stage.operator))
            case StreamTableJoin():
                self.end_stream(stage, joins.stream_table(self, stage.step, stage.operator))
            case TableJoin():
                found = joins.tables(self, stage.step, stage.operator)
                self.end_table(stage, self.where(stage, found))
            case ForeignKeyJoin():
                found = joins.foreign_key(self, stage.step, stage.operator)
                self.end_table(stage, self.where(stage, found))

    def _project(self, stage: Stage, operator: Project) -> None:
        given = operator.input
        rows = self.read(given)
        names = tuple(each.name for each in given.layout.schema.key)
        if given.kind is SourceKind.STREAM:
            self.end_stream(stage, rows, names)
            return
        row = row_names(given.layout)
        node = self.node(f"{stage.step}-table-rows", TableRows, [rows])
        windowed = given.layout.windowed is not None
        node = source_table(self, f"{stage.step}-table", node, row, windowed=windowed)
        self.end_table(stage, self.where(stage, Changes(node, names, row)))

    def where(self, stage: Stage, changes: Changes) -> Changes:
        where = stage.output.where
        if not where:
            return changes
        name = f"{stage.step}-where"
        self.node(name, partial(TableWhere, where), [changes.node])
        return Changes(name, changes.names, changes.row)

    def end_stream(self, stage: Stage, parent: str, source_key: Sequence[str] = ()) -> None:
        supplier = partial(StreamOutput, stage.output, source_key)
        self._end(stage, self.node(f"{stage.step}-output", supplier, [parent]))

    def end_table(self, stage: Stage, changes: Changes) -> None:
        supplier = partial(TableOutput, stage.output, changes.names)
        self._end(stage, self.node(f"{stage.step}-output", supplier, [changes.node]))

    def _end(self, stage: Stage, node: str) -> None:
        output = stage.output
        if output.internal:
            self._flows[output.topic] = node
            return
        layout = output.layout
        key: Serde[Any] = RowKey(layout, self._registry)
        value: Serde[Any] = RowValue(layout, self._registry)
        partitioner = WindowedPartitioner(layout, self._registry) if layout.windowed else None
        if not output.topic:  # rows of a push query: no topic, so no format and no partitions
            key = value = Packed()
            partitioner = None
        name = f"{stage.step}-sink"
        self.graph.add(Sink(name, output.topic or PUSH, key, value, [node], partitioner))


class WindowedPartitioner:
    """As Kafka's WindowedStreamPartitioner: all windows of a key lie together."""

    def __init__(self, layout: Layout, registry: Registry) -> None:
        self._key = RowKey(layout, registry)

    def __call__(self, topic: str, key: Any, value: Any, partitions: int) -> int | None:
        if not isinstance(key, Windowed):
            return None
        return partition_of(self._key.serialize(topic, key.key) or b"", partitions)
