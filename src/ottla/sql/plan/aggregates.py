"""GROUP BY: groups, aggregate calls, and what may stand beside them in the select list."""

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
from ottla.sql.plan.names import MADE, Names, at, columns_in, reference, replaced, scope_of
from ottla.sql.plan.projection import Item, Key, KeyColumn, default_name
from ottla.sql.plan.stages import (
    UNDO,
    Aggregate,
    AggregateCall,
    GroupColumn,
    Input,
    Operator,
    Output,
    SessionAggregate,
    Side,
    Stage,
    TableAggregate,
    TableChanges,
    argument_name,
)
from ottla.sql.syntax import format_expression
from ottla.sql.syntax.statements import Emit, Expression, Query, SourceKind, Window
from ottla.sql.text import Text, column, struct_of

CHANGES_STEP: Final = "Aggregate-groupBy"


@dataclass(frozen=True, slots=True)
class Grouped:
    """A query's groups and calls, and its select list in their terms."""

    groups: tuple[GroupColumn, ...]
    calls: tuple[AggregateCall, ...]
    items: tuple[Item, ...]
    having: Expression | None
    key: Key
    names: Names


def check_clauses(query: Query, calls: list[Expression]) -> None:
    """Which clause needs which."""
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
            remedy="Say what is counted by window: ... GROUP BY column.",
        )
    if calls:
        found = ", ".join(sorted({each.name.upper() for each in calls}))
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
    """The calls of aggregate functions in it, outermost first."""
    found: list[Expression] = [
        e for e in expression.walk() if isinstance(e, exp.Anonymous) and is_aggregate(e.name)
    ]
    for call in found:
        inner = [e for each in call.expressions for e in calls_in(each)]
        if inner:
            raise at(
                call,
                f"Aggregate functions can not be nested: {format_expression(call)}",
                "Make two queries of it: the second reads what the first has aggregated.",
            )
    return found


def window_names(query: Query, names: Names) -> Names:
    """In a windowed aggregate the bounds of the window can be spoken of."""
    if query.window is None:
        return names
    return replace(names, made={**names.made, **WINDOW_BOUNDS})


def grouped(
    query: Query,
    names: Names,
    items: list[Item],
    read: Input,
    text: Callable[[str, str], Text],
    settings: Mapping[str, str],
) -> Grouped:
    """`text` gives the columns of the aggregate's input, `read`."""
    bound = [names.bind(each, "GROUP BY") for each in query.group_by]
    having = names.bind(query.having, "HAVING") if query.having is not None else None
    order = ORDER_BY_OFFSET if _of_one_partition(bound, names) else ORDER_BY_TIME
    _check_groups(bound)
    is_table = read.kind is SourceKind.TABLE
    scope = replace(scope_of(names, text), table=is_table, order=order, settings=settings)
    groups = _groups(bound, scope)
    found: list[Expression] = []
    for each in (*(item.expression for item in items), *([having] if having else [])):
        found.extend(call for call in calls_in(each) if call not in found)
    if not found:  # the name of an aggregate may be misspelt
        for each in (*(item.expression for item in items), *([having] if having else [])):
            _check_types(each, scope)
    check_clauses(query, found)
    for call in found:
        _check_no_bounds(call)
    for each in (*(item.expression for item in items), *([having] if having else [])):
        _check_types(each, scope)
    calls = tuple(aggregate_call(call, f"A{number}", scope) for number, call in enumerate(found))
    made = {
        **{each.name: each.type for each in groups},
        **{each.name: each.type for each in calls},
        **names.made,
    }

    def change(node: Expression) -> Expression | None:
        if node in bound:
            return reference(MADE, groups[bound.index(node)].name)
        if node in found:
            return reference(MADE, calls[found.index(node)].name)
        return None

    changed = tuple(replace(each, expression=replaced(each.expression, change)) for each in items)
    _check_grouped(items, changed)
    after = replaced(having, change) if having is not None else None
    if after is not None and having is not None and _strangers(after):
        raise at(
            having,
            f"Non-aggregate HAVING expression not part of GROUP BY: {_strangers(after)[0]}",
            "Add it to GROUP BY, or use WHERE for a condition on rows.",
        )
    key = Key(tuple(_key_columns(bound, groups, items, names)), "grouping expression")
    return Grouped(groups, calls, changed, after, key, replace(names, made=made))


def _check_groups(bound: list[Expression]) -> None:
    for number, each in enumerate(bound):
        _check_no_bounds(each)
        calls = calls_in(each)
        if calls:
            raise at(
                each,
                "GROUP BY does not support aggregate functions:"
                f" {calls[0].name.upper()} is an aggregate function.",
                "Make two queries of it: the second groups by what the first has aggregated.",
            )
        if each in bound[:number]:
            raise at(
                each,
                f"Duplicate GROUP BY expression: {format_expression(each)}",
                "Name it once.",
            )


def _check_types(expression: Expression, scope: Scope) -> None:
    """As it is written: further on, groups and calls have names that nobody knows."""
    tables = [e for e in expression.walk() if isinstance(e, exp.Anonymous)]
    if not any(is_table_function(each.name) for each in tables):
        translate(expression, replace(scope, aggregates=True))


def _check_no_bounds(expression: Expression) -> None:
    """A window has its bounds, not each of its rows."""
    for alias, name in columns_in(expression):
        if alias == MADE and name in WINDOW_BOUNDS:
            raise at(
                expression,
                f"Window bounds column {name} can only be used in the SELECT clause of windowed"
                f" aggregations: not in {format_expression(expression)}",
                f"{name} is the same for all rows of a window, whose group has it anyway.",
            )


def _of_one_partition(bound: list[Expression], names: Names) -> bool:
    """Whether all rows of a group have the same key, and so lie in one partition of the source."""
    if names.joined:
        return False
    (relation,) = names.relations
    key = [reference(relation.alias, each.name) for each in relation.source.schema.key]
    return bool(key) and all(each in bound for each in key)


def _groups(bound: list[Expression], scope: Scope) -> tuple[GroupColumn, ...]:
    return tuple(
        GroupColumn(f"G{number}", to_text(each, scope), typed(each, scope))
        for number, each in enumerate(bound)
    )


def _key_columns(
    bound: list[Expression], groups: tuple[GroupColumn, ...], items: list[Item], names: Names
) -> list[KeyColumn]:
    columns = []
    for each, group in zip(bound, groups, strict=True):
        aliases = [item.name for item in items if item.expression == each]
        name = aliases[0] if aliases else default_name(each, names) or format_expression(each)
        columns.append(KeyColumn((reference(MADE, group.name),), name, group.type))
    return columns


def _check_grouped(items: list[Item], changed: tuple[Item, ...]) -> None:
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


def grace_of(window: Window, emit: Emit) -> int:
    """Where none is written: as Kafka Streams has it, a day after the window began; none for those
    who wait for the end."""
    if window.grace_ms is not None:
        return window.grace_ms
    if emit is Emit.FINAL:
        return 0
    return max(DAY_MS - (window.size_ms or window.gap_ms), 0)


def aggregate_stages(
    read: Input, plan: Grouped, query: Query, where: Text | None, output: Output
) -> tuple[Stage, ...]:
    """The stages that end in `output`."""
    window = query.window
    if read.kind is SourceKind.TABLE:
        return _table_stages(read, plan, where, output, window)
    emit = query.emit or Emit.CHANGES
    session = window is not None and window.kind is WindowKind.SESSION
    narrowed = replace(read, where=where)
    if window is not None and session and emit is Emit.CHANGES:
        operator: Operator = SessionAggregate(
            Side(narrowed, _group_struct(plan.groups), tuple(_arguments(plan.calls))),
            plan.groups,
            plan.calls,
            window.gap_ms,
            grace_of(window, emit),
            window.retention_ms,
        )
    else:
        grace = grace_of(window, emit) if window else 0
        operator = Aggregate(narrowed, plan.groups, plan.calls, window, grace, emit)
    return (Stage("Aggregate", operator, output),)


def _group_struct(groups: tuple[GroupColumn, ...], *, by_name: bool = False) -> Text:
    return struct_of((each.name, column(each.name) if by_name else each.text) for each in groups)


def _with_groups_only(where: Text | None, groups: tuple[GroupColumn, ...]) -> Text:
    """A row without a group gives nothing, as if it were deleted; and takes back what it gave."""
    spark = [f"({where.spark})"] if where else []
    spark += (f"({each.text.spark}) IS NOT NULL" for each in groups)
    python = [f"({where.python}) is True"] if where else []
    python += (f"is_known({each.text.python})" for each in groups)
    return Text(" AND ".join(spark), f"({' and '.join(python)})")


def _arguments(calls: tuple[AggregateCall, ...]) -> list[tuple[str, Text]]:
    return [
        (argument_name(call, position), text)
        for call in calls
        for position, text in enumerate(call.arguments)
    ]


def _table_stages(
    read: Input, plan: Grouped, where: Text | None, output: Output, window: Window | None
) -> tuple[Stage, ...]:
    """First each change as old and new row under its group, then the groups."""
    if window is not None:
        raise SqlError(
            "WINDOW clause is not supported for aggregations over a table.",
            remedy=f"Windows are over streams; {read.name} is a table: leave out WINDOW.",
        )
    names = [each.name for each in read.layout.schema.key]
    names += WINDOW_BOUNDS if read.layout.windowed else ()
    keys = struct_of((each, column(each)) for each in names)
    keys = keys._replace(spark=f"struct({', '.join(spark_name(each) for each in names)})")
    arguments = _arguments(plan.calls)
    first_row = (*((each.name, each.text) for each in plan.groups), *arguments)
    narrowed = replace(read, where=_with_groups_only(where, plan.groups))
    changes = TableChanges(Side(narrowed, keys, first_row))
    types = [
        (argument_name(call, position), kind)
        for call in plan.calls
        for position, kind in enumerate(call.argument_types)
    ]
    layout = internal_layout(
        [*types, (UNDO, BOOLEAN)],
        [(each.name, each.type) for each in plan.groups],
        SourceKind.STREAM,
    )
    columns = tuple((each.name, column(each.name)) for each in layout.schema.columns)
    between = Output(CHANGES_STEP, layout, columns, internal=True)
    groups_read = Input(CHANGES_STEP, CHANGES_STEP, layout, SourceKind.STREAM, internal=True)
    row = tuple((name, column(name)) for name in (*dict(arguments), UNDO))
    side = Side(groups_read, _group_struct(plan.groups, by_name=True), row)
    return (
        Stage(CHANGES_STEP, changes, between),
        Stage("Aggregate", TableAggregate(side, plan.groups, plan.calls), output),
    )
