"""Statements that change something: what becomes of the catalog, and what has to be done for it.

Nothing here writes or starts anything. The same function checks a statement before it is written
into the command topic and carries it out when it is read there: both come to the same, as long as
nobody has come in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from ottla.rows.errors import SqlError
from ottla.sql.catalog import (
    Catalog,
    PersistentQuery,
    QueryKind,
    Source,
    altered,
    check_drop,
    check_new,
    check_replace,
    did_you_mean,
    not_replaceable,
)
from ottla.sql.definitions import PartitionCount, TopicWish, define
from ottla.sql.lowering import lowered
from ottla.sql.lowering.copartitioning import check_copartitioned
from ottla.sql.plan.planner import plan_query
from ottla.sql.plan.sinks import SinkWish
from ottla.sql.plan.stages import Plan
from ottla.sql.syntax.statements import (
    AlterSource,
    CreateAsSelect,
    CreateSource,
    CreateType,
    DropSource,
    DropType,
    InsertSelect,
    Pause,
    Query,
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
class Failure:
    """A query that could not be made from its command, on a later day or by another version."""

    query: PersistentQuery
    cause: str


@dataclass(frozen=True, slots=True)
class State:
    """All that the commands up to `position` have come to. `plans` are those of the queries.

    `basis` is the last command that counted: one that was void has changed nothing. `ended` are
    queries of which a server that did not run then may still have the checkpoints.
    """

    catalog: Catalog = field(default_factory=Catalog)
    plans: Mapping[str, Plan] = field(default_factory=dict)
    failures: Mapping[str, Failure] = field(default_factory=dict)
    position: int = -1
    basis: int = -1
    ended: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Around:
    """What a statement is carried out in.

    `number` is the command's offset, which goes into the ids of queries. `lenient` is a replay: the
    statement was right when it was written, and a topic that has gone since is the query's trouble.
    """

    number: int
    properties: Mapping[str, str]
    partition_count: PartitionCount
    lenient: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """`idle`: there is nothing to do (IF NOT EXISTS, IF EXISTS), and nothing to write down."""

    state: State
    message: str
    query_id: str = ""
    topics: tuple[TopicWish, ...] = ()
    topic_to_delete: str = ""
    idle: bool = False


def stops_queries(before: State, after: State) -> bool:
    """Whether a query that ran before does not, or is paused, or runs by another plan."""
    return any(
        id_ not in after.catalog.queries
        or after.catalog.queries[id_].paused
        or after.plans.get(id_) != before.plans.get(id_)
        for id_, query in before.catalog.queries.items()
        if not query.paused
    )


def change(statement: Statement, state: State, around: Around) -> Change:
    """What a statement makes of the state; SqlError says why it can't be."""
    match statement:
        case CreateSource():
            return _create_source(statement, state, around)
        case CreateAsSelect():
            return _create_as_select(statement, state, around)
        case InsertSelect():
            return _insert_select(statement, state, around)
        case AlterSource():
            source = altered(state.catalog, statement.name, statement.kind, statement.columns)
            words = f"{statement.kind.capitalize()} {statement.name} altered"
            return Change(_with(state, state.catalog.with_source(source)), words)
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
    """As ksqlDB names what a command does."""
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
    """The query that a statement would have made: a failure is shown under its id."""
    if isinstance(statement, CreateAsSelect):
        id_ = f"{PREFIXES[statement.kind]}_{statement.name}_{number}"
        return PersistentQuery(id_, statement.text, QueryKind.CREATE_AS, (), statement.name)
    if isinstance(statement, InsertSelect):
        id_ = f"INSERTQUERY_{number}"
        return PersistentQuery(id_, statement.text, QueryKind.INSERT, (), statement.target)
    return None


# -- sources


def _create_source(statement: CreateSource, state: State, around: Around) -> Change:
    catalog = state.catalog
    if statement.if_not_exists and statement.name in catalog.sources:
        return _there_already(statement.name, statement.kind, state)
    if not statement.or_replace:
        check_new(catalog, statement.name, statement.kind)
    elif statement.read_only:
        raise not_replaceable(statement.name, statement.kind)
    count = _lenient(around.partition_count) if around.lenient else around.partition_count
    definition = define(statement, count, around.properties)
    check_replace(catalog, definition.source)
    _keep_built_on(catalog, definition.source)
    return Change(
        _with(state, catalog.with_source(definition.source)),
        f"{statement.kind.capitalize()} created",
        topics=(definition.topic,) if definition.topic else (),
    )


def _keep_built_on(catalog: Catalog, new: Source) -> None:
    """A stream that a query fills can't become one that nobody fills."""
    old = catalog.sources.get(new.name)
    if old is not None and old.query_id in catalog.queries:
        raise SqlError(
            f"Cannot replace {old.kind.lower()} '{new.name}': it is filled by the query"
            f" {old.query_id}",
            remedy=f"CREATE OR REPLACE {old.kind} {new.name} AS SELECT ... replaces both.",
        )


def _there_already(name: str, kind: SourceKind, state: State) -> Change:
    there = state.catalog.sources[name].kind.lower()
    return Change(
        state,
        f"Cannot add {kind.lower()} `{name}`: A {there} with the same name already exists.",
        idle=True,
    )


def _lenient(partition_count: PartitionCount) -> PartitionCount:
    return lambda name: partition_count(name) or 0


def _drop_source(statement: DropSource, state: State) -> Change:
    catalog, name = state.catalog, statement.name
    source = catalog.sources.get(name)
    if source is None:
        failed = [id_ for id_, each in state.failures.items() if each.query.sink == name]
        if failed:
            return Change(_forget(state, failed), f"Source `{name}` was dropped.")
        if statement.if_exists:
            return Change(state, f"Source `{name}` does not exist.", idle=True)
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
    return Change(
        _with(state, left),
        f"Source `{name}` (topic: {source.topic}) was dropped.",
        topic_to_delete=source.topic if statement.delete_topic else "",
    )


# -- queries


def _create_as_select(statement: CreateAsSelect, state: State, around: Around) -> Change:
    catalog, name = state.catalog, statement.name
    old = catalog.sources.get(name)
    if statement.if_not_exists and old is not None:
        return _there_already(name, statement.kind, state)
    if not statement.or_replace:
        check_new(catalog, name, statement.kind)
    wish = SinkWish(name, statement.kind, statement.properties)
    plan = _planned(statement.query, catalog, around, wish)
    topics = _sink_topics(plan, catalog, around)
    replaced = old.query_id if old is not None and old.query_id in catalog.queries else ""
    query_id = replaced or f"{PREFIXES[statement.kind]}_{name}_{around.number}"
    source = _sink(statement, plan, query_id, _partitions(plan, catalog, around))
    check_replace(catalog, source)
    if replaced:
        _check_upgrade(query_id, state.plans.get(query_id), plan)
    query = PersistentQuery(
        query_id,
        statement.text,
        QueryKind.CREATE_AS,
        plan.sources,
        name,
        dict(around.properties),
    )
    changed = catalog.with_source(source).with_query(query)
    return Change(
        _with(state, changed, {query_id: plan}),
        f"Created query with ID {query_id}",
        query_id,
        topics,
    )


def _planned(query: Query, catalog: Catalog, around: Around, wish: SinkWish) -> Plan:
    plan = plan_query(query, catalog, around.properties, sink=wish)
    if plan.needs_tasks and not around.lenient:
        check_copartitioned(lowered(plan), around.partition_count)
    return plan


def _sink(statement: CreateAsSelect, plan: Plan, query_id: str, partitions: int) -> Source:
    assert plan.topic is not None
    return Source(
        statement.name,
        statement.kind,
        plan.layout,
        plan.topic.name,
        sql_text=statement.text,
        query_id=query_id,
        reads=tuple(each for each in plan.sources if each != statement.name),
        partitions=partitions,
    )


def _partitions(plan: Plan, catalog: Catalog, around: Around) -> int:
    """Those of the topic that is there, else those asked for, else those of the first source."""
    assert plan.topic is not None
    there = around.partition_count(plan.topic.name)
    first = catalog.sources[plan.sources[0]]
    return there or plan.topic.partitions or around.partition_count(first.topic) or 1


def _sink_topics(plan: Plan, catalog: Catalog, around: Around) -> tuple[TopicWish, ...]:
    wish = plan.topic
    assert wish is not None
    there = around.partition_count(wish.name)
    if there is None:
        count = _partitions(plan, catalog, around)
        return (TopicWish(wish.name, count, wish.replicas, wish.config),)
    if wish.partitions is not None and wish.partitions != there and not around.lenient:
        raise SqlError(
            f"A Kafka topic with the name '{wish.name}' already exists, with different"
            f" partition/replica configuration than required. KSQL expects {wish.partitions}"
            f" partitions (topic has {there}).",
            remedy="Leave PARTITIONS away to use the topic as it is.",
        )
    return ()


def _check_upgrade(query_id: str, old: Plan | None, new: Plan) -> None:
    """A query that keeps its place and its state: only what needs no state may change."""
    if old is None:
        return
    same = len(old.stages) == len(new.stages) and all(
        before.operator == after.operator or (before.stateless and after.stateless)
        for before, after in zip(old.stages, new.stages, strict=True)
    )
    if not same or old.sources != new.sources:
        raise SqlError(
            f"Cannot upgrade query {query_id}: its sources, joins, groups or windows would change,"
            " and what it remembers would not fit.",
            remedy="OR REPLACE can change conditions and add columns of queries without state."
            " For any other change drop it first, or choose another name.",
        )


def _insert_select(statement: InsertSelect, state: State, around: Around) -> Change:
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
    wish = SinkWish(target.name, target.kind, statement.properties, target)
    plan = _planned(statement.query, catalog, around, wish)
    named = str(statement.properties.get("QUERY_ID", "")).upper()
    query_id = named or f"INSERTQUERY_{around.number}"
    if query_id in catalog.queries:
        raise SqlError(f"Query ID '{query_id}' already exists.", remedy="Choose another QUERY_ID.")
    query = PersistentQuery(
        query_id,
        statement.text,
        QueryKind.INSERT,
        plan.sources,
        target.name,
        dict(around.properties),
    )
    return Change(
        _with(state, catalog.with_query(query), {query_id: plan}),
        f"Created query with ID {query_id}",
        query_id,
    )


def _terminate(statement: Terminate, state: State) -> Change:
    catalog, failures = state.catalog, state.failures
    if statement.query_id is None:
        ended = [*catalog.queries, *failures]
    elif statement.query_id.upper() in failures:
        ended = [statement.query_id.upper()]
    else:
        ended = [catalog.query(statement.query_id).id]
    for each in ended:
        catalog = catalog.without_query(each)
    named = ended[0] if statement.query_id is not None else ""
    return Change(_forget(_with(state, catalog), ended), "Query terminated.", named)


def _pause(query_id: str | None, state: State, *, paused: bool) -> Change:
    catalog = state.catalog
    meant = list(catalog.queries.values()) if query_id is None else [catalog.query(query_id)]
    for each in meant:
        catalog = catalog.with_query(replace(each, paused=paused))
    return Change(_with(state, catalog), "Query paused." if paused else "Query resumed.")


# -- types


def _create_type(statement: CreateType, state: State) -> Change:
    name, there = statement.name, state.catalog.types.get(statement.name)
    if there is not None:
        words = (
            f"Cannot register custom type '{name}' since it is already registered with type:"
            f" {there}"
        )
        if statement.if_not_exists:
            return Change(state, words, idle=True)
        raise SqlError(words, remedy=f"DROP TYPE {name}; first, or use IF NOT EXISTS.")
    return Change(
        _with(state, state.catalog.with_type(name, statement.type)),
        f"Registered custom type with name '{name}' and SQL type {statement.type}",
    )


def _drop_type(statement: DropType, state: State) -> Change:
    name = statement.name
    if name not in state.catalog.types:
        if statement.if_exists:
            return Change(state, f"Type '{name}' does not exist", idle=True)
        raise SqlError(
            f"Type {name} does not exist.",
            remedy=did_you_mean(name, state.catalog.types, "type", "SHOW TYPES;"),
        )
    return Change(_with(state, state.catalog.without_type(name)), f"Dropped type '{name}'")


def _forget(state: State, failed: Iterable[str]) -> State:
    gone = set(failed)
    kept = {id_: each for id_, each in state.failures.items() if id_ not in gone}
    return replace(state, failures=kept)


def _with(state: State, catalog: Catalog, plans: Mapping[str, Plan] | None = None) -> State:
    kept = {**state.plans, **(plans or {})}
    gone = [each for each in state.catalog.queries if each not in catalog.queries]
    return replace(
        state,
        catalog=catalog,
        plans={id_: kept[id_] for id_ in catalog.queries if id_ in kept},
        ended=(*state.ended, *gone)[-ENDED_MAX:],
    )
