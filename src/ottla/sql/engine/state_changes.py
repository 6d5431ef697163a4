"""State changes: what a statement makes of the catalog and of the queries.

Pure: nothing here writes or starts anything. The same function checks a statement before it is
written to the command topic and executes it when the command is read back. Both give the same
result as long as no other command came in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from ottla.rows.errors import SqlError
from ottla.sql.catalog import (
    Catalog,
    DataSource,
    PersistentQuery,
    QueryKind,
    altered,
    check_drop,
    check_new,
    check_replace,
    did_you_mean,
    not_replaceable,
)
from ottla.sql.definitions import PartitionCount, SourceTopicSpec, define
from ottla.sql.lowering import build_graph
from ottla.sql.lowering.copartitioning import check_copartitioning
from ottla.sql.plan.planner import plan_query
from ottla.sql.plan.sinks import SinkSpec
from ottla.sql.plan.stages import QueryPlan
from ottla.sql.syntax.statements import (
    AlterSource,
    CreateAsSelect,
    CreateSource,
    CreateType,
    DropSource,
    DropType,
    InsertSelect,
    Pause,
    QueryBody,
    Resume,
    SourceKind,
    Statement,
    Terminate,
)

CHANGING: Final = (
    CreateSource,
    CreateAsSelect,
    InsertSelect,
    AlterSource,
    DropSource,
    CreateType,
    DropType,
    Terminate,
    Pause,
    Resume,
)
ENDED_MAX: Final = 1000
PREFIXES: Final = {SourceKind.STREAM: "CSAS", SourceKind.TABLE: "CTAS"}


@dataclass(frozen=True, slots=True)
class CommandFailure:
    """A query that could not be created from its command when the command was replayed."""

    query: PersistentQuery
    cause: str


@dataclass(frozen=True, slots=True)
class EngineState:
    """The result of all commands up to offset `position`. `plans` are the plans of the queries.

    `basis` is the offset of the last command that took effect: void commands change nothing.
    `ended` are terminated queries. A server that was down then may still have their checkpoints,
    and deletes these at its next start.
    """

    catalog: Catalog = field(default_factory=Catalog)
    plans: Mapping[str, QueryPlan] = field(default_factory=dict)
    failures: Mapping[str, CommandFailure] = field(default_factory=dict)
    position: int = -1
    basis: int = -1
    ended: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanningContext:
    """What planning a statement depends on besides the state.

    `number` is the offset of the command, which goes into query ids. `lenient` is set for a replay:
    the statement was valid when it was written, and a topic that was deleted since then must fail
    the query, not the command.
    """

    number: int
    properties: Mapping[str, str]
    partition_count: PartitionCount
    lenient: bool = False


@dataclass(frozen=True, slots=True)
class StateChange:
    """What a statement changes. `idle`: nothing (IF NOT EXISTS, IF EXISTS), so no command is
    written."""

    state: EngineState
    message: str
    query_id: str = ""
    topics: tuple[SourceTopicSpec, ...] = ()
    topic_to_delete: str = ""
    idle: bool = False


def stops_queries(before: EngineState, after: EngineState) -> bool:
    """True if a running query is gone after the change, paused, or has another plan."""
    return any(
        id_ not in after.catalog.queries
        or after.catalog.queries[id_].paused
        or after.plans.get(id_) != before.plans.get(id_)
        for id_, query in before.catalog.queries.items()
        if not query.paused
    )


def plan_change(statement: Statement, state: EngineState, context: PlanningContext) -> StateChange:
    """The change that a statement makes; SqlError if it is not valid."""
    match statement:
        case CreateSource():
            return _create_source(statement, state, context)
        case CreateAsSelect():
            return _create_as_select(statement, state, context)
        case InsertSelect():
            return _insert_select(statement, state, context)
        case AlterSource():
            source = altered(state.catalog, statement.name, statement.kind, statement.columns)
            words = f"{statement.kind.capitalize()} {statement.name} altered"
            return StateChange(_with(state, state.catalog.with_source(source)), words)
        case DropSource():
            return _drop_source(statement, state)
        case CreateType():
            return _create_type(statement, state)
        case DropType():
            return _drop_type(statement, state)
        case Terminate():
            return _terminate(statement, state)
        case Pause():
            return _pause(statement.query_id, state, paused=True)
        case Resume():
            return _pause(statement.query_id, state, paused=False)
    raise AssertionError(f"{type(statement).__name__} changes nothing")


def command_id(statement: Statement) -> str:
    """The id of a command, as in ksqlDB: type/entity/action."""
    match statement:
        case CreateSource() | CreateAsSelect():
            return f"{statement.kind.lower()}/`{statement.name}`/create"
        case InsertSelect():
            return f"stream/`{statement.target}`/insert"
        case AlterSource():
            return f"{statement.kind.lower()}/`{statement.name}`/alter"
        case DropSource():
            return f"{statement.kind.lower()}/`{statement.name}`/drop"
        case CreateType():
            return f"type/{statement.name}/create"
        case DropType():
            return f"type/{statement.name}/drop"
        case Terminate() | Pause() | Resume():
            word = type(statement).__name__.lower()
            return f"{word}/{statement.query_id or 'ALL'}/execute"
    return "statement/unknown/execute"


def failed_query(statement: Statement, number: int) -> PersistentQuery | None:
    """The query that a failed statement would have created, so that SHOW QUERIES lists the
    failure."""
    if isinstance(statement, CreateAsSelect):
        id_ = f"{PREFIXES[statement.kind]}_{statement.name}_{number}"
        return PersistentQuery(id_, statement.text, QueryKind.CREATE_AS, (), statement.name)
    if isinstance(statement, InsertSelect):
        id_ = f"INSERTQUERY_{number}"
        return PersistentQuery(id_, statement.text, QueryKind.INSERT, (), statement.target)
    return None


# -- sources


def _create_source(
    statement: CreateSource, state: EngineState, context: PlanningContext
) -> StateChange:
    catalog = state.catalog
    if statement.if_not_exists and statement.name in catalog.sources:
        return _there_already(statement.name, statement.kind, state)
    if not statement.or_replace:
        check_new(catalog, statement.name, statement.kind)
    elif statement.read_only:
        raise not_replaceable(statement.name, statement.kind)
    count = _lenient(context.partition_count) if context.lenient else context.partition_count
    definition = define(statement, count, context.properties)
    check_replace(catalog, definition.source)
    _keep_built_on(catalog, definition.source)
    return StateChange(
        _with(state, catalog.with_source(definition.source)),
        f"{statement.kind.capitalize()} created",
        topics=(definition.topic,) if definition.topic else (),
    )


def _keep_built_on(catalog: Catalog, new: DataSource) -> None:
    """A source that a query writes can't be replaced by one without a query."""
    old = catalog.sources.get(new.name)
    if old is not None and old.query_id in catalog.queries:
        raise SqlError(
            f"Cannot replace {old.kind.lower()} '{new.name}': it is written by the query"
            f" {old.query_id}",
            remedy=f"CREATE OR REPLACE {old.kind} {new.name} AS SELECT ... replaces both.",
        )


def _there_already(name: str, kind: SourceKind, state: EngineState) -> StateChange:
    there = state.catalog.sources[name].kind.lower()
    return StateChange(
        state,
        f"Cannot add {kind.lower()} `{name}`: A {there} with the same name already exists.",
        idle=True,
    )


def _lenient(partition_count: PartitionCount) -> PartitionCount:
    return lambda name: partition_count(name) or 0


def _drop_source(statement: DropSource, state: EngineState) -> StateChange:
    catalog, name = state.catalog, statement.name
    source = catalog.sources.get(name)
    if source is None:
        failed = [id_ for id_, failure in state.failures.items() if failure.query.sink == name]
        if failed:
            return StateChange(_forget(state, failed), f"Source `{name}` was dropped.")
        if statement.if_exists:
            return StateChange(state, f"Source `{name}` does not exist.", idle=True)
        raise SqlError(
            f"Source {name} does not exist.",
            remedy=did_you_mean(name, catalog.sources, "stream or table"),
        )
    if source.kind is not statement.kind:
        raise SqlError(
            f"Incompatible data source type is {source.kind}, but statement was DROP"
            f" {statement.kind}",
            remedy=f"Write DROP {source.kind} {name};",
        )
    if source.read_only and statement.delete_topic:
        raise SqlError(
            f"Cannot delete topic for read-only source: {name}",
            remedy=f"DROP {source.kind} {name}; leaves the topic alone.",
        )
    check_drop(catalog, name)
    left = catalog.without_source(name).without_query(source.query_id)
    return StateChange(
        _with(state, left),
        f"Source `{name}` (topic: {source.topic}) was dropped.",
        topic_to_delete=source.topic if statement.delete_topic else "",
    )


# -- queries


def _create_as_select(
    statement: CreateAsSelect, state: EngineState, context: PlanningContext
) -> StateChange:
    catalog, name = state.catalog, statement.name
    old = catalog.sources.get(name)
    if statement.if_not_exists and old is not None:
        return _there_already(name, statement.kind, state)
    if not statement.or_replace:
        check_new(catalog, name, statement.kind)
    spec = SinkSpec(name, statement.kind, statement.properties)
    plan = _planned(statement.query, catalog, context, spec)
    topics = _sink_topics(plan, catalog, context)
    replaced = old.query_id if old is not None and old.query_id in catalog.queries else ""
    query_id = replaced or f"{PREFIXES[statement.kind]}_{name}_{context.number}"
    source = _sink(statement, plan, query_id, _partitions(plan, catalog, context))
    check_replace(catalog, source)
    if replaced:
        _check_upgrade(query_id, state.plans.get(query_id), plan)
    query = PersistentQuery(
        query_id,
        statement.text,
        QueryKind.CREATE_AS,
        plan.sources,
        name,
        dict(context.properties),
    )
    changed = catalog.with_source(source).with_query(query)
    return StateChange(
        _with(state, changed, {query_id: plan}),
        f"Created query with ID {query_id}",
        query_id,
        topics,
    )


def _planned(
    query: QueryBody, catalog: Catalog, context: PlanningContext, spec: SinkSpec
) -> QueryPlan:
    plan = plan_query(query, catalog, context.properties, sink=spec)
    if plan.needs_tasks and not context.lenient:
        check_copartitioning(build_graph(plan), context.partition_count)
    return plan


def _sink(statement: CreateAsSelect, plan: QueryPlan, query_id: str, partitions: int) -> DataSource:
    assert plan.topic is not None
    return DataSource(
        statement.name,
        statement.kind,
        plan.layout,
        plan.topic.name,
        sql_text=statement.text,
        query_id=query_id,
        reads=tuple(source for source in plan.sources if source != statement.name),
        partitions=partitions,
    )


def _partitions(plan: QueryPlan, catalog: Catalog, context: PlanningContext) -> int:
    """Of the existing topic, else as in the WITH clause, else as in the first source."""
    assert plan.topic is not None
    there = context.partition_count(plan.topic.name)
    first = catalog.sources[plan.sources[0]]
    return there or plan.topic.partitions or context.partition_count(first.topic) or 1


def _sink_topics(
    plan: QueryPlan, catalog: Catalog, context: PlanningContext
) -> tuple[SourceTopicSpec, ...]:
    spec = plan.topic
    assert spec is not None
    there = context.partition_count(spec.name)
    if there is None:
        count = _partitions(plan, catalog, context)
        return (SourceTopicSpec(spec.name, count, spec.replicas, spec.config),)
    if spec.partitions is not None and spec.partitions != there and not context.lenient:
        raise SqlError(
            f"A Kafka topic with the name '{spec.name}' already exists, with different"
            f" partition/replica configuration than required. KSQL expects {spec.partitions}"
            f" partitions (topic has {there}).",
            remedy="Leave out PARTITIONS to use the topic as it is.",
        )
    return ()


def _check_upgrade(query_id: str, old: QueryPlan | None, new: QueryPlan) -> None:
    """The upgraded query continues with its offsets and its state, so neither sources nor stateful
    operators may change."""
    if old is None:
        return
    same = len(old.stages) == len(new.stages) and all(
        before.operator == after.operator or (before.stateless and after.stateless)
        for before, after in zip(old.stages, new.stages, strict=True)
    )
    if not same or old.sources != new.sources:
        raise SqlError(
            f"Cannot upgrade query {query_id}: its sources, joins, groups or windows would change,"
            " and its state would not fit.",
            remedy="OR REPLACE can change conditions and add columns of queries without state."
            " For any other change drop it first, or choose another name.",
        )


def _insert_select(
    statement: InsertSelect, state: EngineState, context: PlanningContext
) -> StateChange:
    catalog = state.catalog
    target = catalog.find(statement.target)
    if target.read_only:
        raise SqlError(
            f"Cannot insert into read-only {target.kind.lower()}: {target.name}",
            remedy=f"CREATE {target.kind} without SOURCE makes one that can be written.",
        )
    if target.is_table:
        raise SqlError(
            f"INSERT INTO can only be used to insert into a stream. {target.name} is a table.",
            remedy="A table is filled by CREATE TABLE ... AS SELECT, or by INSERT INTO ... VALUES.",
        )
    spec = SinkSpec(target.name, target.kind, statement.properties, target)
    plan = _planned(statement.query, catalog, context, spec)
    named = str(statement.properties.get("QUERY_ID", "")).upper()
    query_id = named or f"INSERTQUERY_{context.number}"
    if query_id in catalog.queries:
        raise SqlError(f"Query ID '{query_id}' already exists.", remedy="Choose another QUERY_ID.")
    query = PersistentQuery(
        query_id,
        statement.text,
        QueryKind.INSERT,
        plan.sources,
        target.name,
        dict(context.properties),
    )
    return StateChange(
        _with(state, catalog.with_query(query), {query_id: plan}),
        f"Created query with ID {query_id}",
        query_id,
    )


def _terminate(statement: Terminate, state: EngineState) -> StateChange:
    catalog, failures = state.catalog, state.failures
    if statement.query_id is None:
        ended = [*catalog.queries, *failures]
    elif statement.query_id.upper() in failures:
        ended = [statement.query_id.upper()]
    else:
        ended = [catalog.query(statement.query_id).id]
    for query_id in ended:
        catalog = catalog.without_query(query_id)
    named = ended[0] if statement.query_id is not None else ""
    return StateChange(_forget(_with(state, catalog), ended), "Query terminated.", named)


def _pause(query_id: str | None, state: EngineState, *, paused: bool) -> StateChange:
    catalog = state.catalog
    meant = list(catalog.queries.values()) if query_id is None else [catalog.query(query_id)]
    for query_ in meant:
        catalog = catalog.with_query(replace(query_, paused=paused))
    return StateChange(_with(state, catalog), "Query paused." if paused else "Query resumed.")


# -- types


def _create_type(statement: CreateType, state: EngineState) -> StateChange:
    name, there = statement.name, state.catalog.types.get(statement.name)
    if there is not None:
        words = (
            f"Cannot register custom type '{name}' since it is already registered with type:"
            f" {there}"
        )
        if statement.if_not_exists:
            return StateChange(state, words, idle=True)
        raise SqlError(words, remedy=f"DROP TYPE {name}; first, or use IF NOT EXISTS.")
    return StateChange(
        _with(state, state.catalog.with_type(name, statement.type)),
        f"Registered custom type with name '{name}' and SQL type {statement.type}",
    )


def _drop_type(statement: DropType, state: EngineState) -> StateChange:
    name = statement.name
    if name not in state.catalog.types:
        if statement.if_exists:
            return StateChange(state, f"Type '{name}' does not exist", idle=True)
        raise SqlError(
            f"Type {name} does not exist.",
            remedy=did_you_mean(name, state.catalog.types, "type", "SHOW TYPES;"),
        )
    return StateChange(_with(state, state.catalog.without_type(name)), f"Dropped type '{name}'")


def _forget(state: EngineState, failed: Iterable[str]) -> EngineState:
    gone = set(failed)
    kept = {id_: failure for id_, failure in state.failures.items() if id_ not in gone}
    return replace(state, failures=kept)


def _with(
    state: EngineState, catalog: Catalog, plans: Mapping[str, QueryPlan] | None = None
) -> EngineState:
    kept = {**state.plans, **(plans or {})}
    gone = [query for query in state.catalog.queries if query not in catalog.queries]
    return replace(
        state,
        catalog=catalog,
        plans={id_: kept[id_] for id_ in catalog.queries if id_ in kept},
        ended=(*state.ended, *gone)[-ENDED_MAX:],
    )
