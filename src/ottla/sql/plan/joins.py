"""Joins: left-deep, one stage for each, with an internal topic between two stages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from ottla.rows.schema import (
    Column,
    FormatInfo,
    Layout,
    LogicalSchema,
    Role,
    WindowInfo,
    WindowKind,
)
from ottla.rows.types import SqlType, struct
from ottla.sql.expressions import to_text, typed
from ottla.sql.plan.names import (
    MADE,
    AliasedSource,
    QueryNames,
    at,
    columns_in,
    plain_text,
    reference,
    scope_of,
)
from ottla.sql.plan.projection import KeyColumn, ProjectionKey
from ottla.sql.plan.stages import (
    ForeignKeyJoinNode,
    KeyedInput,
    PlanNode,
    QueryStage,
    StageInput,
    StageOutput,
    StreamStreamJoinNode,
    StreamTableJoinNode,
    TableTableJoinNode,
)
from ottla.sql.syntax import format_expression
from ottla.sql.syntax.statements import Expression, Join, JoinKind, SourceKind
from ottla.sql.text import Text, column, column_of, struct_of

DAY_MS: Final = 24 * 60 * 60 * 1000
INTERNAL_FORMAT: Final = "JSON"
KEY: Final = column("key")
Wanted = frozenset[tuple[str, str]]
"""(relation, name) of each column that the query uses."""


@dataclass(frozen=True, slots=True)
class JoinResult:
    """The sources joined so far: an input of the next join, or the result of the last one.

    `matches` are the bound expressions that equal the key (a table's primary key). After an OUTER
    join there are none, because either side may be missing.
    """

    relations: tuple[AliasedSource, ...]
    kind: SourceKind
    input: StageInput
    matches: tuple[Expression, ...]
    key_type: SqlType | None = None
    primary: tuple[KeyColumn, ...] = ()
    """The columns of a table's composite primary key. No single column equals it."""

    def text(self, alias: str, name: str) -> Text:
        """The text of a column in the input."""
        return column(self.row_name(alias, name))

    def row_name(self, alias: str, name: str) -> str:
        return name if len(self.relations) == 1 else f"{alias}_{name}"

    def row(self, wanted: Wanted) -> tuple[tuple[str, Text], ...]:
        mine = {relation.alias for relation in self.relations}
        found = sorted(reference for reference in wanted if reference[0] in mine)
        return tuple((self.row_name(*reference), self.text(*reference)) for reference in found)


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """All joins of a query: `stages` before the last one, which the caller completes."""

    stages: tuple[QueryStage, ...]
    operator: PlanNode
    left: JoinResult
    right: JoinResult
    key: ProjectionKey
    kind: SourceKind
    key_type: SqlType
    matches: tuple[Expression, ...]
    """Expressions that equal the key. The select list can refer to the key by those that are
    columns."""
    windowed: WindowInfo | None = None
    """The window in the keys of both sides and of the result."""
    key_name: str = ""
    """The name of the key if it equals no column."""

    def text(self, alias: str, name: str) -> Text:
        """The text of a column after the last join."""
        if alias == MADE:
            return KEY if name == self.key_name else column(name)
        if any(relation.alias == alias for relation in self.left.relations):
            return column_of("left", self.left.row_name(alias, name))
        return column_of("right", name)


def plan_joins(
    joins: tuple[Join, ...], names: QueryNames, wanted: Wanted
) -> tuple[JoinPlan, QueryNames]:
    """Plan all joins; also return the names after them, with ROWKEY if the key has no other
    name."""
    left = _single(names.relations[0])
    on = [names.bind(join.on, "JOIN ON") for join in joins]
    wanted = wanted | {reference for condition in on for reference in columns_in(condition)}
    stages: tuple[QueryStage, ...] = ()
    for number, join in enumerate(joins, 1):
        step = _join(join, on[number - 1], left, _single(names.relations[number]), names, wanted)
        if number == len(joins):
            made = {} if step.key.columns[0].matches else {names.join_key: step.key_type}
            step = replace(step, key_name=names.join_key)
            return replace(step, stages=stages), replace(names, made={**names.made, **made})
        stages = (*stages, _between(step, f"Join-{number}", wanted, names))
        left = _after(step, stages[-1])
    raise AssertionError("a query without joins")


def input_of(relation: AliasedSource) -> StageInput:
    source = relation.source
    return StageInput(relation.source.name, source.topic, source.layout, source.kind)


def _single(relation: AliasedSource) -> JoinResult:
    source = relation.source
    key = [
        (reference(relation.alias, key_column.name), key_column) for key_column in source.schema.key
    ]
    matches = tuple(column for column, _ in key)
    primary = tuple(
        KeyColumn((column,), key_column.name, key_column.type) for column, key_column in key
    )
    several = source.kind is SourceKind.TABLE and len(primary) > 1
    return JoinResult(
        (relation,), source.kind, input_of(relation), matches, primary=primary if several else ()
    )


def _join(
    join: Join,
    on: Expression,
    left: JoinResult,
    right: JoinResult,
    names: QueryNames,
    wanted: Wanted,
) -> JoinPlan:
    left_on, right_on = _sides(on, left, right)
    key_type = _key_type(on, left_on, right_on, names)
    windowed = _windows(on, left, right, left_on, right_on)
    left_side = KeyedInput(left.input, _key_text(left_on, left, names), left.row(wanted))
    right_side = KeyedInput(right.input, _text(right_on, right, names), right.row(wanted))
    matches = _result_key(join.kind, left, right, left_on, right_on)
    if left.kind is SourceKind.STREAM and right.kind is SourceKind.STREAM:
        operator: PlanNode = _stream_join(join, left_side, right_side, windowed is not None)
    elif left.kind is SourceKind.STREAM:
        _check_stream_table(join, on, right, right_on)
        operator = StreamTableJoinNode(left_side, right_side, join.kind)
    elif right.kind is SourceKind.STREAM:
        raise at(
            on,
            "Invalid join order: table-stream joins are not supported; only stream-table joins.",
            f"Write the stream first: FROM {right.relations[0].alias} JOIN ...",
        )
    elif _is_key(left_on, left) and _is_key(right_on, right):
        _check_not_windowed(join, on, "Table-Table")
        operator = TableTableJoinNode(left_side, right_side, join.kind)
    else:
        _check_foreign(join, on, right, right_on)
        key, key_type = _primary(left, names)
        operator = ForeignKeyJoinNode(
            KeyedInput(left.input, key, left.row(wanted), foreign=left_side.key),
            right_side,
            join.kind,
        )
        matches = left.matches
        if left.primary:
            primary = ProjectionKey(left.primary, "primary key column")
            return JoinPlan((), operator, left, right, primary, left.kind, key_type, matches)
    columns = tuple(match for match in matches if isinstance(match, exp.Column))
    result_key = ProjectionKey(
        (KeyColumn(columns, _key_name(columns, names), key_type),), "join expression"
    )
    return JoinPlan((), operator, left, right, result_key, left.kind, key_type, matches, windowed)


def _text(expression: Expression, joined: JoinResult, names: QueryNames) -> Text:
    return to_text(expression, scope_of(names, joined.text, columns_in(expression)))


def _key_text(on: Expression, joined: JoinResult, names: QueryNames) -> Text:
    """The key by its own column, because a row deleted between two joins has nothing else."""
    if joined.primary:
        return _text(on, joined, names)
    if len(joined.relations) > 1 and any(on == match_ for match_ in joined.matches):
        return column(names.join_key)
    return _text(on, joined, names)


def _key_name(matches: tuple[Expression, ...], names: QueryNames) -> str:
    return matches[0].name if matches else names.join_key


def _primary(left: JoinResult, names: QueryNames) -> tuple[Text, SqlType]:
    if left.primary and len(left.relations) == 1:
        key = struct_of((key_column.name, column(key_column.name)) for key_column in left.primary)
        kind = struct(*((key_column.name, key_column.type) for key_column in left.primary))
        return key, kind
    if not left.matches or left.primary:
        return column(names.join_key), left.key_type or left.input.layout.schema.key[0].type
    first = left.matches[0]
    assert isinstance(first, exp.Column)
    return _key_text(first, left, names), names.type_of(first.table, first.name)


# -- conditions


def _sides(on: Expression, left: JoinResult, right: JoinResult) -> tuple[Expression, Expression]:
    condition = _bare(on)
    if isinstance(condition, exp.And):
        raise at(
            on,
            "JOINs on multiple conditions are not yet supported. Got"
            f" {format_expression(condition)}.",
            "Join on one pair of columns, and move other conditions to WHERE.",
        )
    if not isinstance(condition, exp.EQ):
        raise at(
            on,
            f"Unsupported join expression: {format_expression(condition)}",
            "Write one equality: ON a.id = b.id.",
        )
    one, other = _bare(condition.this), _bare(condition.expression)
    if _speaks_of(one, left) and _speaks_of(other, right):
        return one, other
    if _speaks_of(one, right) and _speaks_of(other, left):
        return other, one
    raise at(
        on,
        "Invalid comparison expression in join condition"
        f" '{format_expression(condition)}': each side must reference exactly one source and not"
        " the same source.",
        f"One side must refer to {right.relations[0].alias}, the other to a source before it.",
    )


def _bare(expression: Expression) -> Expression:
    while isinstance(expression, exp.Paren):
        expression = expression.this
    return expression


def _speaks_of(expression: Expression, joined: JoinResult) -> bool:
    mine = {relation.alias for relation in joined.relations}
    found = {alias for alias, _ in columns_in(expression)}
    return bool(found) and found <= mine


def _key_type(on: Expression, left: Expression, right: Expression, names: QueryNames) -> SqlType:
    types = []
    for side in (left, right):
        types.append(typed(side, scope_of(names, plain_text, columns_in(side))))
    if types[0] != types[1]:
        raise at(
            on,
            "Invalid join condition: types don't match. Got"
            f" {format_expression(left)}{{{types[0]}}} ="
            f" {format_expression(right)}{{{types[1]}}}.",
            f"Cast one of them: CAST({format_expression(left)} AS {types[1]}).",
        )
    return types[0]


def _is_key(expression: Expression, joined: JoinResult) -> bool:
    keys = joined.input.layout.schema.key
    if not isinstance(expression, exp.Column) or len(keys) != 1 or joined.primary:
        return False
    return any(expression == match_ for match_ in joined.matches)


def _check_stream_table(
    join: Join, on: Expression, right: JoinResult, right_on: Expression
) -> None:
    _check_not_windowed(join, on, "Stream-Table")
    if join.kind in (JoinKind.RIGHT, JoinKind.OUTER):
        words = "Full outer" if join.kind is JoinKind.OUTER else "Right outer"
        raise at(
            on,
            f"{words} joins between streams and tables are not supported.",
            "Use JOIN or LEFT JOIN.",
        )
    if right.input.layout.windowed is not None:
        raise at(
            on,
            "Invalid join condition: stream-table joins are not supported with a windowed table.",
            f"Use a stream: CREATE STREAM ... over {right.input.topic}, and join WITHIN.",
        )
    if not _is_key(right_on, right):
        raise _not_the_key(on, "stream-table", right)


def _check_foreign(join: Join, on: Expression, right: JoinResult, right_on: Expression) -> None:
    _check_not_windowed(join, on, "Table-Table")
    if not _is_key(right_on, right):
        raise _not_the_key(on, "foreign-key table-table", right)
    if join.kind in (JoinKind.RIGHT, JoinKind.OUTER):
        words = "RIGHT OUTER" if join.kind is JoinKind.RIGHT else "FULL OUTER"
        raise at(
            on,
            f"Invalid join type: {words} JOIN is not supported for foreign-key table-table joins.",
            "Use JOIN or LEFT JOIN.",
        )


def _not_the_key(on: Expression, what: str, right: JoinResult) -> Exception:
    table = right.relations[0].alias
    keys = ", ".join(column.name for column in right.input.layout.schema.key)
    return at(
        on,
        f"Invalid join condition: {what} joins require to join on the primary key of the right"
        f" input table. Got {format_expression(on)}.",
        f"The primary key of {table} is {keys}: ON ... = {table}.{keys.split(', ')[0]}.",
    )


def _check_not_windowed(join: Join, on: Expression, what: str) -> None:
    if join.within is not None:
        raise at(
            on,
            f"A window definition was provided for a {what} join. These joins are not windowed."
            " Please drop the window definition (ie. the WITHIN clause) and try to execute your"
            f" {what} join again.",
            "Leave out WITHIN.",
        )


def _windows(
    on: Expression, left: JoinResult, right: JoinResult, left_on: Expression, right_on: Expression
) -> WindowInfo | None:
    """The window of both sides, if they have one; only rows of the same window are joined then."""
    windows = [side.input.layout.windowed for side in (left, right)]
    one, other = windows
    if right.kind is SourceKind.TABLE and other is not None and left.kind is SourceKind.STREAM:
        return None  # the check of stream-table joins refuses this
    if one is None and other is None:
        return None
    if one is None or other is None:
        lines = [
            f"`{side.relations[0].alias}` is {f'{window.kind} ' if window else 'not '}windowed"
            for side, window in zip((left, right), windows, strict=True)
        ]
        raise at(
            on,
            "Can not join windowed source to non-windowed source.\n" + "\n".join(lines),
            "Only rows of the same window can be joined.",
        )
    if left.kind is SourceKind.TABLE or right.kind is SourceKind.TABLE:
        raise at(
            on,
            "KSQL does not support persistent queries on windowed tables.",
            "Create streams over their topics, and join these WITHIN a time.",
        )
    if WindowKind.SESSION in (one.kind, other.kind) and one.kind is not other.kind:
        raise at(
            on,
            f"Incompatible windowed sources.\nLeft source: {one.kind}\nRight source: {other.kind}",
            "Sessions can only be joined with sessions that have the same bounds.",
        )
    by_key = _is_key(left_on, left) and _is_key(right_on, right)
    if one.size_ms != other.size_ms or not by_key:
        raise at(
            on,
            "Implicit repartitioning of windowed sources is not supported.",
            "Join them by their keys, with windows of one size.",
        )
    return one


def _stream_join(
    join: Join, left: KeyedInput, right: KeyedInput, windowed: bool
) -> StreamStreamJoinNode:
    within = join.within
    if within is None:
        raise at(
            join.on,
            "Stream-Stream joins must have a WITHIN clause specified. None was provided.",
            f"Add the maximum time between rows: JOIN {join.relation.name} WITHIN 1 HOUR ON ...",
        )
    before, after = within.before_ms, within.after_ms
    eager = within.grace_ms is None
    grace_ms = max(DAY_MS - before - after, 0) if within.grace_ms is None else within.grace_ms
    return StreamStreamJoinNode(left, right, join.kind, before, after, grace_ms, windowed, eager)


def _result_key(
    kind: JoinKind, left: JoinResult, right: JoinResult, left_on: Expression, right_on: Expression
) -> tuple[Expression, ...]:
    """The expressions that stand for the key of the result, columns first. This includes columns of
    a side that may be missing: as the key they have a value even then."""
    if kind is JoinKind.OUTER:
        return ()
    return (*_same(left_on, left), *_same(right_on, right))


def _same(expression: Expression, joined: JoinResult) -> tuple[Expression, ...]:
    others = joined.matches if len(joined.relations) > 1 else ()
    if any(expression == other for other in others):
        return (expression, *(other for other in others if other != expression))
    return (expression,)


# -- between two joins


def internal_layout(
    columns: Iterable[tuple[str, SqlType]],
    key: Iterable[tuple[str, SqlType]],
    kind: SourceKind,
    windowed: WindowInfo | None = None,
) -> Layout:
    """The layout of an internal topic: all columns, as JSON."""
    return Layout(
        LogicalSchema(
            (
                *(Column(name, type_, Role.KEY) for name, type_ in key),
                *(Column(name, column) for name, column in columns),
            )
        ),
        FormatInfo(INTERNAL_FORMAT),
        FormatInfo(INTERNAL_FORMAT),
        is_table=kind is SourceKind.TABLE,
        windowed=windowed,
    )


def between_output(
    plan: JoinPlan, step: str, wanted: Wanted, names: QueryNames, where: Text | None = None
) -> StageOutput:
    """The output of a join for the next stage: all columns that are still needed."""
    relations = (*plan.left.relations, *plan.right.relations)
    mine = {relation.alias for relation in relations}
    carried = sorted(reference for reference in wanted if reference[0] in mine)
    columns = [(f"{alias}_{name}", names.type_of(alias, name)) for alias, name in carried]
    texts = tuple((f"{a}_{n}", plan.text(a, n)) for a, n in carried)
    return StageOutput(
        step,
        internal_layout(columns, [(names.join_key, plan.key_type)], plan.kind, plan.windowed),
        ((names.join_key, KEY), *texts),
        where=where,
        internal=True,
    )


def _between(plan: JoinPlan, step: str, wanted: Wanted, names: QueryNames) -> QueryStage:
    return QueryStage(step, plan.operator, between_output(plan, step, wanted, names))


def _after(plan: JoinPlan, stage: QueryStage) -> JoinResult:
    """The result of a stage, as the left side of the next join."""
    read = StageInput(stage.step, stage.step, stage.output.layout, plan.kind, internal=True)
    relations = (*plan.left.relations, *plan.right.relations)
    primary = plan.key.columns if len(plan.key.columns) > 1 else ()
    return JoinResult(relations, plan.kind, read, plan.matches, plan.key_type, primary)
