"""GROUP BY: groups, aggregate calls, and which other expressions the select list may have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from ottla.rows.errors import SqlError
from ottla.rows.schema import WINDOW_BOUNDS, WindowKind
from ottla.rows.types import BOOLEAN, spark_name
from ottla.sql.expressions import (
    ORDER_BY_OFFSET,
    ORDER_BY_TIME,
    Scope,
    to_text,
    translate,
    typed,
)
from ottla.sql.plan.calls import aggregate_call, is_aggregate, is_table_function
from ottla.sql.plan.joins import DAY_MS, internal_layout
from ottla.sql.plan.names import MADE, QueryNames, at, columns_in, reference, replaced, scope_of
from ottla.sql.plan.projection import KeyColumn, ProjectionItem, ProjectionKey, default_name
from ottla.sql.plan.stages import (
    UNDO,
    AggregateCall,
    GroupColumn,
    KeyedInput,
    PlanNode,
    QueryStage,
    SessionAggregateNode,
    StageInput,
    StageOutput,
    StreamAggregateNode,
    TableAggregateNode,
    TableGroupByNode,
    argument_name,
)
from ottla.sql.syntax import format_expression
from ottla.sql.syntax.statements import Emit, Expression, QueryBody, SourceKind, WindowExpression
from ottla.sql.text import Text, column, struct_of

CHANGES_STEP: Final = "Aggregate-groupBy"


@dataclass(frozen=True, slots=True)
class AggregateAnalysis:
    """The groups and aggregate calls of a query, and its select list in terms of these."""

    groups: tuple[GroupColumn, ...]
    calls: tuple[AggregateCall, ...]
    items: tuple[ProjectionItem, ...]
    having: Expression | None
    key: ProjectionKey
    names: QueryNames


def check_clauses(query: QueryBody, calls: list[Expression]) -> None:
    """Check which clauses require others."""
    if query.group_by and not calls:
        raise SqlError(
            "GROUP BY requires aggregate functions in either the SELECT or HAVING clause.",
            remedy="Add one, COUNT(*) for example, or leave out GROUP BY.",
        )
    if query.group_by:
        return
    if query.window is not None:
        raise SqlError(
            "WINDOW clause requires a GROUP BY clause.",
            remedy="Add what to group by within a window: GROUP BY column.",
        )
    if calls:
        found = ", ".join(sorted({call.name.upper() for call in calls}))
        raise at(
            calls[0],
            "Use of aggregate functions requires a GROUP BY clause. Aggregate function(s):"
            f" {found}",
            "Add GROUP BY column.",
        )
    if query.having is not None:
        raise at(
            query.having,
            "HAVING requires a GROUP BY clause.",
            "Use WHERE for a condition on rows.",
        )


def calls_in(expression: Expression) -> list[Expression]:
    """The calls of aggregate functions in an expression, outermost first."""
    found: list[Expression] = [
        e for e in expression.walk() if isinstance(e, exp.Anonymous) and is_aggregate(e.name)
    ]
    for call in found:
        inner = [e for expression in call.expressions for e in calls_in(expression)]
        if inner:
            raise at(
                call,
                f"Aggregate functions can not be nested: {format_expression(call)}",
                "Split it: a second query can aggregate the results of the first.",
            )
    return found


def window_names(query: QueryBody, names: QueryNames) -> QueryNames:
    """The names of a query; a windowed aggregation adds WINDOWSTART and WINDOWEND."""
    if query.window is None:
        return names
    return replace(names, made={**names.made, **WINDOW_BOUNDS})


def analyze_aggregates(
    query: QueryBody,
    names: QueryNames,
    items: list[ProjectionItem],
    read: StageInput,
    text: Callable[[str, str], Text],
    settings: Mapping[str, str],
) -> AggregateAnalysis:
    """Analyze GROUP BY, HAVING and the select list. `text` gives the text of a column of `read`."""
    bound = [names.bind(expression, "GROUP BY") for expression in query.group_by]
    having = names.bind(query.having, "HAVING") if query.having is not None else None
    order = ORDER_BY_OFFSET if _of_one_partition(bound, names) else ORDER_BY_TIME
    _check_groups(bound)
    is_table = read.kind is SourceKind.TABLE
    scope = replace(scope_of(names, text), table=is_table, order=order, settings=settings)
    groups = _groups(bound, scope)
    found: list[Expression] = []
    for expression in (*(item.expression for item in items), *([having] if having else [])):
        found.extend(call for call in calls_in(expression) if call not in found)
    if not found:  # perhaps the name of an aggregate is misspelled
        for expression in (*(item.expression for item in items), *([having] if having else [])):
            _check_types(expression, scope)
    check_clauses(query, found)
    for call in found:
        _check_no_bounds(call)
    for expression in (*(item.expression for item in items), *([having] if having else [])):
        _check_types(expression, scope)
    calls = tuple(aggregate_call(call, f"A{number}", scope) for number, call in enumerate(found))
    made = {
        **{group.name: group.type for group in groups},
        **{call.name: call.type for call in calls},
        **names.made,
    }

    def change(node: Expression) -> Expression | None:
        if node in bound:
            return reference(MADE, groups[bound.index(node)].name)
        if node in found:
            return reference(MADE, calls[found.index(node)].name)
        return None

    changed = tuple(replace(item, expression=replaced(item.expression, change)) for item in items)
    _check_grouped(items, changed)
    after = replaced(having, change) if having is not None else None
    if after is not None and having is not None and _strangers(after):
        raise at(
            having,
            f"Non-aggregate HAVING expression not part of GROUP BY: {_strangers(after)[0]}",
            "Add it to GROUP BY, or use WHERE for a condition on rows.",
        )
    key = ProjectionKey(tuple(_key_columns(bound, groups, items, names)), "grouping expression")
    return AggregateAnalysis(groups, calls, changed, after, key, replace(names, made=made))


def _check_groups(bound: list[Expression]) -> None:
    for number, expression in enumerate(bound):
        _check_no_bounds(expression)
        calls = calls_in(expression)
        if calls:
            raise at(
                expression,
                "GROUP BY does not support aggregate functions:"
                f" {calls[0].name.upper()} is an aggregate function.",
                "Split it: a second query can group by the results of the first.",
            )
        if expression in bound[:number]:
            raise at(
                expression,
                f"Duplicate GROUP BY expression: {format_expression(expression)}",
                "Name it once.",
            )


def _check_types(expression: Expression, scope: Scope) -> None:
    """Check types before groups and calls get generated names, which error messages must not
    show."""
    tables = [e for e in expression.walk() if isinstance(e, exp.Anonymous)]
    if not any(is_table_function(call.name) for call in tables):
        translate(expression, replace(scope, aggregates=True))


def _check_no_bounds(expression: Expression) -> None:
    """WINDOWSTART and WINDOWEND belong to a window, so no row has them yet."""
    for alias, name in columns_in(expression):
        if alias == MADE and name in WINDOW_BOUNDS:
            raise at(
                expression,
                f"Window bounds column {name} can only be used in the SELECT clause of windowed"
                f" aggregations: not in {format_expression(expression)}",
                f"Leave out {name}: rows are grouped by window anyway.",
            )


def _of_one_partition(bound: list[Expression], names: QueryNames) -> bool:
    """True if all rows of a group have the same key, and so are in one partition of the source."""
    if names.joined:
        return False
    (relation,) = names.relations
    key = [reference(relation.alias, column.name) for column in relation.source.schema.key]
    return bool(key) and all(column in bound for column in key)


def _groups(bound: list[Expression], scope: Scope) -> tuple[GroupColumn, ...]:
    return tuple(
        GroupColumn(f"G{number}", to_text(expression, scope), typed(expression, scope))
        for number, expression in enumerate(bound)
    )


def _key_columns(
    bound: list[Expression],
    groups: tuple[GroupColumn, ...],
    items: list[ProjectionItem],
    names: QueryNames,
) -> list[KeyColumn]:
    columns = []
    for expression, group in zip(bound, groups, strict=True):
        aliases = [item.name for item in items if item.expression == expression]
        name = (
            aliases[0]
            if aliases
            else default_name(expression, names) or format_expression(expression)
        )
        columns.append(KeyColumn((reference(MADE, group.name),), name, group.type))
    return columns


def _check_grouped(items: list[ProjectionItem], changed: tuple[ProjectionItem, ...]) -> None:
    wrong = [
        format_expression(item.expression)
        for item, after in zip(items, changed, strict=True)
        if _strangers(after.expression)
    ]
    if wrong:
        raise at(
            items[0].expression,
            f"Non-aggregate SELECT expression(s) not part of GROUP BY: {', '.join(wrong)}\n"
            "Either add the column(s) to the GROUP BY or remove them from the SELECT.",
            f"For example: GROUP BY ..., {wrong[0]}; or LATEST_BY_OFFSET({wrong[0]}).",
        )


def _strangers(expression: Expression) -> list[str]:
    return [f"{alias}.{name}" for alias, name in columns_in(expression) if alias != MADE]


# -- stages


def grace_of(window: WindowExpression, emit: Emit) -> int:
    """The grace period. The default is that of Kafka Streams, 24 hours after the window start; with
    EMIT FINAL it is 0."""
    if window.grace_ms is not None:
        return window.grace_ms
    if emit is Emit.FINAL:
        return 0
    return max(DAY_MS - (window.size_ms or window.gap_ms), 0)


def aggregate_stages(
    read: StageInput,
    plan: AggregateAnalysis,
    query: QueryBody,
    where: Text | None,
    output: StageOutput,
) -> tuple[QueryStage, ...]:
    """The stages of an aggregation with this output."""
    window = query.window
    if read.kind is SourceKind.TABLE:
        return _table_stages(read, plan, where, output, window)
    emit = query.emit or Emit.CHANGES
    session = window is not None and window.kind is WindowKind.SESSION
    narrowed = replace(read, where=where)
    if window is not None and session and emit is Emit.CHANGES:
        operator: PlanNode = SessionAggregateNode(
            KeyedInput(narrowed, _group_struct(plan.groups), tuple(_arguments(plan.calls))),
            plan.groups,
            plan.calls,
            window.gap_ms,
            grace_of(window, emit),
            window.retention_ms,
        )
    else:
        grace = grace_of(window, emit) if window else 0
        operator = StreamAggregateNode(narrowed, plan.groups, plan.calls, window, grace, emit)
    return (QueryStage("Aggregate", operator, output),)


def _group_struct(groups: tuple[GroupColumn, ...], *, by_name: bool = False) -> Text:
    return struct_of(
        (group.name, column(group.name) if by_name else group.text) for group in groups
    )


def _with_groups_only(where: Text | None, groups: tuple[GroupColumn, ...]) -> Text:
    """A row with NULL in a group column counts as deleted: what it added before is undone."""
    spark = [f"({where.spark})"] if where else []
    spark += (f"({group.text.spark}) IS NOT NULL" for group in groups)
    python = [f"({where.python}) is True"] if where else []
    python += (f"is_known({group.text.python})" for group in groups)
    return Text(" AND ".join(spark), f"({' and '.join(python)})")


def _arguments(calls: tuple[AggregateCall, ...]) -> list[tuple[str, Text]]:
    return [
        (argument_name(call, position), text)
        for call in calls
        for position, text in enumerate(call.arguments)
    ]


def _table_stages(
    read: StageInput,
    plan: AggregateAnalysis,
    where: Text | None,
    output: StageOutput,
    window: WindowExpression | None,
) -> tuple[QueryStage, ...]:
    """Two stages: repartition the old and the new row of each change by group, then aggregate."""
    if window is not None:
        raise SqlError(
            "WINDOW clause is not supported for aggregations over a table.",
            remedy=f"Leave out WINDOW: {read.name} is a table, and only streams have windows.",
        )
    names = [column.name for column in read.layout.schema.key]
    names += WINDOW_BOUNDS if read.layout.windowed else ()
    keys = struct_of((name, column(name)) for name in names)
    keys = keys._replace(spark=f"struct({', '.join(spark_name(name) for name in names)})")
    arguments = _arguments(plan.calls)
    first_row = (*((group.name, group.text) for group in plan.groups), *arguments)
    narrowed = replace(read, where=_with_groups_only(where, plan.groups))
    changes = TableGroupByNode(KeyedInput(narrowed, keys, first_row))
    types = [
        (argument_name(call, position), kind)
        for call in plan.calls
        for position, kind in enumerate(call.argument_types)
    ]
    layout = internal_layout(
        [*types, (UNDO, BOOLEAN)],
        [(group.name, group.type) for group in plan.groups],
        SourceKind.STREAM,
    )
    columns = tuple(
        (layout_column.name, column(layout_column.name)) for layout_column in layout.schema.columns
    )
    between = StageOutput(CHANGES_STEP, layout, columns, internal=True)
    groups_read = StageInput(CHANGES_STEP, CHANGES_STEP, layout, SourceKind.STREAM, internal=True)
    row = tuple((name, column(name)) for name in (*dict(arguments), UNDO))
    side = KeyedInput(groups_read, _group_struct(plan.groups, by_name=True), row)
    return (
        QueryStage(CHANGES_STEP, changes, between),
        QueryStage("Aggregate", TableAggregateNode(side, plan.groups, plan.calls), output),
    )
