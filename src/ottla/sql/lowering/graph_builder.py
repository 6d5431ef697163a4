"""Builds the graph of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from ottla.client.serde import Serde
from ottla.engine.graph import (
    Graph,
    Node,
    ProcessorNode,
    ProcessorSupplier,
    RepartitionNode,
    SinkNode,
    SourceNode,
)
from ottla.engine.records import Windowed
from ottla.engine.stores import StoreKind, StoreSpec
from ottla.engine.subtopologies import node_groups
from ottla.rows.java.murmur2 import partition_of
from ottla.rows.schema import Layout
from ottla.sql.lowering import aggregates, joins
from ottla.sql.lowering.row_serdes import PackedSerde, Registry, RowKeySerde, RowValueSerde
from ottla.sql.lowering.rows import ColumnTime, SourceRows, row_names
from ottla.sql.lowering.steps import StreamOutput, TableOutput, TableRows, TableWhere
from ottla.sql.lowering.tables import TableNode, source_table
from ottla.sql.lowering.user_functions import UserFunctions, WithFunctions
from ottla.sql.plan.stages import (
    ForeignKeyJoinNode,
    ProjectNode,
    QueryPlan,
    QueryStage,
    SessionAggregateNode,
    StageInput,
    StreamAggregateNode,
    StreamStreamJoinNode,
    StreamTableJoinNode,
    TableAggregateNode,
    TableGroupByNode,
    TableTableJoinNode,
)
from ottla.sql.syntax.statements import SourceKind

PUSH: Final = "__push"
"""A placeholder: rows of a push query go to no topic."""


def build_graph(
    plan: QueryPlan, registry: Registry = None, functions: UserFunctions | None = None
) -> Graph:
    """The graph of a plan. `registry` is needed by formats with schemas only."""
    made = GraphBuilder(registry, functions)
    for stage in plan.stages:
        made.stage(stage)
    # Rows with the same key must reach the same task, whichever topic they come from.
    for names in node_groups(made.graph).values():
        read = frozenset(name for name in names if _is_read(made.graph.nodes.get(name)))
        if len(read) > 1:
            made.graph.copartitioned.append(read)
    return made.graph


def _is_read(node: Node | None) -> bool:
    return isinstance(node, SourceNode | RepartitionNode)


class GraphBuilder:
    def __init__(self, registry: Registry, functions: UserFunctions | None = None) -> None:
        self.graph = Graph()
        self._functions = functions
        self._registry = registry
        self._flows: dict[str, str] = {}
        """By step, the node whose output Spark would write to an internal topic."""
        self._sources: dict[str, str] = {}

    # -- nodes

    def node(
        self,
        name: str,
        supplier: ProcessorSupplier,
        parents: Sequence[str],
        stores: Sequence[str] = (),
    ) -> str:
        if self._functions is not None and self._functions.functions:
            supplier = WithFunctions(supplier, self._functions)
        self.graph.add(ProcessorNode(name, supplier, list(parents), list(stores)))
        return name

    def store(
        self, name: str, kind: StoreKind, key: Serde[Any], value: Serde[Any], **more: Any
    ) -> StoreSpec:
        spec = StoreSpec(name, kind, key, value, **more)
        self.graph.add_store(spec)
        return spec

    def repartition(self, name: str, parent: str, value: Serde[Any], key: Serde[Any]) -> str:
        source = f"{name}-repartition-source"
        topic = f"{name}-repartition"
        node = RepartitionNode(source, f"{topic}-sink", topic, key, value, [parent])
        self.graph.add(node)
        return source

    def key_serde(self, layout: Layout) -> RowKeySerde:
        return RowKeySerde(layout, self._registry)

    def read(self, given: StageInput) -> str:
        """The node of an input's rows."""
        if given.internal:
            return self._flows[given.topic]
        name = f"{given.topic}-rows-{given.name}"
        if name not in self._sources:
            self._sources[name] = self._source(given, name)
        return self._sources[name]

    def _source(self, given: StageInput, name: str) -> str:
        return self.node(name, partial(SourceRows, given.layout), [self.source(given)])

    def source(self, given: StageInput) -> str:
        """The node of the records of a topic."""
        layout, source = given.layout, f"{given.topic}-source"
        if source not in self.graph.nodes:
            key, value = RowKeySerde(layout, self._registry), RowValueSerde(layout, self._registry)
            extractor = ColumnTime(layout) if layout.timestamp else None
            table = given.kind is SourceKind.TABLE
            reset = "earliest" if table else None
            self.graph.add(
                SourceNode(
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

    def stage(self, stage: QueryStage) -> None:
        match stage.operator:
            case ProjectNode():
                self._project(stage, stage.operator)
            case StreamAggregateNode() | SessionAggregateNode():
                found = aggregates.stream_aggregate(self, stage.step, stage.operator)
                self.end_table(stage, aggregates.ended(self, stage, found))
            case TableGroupByNode():
                self._flows[stage.output.topic] = aggregates.table_changes(
                    self, stage.step, stage.operator
                )
            case TableAggregateNode():
                parent = self._flows[stage.operator.side.input.topic]
                found = aggregates.table_aggregate(self, stage.step, stage.operator, parent)
                self.end_table(stage, self.where(stage, found))
            case StreamStreamJoinNode():
                self.end_stream(stage, joins.stream_stream_join(self, stage.step, stage.operator))
            case StreamTableJoinNode():
                self.end_stream(stage, joins.stream_table_join(self, stage.step, stage.operator))
            case TableTableJoinNode():
                found = joins.table_table_join(self, stage.step, stage.operator)
                self.end_table(stage, self.where(stage, found))
            case ForeignKeyJoinNode():
                found = joins.foreign_key_join(self, stage.step, stage.operator)
                self.end_table(stage, self.where(stage, found))

    def _project(self, stage: QueryStage, operator: ProjectNode) -> None:
        given = operator.input
        rows = self.read(given)
        names = tuple(column.name for column in given.layout.schema.key)
        if given.kind is SourceKind.STREAM:
            self.end_stream(stage, rows, names)
            return
        row = row_names(given.layout)
        node = self.node(f"{stage.step}-table-rows", TableRows, [rows])
        windowed = given.layout.windowed is not None
        node = source_table(self, f"{stage.step}-table", node, row, windowed=windowed)
        self.end_table(stage, self.where(stage, TableNode(node, names, row)))

    def where(self, stage: QueryStage, changes: TableNode) -> TableNode:
        where = stage.output.where
        if not where:
            return changes
        name = f"{stage.step}-where"
        self.node(name, partial(TableWhere, where), [changes.node])
        return TableNode(name, changes.names, changes.row)

    def end_stream(self, stage: QueryStage, parent: str, source_key: Sequence[str] = ()) -> None:
        supplier = partial(StreamOutput, stage.output, source_key)
        self._end(stage, self.node(f"{stage.step}-output", supplier, [parent]))

    def end_table(self, stage: QueryStage, changes: TableNode) -> None:
        supplier = partial(TableOutput, stage.output, changes.names)
        self._end(stage, self.node(f"{stage.step}-output", supplier, [changes.node]))

    def _end(self, stage: QueryStage, node: str) -> None:
        output = stage.output
        if output.internal:
            self._flows[output.topic] = node
            return
        layout = output.layout
        key: Serde[Any] = RowKeySerde(layout, self._registry)
        value: Serde[Any] = RowValueSerde(layout, self._registry)
        partitioner = WindowedStreamPartitioner(layout, self._registry) if layout.windowed else None
        if not output.topic:  # rows of a push query: no topic, so no format and no partitions
            key = value = PackedSerde()
            partitioner = None
        name = f"{stage.step}-sink"
        self.graph.add(SinkNode(name, output.topic or PUSH, key, value, [node], partitioner))


class WindowedStreamPartitioner:
    """Like Kafka Streams' WindowedStreamPartitioner: all windows of a key are in one partition."""

    def __init__(self, layout: Layout, registry: Registry) -> None:
        self._key = RowKeySerde(layout, registry)

    def __call__(self, topic: str, key: Any, value: Any, partitions: int) -> int | None:
        if not isinstance(key, Windowed):
            return None
        return partition_of(self._key.serialize(topic, key.key) or b"", partitions)
