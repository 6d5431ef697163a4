"""A query becomes a plan: names are found, rules kept, what is left is text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from sqlglot import exp

from ottla.rows.errors import SqlError
from ottla.rows.schema import (
    DELETED,
    PSEUDO_COLUMNS,
    WINDOW_BOUNDS,
    Column,
    Format,
    Layout,
    Role,
    Schema,
    Windowed,
    WindowKind,
)
from ottla.rows.types import STRING, Kind, SqlType
from ottla.sql.casts import converted
from ottla.sql.catalog import Catalog, Source
from ottla.sql.expressions import Scope, to_text, typed
from ottla.sql.plan import joins
from ottla.sql.plan.aggregates import (
    Grouped,
    aggregate_stages,
    calls_in,
    check_clauses,
    grouped,
    window_names,
)
from ottla.sql.plan.calls import exploded_call, is_table_function
from ottla.sql.plan.names import (
    MADE,
    Names,
    at,
    check_boolean,
    columns_in,
    names_of,
    plain_text,
    reference,
    replaced,
    scope_of,
)
from ottla.sql.plan.projection import (
    Item,
    Key,
    KeyColumn,
    default_name,
    expand,
    star_columns,
    with_key,
)
from ottla.sql.plan.sinks import SinkWish, check_kind, layout_of, topic_of
from ottla.sql.plan.stages import Input, Operator, Output, Plan, Project, Stage, Topic
from ottla.sql.syntax import format_expression
from ottla.sql.syntax.statements import Emit, Expression, Query, SourceKind
from ottla.sql.text import Text, column, column_of, composed

ColumnText = Callable[[str, str], Text]
"""A column's text, by relation and name."""
PUSH_FORMAT: Final = Format("NONE")


def plan_query(
    query: Query,
    catalog: Catalog,
    properties: Mapping[str, str] | None = None,
    *,
    sink: SinkWish | None = None,
    spark: bool = True,
) -> Plan:
    """What `query` does, checked; `sink` is None for a push query. Without `spark` its Python texts
    alone will be used, and may do what Spark can't."""
    if query.beyond is not None or query.source is None:
        raise SqlError(
            "This query can be answered once, not followed.",
            remedy="Subqueries, ORDER BY and window functions belong in pull queries.",
        )
    names = replace(names_of(query, catalog), spark=spark)
    draft = _Draft(query, names, dict(properties or {}), sink)
    _check_query(query, draft.names, sink)
    if query.joins:
        return _plan_joined(draft)
    return _plan_single(draft)


@dataclass(frozen=True, slots=True)
class _Draft:
    query: Query
    names: Names
    properties: dict[str, str] = field(default_factory=dict)
    sink: SinkWish | None = None

    @property
    def transient(self) -> bool:
        return self.sink is None

    @property
    def sink_name(self) -> str | None:
        return self.sink.name if self.sink else None

    @property
    def first(self) -> Source:
        return self.names.relations[0].source


def _check_query(query: Query, names: Names, sink: SinkWish | None) -> None:
    if query.limit is not None and sink is not None:
        raise SqlError(
            "CREATE STREAM AS SELECT and CREATE TABLE AS SELECT statements do not support LIMIT.",
            remedy="Leave out LIMIT.",
        )
    if query.emit is Emit.FINAL and query.window is None:
        raise SqlError(
            "EMIT FINAL is only supported for windowed aggregations.",
            remedy="Add WINDOW TUMBLING (SIZE ...) and GROUP BY, or write EMIT CHANGES.",
        )
    if query.partition_by and query.group_by:
        raise SqlError(
            "A query cannot have both a PARTITION BY and a GROUP BY clause.",
            remedy="GROUP BY gives the result its key.",
        )
    if query.partition_by and all(e.source.is_table for e in names.relations):
        raise at(
            query.partition_by[0],
            "PARTITION BY is only supported on streams: the key of a table can't be changed.",
            "GROUP BY makes a table with another key.",
        )


# -- one source


def _plan_single(draft: _Draft) -> Plan:
    draft = _with_groups(draft)
    query, names = draft.query, window_names(draft.query, draft.names)
    read = joins.input_of(names.relations[0])
    items = expand(query, names, transient=draft.transient)
    if query.group_by:
        return _plan_aggregate(draft, names, items, read, plain_text, ())
    check_clauses(query, [call for item in items for call in calls_in(item.expression)])
    key = _source_key(draft) if not query.partition_by else _partition_key(draft, items)
    key_texts = _partition_texts(draft, key) if query.partition_by else ()
    result = _Result(read.kind, key, read.layout.windowed, key_texts)
    where = condition_text(query.where, "WHERE", names, plain_text)
    return _ended(draft, names, items, Project(read), plain_text, result, where)


def _with_groups(draft: _Draft) -> _Draft:
    """A push query that aggregates without GROUP BY has one group, which all rows are in."""
    query, names = draft.query, window_names(draft.query, draft.names)
    if query.group_by or query.partition_by or not draft.transient:
        return draft
    parts = [names.bind(each.expression, "SELECT") for each in query.select if each.expression]
    if not any(calls_in(each) for each in parts):
        return draft
    return replace(draft, query=replace(query, group_by=(exp.Literal.number(0),)))


def _source_key(draft: _Draft) -> Key:
    relation = draft.names.relations[0]
    columns = (
        KeyColumn((reference(relation.alias, each.name),), each.name, each.type)
        for each in relation.source.schema.key
    )
    return Key(tuple(columns))


def _partition_key(draft: _Draft, items: list[Item]) -> Key:
    by = [draft.names.bind(each, "PARTITION BY") for each in draft.query.partition_by]
    if len(by) == 1 and isinstance(by[0], exp.Null):
        return Key(())
    if any(isinstance(each, exp.Null) for each in by):
        raise at(
            draft.query.partition_by[0],
            "Cannot PARTITION BY multiple columns including NULL",
            "PARTITION BY NULL alone makes records without a key.",
        )
    columns = []
    for each in by:
        kind = typed(each, scope_of(draft.names, plain_text))
        names = [item.name for item in items if item.expression == each]
        name = names[0] if names else default_name(each, draft.names) or format_expression(each)
        columns.append(KeyColumn((each,), name, kind))
    return Key(tuple(columns), "partitioning expression")


def _partition_texts(draft: _Draft, key: Key) -> tuple[Text, ...]:
    """A record without a value has no new key either, unless that is made of the old one alone."""
    (relation,) = draft.names.relations
    old = {each.name for each in relation.source.schema.key}
    scope = scope_of(draft.names, plain_text)
    texts = []
    for each in key.columns:
        text = to_text(each.matches[0], scope)
        if not {name for _, name in columns_in(each.matches[0])} <= old:
            text = composed(
                f"IF({DELETED}, NULL, {{0}})", f"(None if row[{DELETED!r}] else {{0}})", text
            )
        texts.append(text)
    return tuple(texts)


def condition_text(
    condition: Expression | None, clause: str, names: Names, text: ColumnText
) -> Text | None:
    if condition is None:
        return None
    # Rows have no part in the windows yet that they will be in.
    made = {name: each for name, each in names.made.items() if name not in WINDOW_BOUNDS}
    names = replace(names, made=made)
    bound = names.bind(condition, clause)
    found = calls_in(bound)
    if found:
        raise at(
            found[0],
            f"{clause} can't contain aggregate functions: {format_expression(found[0])}",
            "A condition on groups belongs into HAVING.",
        )
    scope = scope_of(names, text, columns_in(bound))
    check_boolean(bound, scope, clause, format_expression(condition))
    return to_text(bound, scope)


# -- joins


def _plan_joined(draft: _Draft) -> Plan:
    query, names = draft.query, window_names(draft.query, draft.names)
    wanted = _wanted(query, names)
    plan, names = joins.plan_joins(query.joins, names, wanted)
    items = expand(query, names, transient=draft.transient)
    where = condition_text(query.where, "WHERE", names, plan.text)
    if query.group_by:
        output = joins.between_output(plan, "Join", wanted, names, where)
        stage = Stage("Join", plan.operator, output)
        read = Input("Join", "Join", output.layout, plan.kind, internal=True)
        return _plan_aggregate(draft, names, items, read, _flat_text, (*plan.stages, stage))
    check_clauses(query, [call for item in items for call in calls_in(item.expression)])
    key = plan.key
    if not key.columns[0].matches:
        made = KeyColumn((reference(MADE, names.join_key),), names.join_key, plan.key_type)
        key = Key((made,), "join expression")
    result = _Result(plan.kind, key, plan.windowed, key_texts=_join_key_texts(key))
    if query.partition_by:
        result = _Result(plan.kind, _partition_key(replace(draft, names=names), items), None)
    return _ended(draft, names, items, plan.operator, plan.text, result, where, plan.stages)


def _join_key_texts(key: Key) -> tuple[Text, ...]:
    if len(key.columns) == 1:
        return (joins.KEY,)
    return tuple(column_of("key", each.name) for each in key.columns)


def _flat_text(alias: str, name: str) -> Text:
    return column(f"{alias}_{name}" if alias != MADE else name)


def _wanted(query: Query, names: Names) -> joins.Wanted:
    """Every column that the query speaks of but in its ON clauses."""
    found: set[tuple[str, str]] = set()
    loose = replace(names, made={**names.made, names.join_key: STRING})
    for item in query.select:
        if isinstance(item.star_of, str):
            for each in names.relations:
                if item.star_of in ("", each.alias):
                    starred = star_columns(each, with_bounds=True)
                    found |= {(each.alias, name) for name in starred}
                if query.partition_by:
                    found |= {(each.alias, name) for name in PSEUDO_COLUMNS}
        else:
            part = item.expression if item.star_of is None else item.star_of
            assert part is not None
            found |= set(columns_in(loose.bind(part, "SELECT")))
    clauses = (
        ("WHERE", [query.where] if query.where is not None else []),
        ("GROUP BY", query.group_by),
        ("PARTITION BY", query.partition_by),
        ("HAVING", [query.having] if query.having is not None else []),
    )
    for clause, parts in clauses:
        for each_part in parts:
            found |= set(columns_in(loose.bind(each_part, clause)))
    return frozenset(each for each in found if each[0] != MADE)


# -- aggregates


def _plan_aggregate(
    draft: _Draft,
    names: Names,
    items: list[Item],
    read: Input,
    text: ColumnText,
    before: tuple[Stage, ...],
) -> Plan:
    query = draft.query
    plan = grouped(query, names, items, read, text, draft.properties)
    window = query.window
    windowed = Windowed(window.kind, window.size_ms) if window else None
    if windowed and windowed.kind is WindowKind.SESSION:
        windowed = Windowed(WindowKind.SESSION)
    result = _Result(SourceKind.TABLE, plan.key, windowed)
    where = condition_text(query.where, "WHERE", names, text) if not query.joins else None
    having = _having(plan)
    # The bound operator is known only with its output: Project stands in for it until then.
    ended = _ended(
        draft, plan.names, list(plan.items), Project(read), _flat_text, result, having, before
    )
    stages = aggregate_stages(read, plan, query, where, ended.stages[-1].output)
    all_stages = (*before, *stages)
    return replace(ended, stages=all_stages, internal_topics=_internal(all_stages))


def _having(plan: Grouped) -> Text | None:
    if plan.having is None:
        return None
    scope = scope_of(plan.names, _flat_text, columns_in(plan.having))
    check_boolean(plan.having, scope, "HAVING", format_expression(plan.having))
    return to_text(plan.having, scope)


# -- the end of every query


@dataclass(frozen=True, slots=True)
class _Result:
    kind: SourceKind
    key: Key
    windowed: Windowed | None
    key_texts: tuple[Text, ...] = ()
    """Where each column of the key is. It has to come from there where a deleted row has nothing
    but its key, and where the column that stands for it is of a side that may be missing."""


def _ended(
    draft: _Draft,
    names: Names,
    items: list[Item],
    operator: Operator,
    text: ColumnText,
    result: _Result,
    where: Text | None,
    before: tuple[Stage, ...] = (),
) -> Plan:
    """The last stage, with the select list as its output, and the plan around it."""
    if draft.sink is not None:
        check_kind(draft.sink, result.kind)
    keyed = with_key(items, result.key, draft.sink_name)
    keyed, names, exploded = _table_functions(keyed, names, text, result.kind)
    scope = scope_of(names, text)
    types = [typed(each.expression, scope) for each in keyed]
    schema = Schema(
        tuple(Column(each.name, kind, each.role) for each, kind in zip(keyed, types, strict=True))
    )
    layout, topic = _layout_and_topic(draft, schema, result)
    columns = _column_texts(keyed, _sink_columns(layout, schema), scope, result)
    output = Output(
        topic.name if topic else "",
        replace(layout, always_keyed=_always_keyed(draft.query)),
        columns,
        where,
        exploded,
        rowtime=_rowtime(layout, columns),
        keyed=bool(draft.query.partition_by),
    )
    stages = (*before, Stage(_step(operator), operator, output))
    return Plan(
        kind=result.kind,
        layout=layout,
        stages=stages,
        sources=tuple(dict.fromkeys(each.source.name for each in draft.names.relations)),
        topic=topic,
        internal_topics=_internal(stages),
        emit=draft.query.emit or Emit.CHANGES,
        limit=draft.query.limit,
        retention_ms=draft.query.window.retention_ms if draft.query.window else None,
        properties=draft.properties,
    )


def _always_keyed(query: Query) -> bool:
    """PARTITION BY several columns makes a key of them, though all of them be NULL."""
    return len(query.partition_by) > 1


def _column_texts(
    items: list[Item], columns: tuple[Column, ...], scope: Scope, result: _Result
) -> tuple[tuple[str, Text], ...]:
    """Name and text of each column."""
    texts = []
    for item, found in zip(items, columns, strict=True):
        text, type_ = to_text(item.expression, scope), typed(item.expression, scope)
        if result.key_texts and item.role is Role.KEY:
            text = result.key_texts[item.key_place]
            type_ = result.key.columns[item.key_place].type
        texts.append((found.name, _cast(text, type_, found.type)))
    return tuple(texts)


def _rowtime(layout: Layout, columns: tuple[tuple[str, Text], ...]) -> Text | None:
    """WITH (TIMESTAMP='column'): the time of each record is what is in that column."""
    found = layout.schema.find(layout.timestamp) if layout.timestamp else None
    if found is None:
        return None
    text = dict(columns)[found.name]
    if found.type.kind is Kind.STRING:
        made = exp.Anonymous(
            this="STRINGTOTIMESTAMP",
            expressions=[reference(MADE, "T"), exp.Literal.string(layout.timestamp_format)],
        )
        text = to_text(made, Scope({(MADE, "T"): (found.type, text)}))
    if found.type.kind is not Kind.TIMESTAMP:
        return text
    return composed("unix_millis({0})", "epoch_ms({0})", text)


def _step(operator: Operator) -> str:
    return "Project" if isinstance(operator, Project) else "Join"


def _sink_columns(layout: Layout, schema: Schema) -> tuple[Column, ...]:
    """INSERT INTO: the columns of the sink, in the result's order; else the result's own."""
    return tuple(layout.schema.find(each.name) or each for each in schema.columns)


def _cast(text: Text, type_: SqlType, wanted: SqlType) -> Text:
    """Spark's own cast also makes a column nullable or not, as the layout has it."""
    return Text(f"CAST({text.spark} AS {wanted.spark})", converted(text, type_, wanted).python)


def _layout_and_topic(
    draft: _Draft, schema: Schema, result: _Result
) -> tuple[Layout, Topic | None]:
    if draft.sink is None:
        is_table = result.kind is SourceKind.TABLE
        return Layout(schema, PUSH_FORMAT, PUSH_FORMAT, is_table, result.windowed), None
    if not schema.value:
        raise SqlError(
            "The projection contains no value columns.",
            remedy="Add a column that is no key; AS_VALUE(key) makes a copy of one.",
        )
    layout = layout_of(
        draft.sink,
        schema,
        first=draft.first.layout,
        windowed=result.windowed,
        session=draft.properties,
    )
    windowed = result.windowed is not None
    return layout, topic_of(
        draft.sink, draft.query.window, windowed=windowed, session=draft.properties
    )


def _table_functions(
    items: list[Item], names: Names, text: ColumnText, kind: SourceKind
) -> tuple[list[Item], Names, tuple[tuple[str, Text], ...]]:
    """Calls of table functions become columns: E0, E1, ... side by side."""
    found: list[Expression] = []
    for item in items:
        calls = [e for e in item.expression.walk() if isinstance(e, exp.Anonymous)]
        found += [e for e in calls if is_table_function(e.name) and e not in found]
    if not found:
        return items, names, ()
    if kind is SourceKind.TABLE:
        raise at(
            found[0],
            "Table source is not supported with table functions",
            "Table functions make several rows of one row of a stream.",
        )
    scope = scope_of(names, text)
    arrays = [exploded_call(each, scope) for each in found]
    made = {f"E{number}": kind_ for number, (kind_, _) in enumerate(arrays)}

    def change(node: Expression) -> Expression | None:
        return reference(MADE, f"E{found.index(node)}") if node in found else None

    changed = [replace(each, expression=replaced(each.expression, change)) for each in items]
    exploded = tuple((f"E{number}", array) for number, (_, array) in enumerate(arrays))
    return changed, replace(names, made={**names.made, **made}), exploded


def _internal(stages: tuple[Stage, ...]) -> tuple[Topic, ...]:
    return tuple(
        Topic(each.output.topic, internal=True, config=_internal_config(each.output.layout))
        for each in stages
        if each.output.internal
    )


def _internal_config(layout: Layout) -> dict[str, str]:
    return {"cleanup.policy": "compact"} if layout.is_table else {"cleanup.policy": "delete"}


__all__ = ["SinkWish", "plan_query"]
