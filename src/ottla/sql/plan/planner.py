"""The planner: resolves the names of a query, checks ksqlDB's rules, and makes the plan."""

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
    FormatInfo,
    Layout,
    LogicalSchema,
    Role,
    WindowInfo,
    WindowKind,
)
from ottla.rows.types import STRING, SqlBaseType, SqlType
from ottla.sql.casts import converted
from ottla.sql.catalog import Catalog, DataSource
from ottla.sql.expressions import Scope, to_text, typed
from ottla.sql.plan import joins
from ottla.sql.plan.aggregates import (
    AggregateAnalysis,
    aggregate_stages,
    analyze_aggregates,
    calls_in,
    check_clauses,
    window_names,
)
from ottla.sql.plan.calls import is_table_function, table_function_call
from ottla.sql.plan.names import (
    MADE,
    QueryNames,
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
    KeyColumn,
    ProjectionItem,
    ProjectionKey,
    default_name,
    expand,
    star_columns,
    with_key,
)
from ottla.sql.plan.sinks import SinkSpec, check_kind, layout_of, topic_of
from ottla.sql.plan.stages import (
    PlanNode,
    ProjectNode,
    QueryPlan,
    QueryStage,
    QueryTopicSpec,
    StageInput,
    StageOutput,
)
from ottla.sql.syntax import format_expression
from ottla.sql.syntax.statements import Emit, Expression, QueryBody, SourceKind
from ottla.sql.text import Text, column, column_of, composed

ColumnText = Callable[[str, str], Text]
"""The text of a column, by relation and name."""
PUSH_FORMAT: Final = FormatInfo("NONE")


def plan_query(
    query: QueryBody,
    catalog: Catalog,
    properties: Mapping[str, str] | None = None,
    *,
    sink: SinkSpec | None = None,
    spark: bool = True,
) -> QueryPlan:
    """The plan of a query; `sink` is None for a push query. Without `spark` only the Python texts
    are used, so expressions may do what Spark can't."""
    if query.beyond is not None or query.source is None:
        raise SqlError(
            "This query works as a pull query only.",
            remedy="Leave out subqueries, ORDER BY and window functions.",
        )
    names = replace(names_of(query, catalog), spark=spark)
    draft = _PlannerContext(query, names, dict(properties or {}), sink)
    _check_query(query, draft.names, sink)
    if query.joins:
        return _plan_joined(draft)
    return _plan_single(draft)


@dataclass(frozen=True, slots=True)
class _PlannerContext:
    query: QueryBody
    names: QueryNames
    properties: dict[str, str] = field(default_factory=dict)
    sink: SinkSpec | None = None

    @property
    def transient(self) -> bool:
        return self.sink is None

    @property
    def sink_name(self) -> str | None:
        return self.sink.name if self.sink else None

    @property
    def first(self) -> DataSource:
        return self.names.relations[0].source


def _check_query(query: QueryBody, names: QueryNames, sink: SinkSpec | None) -> None:
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


def _plan_single(draft: _PlannerContext) -> QueryPlan:
    draft = _with_groups(draft)
    query, names = draft.query, window_names(draft.query, draft.names)
    read = joins.input_of(names.relations[0])
    items = expand(query, names, transient=draft.transient)
    if query.group_by:
        return _plan_aggregate(draft, names, items, read, plain_text, ())
    check_clauses(query, [call for item in items for call in calls_in(item.expression)])
    key = _source_key(draft) if not query.partition_by else _partition_key(draft, items)
    key_texts = _partition_texts(draft, key) if query.partition_by else ()
    result = _PlannedResult(read.kind, key, read.layout.windowed, key_texts)
    where = condition_text(query.where, "WHERE", names, plain_text)
    return _ended(draft, names, items, ProjectNode(read), plain_text, result, where)


def _with_groups(draft: _PlannerContext) -> _PlannerContext:
    """A push query that aggregates without GROUP BY has one group with all rows."""
    query, names = draft.query, window_names(draft.query, draft.names)
    if query.group_by or query.partition_by or not draft.transient:
        return draft
    parts = [names.bind(item.expression, "SELECT") for item in query.select if item.expression]
    if not any(calls_in(part) for part in parts):
        return draft
    return replace(draft, query=replace(query, group_by=(exp.Literal.number(0),)))


def _source_key(draft: _PlannerContext) -> ProjectionKey:
    relation = draft.names.relations[0]
    columns = (
        KeyColumn((reference(relation.alias, column.name),), column.name, column.type)
        for column in relation.source.schema.key
    )
    return ProjectionKey(tuple(columns))


def _partition_key(draft: _PlannerContext, items: list[ProjectionItem]) -> ProjectionKey:
    by = [draft.names.bind(expression, "PARTITION BY") for expression in draft.query.partition_by]
    if len(by) == 1 and isinstance(by[0], exp.Null):
        return ProjectionKey(())
    if any(isinstance(expression, exp.Null) for expression in by):
        raise at(
            draft.query.partition_by[0],
            "Cannot PARTITION BY multiple columns including NULL",
            "PARTITION BY NULL makes records without a key.",
        )
    columns = []
    for expression in by:
        kind = typed(expression, scope_of(draft.names, plain_text))
        names = [item.name for item in items if item.expression == expression]
        name = (
            names[0]
            if names
            else default_name(expression, draft.names) or format_expression(expression)
        )
        columns.append(KeyColumn((expression,), name, kind))
    return ProjectionKey(tuple(columns), "partitioning expression")


def _partition_texts(draft: _PlannerContext, key: ProjectionKey) -> tuple[Text, ...]:
    """The texts of the new key. For a record without a value it is NULL unless it is computed from
    the old key alone."""
    (relation,) = draft.names.relations
    old = {column.name for column in relation.source.schema.key}
    scope = scope_of(draft.names, plain_text)
    texts = []
    for key_column in key.columns:
        text = to_text(key_column.matches[0], scope)
        if not {name for _, name in columns_in(key_column.matches[0])} <= old:
            text = composed(
                f"IF({DELETED}, NULL, {{0}})", f"(None if row[{DELETED!r}] else {{0}})", text
            )
        texts.append(text)
    return tuple(texts)


def condition_text(
    condition: Expression | None, clause: str, names: QueryNames, text: ColumnText
) -> Text | None:
    if condition is None:
        return None
    # WHERE is applied before rows are assigned to windows.
    made = {name: type_ for name, type_ in names.made.items() if name not in WINDOW_BOUNDS}
    names = replace(names, made=made)
    bound = names.bind(condition, clause)
    found = calls_in(bound)
    if found:
        raise at(
            found[0],
            f"{clause} can't contain aggregate functions: {format_expression(found[0])}",
            "Use HAVING for a condition on groups.",
        )
    scope = scope_of(names, text, columns_in(bound))
    check_boolean(bound, scope, clause, format_expression(condition))
    return to_text(bound, scope)


# -- joins


def _plan_joined(draft: _PlannerContext) -> QueryPlan:
    query, names = draft.query, window_names(draft.query, draft.names)
    wanted = _wanted(query, names)
    plan, names = joins.plan_joins(query.joins, names, wanted)
    items = expand(query, names, transient=draft.transient)
    where = condition_text(query.where, "WHERE", names, plan.text)
    if query.group_by:
        output = joins.between_output(plan, "Join", wanted, names, where)
        stage = QueryStage("Join", plan.operator, output)
        read = StageInput("Join", "Join", output.layout, plan.kind, internal=True)
        return _plan_aggregate(draft, names, items, read, _flat_text, (*plan.stages, stage))
    check_clauses(query, [call for item in items for call in calls_in(item.expression)])
    key = plan.key
    if not key.columns[0].matches:
        made = KeyColumn((reference(MADE, names.join_key),), names.join_key, plan.key_type)
        key = ProjectionKey((made,), "join expression")
    result = _PlannedResult(plan.kind, key, plan.windowed, key_texts=_join_key_texts(key))
    if query.partition_by:
        result = _PlannedResult(plan.kind, _partition_key(replace(draft, names=names), items), None)
    return _ended(draft, names, items, plan.operator, plan.text, result, where, plan.stages)


def _join_key_texts(key: ProjectionKey) -> tuple[Text, ...]:
    if len(key.columns) == 1:
        return (joins.KEY,)
    return tuple(column_of("key", column.name) for column in key.columns)


def _flat_text(alias: str, name: str) -> Text:
    return column(f"{alias}_{name}" if alias != MADE else name)


def _wanted(query: QueryBody, names: QueryNames) -> joins.Wanted:
    """All columns that the query uses outside of its ON clauses."""
    found: set[tuple[str, str]] = set()
    loose = replace(names, made={**names.made, names.join_key: STRING})
    for item in query.select:
        if isinstance(item.star_of, str):
            for relation in names.relations:
                if item.star_of in ("", relation.alias):
                    starred = star_columns(relation, with_bounds=True)
                    found |= {(relation.alias, name) for name in starred}
                if query.partition_by:
                    found |= {(relation.alias, name) for name in PSEUDO_COLUMNS}
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
    return frozenset(reference for reference in found if reference[0] != MADE)


# -- aggregates


def _plan_aggregate(
    draft: _PlannerContext,
    names: QueryNames,
    items: list[ProjectionItem],
    read: StageInput,
    text: ColumnText,
    before: tuple[QueryStage, ...],
) -> QueryPlan:
    query = draft.query
    plan = analyze_aggregates(query, names, items, read, text, draft.properties)
    window = query.window
    windowed = WindowInfo(window.kind, window.size_ms) if window else None
    if windowed and windowed.kind is WindowKind.SESSION:
        windowed = WindowInfo(WindowKind.SESSION)
    result = _PlannedResult(SourceKind.TABLE, plan.key, windowed)
    where = condition_text(query.where, "WHERE", names, text) if not query.joins else None
    having = _having(plan)
    # The operator of the last stage is not known yet: ProjectNode is a placeholder.
    ended = _ended(
        draft, plan.names, list(plan.items), ProjectNode(read), _flat_text, result, having, before
    )
    stages = aggregate_stages(read, plan, query, where, ended.stages[-1].output)
    all_stages = (*before, *stages)
    return replace(ended, stages=all_stages, internal_topics=_internal(all_stages))


def _having(plan: AggregateAnalysis) -> Text | None:
    if plan.having is None:
        return None
    scope = scope_of(plan.names, _flat_text, columns_in(plan.having))
    check_boolean(plan.having, scope, "HAVING", format_expression(plan.having))
    return to_text(plan.having, scope)


# -- the last stage


@dataclass(frozen=True, slots=True)
class _PlannedResult:
    kind: SourceKind
    key: ProjectionKey
    windowed: WindowInfo | None
    key_texts: tuple[Text, ...] = ()
    """The text of each key column. A deleted row has nothing but its key, and after an outer join
    the selected column may be NULL; so the key does not come from the select list then."""


def _ended(
    draft: _PlannerContext,
    names: QueryNames,
    items: list[ProjectionItem],
    operator: PlanNode,
    text: ColumnText,
    result: _PlannedResult,
    where: Text | None,
    before: tuple[QueryStage, ...] = (),
) -> QueryPlan:
    """Complete the plan: its last stage has the select list as output."""
    if draft.sink is not None:
        check_kind(draft.sink, result.kind)
    keyed = with_key(items, result.key, draft.sink_name)
    keyed, names, exploded = _table_functions(keyed, names, text, result.kind)
    scope = scope_of(names, text)
    types = [typed(item.expression, scope) for item in keyed]
    schema = LogicalSchema(
        tuple(Column(item.name, kind, item.role) for item, kind in zip(keyed, types, strict=True))
    )
    layout, topic = _layout_and_topic(draft, schema, result)
    columns = _column_texts(keyed, _sink_columns(layout, schema), scope, result)
    output = StageOutput(
        topic.name if topic else "",
        replace(layout, always_keyed=_always_keyed(draft.query)),
        columns,
        where,
        exploded,
        rowtime=_rowtime(layout, columns),
        keyed=bool(draft.query.partition_by),
    )
    stages = (*before, QueryStage(_step(operator), operator, output))
    return QueryPlan(
        kind=result.kind,
        layout=layout,
        stages=stages,
        sources=tuple(dict.fromkeys(relation.source.name for relation in draft.names.relations)),
        topic=topic,
        internal_topics=_internal(stages),
        emit=draft.query.emit or Emit.CHANGES,
        limit=draft.query.limit,
        retention_ms=draft.query.window.retention_ms if draft.query.window else None,
        properties=draft.properties,
    )


def _always_keyed(query: QueryBody) -> bool:
    """PARTITION BY several columns gives every record a key, even if all of them are NULL."""
    return len(query.partition_by) > 1


def _column_texts(
    items: list[ProjectionItem], columns: tuple[Column, ...], scope: Scope, result: _PlannedResult
) -> tuple[tuple[str, Text], ...]:
    """Name and text of each column."""
    texts = []
    for item, found in zip(items, columns, strict=True):
        text, type_ = to_text(item.expression, scope), typed(item.expression, scope)
        if result.key_texts and item.role is Role.KEY:
            text = result.key_texts[item.key_index]
            type_ = result.key.columns[item.key_index].type
        texts.append((found.name, _cast(text, type_, found.type)))
    return tuple(texts)


def _rowtime(layout: Layout, columns: tuple[tuple[str, Text], ...]) -> Text | None:
    """WITH (TIMESTAMP='column'): that column gives the timestamp of each record."""
    found = layout.schema.find(layout.timestamp) if layout.timestamp else None
    if found is None:
        return None
    text = dict(columns)[found.name]
    if found.type.kind is SqlBaseType.STRING:
        made = exp.Anonymous(
            this="STRINGTOTIMESTAMP",
            expressions=[reference(MADE, "T"), exp.Literal.string(layout.timestamp_format)],
        )
        text = to_text(made, Scope({(MADE, "T"): (found.type, text)}))
    if found.type.kind is not SqlBaseType.TIMESTAMP:
        return text
    return composed("unix_millis({0})", "epoch_ms({0})", text)


def _step(operator: PlanNode) -> str:
    return "Project" if isinstance(operator, ProjectNode) else "Join"


def _sink_columns(layout: Layout, schema: LogicalSchema) -> tuple[Column, ...]:
    """With INSERT INTO the columns of the sink, in the order of the result; else those of the
    result."""
    return tuple(layout.schema.find(column.name) or column for column in schema.columns)


def _cast(text: Text, type_: SqlType, wanted: SqlType) -> Text:
    """Cast in any case: Spark's cast also makes the column nullable or not, as in the layout."""
    return Text(f"CAST({text.spark} AS {wanted.spark})", converted(text, type_, wanted).python)


def _layout_and_topic(
    draft: _PlannerContext, schema: LogicalSchema, result: _PlannedResult
) -> tuple[Layout, QueryTopicSpec | None]:
    if draft.sink is None:
        is_table = result.kind is SourceKind.TABLE
        return Layout(schema, PUSH_FORMAT, PUSH_FORMAT, is_table, result.windowed), None
    if not schema.value:
        raise SqlError(
            "The projection contains no value columns.",
            remedy="Add a column that is not part of the key; AS_VALUE(key) copies a key column.",
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
    items: list[ProjectionItem], names: QueryNames, text: ColumnText, kind: SourceKind
) -> tuple[list[ProjectionItem], QueryNames, tuple[tuple[str, Text], ...]]:
    """Replace calls of table functions by columns E0, E1, ..."""
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
            "Use a stream: a table function makes several rows of one.",
        )
    scope = scope_of(names, text)
    arrays = [table_function_call(call, scope) for call in found]
    made = {f"E{number}": kind_ for number, (kind_, _) in enumerate(arrays)}

    def change(node: Expression) -> Expression | None:
        return reference(MADE, f"E{found.index(node)}") if node in found else None

    changed = [replace(item, expression=replaced(item.expression, change)) for item in items]
    exploded = tuple((f"E{number}", array) for number, (_, array) in enumerate(arrays))
    return changed, replace(names, made={**names.made, **made}), exploded


def _internal(stages: tuple[QueryStage, ...]) -> tuple[QueryTopicSpec, ...]:
    return tuple(
        QueryTopicSpec(
            stage.output.topic, internal=True, config=_internal_config(stage.output.layout)
        )
        for stage in stages
        if stage.output.internal
    )


def _internal_config(layout: Layout) -> dict[str, str]:
    return {"cleanup.policy": "compact"} if layout.is_table else {"cleanup.policy": "delete"}


__all__ = ["SinkSpec", "plan_query"]
