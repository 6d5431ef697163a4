"""Joins: left-deep, one stage for each, with an internal topic between two of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from ottla.rows.schema import Column, Format, Layout, Role, Schema, Windowed, WindowKind
from ottla.rows.types import SqlType, struct
from ottla.sql.expressions import to_text, typed
from ottla.sql.plan.names import MADE, Named, Names, at, columns_in, plain_text, reference, scope_of
from ottla.sql.plan.projection import Key, KeyColumn
from ottla.sql.plan.stages import (
    ForeignKeyJoin,
    Input,
    Operator,
    Output,
    Side,
    Stage,
    StreamJoin,
    StreamTableJoin,
    TableJoin,
)
from ottla.sql.syntax import format_expression
from ottla.sql.syntax.statements import Expression, Join, JoinKind, SourceKind
from ottla.sql.text import Text, column, column_of, struct_of

DAY_MS: Final = 24 * 60 * 60 * 1000
INTERNAL_FORMAT: Final = "JSON"
KEY: Final = column("key")
Wanted = frozenset[tuple[str, str]]
"""(relation, name) of each column that the query speaks of."""


@dataclass(frozen=True, slots=True)
class Joined:
    """What has been joined so far: an input of the next stage, or what the last one gives.

    `matches` are the bound expressions that equal the key (a table's primary key). After an OUTER
    join there are none: either side may be missing.
    """

    relations: tuple[Named, ...]
    kind: SourceKind
    input: Input
    matches: tuple[Expression, ...]
    key_type: SqlType | None = None
    primary: tuple[KeyColumn, ...] = ()
    """The columns of a table's primary key, where it has several: then no column equals the key."""

    def text(self, alias: str, name: str) -> Text:
        """A column as the input has it."""
        return column(self.row_name(alias, name))

    def row_name(self, alias: str, name: str) -> str:
        return name if len(self.relations) == 1 else f"{alias}_{name}"

    def row(self, wanted: Wanted) -> tuple[tuple[str, Text], ...]:
        mine = {each.alias for each in self.relations}
        found = sorted(each for each in wanted if each[0] in mine)
        return tuple((self.row_name(*each), self.text(*each)) for each in found)


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """`stages` are those before the last, whose operator and texts are left to whoever ends it."""

    stages: tuple[Stage, ...]
    operator: Operator
    left: Joined
    right: Joined
    key: Key
    kind: SourceKind
    key_type: SqlType
    matches: tuple[Expression, ...]
    """All that equals the key; only columns can stand for it in the select list."""
    windowed: Windowed | None = None
    """Both sides have this window in their keys, and so has the result."""
    key_name: str = ""
    """What the key is called where no column stands for it."""

    def text(self, alias: str, name: str) -> Text:
        """A column after the last join."""
        if alias == MADE:
            return KEY if name == self.key_name else column(name)
        if any(each.alias == alias for each in self.left.relations):
            return column_of("left", self.left.row_name(alias, name))
        return column_of("right", name)


def plan_joins(joins: tuple[Join, ...], names: Names, wanted: Wanted) -> tuple[JoinPlan, Names]:
    """Also the names as they are after the joins: with ROWKEY, where the key has no other name."""
    left = _single(names.relations[0])
    on = [names.bind(each.on, "JOIN ON") for each in joins]
    wanted = wanted | {each for condition in on for each in columns_in(condition)}
    stages: tuple[Stage, ...] = ()
    for number, join in enumerate(joins, 1):
        step = _join(join, on[number - 1], left, _single(names.relations[number]), names, wanted)
        if number == len(joins):
            made = {} if step.key.columns[0].matches else {names.join_key: step.key_type}
            step = replace(step, key_name=names.join_key)
            return replace(step, stages=stages), replace(names, made={**names.made, **made})
        stages = (*stages, _between(step, f"Join-{number}", wanted, names))
        left = _after(step, stages[-1])
    raise AssertionError("a query without joins")


def input_of(relation: Named) -> Input:
    source = relation.source
    return Input(relation.source.name, source.topic, source.layout, source.kind)


def _single(relation: Named) -> Joined:
    source = relation.source
    key = [(reference(relation.alias, each.name), each) for each in source.schema.key]
    matches = tuple(column for column, _ in key)
    primary = tuple(KeyColumn((column,), each.name, each.type) for column, each in key)
    several = source.kind is SourceKind.TABLE and len(primary) > 1
    return Joined(
        (relation,), source.kind, input_of(relation), matches, primary=primary if several else ()
    )


def _join(
    join: Join, on: Expression, left: Joined, right: Joined, names: Names, wanted: Wanted
) -> JoinPlan:
    left_on, right_on = _sides(on, left, right)
    key_type = _key_type(on, left_on, right_on, names)
    windowed = _windows(on, left, right, left_on, right_on)
    left_side = Side(left.input, _key_text(left_on, left, names), left.row(wanted))
    right_side = Side(right.input, _text(right_on, right, names), right.row(wanted))
    matches = _result_key(join.kind, left, right, left_on, right_on)
    if left.kind is SourceKind.STREAM and right.kind is SourceKind.STREAM:
        operator: Operator = _stream_join(join, left_side, right_side, windowed is not None)
    elif left.kind is SourceKind.STREAM:
        _check_stream_table(join, on, right, right_on)
        operator = StreamTableJoin(left_side, right_side, join.kind)
    elif right.kind is SourceKind.STREAM:
        raise at(
            on,
            "Invalid join order: table-stream joins are not supported; only stream-table joins.",
            f"Write the stream first: FROM {right.relations[0].alias} JOIN ...",
        )
    elif _is_key(left_on, left) and _is_key(right_on, right):
        _check_not_windowed(join, on, "Table-Table")
        operator = TableJoin(left_side, right_side, join.kind)
    else:
        _check_foreign(join, on, right, right_on)
        key, key_type = _primary(left, names)
        operator = ForeignKeyJoin(
            Side(left.input, key, left.row(wanted), foreign=left_side.key), right_side, join.kind
        )
        matches = left.matches
        if left.primary:
            primary = Key(left.primary, "primary key column")
            return JoinPlan((), operator, left, right, primary, left.kind, key_type, matches)
    columns = tuple(each for each in matches if isinstance(each, exp.Column))
    result_key = Key((KeyColumn(columns, _key_name(columns, names), key_type),), "join expression")
    return JoinPlan((), operator, left, right, result_key, left.kind, key_type, matches, windowed)


def _text(expression: Expression, joined: Joined, names: Names) -> Text:
    return to_text(expression, scope_of(names, joined.text, columns_in(expression)))


def _key_text(on: Expression, joined: Joined, names: Names) -> Text:
    """A row that was deleted between two joins has its key, and nothing else."""
    if joined.primary:
        return _text(on, joined, names)
    if len(joined.relations) > 1 and any(on == each for each in joined.matches):
        return column(names.join_key)
    return _text(on, joined, names)


def _key_name(matches: tuple[Expression, ...], names: Names) -> str:
    return matches[0].name if matches else names.join_key


def _primary(left: Joined, names: Names) -> tuple[Text, SqlType]:
    if left.primary and len(left.relations) == 1:
        key = struct_of((each.name, column(each.name)) for each in left.primary)
        kind = struct(*((each.name, each.type) for each in left.primary))
        return key, kind
    if not left.matches or left.primary:
        return column(names.join_key), left.key_type or left.input.layout.schema.key[0].type
    first = left.matches[0]
    assert isinstance(first, exp.Column)
    return _key_text(first, left, names), names.type_of(first.table, first.name)


# -- conditions


def _sides(on: Expression, left: Joined, right: Joined) -> tuple[Expression, Expression]:
    condition = _bare(on)
    if isinstance(condition, exp.And):
        raise at(
            on,
            "JOINs on multiple conditions are not yet supported. Got"
            f" {format_expression(condition)}.",
            "Join on one pair of columns, and put the rest into WHERE.",
        )
    if not isinstance(condition, exp.EQ):
        raise at(
            on,
            f"Unsupported join expression: {format_expression(condition)}",
            "The condition of a join is one equality: ON a.id = b.id.",
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
        f"One side speaks of {right.relations[0].alias}, the other of what was joined before.",
    )


def _bare(expression: Expression) -> Expression:
    while isinstance(expression, exp.Paren):
        expression = expression.this
    return expression


def _speaks_of(expression: Expression, joined: Joined) -> bool:
    mine = {each.alias for each in joined.relations}
    found = {alias for alias, _ in columns_in(expression)}
    return bool(found) and found <= mine


def _key_type(on: Expression, left: Expression, right: Expression, names: Names) -> SqlType:
    types = []
    for each in (left, right):
        types.append(typed(each, scope_of(names, plain_text, columns_in(each))))
    if types[0] != types[1]:
        raise at(
            on,
            "Invalid join condition: types don't match. Got"
            f" {format_expression(left)}{{{types[0]}}} ="
            f" {format_expression(right)}{{{types[1]}}}.",
            f"Cast one of them: CAST({format_expression(left)} AS {types[1]}).",
        )
    return types[0]


def _is_key(expression: Expression, joined: Joined) -> bool:
    keys = joined.input.layout.schema.key
    if not isinstance(expression, exp.Column) or len(keys) != 1 or joined.primary:
        return False
    return any(expression == each for each in joined.matches)


def _check_stream_table(join: Join, on: Expression, right: Joined, right_on: Expression) -> None:
    _check_not_windowed(join, on, "Stream-Table")
    if join.kind in (JoinKind.RIGHT, JoinKind.OUTER):
        words = "Full outer" if join.kind is JoinKind.OUTER else "Right outer"
        raise at(
            on,
            f"{words} joins between streams and tables are not supported.",
            "A row comes for each row of the stream: use JOIN or LEFT JOIN.",
        )
    if right.input.layout.windowed is not None:
        raise at(
            on,
            "Invalid join condition: stream-table joins are not supported with a windowed table.",
            f"Make a stream of it: CREATE STREAM ... over {right.input.topic}, and join WITHIN.",
        )
    if not _is_key(right_on, right):
        raise _not_the_key(on, "stream-table", right)


def _check_foreign(join: Join, on: Expression, right: Joined, right_on: Expression) -> None:
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


def _not_the_key(on: Expression, what: str, right: Joined) -> Exception:
    table = right.relations[0].alias
    keys = ", ".join(each.name for each in right.input.layout.schema.key)
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
    on: Expression, left: Joined, right: Joined, left_on: Expression, right_on: Expression
) -> Windowed | None:
    """The window of both sides, if they have one: rows of the same window are joined."""
    windows = [each.input.layout.windowed for each in (left, right)]
    one, other = windows
    if right.kind is SourceKind.TABLE and other is not None and left.kind is SourceKind.STREAM:
        return None  # refused where stream-table joins are checked
    if one is None and other is None:
        return None
    if one is None or other is None:
        lines = [
            f"`{side.relations[0].alias}` is {f'{each.kind} ' if each else 'not '}windowed"
            for side, each in zip((left, right), windows, strict=True)
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
            "Declare streams over their topics, and join those WITHIN a time.",
        )
    if WindowKind.SESSION in (one.kind, other.kind) and one.kind is not other.kind:
        raise at(
            on,
            f"Incompatible windowed sources.\nLeft source: {one.kind}\nRight source: {other.kind}",
            "Sessions can be joined with sessions only, whose bounds are the same.",
        )
    by_key = _is_key(left_on, left) and _is_key(right_on, right)
    if one.size_ms != other.size_ms or not by_key:
        raise at(
            on,
            "Implicit repartitioning of windowed sources is not supported.",
            "Join them by their keys, and let their windows be of one size.",
        )
    return one


def _stream_join(join: Join, left: Side, right: Side, windowed: bool) -> StreamJoin:
    within = join.within
    if within is None:
        raise at(
            join.on,
            "Stream-Stream joins must have a WITHIN clause specified. None was provided.",
            f"Say how far apart they may be: JOIN {join.relation.name} WITHIN 1 HOUR ON ...",
        )
    before, after = within.before_ms, within.after_ms
    eager = within.grace_ms is None
    grace_ms = max(DAY_MS - before - after, 0) if within.grace_ms is None else within.grace_ms
    return StreamJoin(left, right, join.kind, before, after, grace_ms, windowed, eager)


def _result_key(
    kind: JoinKind, left: Joined, right: Joined, left_on: Expression, right_on: Expression
) -> tuple[Expression, ...]:
    """What stands for the key of the result, columns first. Where a side may be missing, its column
    does so too: as the key it is never missing."""
    if kind is JoinKind.OUTER:
        return ()
    return (*_same(left_on, left), *_same(right_on, right))


def _same(expression: Expression, joined: Joined) -> tuple[Expression, ...]:
    others = joined.matches if len(joined.relations) > 1 else ()
    if any(expression == each for each in others):
        return (expression, *(each for each in others if each != expression))
    return (expression,)


# -- between two joins


def internal_layout(
    columns: Iterable[tuple[str, SqlType]],
    key: Iterable[tuple[str, SqlType]],
    kind: SourceKind,
    windowed: Windowed | None = None,
) -> Layout:
    """How rows lie between two stages: everything, as JSON."""
    return Layout(
        Schema(
            (
                *(Column(name, each, Role.KEY) for name, each in key),
                *(Column(name, each) for name, each in columns),
            )
        ),
        Format(INTERNAL_FORMAT),
        Format(INTERNAL_FORMAT),
        is_table=kind is SourceKind.TABLE,
        windowed=windowed,
    )


def between_output(
    plan: JoinPlan, step: str, wanted: Wanted, names: Names, where: Text | None = None
) -> Output:
    """What a join leaves for the next stage: every column that anybody still wants."""
    relations = (*plan.left.relations, *plan.right.relations)
    mine = {each.alias for each in relations}
    carried = sorted(each for each in wanted if each[0] in mine)
    columns = [(f"{alias}_{name}", names.type_of(alias, name)) for alias, name in carried]
    texts = tuple((f"{a}_{n}", plan.text(a, n)) for a, n in carried)
    return Output(
        step,
        internal_layout(columns, [(names.join_key, plan.key_type)], plan.kind, plan.windowed),
        ((names.join_key, KEY), *texts),
        where=where,
        internal=True,
    )


def _between(plan: JoinPlan, step: str, wanted: Wanted, names: Names) -> Stage:
    return Stage(step, plan.operator, between_output(plan, step, wanted, names))


def _after(plan: JoinPlan, stage: Stage) -> Joined:
    """The result of a stage as the left side of the next join."""
    read = Input(stage.step, stage.step, stage.output.layout, plan.kind, internal=True)
    relations = (*plan.left.relations, *plan.right.relations)
    primary = plan.key.columns if len(plan.key.columns) > 1 else ()
    return Joined(relations, plan.kind, read, plan.matches, plan.key_type, primary)
